//! Codex's catalogue of models: their true windows, and a copy of it with windows so large that Codex never compacts by
//! itself (G2). The user's own files are only read.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use changeover_core::failure::{Failure, FailureKind};
use serde_json::{Map, Value, json};

use super::{normalize::RAISED_WINDOW, output};
use crate::{detect::Found, session::Environment};

/// What Codex assumes of a model that is in no catalogue, in tokens.
const UNKNOWN_WINDOW: u64 = 272_000;
/// The share of a window, in percent, that Codex uses where the catalogue does not say.
const UNKNOWN_PERCENT: u64 = 95;
/// How long the catalogue may take; it is fetched anew for some accounts, the built-in one comes at once.
const PATIENCE: Duration = Duration::from_secs(6);

/// The catalogue as Codex states it.
#[derive(Debug, Clone)]
pub(super) struct Catalogue {
    models: Vec<Map<String, Value>>,
}

impl Catalogue {
    /// Asks Codex for it; the built-in one if the current one does not come in time.
    pub async fn ask(found: &Found, env: &Environment, folder: &Path) -> Result<Self, Failure> {
        let current = output::output(found, &["debug", "models"], env, folder, PATIENCE).await;
        match current.and_then(|text| Self::read(&text)) {
            Ok(catalogue) => Ok(catalogue),
            Err(why) => {
                tracing::warn!(why = why.message, "no current catalogue from codex, using the built-in one");
                let text = output::output(found, &["debug", "models", "--bundled"], env, folder, PATIENCE).await?;
                Self::read(&text)
            }
        }
    }

    fn read(text: &str) -> Result<Self, Failure> {
        #[derive(serde::Deserialize)]
        struct Stated {
            models: Vec<Map<String, Value>>,
        }
        serde_json::from_str::<Stated>(text).map(|stated| Self { models: stated.models }).map_err(|error| {
            Failure::new(FailureKind::Protocol, format!("Codex's list of models cannot be read: {error}"))
        })
    }

    /// The entry that Codex uses for a model: its own, else that of the longest name that this one begins with.
    fn entry(&self, model: &str) -> Option<&Map<String, Value>> {
        let fits = |entry: &&Map<String, Value>| !slug(entry).is_empty() && model.starts_with(slug(entry));
        self.models.iter().filter(fits).max_by_key(|entry| slug(entry).len())
    }

    /// Whether the copy made without an extra entry covers this model.
    pub fn covers(&self, model: &str) -> bool {
        self.entry(model).is_some()
    }

    /// What of the model's window Codex uses, in tokens. `chosen` is the user's own figure from the configuration,
    /// which Codex takes up to the model's maximum.
    pub fn window(&self, model: &str, chosen: Option<u64>) -> u64 {
        let figure = |name: &str| self.entry(model).and_then(|entry| entry.get(name)?.as_u64());
        let stated = figure("context_window").or(figure("max_context_window")).unwrap_or(UNKNOWN_WINDOW);
        let most = figure("max_context_window").unwrap_or(stated.max(UNKNOWN_WINDOW));
        let window = chosen.map_or(stated, |chosen| chosen.min(most));
        let percent = figure("effective_context_window_percent").unwrap_or(UNKNOWN_PERCENT);
        window.saturating_mul(percent) / 100
    }

    /// Writes the raised copy to `file`, whole or not at all; `extra` is a model that is in no catalogue.
    pub fn write_raised(&self, file: &Path, extra: Option<&str>) -> io::Result<()> {
        let mut models = self.models.clone();
        models.extend(extra.filter(|model| !self.covers(model)).map(|model| self.unknown(model)));
        for model in &mut models {
            for field in ["context_window", "max_context_window", "auto_compact_token_limit"] {
                model.insert(field.into(), RAISED_WINDOW.into());
            }
        }
        let text = serde_json::to_vec(&json!({"models": models}))?;
        if fs::read(file).is_ok_and(|there| there == text) {
            return Ok(());
        }
        let fresh = PathBuf::from(format!("{}.{}", file.display(), uuid::Uuid::new_v4()));
        fs::write(&fresh, text)?;
        fs::rename(&fresh, file)
    }

    /// An entry with what Codex itself assumes of a model that it does not know. An entry must hold instructions, and
    /// those that Codex would use are nowhere to be had: its newest ones for plain tools come nearest.
    fn unknown(&self, model: &str) -> Map<String, Value> {
        let instructions =
            |entry: &&Map<String, Value>| entry.get("base_instructions").and_then(Value::as_str).is_some();
        let plain = |entry: &&Map<String, Value>| entry.get("tool_mode").is_none_or(Value::is_null);
        let with = || self.models.iter().filter(instructions);
        let nearest = with().find(plain).or_else(|| with().next());
        let entry = json!({
            "slug": model,
            "display_name": model,
            "description": null,
            "supported_reasoning_levels": [],
            "shell_type": "default",
            "visibility": "none",
            "supported_in_api": true,
            "priority": 99,
            "support_verbosity": false,
            "apply_patch_tool_type": null,
            "truncation_policy": {"mode": "bytes", "limit": 10_000},
            "supports_parallel_tool_calls": false,
            "supports_reasoning_summaries": false,
            "effective_context_window_percent": UNKNOWN_PERCENT,
            "experimental_supported_tools": [],
            "input_modalities": ["text", "image"],
            "base_instructions": nearest.and_then(|entry| entry.get("base_instructions")).cloned().unwrap_or("".into()),
        });
        match entry {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

fn slug(entry: &Map<String, Value>) -> &str {
    entry.get("slug").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let models = json!({"models": [
            {"slug": "gpt-6.2-sol", "context_window": 500_000, "max_context_window": 872_000, "effective_context_window_percent": 95,
             "tool_mode": "code_mode_only", "base_instructions": "code"},
            {"slug": "gpt-5.5", "context_window": 272_000, "max_context_window": 272_000, "effective_context_window_percent": 95, "base_instructions": "plain"},
        ]});
        Catalogue::read(&models.to_string()).unwrap()
    }

    #[test]
    fn the_true_window_is_kept_beside_the_raised_copy() {
        let catalogue = catalogue();
        assert_eq!(catalogue.window("gpt-6.2-sol", None), 475_000);
        assert_eq!(catalogue.window("gpt-6.2-sol", Some(100_000)), 95_000);
        assert_eq!(catalogue.window("gpt-6.2-sol", Some(9_000_000)), 828_400);
        assert_eq!(catalogue.window("gpt-5.5-mini", None), 258_400);
        assert_eq!(catalogue.window("nobody-knows", None), 258_400);
        assert!(catalogue.covers("gpt-5.5") && !catalogue.covers("nobody-knows"));
    }

    #[test]
    fn the_copy_raises_every_model_and_adds_the_unknown_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("raised.json");
        catalogue().write_raised(&file, Some("nobody-knows")).unwrap();
        let copy: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let seen: Vec<_> = copy["models"].as_array().unwrap().iter().map(|m| m["slug"].as_str().unwrap()).collect();
        assert_eq!(seen, ["gpt-6.2-sol", "gpt-5.5", "nobody-knows"]);
        for model in copy["models"].as_array().unwrap() {
            for field in ["context_window", "max_context_window", "auto_compact_token_limit"] {
                assert_eq!(model[field], RAISED_WINDOW, "{field} of {}", model["slug"]);
            }
        }
        assert_eq!(copy["models"][2]["base_instructions"], "plain");
        catalogue().write_raised(&file, Some("gpt-5.5")).unwrap();
        let copy: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(copy["models"].as_array().unwrap().len(), 2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written stays");
    }
}
