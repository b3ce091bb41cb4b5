//! What commands print: results on standard output, everything else on standard error. Plain output goes to a terminal, so
//! what an agent, a file or a title says reaches it as text only: control characters are shown, not sent.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    sync::OnceLock,
};

use changeover_engine::api::error::ApiError;
use serde::Serialize;

/// Why standard output could not be written, the first time.
static BROKEN: OnceLock<io::Error> = OnceLock::new();

/// Prints an error with its hint; exit code 1.
pub(super) fn failed(error: &anyhow::Error) -> ExitCode {
    note(format!("changeover: {error:#}"));
    if let Some(hint) = error.downcast_ref::<ApiError>().and_then(|e| e.hint.as_ref()) {
        note(hint);
    }
    ExitCode::FAILURE
}

/// The exit code, less success where the output could not be written. A reader that went away is no error of ours.
pub(super) fn finished(code: ExitCode) -> ExitCode {
    written(io::stdout().lock().flush());
    match BROKEN.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            note(format!("changeover: the output cannot be written: {error}"));
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// The same for what clap printed.
pub(super) fn printed(result: io::Result<()>, code: ExitCode) -> ExitCode {
    written(result);
    finished(code)
}

fn written(result: io::Result<()>) {
    if let Err(error) = result {
        // Only the first says why.
        let _ = BROKEN.set(error);
    }
}

/// Says something on standard error; nobody may be there to read it.
pub(super) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(&text.to_string()));
}

/// Asks on standard error, without ending the line.
pub(super) fn ask(question: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(question.as_bytes()).and_then(|()| err.flush());
}

/// Prints a line, with control characters made visible.
pub(super) fn line(text: impl std::fmt::Display) {
    let text = text.to_string();
    written(writeln!(io::stdout().lock(), "{}", visible(&text)));
}

/// Prints text at once, with control characters made visible.
pub(super) fn text(text: &str) {
    exactly(&visible(text));
}

/// Prints these very bytes, unless it is a terminal that would act on them.
pub(super) fn exact(given: &str) {
    if io::stdout().is_terminal() { text(given) } else { exactly(given) }
}

fn exactly(text: &str) {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints one JSON value on one line.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(value)?;
    written(writeln!(io::stdout().lock(), "{text}"));
    Ok(())
}

/// The text with every control character as an escape that can be read; line ends and tabs stay.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => shown.push_str("\\r"),
            c if acts(c) && c.is_ascii() => shown.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if acts(c) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_line_ends_and_tabs_stay() {
        assert!(matches!(visible("a\tb\nc é 日本 ✓"), Cow::Borrowed(_)));
        assert_eq!(
            visible("\u{1b}[2J\u{1b}]0;owned\u{7}x\0y\u{7f}\u{9b}31m"),
            "\\x1b[2J\\x1b]0;owned\\x07x\\x00y\\x7f\\u{9b}31m"
        );
        assert_eq!(visible("one\r\ntwo\rthree"), "one\ntwo\\rthree");
    }
}
