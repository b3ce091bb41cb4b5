//! The environment that agents get (R6): what a terminal of the user's would have, whole, less what belongs to others.

mod known;
mod shell;
mod spelling;
mod strip;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use strip::{for_provider, provider_keys};

use crate::{
    process::{MARK, SESSION_MARK},
    session::Environment,
};

/// How long the login shell may take.
pub const SHELL_LIMIT: Duration = Duration::from_secs(5);

/// This process's own environment, as far as it is text, without the marks that an outer run of this app left in it. On
/// Windows, where case means nothing, the names that are looked for have one spelling.
pub fn own() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name != MARK && name != SESSION_MARK)
        .map(|(name, value)| (if cfg!(windows) { spelling::of(name) } else { name }, value))
        .collect()
}

/// The user's own folder, or one for temporary files: where a program runs that has no business in any project.
pub fn home(env: &Environment) -> PathBuf {
    let set = |name: &str| env.get(name).map(PathBuf::from).filter(|home| home.is_dir());
    set("HOME").or_else(|| set("USERPROFILE")).unwrap_or_else(std::env::temp_dir)
}

/// Whether programs are looked for in this folder even if nobody names it.
pub(crate) fn is_usual_folder(folder: &Path, env: &Environment) -> bool {
    known::folders(env, known::System::this()).iter().any(|known| Path::new(known) == folder)
}

/// An environment and how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The whole environment.
    pub env: Environment,
    /// Folders of its `PATH` that only the login shell named.
    pub from_shell: Vec<String>,
    /// The login shell that was asked, if one is known.
    pub shell: Option<PathBuf>,
    /// Why the login shell was not asked or gave nothing; `None`: it answered, or the system needs none (Windows).
    pub problem: Option<String>,
}

/// Repairs what a graphical session gives (R6): asks the login shell, at most [`SHELL_LIMIT`], for its environment, adds what
/// is missing in `base`, and joins the folders: those of a terminal first, then the shell's, then known places of version
/// managers that exist. A noisy, broken or hanging profile costs time and nothing else.
pub async fn repaired(base: Environment) -> Repaired {
    repaired_within(base, SHELL_LIMIT).await
}

/// [`repaired`] with another limit.
pub async fn repaired_within(base: Environment, limit: Duration) -> Repaired {
    let shell = if cfg!(windows) { None } else { shell::login_shell(&base) };
    let (told, problem) = match &shell {
        Some(shell) => match shell::ask(shell, &base, limit).await {
            Ok(told) => (told, None),
            Err(problem) => (Environment::new(), Some(problem)),
        },
        // Windows gives every program the whole of it.
        None if cfg!(windows) => (Environment::new(), None),
        None => (Environment::new(), Some("no login shell is known".to_owned())),
    };
    let mut env = base;
    let own_path = split(env.get("PATH"));
    let shell_path = split(told.get("PATH"));
    for (name, value) in told {
        if !shell::is_shells_own(&name) {
            env.entry(name).or_insert(value);
        }
    }
    // A bare PATH says nothing about the user's wishes; one from a terminal does.
    let order = if is_bare(&own_path) { [&shell_path, &own_path] } else { [&own_path, &shell_path] };
    let mut path: Vec<String> = Vec::new();
    let known = known::folders(&env, known::System::this());
    for folder in order.into_iter().flatten().chain(&known) {
        if !folder.is_empty() && !path.contains(folder) {
            path.push(folder.clone());
        }
    }
    let from_shell = shell_path.into_iter().filter(|folder| !own_path.contains(folder)).collect();
    if let Ok(joined) = std::env::join_paths(&path)
        && let Ok(joined) = joined.into_string()
    {
        env.insert("PATH".into(), joined);
    }
    Repaired { env, from_shell, shell, problem }
}

fn split(path: Option<&String>) -> Vec<String> {
    path.map(|path| std::env::split_paths(path).map(|p| p.to_string_lossy().into_owned()).collect()).unwrap_or_default()
}

/// What launchd, systemd and desktop files give.
fn is_bare(path: &[String]) -> bool {
    let system = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
        "/usr/games",
        "/usr/local/games",
        "/snap/bin",
    ];
    path.iter().all(|folder| system.contains(&folder.as_str()))
}
