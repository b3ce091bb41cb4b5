//! Small questions to the program: what it prints, and why it does not start.

use std::{ffi::OsString, path::Path, time::Duration};

use changeover_core::failure::{Failure, FailureKind};
use tokio::io::AsyncReadExt;

use crate::{
    detect::Found,
    process::{Process, Spawned},
    session::Environment,
};

/// The most that a small answer may be, in bytes; the catalogue has about one megabyte.
const ANSWER_BOUND: u64 = 32 * 1024 * 1024;

/// Runs the program to its end and gives what it printed.
pub(super) async fn output(
    found: &Found,
    args: &[&str],
    env: &Environment,
    folder: &Path,
    patience: Duration,
) -> Result<String, Failure> {
    let launch = found.launch(args.iter().map(OsString::from).collect(), folder.to_owned(), env.clone());
    let Spawned { stdin, stdout, process } = launch.spawn()?;
    drop(stdin);
    let work = async {
        let mut text = Vec::new();
        let read = stdout.take(ANSWER_BOUND).read_to_end(&mut text).await;
        (process.exited().await, read, text)
    };
    let Ok((exit, read, text)) = tokio::time::timeout(patience, work).await else {
        process.kill().await;
        let message = format!("`codex {}` did not end in time", args.join(" "));
        return Err(Failure::new(FailureKind::Unavailable, message));
    };
    match read {
        Ok(_) if exit.is_success() => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(not_started(&process).await),
    }
}

/// A start that failed, in Codex's own words: most often a configuration that it does not take.
pub(super) async fn not_started(process: &Process) -> Failure {
    let failure = process.exit_failure().await;
    let stderr = process.stderr_tail();
    let Some(error) = stderr.lines().find_map(|line| line.trim().strip_prefix("Error: ")) else { return failure };
    let refused = Failure::new(FailureKind::Rejected, format!("Codex does not start: {error}"));
    if error.contains("config") { refused.hint("Repair Codex's config.toml at the place named.") } else { refused }
}
