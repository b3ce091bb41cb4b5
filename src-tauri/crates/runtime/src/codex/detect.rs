//! Where Codex is, and what it says when asked something small.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use changeover_core::failure::{Failure, FailureKind};
use tokio::io::AsyncReadExt;

use crate::{
    process::{Launch, Process, Spawned},
    session::Environment,
};

/// The most that a small answer may be, in bytes; the catalogue has about one megabyte.
const ANSWER_BOUND: u64 = 32 * 1024 * 1024;

/// How a program was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub path: PathBuf,
    pub how: &'static str,
}

/// The program to run: picked by hand, else the first `codex` on the user's PATH (R6).
pub(super) fn program(picked: Option<&Path>, env: &Environment) -> Result<Found, Failure> {
    if let Some(path) = picked {
        return if path.is_file() {
            Ok(Found { path: native(path.to_owned()), how: "picked by hand" })
        } else {
            Err(not_installed(format!("{} is not there", path.display())))
        };
    }
    let paths = env.get("PATH").map(OsString::from);
    match which::which_in("codex", paths, "/") {
        Ok(path) => Ok(Found { path: native(path), how: "PATH" }),
        Err(_) => Err(not_installed("Codex is not installed: there is no `codex` on the PATH".into())),
    }
}

fn not_installed(message: String) -> Failure {
    Failure::new(FailureKind::NotInstalled, message)
        .hint("Install it with `npm install -g @openai/codex`, or pick the program by hand in the settings.")
}

/// The native program behind the npm launcher: a script that starts it as a child, and would leave it behind when killed.
fn native(path: PathBuf) -> PathBuf {
    let Ok(real) = path.canonicalize() else { return path };
    if real.extension().is_none_or(|extension| extension != "js") {
        return path;
    }
    let Some(package) = real.parent().and_then(Path::parent) else { return path };
    let (platform, triple) = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => ("linux-x64", "x86_64-unknown-linux-musl"),
        ("linux", "aarch64") => ("linux-arm64", "aarch64-unknown-linux-musl"),
        ("macos", "x86_64") => ("darwin-x64", "x86_64-apple-darwin"),
        ("macos", "aarch64") => ("darwin-arm64", "aarch64-apple-darwin"),
        ("windows", "x86_64") => ("win32-x64", "x86_64-pc-windows-msvc"),
        ("windows", "aarch64") => ("win32-arm64", "aarch64-pc-windows-msvc"),
        _ => return path,
    };
    let binary = if cfg!(windows) { "codex.exe" } else { "codex" };
    let sub = Path::new(&format!("codex-{platform}")).join("vendor").join(triple).join("bin").join(binary);
    // Beside the launcher's package, or inside it.
    let places =
        [package.parent().map(|scope| scope.join(&sub)), Some(package.join("node_modules/@openai").join(&sub))];
    places.into_iter().flatten().find(|place| place.is_file()).unwrap_or(path)
}

/// Runs the program to its end and gives what it printed.
pub(super) async fn output(
    program: &Path,
    args: &[&str],
    env: &Environment,
    folder: &Path,
    patience: Duration,
) -> Result<String, Failure> {
    let launch = Launch {
        program: program.to_owned(),
        args: args.iter().map(OsString::from).collect(),
        folder: folder.to_owned(),
        env: env.clone(),
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn env(path: &Path) -> Environment {
        Environment::from([("PATH".to_owned(), path.display().to_string())])
    }

    #[cfg(unix)]
    fn program_at(path: &Path) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[cfg(all(unix, target_arch = "x86_64", target_os = "linux"))]
    #[test]
    fn the_launcher_of_the_npm_package_is_passed_over_for_the_program_itself() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let launcher = root.join("lib/node_modules/@openai/codex/bin/codex.js");
        program_at(&launcher);
        let bin = root.join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(&launcher, bin.join("codex")).unwrap();
        let found = program(None, &env(&bin)).unwrap();
        assert_eq!(found, Found { path: bin.join("codex"), how: "PATH" }, "no native program: the launcher it is");
        for place in ["codex/node_modules/@openai", "."] {
            let native = root.join("lib/node_modules/@openai").join(place);
            let native = native.join("codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex");
            program_at(&native);
            let path = program(None, &env(&bin)).unwrap().path;
            assert_eq!(path.canonicalize().unwrap(), native.canonicalize().unwrap());
        }
    }

    #[test]
    fn what_is_not_there_is_not_installed() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = program(None, &env(folder.path())).unwrap_err();
        assert_eq!(nothing.kind, FailureKind::NotInstalled);
        let picked = program(Some(&folder.path().join("codex")), &env(folder.path())).unwrap_err();
        assert_eq!(picked.kind, FailureKind::NotInstalled);
    }
}
