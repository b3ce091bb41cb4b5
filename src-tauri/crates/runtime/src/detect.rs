//! Finding a CLI: one resolver, whose answer is exactly what is run (R6).

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use changeover_core::failure::{Failure, FailureKind};
use tokio::{io::AsyncReadExt, time::timeout};

use crate::{process::Launch, session::Environment};

/// How long `--version` may take. With the search itself well inside the 10 s of `describe`.
pub const VERSION_LIMIT: Duration = Duration::from_secs(6);

/// A CLI, found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The program: this, and nothing else, is run.
    pub path: PathBuf,
    /// How it was found, for people.
    pub how: &'static str,
    /// Folders that the CLI's own launcher puts on `PATH` and that running the program behind it must add.
    pub tools: Vec<PathBuf>,
}

impl Found {
    /// The child's environment: `env` with the launcher's folders in front of its `PATH`.
    #[must_use]
    pub fn environment(&self, mut env: Environment) -> Environment {
        if !self.tools.is_empty() {
            let old = env.get("PATH").cloned().unwrap_or_default();
            let folders = self.tools.iter().cloned().chain(std::env::split_paths(&old));
            if let Ok(Ok(path)) = std::env::join_paths(folders).map(OsString::into_string) {
                env.insert("PATH".into(), path);
            }
        }
        env
    }
}

/// Finds `program`: the file picked by hand, else the first on the `PATH` of `env`. A launcher of npm's is followed to the
/// platform's own program, which needs no Node and has no process in between.
///
/// # Errors
/// `NotInstalled`, with the way on.
pub fn find(program: &str, picked: Option<&Path>, env: &Environment) -> Result<Found, Failure> {
    if let Some(picked) = picked {
        return match which::which_in_global(picked, None::<&str>).ok().and_then(|mut all| all.next()) {
            Some(path) => Ok(native(program, path, "picked by hand")),
            None => Err(Failure::new(
                FailureKind::NotInstalled,
                format!("{} was picked by hand, but is not there or cannot be run", picked.display()),
            )
            .hint("Pick another file in the settings, or let the program be searched for.")),
        };
    }
    let path = env.get("PATH").cloned().unwrap_or_default();
    let Some(found) = which::which_in_global(program, Some(&path)).ok().and_then(|mut all| all.next()) else {
        return Err(Failure::new(FailureKind::NotInstalled, format!("{program} is not installed, or not on the PATH"))
            .hint(hint(program)));
    };
    let own = std::env::var_os("PATH").unwrap_or_default();
    let on_own = std::env::split_paths(&own).any(|folder| Some(folder.as_path()) == found.parent());
    Ok(native(program, found, if on_own { "PATH" } else { "login shell" }))
}

fn hint(program: &str) -> String {
    let install = match program {
        "claude" => "Install Claude Code (npm install -g @anthropic-ai/claude-code)",
        "codex" => "Install Codex (npm install -g @openai/codex)",
        "opencode" => "Install OpenCode (npm install -g opencode-ai)",
        "gemini" => "Install Gemini CLI (npm install -g @google/gemini-cli)",
        _ => "Install it",
    };
    format!("{install}, or pick the program by hand in the settings.")
}

/// Asks for its version: the first line it prints.
///
/// # Errors
/// `NotInstalled` when it cannot be run or ends badly; `NoProgress` when it takes longer than [`VERSION_LIMIT`].
pub async fn version(found: &Found, args: &[&str], env: &Environment) -> Result<String, Failure> {
    let folder = env.get("HOME").map(PathBuf::from).filter(|home| home.is_dir()).unwrap_or_else(std::env::temp_dir);
    let args = args.iter().map(OsString::from).chain(["--version".into()]).collect();
    let launch = Launch { program: found.path.clone(), args, folder, env: found.environment(env.clone()) };
    let mut child = launch.spawn()?;
    drop(child.stdin);
    let answer = async {
        let mut text = Vec::new();
        // A closed pipe or a broken one: the exit tells more.
        let _ = (&mut child.stdout).take(64 * 1024).read_to_end(&mut text).await;
        (String::from_utf8_lossy(&text).into_owned(), child.process.exited().await)
    };
    let shown = found.path.display();
    let bad = |what: String| {
        Failure::new(FailureKind::NotInstalled, what)
            .hint("Install it again, or pick the program by hand in the settings.")
    };
    let answered = timeout(VERSION_LIMIT, answer).await;
    child.process.kill().await;
    let Ok((text, exit)) = answered else {
        return Err(slow(format!("{shown} --version gave no answer in {} s", VERSION_LIMIT.as_secs())));
    };
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) if exit.is_success() => Ok(line.chars().take(200).collect()),
        _ => Err(bad(format!("{shown} --version: {}", child.process.exit_failure().await.message))),
    }
}

/// The problem of a program that is there and gave no answer in the time that detection has (R2). On a busy machine it may be
/// well all the same: opening a session has more time, and decides.
pub(crate) fn slow(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::NoProgress, message).hint("Look again, or send a message: it is given more time then.")
}

/// Follows npm's launchers of Claude Code, Codex and OpenCode to the native program beside them; anything else is run as it was found.
fn native(program: &str, path: PathBuf, how: &'static str) -> Found {
    let inside = match program {
        "claude" => claude(&path),
        "codex" => codex(&path),
        "opencode" => opencode(&path),
        _ => None,
    };
    let (path, tools) = inside.unwrap_or((path, Vec::new()));
    Found { path, how, tools }
}

/// The package's folder: what the launcher's link points into, or what an npm shim on Windows has beside it.
fn package(path: &Path, scope: &str, name: &str) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    let inside = real.ancestors().find(|folder| folder.ends_with(Path::new(scope).join(name))).map(PathBuf::from);
    let beside = || Some(path.parent()?.join("node_modules").join(scope).join(name)).filter(|folder| folder.is_dir());
    inside.or_else(beside)
}

/// Where npm, pnpm and bun put a package's platform part: beside it, below it, or (Codex, older) inside it.
fn platform_part(package: &Path, scope: &str, name: &str) -> Vec<PathBuf> {
    let beside = package.parent().map(|folder| folder.join(name));
    beside.into_iter().chain([package.join("node_modules").join(scope).join(name)]).collect()
}

fn platform() -> (&'static str, &'static str) {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    (system, machine)
}

fn claude(path: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let scope = "@anthropic-ai";
    let package = package(path, scope, "claude-code")?;
    let (system, machine) = platform();
    let file = if cfg!(windows) { "claude.exe" } else { "claude" };
    let names = [format!("claude-code-{system}-{machine}"), format!("claude-code-{system}-{machine}-musl")];
    let program = names.iter().flat_map(|name| platform_part(&package, scope, name)).map(|folder| folder.join(file));
    program.into_iter().find(|program| program.is_file()).map(|program| (program, Vec::new()))
}

/// Its launcher is the program itself once its install script has run; where none was allowed to, the program is beside it.
fn opencode(path: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let package = package(path, "", "opencode-ai")?;
    let (system, machine) = platform();
    let system = if system == "win32" { "windows" } else { system };
    let file = if cfg!(windows) { "opencode.exe" } else { "opencode" };
    let names = ["", "-baseline", "-musl", "-baseline-musl"].map(|kind| format!("opencode-{system}-{machine}{kind}"));
    let parts = names.iter().flat_map(|name| platform_part(&package, "", name));
    let program = parts.map(|folder| folder.join("bin").join(file)).find(|program| program.is_file())?;
    Some((program, Vec::new()))
}

fn codex(path: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let scope = "@openai";
    let package = package(path, scope, "codex")?;
    let (system, machine) = platform();
    let vendor = match system {
        "darwin" => "apple-darwin",
        "win32" => "pc-windows-msvc",
        _ => "unknown-linux-musl",
    };
    let triple = format!("{}-{vendor}", std::env::consts::ARCH);
    let file = if cfg!(windows) { "codex.exe" } else { "codex" };
    let parts = platform_part(&package, scope, &format!("codex-{system}-{machine}"));
    let roots = parts.into_iter().chain([package]).map(|folder| folder.join("vendor").join(&triple));
    let root = roots.into_iter().find(|root| root.join("bin").join(file).is_file())?;
    let tools =
        ["codex-path", "path"].map(|name| root.join(name)).into_iter().filter(|folder| folder.is_dir()).collect();
    Some((root.join("bin").join(file), tools))
}
