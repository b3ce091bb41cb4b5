//! Asking the login shell for its environment.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::ChildStdout,
    time::{Instant, timeout},
};

use crate::{process::Launch, session::Environment};

/// Output that a profile may print before our answer, in bytes.
const BOUND: usize = 4 * 1024 * 1024;

/// How long the end of a shell that gave no answer is waited for.
const KILLING: Duration = Duration::from_millis(250);

/// Set for the shell, so that a profile can tell that nobody sits in front of it.
pub const ASKING: &str = "CHANGEOVER_READS_ENVIRONMENT";

/// Variables that a shell makes for itself, or that describe a terminal.
pub(super) fn is_shells_own(name: &str) -> bool {
    matches!(
        name,
        "PATH" | "_" | "PWD" | "OLDPWD" | "SHLVL" | "TERM" | "COLUMNS" | "LINES" | "PROMPT" | "PS1" | "STARSHIP_SHELL"
    ) || name.starts_with("ZSH_")
        || name == ASKING
        || name == crate::process::SESSION_MARK
}

/// How a shell is asked. Interactive first: version managers sit in .zshrc and .bashrc. If that hangs (a profile that starts
/// tmux), once without. Last, by its standard input: what a profile became (`exec fish`) reads that as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Interactive,
    Login,
    Fed,
}

/// The login shell's environment.
pub(super) async fn ask(shell: &Path, base: &Environment, limit: Duration) -> Result<Environment, String> {
    let begun = Instant::now();
    let mut problem = None;
    for (way, share) in [(Way::Interactive, 0.7), (Way::Login, 0.9), (Way::Fed, 1.0)] {
        let left = limit.mul_f32(share).saturating_sub(begun.elapsed());
        match ask_once(shell, way, base, left).await {
            Ok(told) => return Ok(told),
            // What the first said is what the user would see.
            Err(what) => problem.get_or_insert(what),
        };
    }
    Err(problem.unwrap_or_default())
}

/// `$SHELL`, else what the system's user list says.
pub(super) fn login_shell(base: &Environment) -> Option<PathBuf> {
    let named = base.get("SHELL").filter(|shell| !shell.is_empty()).map(PathBuf::from);
    named
        .or_else(from_passwd)
        .or_else(|| ["/bin/zsh", "/bin/bash", "/bin/sh"].iter().map(PathBuf::from).find(|p| p.exists()))
}

#[cfg(unix)]
fn from_passwd() -> Option<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let list = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = list.lines().find(|line| line.split(':').nth(2) == Some(uid.as_str()))?;
    line.split(':').nth(6).filter(|shell| !shell.is_empty()).map(PathBuf::from)
}

#[cfg(not(unix))]
fn from_passwd() -> Option<PathBuf> {
    None
}

/// The arguments and what goes to its standard input, by the shell's language: begin marker, environment, end marker. The
/// markers are put together by the shell, so that a profile with `set -v` does not print them whole beforehand.
fn question(shell: &Path, way: Way, word: &str) -> Option<(Vec<String>, String)> {
    let name = shell.file_stem()?.to_str()?;
    let posix = format!(
        "printf '%s%s' '<{word}' '>'; /usr/bin/env -0 2>/dev/null || /usr/bin/env; printf '%s%s' '</{word}' '>'"
    );
    let (flags, command): (&[&str], String) = match name {
        "fish" => (&["-l", "-i"], posix.replace("||", "; or")),
        "nu" => (&["-l"], format!("print -n ('<{word}' + '>'); ^/usr/bin/env -0; print -n ('</{word}' + '>')")),
        // They take no command with a login flag; their own files are read all the same.
        "csh" | "tcsh" => (&[], posix.replace(" 2>/dev/null", "")),
        _ => (&["-l", "-i"], posix),
    };
    let flags = flags.iter().filter(|flag| way == Way::Interactive || **flag != "-i").map(|flag| (*flag).to_owned());
    if way == Way::Fed {
        // Words that every shell of this kind takes, whichever it has become.
        let words = format!("printf '%s%s' '<{word}' '>'\n/usr/bin/env -0\nprintf '%s%s' '</{word}' '>'\nexit\n");
        return (!matches!(name, "nu" | "csh" | "tcsh")).then(|| (flags.collect(), words));
    }
    Some((flags.chain(["-c".to_owned(), command]).collect(), String::new()))
}

async fn ask_once(shell: &Path, way: Way, base: &Environment, limit: Duration) -> Result<Environment, String> {
    let word = uuid::Uuid::new_v4().simple().to_string();
    let no_answer = || format!("{} gave no answer", shell.display());
    let (args, words) = question(shell, way, &word).ok_or_else(no_answer)?;
    let mut env = base.clone();
    // Known questions and screens of profiles that wait for somebody.
    for (name, value) in
        [(ASKING, "1"), ("DISABLE_AUTO_UPDATE", "true"), ("ZSH_TMUX_AUTOSTART", "false"), ("TERM", "dumb")]
    {
        env.insert(name.into(), value.into());
    }
    let folder = base.get("HOME").map(PathBuf::from).filter(|home| home.is_dir()).unwrap_or_else(|| PathBuf::from("/"));
    let args = args.into_iter().map(Into::into).collect();
    let child = Launch { program: shell.into(), args, folder, env }.spawn().map_err(|failure| failure.message)?;
    let (mut stdin, stdout) = (child.stdin, child.stdout);
    let told = async {
        // A shell that is gone already gives no answer either. Closed at once: a profile that reads gets an end of input.
        let _ = stdin.write_all(words.as_bytes()).await;
        drop(stdin);
        answer(stdout, &word).await
    };
    match timeout(limit, told).await {
        Ok(Some(text)) => {
            // What the profile started for good (an ssh agent) is the user's, not ours to end.
            child.process.leave_running();
            Ok(text)
        }
        // It carries no mark of ours, so nobody else would end it (R5). On a busy machine that goes on beside us.
        Ok(None) => {
            let _ = timeout(KILLING, child.process.kill()).await;
            Err(no_answer())
        }
        Err(_) => {
            let _ = timeout(KILLING, child.process.kill()).await;
            Err(format!("{} took too long", shell.display()))
        }
    }
}

async fn answer(mut stdout: ChildStdout, word: &str) -> Option<Environment> {
    let (begin, end) = (format!("<{word}>"), format!("</{word}>"));
    let mut got = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let n = stdout.read(&mut buffer).await.ok()?;
        got.extend_from_slice(&buffer[..n]);
        if let Some(from) = find(&got, begin.as_bytes()) {
            let body = &got[from + begin.len()..];
            if let Some(to) = find(body, end.as_bytes()) {
                return Some(parse(&body[..to]));
            }
        }
        if n == 0 || got.len() > BOUND {
            return None;
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// NUL between entries; an `env` that cannot do that prints lines, and then a line without `=` belongs to the value before.
fn parse(body: &[u8]) -> Environment {
    let text = String::from_utf8_lossy(body);
    let separator = if text.contains('\0') { '\0' } else { '\n' };
    let pairs = text.split(separator).filter_map(|entry| entry.split_once('='));
    pairs.filter(|(name, _)| !name.is_empty()).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
