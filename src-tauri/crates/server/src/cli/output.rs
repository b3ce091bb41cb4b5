//! What commands print: results on standard output, everything else on standard error.

use std::{io::Write as _, process::ExitCode};

use changeover_engine::api::error::ApiError;
use serde::Serialize;

/// Prints an error with its hint; exit code 1.
pub(super) fn failed(error: &anyhow::Error) -> ExitCode {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "changeover: {error:#}");
    if let Some(hint) = error.downcast_ref::<ApiError>().and_then(|e| e.hint.as_ref()) {
        let _ = writeln!(err, "{hint}");
    }
    ExitCode::FAILURE
}

/// Prints a line; a reader that went away is no error of ours.
pub(super) fn line(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints text as it is, at once.
pub(super) fn text(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Prints one JSON value on one line.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string(value)?);
    Ok(())
}
