//! What a person can paste into a report of a fault: what is installed and found, what went wrong lately, what agents said
//! that nobody knows. No message, no name of a project, and of a key or token the first four characters (issue 3).

mod redact;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
    path::Path,
    sync::{Mutex, PoisonError},
};

use changeover_core::{Millis, failure::Failure, provider::ProviderId};
use changeover_runtime::{environment::provider_keys, session::Environment};
use serde_json::Value;

use self::redact::Redacted;
use crate::{
    api::{
        clock_text,
        error::ApiError,
        types::{ProviderState, ProviderView},
    },
    catalogue::Ground,
    clock,
    engine::{Inner, read},
};

/// How many errors are remembered.
const ERRORS: usize = 20;
/// How many kinds of unknown frames are told apart; what comes after is counted together.
const KINDS: usize = 64;
/// How much of an error's own words is kept, in characters.
const WORDS: usize = 600;

/// What went wrong since the start, and frames that no adapter knows. In memory, bounded.
#[derive(Default)]
pub(crate) struct Trouble(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    errors: VecDeque<(Millis, String)>,
    unknown: BTreeMap<(String, String), u64>,
}

impl Trouble {
    /// A turn, a look or a commit that failed.
    pub(crate) fn failed(&self, what: &str, failure: &Failure) {
        self.error(format!("{what}: {:?}: {}", failure.kind, failure.message));
    }

    /// Any other error.
    pub(crate) fn error(&self, words: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.errors.len() >= ERRORS {
            kept.errors.pop_front();
        }
        kept.errors.push_back((clock::now(), words.chars().take(WORDS).collect()));
    }

    /// A frame that the adapter does not know.
    pub(crate) fn unknown(&self, provider: &ProviderId, kind: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind: String = kind.chars().take(80).collect();
        let mut key = (provider.as_str().to_owned(), kind);
        if kept.unknown.len() >= KINDS && !kept.unknown.contains_key(&key) {
            key.1 = "others".to_owned();
        }
        *kept.unknown.entry(key).or_default() += 1;
    }
}

impl Inner {
    /// The page, as Markdown.
    pub(crate) async fn diagnostics(&self) -> Result<String, ApiError> {
        let ground = self.catalogue.ground().await;
        let store = self.store.clone();
        let (settings, threads) = read(move || Ok((store.settings()?, store.threads(None)?.len()))).await?;
        let kept = {
            let kept = self.trouble.0.lock().unwrap_or_else(PoisonError::into_inner);
            (kept.errors.clone(), kept.unknown.clone())
        };
        let mut page = Redacted::new(&ground.env);
        page.line("# Changeover diagnostics");
        page.line(format!(
            "{}. No message is in it; of a key or token, the first four characters.",
            clock_text(clock::now())
        ));
        page.line("\n## App");
        let window = if self.window { "window" } else { "no window" };
        page.line(format!("- version: {} ({window})", env!("CARGO_PKG_VERSION")));
        page.line(format!("- system: {}", system()));
        page.line(format!("- data folder: {} ({})", self.data_folder.display(), size(&self.data_folder)));
        let clean = if self.store.ended_cleanly() { "ended cleanly" } else { "did not end cleanly" };
        page.line(format!("- threads: {threads}; the run before this one {clean}"));
        surroundings(&mut page, &ground);
        page.line("\n## Providers");
        for one in self.catalogue.views() {
            provider(&mut page, &one);
        }
        page.line("\n## Settings");
        let told = |name: &str| !(name.starts_with("ui.") && name != "ui.theme");
        for (name, value) in settings.values.iter().filter(|(name, _)| told(name)) {
            page.line(format!("- {name}: {}", without_values(value)));
        }
        for name in settings.bad.keys() {
            page.line(format!("- {name}: cannot be read"));
        }
        page.none_if_empty(settings.values.is_empty() && settings.bad.is_empty());
        page.line("\n## Frames that no adapter knows, since the start");
        for ((provider, kind), times) in &kept.1 {
            page.line(format!("- {provider}: {kind}: {times}"));
        }
        page.none_if_empty(kept.1.is_empty());
        page.line("\n## Last errors, since the start");
        for (at, words) in &kept.0 {
            page.line(format!("- {}: {words}", clock_text(*at)));
        }
        page.none_if_empty(kept.0.is_empty());
        Ok(page.finish())
    }
}

/// How the login shell answered, the folders that are searched, and the variables that agents heed.
fn surroundings(page: &mut Redacted, ground: &Ground) {
    page.line("\n## Environment");
    let shell = ground.shell.as_ref().map(|shell| shell.display().to_string());
    page.line(match (&ground.problem, shell) {
        (Some(problem), _) => format!("- login shell: {problem}"),
        (None, Some(shell)) => {
            format!("- login shell: {shell} answered and named {} more folders", ground.from_shell.len())
        }
        (None, None) => "- login shell: not asked".to_owned(),
    });
    page.line(format!("- PATH: {}", ground.env.get("PATH").map_or("(none)", String::as_str)));
    for (name, value) in &ground.env {
        if provider_keys().any(|key| key == name) {
            page.line(format!("- {name}: {}", redact::shortened(value)));
        } else if is_told(name) {
            page.line(format!("- {name}: {value}"));
        }
    }
}

/// Variables that decide where an agent calls and where it keeps its things.
fn is_told(name: &str) -> bool {
    let folders = ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "OPENCODE_CONFIG", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "SHELL"];
    let upper = name.to_ascii_uppercase();
    folders.contains(&name) || upper.ends_with("_BASE_URL") || upper.ends_with("_PROXY")
}

fn provider(page: &mut Redacted, one: &ProviderView) {
    let state = match one.state {
        ProviderState::Looking => "being looked for",
        ProviderState::Ready => "ready",
        ProviderState::NotFound => "not found",
        ProviderState::NotLoggedIn => "not logged in",
        ProviderState::Broken => "does not start",
    };
    let mut line = format!("- {} ({}): {state}", one.name, one.id);
    if let Some(version) = &one.version {
        let _ = write!(line, "; version {version}");
    }
    if let Some(path) = &one.path {
        let _ = write!(line, "; {path}");
    }
    if let Some(found) = &one.found {
        let _ = write!(line, " ({found})");
    }
    if let Some(login) = &one.login {
        let _ = write!(line, "; login: {login}");
    }
    if !one.models.is_empty() {
        let _ = write!(line, "; {} models", one.models.len());
    }
    page.line(line);
    if let Some(problem) = &one.problem {
        page.line(format!("  {}", problem.message));
        if let Some(hint) = &problem.hint {
            page.line(format!("  {hint}"));
        }
    }
}

/// A setting that may hold what a person wrote (an agent's arguments and environment) with its names alone.
fn without_values(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            format!("{{{}}}", fields.keys().cloned().collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => format!("{} entries", list.len()),
        other => other.to_string(),
    }
}

/// The system, its release and machine, as far as files tell.
fn system() -> String {
    let (os, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let release = if cfg!(target_os = "linux") {
        let list = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let name = list.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"'));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        format!(" {} {}", name.unwrap_or_default(), kernel.trim())
    } else if cfg!(target_os = "macos") {
        let list = std::fs::read_to_string("/System/Library/CoreServices/SystemVersion.plist").unwrap_or_default();
        let after = list.split_once("<key>ProductVersion</key>").and_then(|(_, rest)| rest.split_once("<string>"));
        format!(" {}", after.and_then(|(_, rest)| rest.split_once("</string>")).map_or("", |(version, _)| version))
    } else {
        String::new()
    };
    format!("{os}{release}, {machine}")
}

/// What lies in the data folder itself (not below it), in megabytes.
fn size(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes: u64 = files.filter_map(|file| file.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum();
    format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10)
}

/// What is set and secret in an environment: the values of all that is named like a secret.
fn secrets(env: &Environment) -> Vec<String> {
    let words = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
    let named = |name: &str| words.iter().any(|word| name.to_ascii_uppercase().contains(word));
    let long = |value: &&String| value.len() >= 8;
    env.iter().filter(|(name, _)| named(name)).map(|(_, value)| value).filter(long).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded() {
        let trouble = Trouble::default();
        for n in 0..100 {
            trouble.error(format!("{n}{}", "x".repeat(2_000)));
            trouble.unknown(&ProviderId::claude(), &format!("kind {n}"));
        }
        trouble.unknown(&ProviderId::claude(), "kind 1");
        let kept = trouble.0.lock().unwrap();
        assert_eq!((kept.errors.len(), kept.unknown.len()), (ERRORS, KINDS + 1));
        assert!(kept.errors[0].1.starts_with("80x") && kept.errors[0].1.len() == WORDS);
        let times = |kind: &str| kept.unknown[&("claude".to_owned(), kind.to_owned())];
        assert_eq!((times("kind 1"), times("others")), (2, 36));
    }
}
