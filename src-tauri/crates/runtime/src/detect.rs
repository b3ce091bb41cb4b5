//! Finding a CLI: one resolver, whose answer is exactly what is run (R6).

mod look;
mod shim;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use changeover_core::failure::{Failure, FailureKind};
use tokio::{io::AsyncReadExt, time::timeout};

use crate::{environment::is_usual_folder, process::Launch, session::Environment};

/// How long `--version` may take. With the search itself well inside the 10 s of `describe`.
pub const VERSION_LIMIT: Duration = Duration::from_secs(6);

/// A CLI, found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The program: this, and nothing else, is run.
    pub path: PathBuf,
    /// Arguments before the caller's own: the script, where what was found is a shim that starts Node with one (Windows).
    pub before: Vec<OsString>,
    /// How it was found, for people.
    pub how: &'static str,
    /// Folders that the CLI's own launcher puts on `PATH` and that running the program behind it must add.
    pub tools: Vec<PathBuf>,
    /// Folders that the launcher lies in and that hold its Node: behind all others on its `PATH` (R036).
    pub behind: Vec<PathBuf>,
}

impl Found {
    /// The child's environment: `env` with the launcher's folders in front of its `PATH`, and its Node's behind.
    #[must_use]
    pub fn environment(&self, mut env: Environment) -> Environment {
        let old = env.get("PATH").cloned().unwrap_or_default();
        let old: Vec<PathBuf> = std::env::split_paths(&old).collect();
        let behind: Vec<_> = self.behind.iter().filter(|folder| !old.contains(folder)).cloned().collect();
        if !(self.tools.is_empty() && behind.is_empty()) {
            let folders = self.tools.iter().cloned().chain(old).chain(behind);
            if let Ok(Ok(path)) = std::env::join_paths(folders).map(OsString::into_string) {
                env.insert("PATH".into(), path);
            }
        }
        env
    }

    /// How to start exactly what was found, with these arguments; `env` as [`Found::environment`] completes it.
    #[must_use]
    pub fn launch(&self, args: Vec<OsString>, folder: PathBuf, env: Environment) -> Launch {
        let args = self.before.iter().cloned().chain(args).collect();
        Launch { program: self.path.clone(), args, folder, env: self.environment(env) }
    }
}

/// Finds `program`: the file picked by hand, else the first on the `PATH` of `env`. A launcher of npm's is followed to the
/// platform's own program, which needs no Node and has no process in between; npm's shims on Windows to what they start.
///
/// # Errors
/// `NotInstalled`, with the way on.
pub fn find(program: &str, picked: Option<&Path>, env: &Environment) -> Result<Found, Failure> {
    if let Some(picked) = picked {
        return match file(picked, env) {
            Some(path) => started(program, path, "picked by hand", env),
            None => Err(Failure::new(
                FailureKind::NotInstalled,
                format!("{} was picked by hand, but is not there or cannot be run", picked.display()),
            )
            .hint("Pick another file in the settings, or let the program be searched for.")),
        };
    }
    let Some(found) = first(program, env) else {
        return Err(Failure::new(FailureKind::NotInstalled, format!("{program} is not installed, or not on the PATH"))
            .hint(hint(program)));
    };
    let how = how(found.parent(), env);
    started(program, found, how, env)
}

/// The first program of this name on the `PATH` of `env`.
fn first(program: &str, env: &Environment) -> Option<PathBuf> {
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    if cfg!(windows) {
        let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
        return look::on_windows(program, &folders, endings(env));
    }
    which::which_in_global(program, Some(path)).ok()?.find(|file| file.is_absolute())
}

/// A file that can be run.
fn file(path: &Path, env: &Environment) -> Option<PathBuf> {
    if cfg!(windows) {
        return look::picked_on_windows(path, endings(env));
    }
    which::which_in_global(path, None::<&str>).ok()?.next()
}

fn endings(env: &Environment) -> &str {
    env.get("PATHEXT").map(String::as_str).filter(|endings| !endings.is_empty()).unwrap_or(look::ENDINGS)
}

/// Who named the folder, as far as it can be told.
fn how(folder: Option<&Path>, env: &Environment) -> &'static str {
    let own = std::env::var_os("PATH").unwrap_or_default();
    match folder {
        Some(folder) if std::env::split_paths(&own).any(|on_own| on_own == folder) => "PATH",
        Some(folder) if is_usual_folder(folder, env) => "usual folder",
        _ => "login shell",
    }
}

fn hint(program: &str) -> String {
    let install = match program {
        "claude" => "Install Claude Code with `npm install -g @anthropic-ai/claude-code`",
        "codex" => "Install Codex with `npm install -g @openai/codex`",
        "opencode" => "Install OpenCode with `npm install -g opencode-ai`",
        "gemini" => "Install Gemini CLI with `npm install -g @google/gemini-cli`",
        "qwen" => "Install Qwen Code with `npm install -g @qwen-code/qwen-code`",
        "copilot" => "Install Copilot CLI with `npm install -g @github/copilot`",
        _ => "Install it",
    };
    format!("{install}, or pick the program by hand in the settings.")
}

/// Asks for its version: the first line it prints.
///
/// # Errors
/// `NotInstalled` when it cannot be run or ends badly; `NoProgress` when it takes longer than [`VERSION_LIMIT`].
pub async fn version(found: &Found, args: &[&str], env: &Environment) -> Result<String, Failure> {
    let args = args.iter().map(OsString::from).chain(["--version".into()]).collect();
    let mut child = found.launch(args, crate::environment::home(env), env.clone()).spawn()?;
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

/// What is run where this file was found: npm's launchers of Claude Code, Codex and OpenCode are followed to the native program
/// beside them, shims to what they start; anything else is run as it was found.
fn started(program: &str, path: PathBuf, how: &'static str, env: &Environment) -> Result<Found, Failure> {
    let plain =
        |path: PathBuf, before: Vec<OsString>| Found { path, before, how, tools: Vec::new(), behind: Vec::new() };
    let inside = match program {
        "claude" => claude(&path, &Platform::this()),
        "codex" => codex(&path, &Platform::this()),
        "opencode" => opencode(&path, &Platform::this()),
        _ => None,
    };
    if let Some((path, tools)) = inside {
        return Ok(Found { tools, ..plain(path, Vec::new()) });
    }
    let batch = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("cmd") || end.eq_ignore_ascii_case("bat"));
    if cfg!(windows) && batch {
        let text = fs::read(&path).unwrap_or_default();
        return match shim::read(&path, &String::from_utf8_lossy(&text)) {
            Some(shim::Target::Program(target, before)) => Ok(plain(target, before)),
            Some(shim::Target::Script(node, before)) => match node.or_else(|| first("node", env)) {
                Some(node) => Ok(plain(node, before)),
                None => Err(Failure::new(
                    FailureKind::NotInstalled,
                    format!("{} needs Node, which is not installed or not on the PATH", path.display()),
                )
                .hint("Install Node (https://nodejs.org), then look again.")),
            },
            None => Ok(plain(path, Vec::new())),
        };
    }
    let behind = folders_of_its_node(&path);
    Ok(Found { behind, ..plain(path, Vec::new()) })
}

/// The folders that a launcher and what it links to lie in, as far as they hold a Node: version managers put both into one.
fn folders_of_its_node(path: &Path) -> Vec<PathBuf> {
    let (mut at, mut folders) = (path.to_owned(), Vec::new());
    for _ in 0..8 {
        let Some(folder) = at.parent().map(Path::to_owned) else { break };
        if folder.join("node").is_file() && !folders.contains(&folder) {
            folders.push(folder.clone());
        }
        match fs::read_link(&at) {
            Ok(next) => at = folder.join(next),
            Err(_) => break,
        }
    }
    folders
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

/// A machine as Rust names it.
#[derive(Debug, Clone, Copy)]
struct Platform {
    system: &'static str,
    machine: &'static str,
}

impl Platform {
    fn this() -> Self {
        Self { system: std::env::consts::OS, machine: std::env::consts::ARCH }
    }

    /// As npm names it.
    fn npm(self) -> (&'static str, &'static str) {
        let system = match self.system {
            "macos" => "darwin",
            "windows" => "win32",
            other => other,
        };
        let machine = match self.machine {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => other,
        };
        (system, machine)
    }

    /// A program's file name.
    fn file(self, program: &str) -> String {
        if self.system == "windows" { format!("{program}.exe") } else { program.to_owned() }
    }
}

fn claude(path: &Path, platform: &Platform) -> Option<(PathBuf, Vec<PathBuf>)> {
    let scope = "@anthropic-ai";
    let package = package(path, scope, "claude-code")?;
    let (system, machine) = platform.npm();
    let file = platform.file("claude");
    let names = [format!("claude-code-{system}-{machine}"), format!("claude-code-{system}-{machine}-musl")];
    let program = names.iter().flat_map(|name| platform_part(&package, scope, name)).map(|folder| folder.join(&file));
    program.into_iter().find(|program| program.is_file()).map(|program| (program, Vec::new()))
}

/// Its launcher is the program itself once its install script has run; where none was allowed to, the program is beside it.
fn opencode(path: &Path, platform: &Platform) -> Option<(PathBuf, Vec<PathBuf>)> {
    let package = package(path, "", "opencode-ai")?;
    let (system, machine) = platform.npm();
    let system = if system == "win32" { "windows" } else { system };
    let file = platform.file("opencode");
    let names = ["", "-baseline", "-musl", "-baseline-musl"].map(|kind| format!("opencode-{system}-{machine}{kind}"));
    let parts = names.iter().flat_map(|name| platform_part(&package, "", name));
    let program = parts.map(|folder| folder.join("bin").join(&file)).find(|program| program.is_file())?;
    Some((program, Vec::new()))
}

fn codex(path: &Path, platform: &Platform) -> Option<(PathBuf, Vec<PathBuf>)> {
    let scope = "@openai";
    let package = package(path, scope, "codex")?;
    let (system, machine) = platform.npm();
    let vendor = match system {
        "darwin" => "apple-darwin",
        "win32" => "pc-windows-msvc",
        _ => "unknown-linux-musl",
    };
    let triple = format!("{}-{vendor}", platform.machine);
    let file = platform.file("codex");
    let parts = platform_part(&package, scope, &format!("codex-{system}-{machine}"));
    let roots = parts.into_iter().chain([package]).map(|folder| folder.join("vendor").join(&triple));
    let root = roots.into_iter().find(|root| root.join("bin").join(&file).is_file())?;
    let tools =
        ["codex-path", "path"].map(|name| root.join(name)).into_iter().filter(|folder| folder.is_dir()).collect();
    Some((root.join("bin").join(file), tools))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `npm install -g` leaves on Windows: shims in one folder, the packages below it.
    #[test]
    fn r041_r045_on_windows_the_shims_of_claude_and_codex_are_followed_to_their_programs() {
        let dir = tempfile::tempdir().unwrap();
        let npm = fs::canonicalize(dir.path()).unwrap();
        let windows = Platform { system: "windows", machine: "x86_64" };
        let program = |below: &str| {
            let file = npm.join("node_modules").join(below);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            file
        };
        for shim in ["claude.cmd", "codex.cmd"] {
            fs::write(npm.join(shim), "").unwrap();
        }
        assert_eq!(claude(&npm.join("claude.cmd"), &windows), None, "a shim of something else");
        program("@anthropic-ai/claude-code/cli-wrapper.cjs");
        let own = program("@anthropic-ai/claude-code/node_modules/@anthropic-ai/claude-code-win32-x64/claude.exe");
        assert_eq!(claude(&npm.join("claude.cmd"), &windows), Some((own, Vec::new())));
        program("@openai/codex/bin/codex.js");
        let vendor = "@openai/codex/node_modules/@openai/codex-win32-x64/vendor/x86_64-pc-windows-msvc";
        let own = program(&format!("{vendor}/bin/codex.exe"));
        let tool = program(&format!("{vendor}/path/rg.exe"));
        let tools = vec![tool.parent().unwrap().to_owned()];
        assert_eq!(codex(&npm.join("codex.cmd"), &windows), Some((own, tools)));
    }

    #[cfg(unix)]
    #[test]
    fn r036_a_launcher_brings_the_folder_of_its_own_node() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("versions/v22/bin");
        for folder in [&node, &dir.path().join("bin")] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in ["node", "gemini"] {
            let file = node.join(file);
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let link = dir.path().join("bin/gemini");
        std::os::unix::fs::symlink("../versions/v22/bin/gemini", &link).unwrap();
        let env = Environment::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let found = find("gemini", Some(&link), &env).unwrap();
        assert_eq!(found.path, link, "what was picked is what is run");
        let path = found.environment(env)["PATH"].clone();
        let (first, last) = path.rsplit_once(':').unwrap();
        assert_eq!(first, "/usr/bin:/bin", "the user's own order stays");
        assert_eq!(fs::canonicalize(last).unwrap(), fs::canonicalize(&node).unwrap());
    }
}
