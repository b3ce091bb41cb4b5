//! OpenCode, through `opencode serve`: one server for all threads, a session in it for each of them.

mod failure;
mod http;
mod normalize;
mod open;
mod server;
mod session;
mod tools;

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use changeover_core::{
    event::{Keeps, Kept},
    failure::{Failure, FailureKind},
    provider::ProviderId,
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;

use crate::detect::{self, Found};
use crate::session::{AgentRuntime, Capabilities, Description, Environment, Login, ModelInfo, Opened, SessionSpec};
use server::{Lease, Slot};

/// How long detection may take (R2), less a margin.
const DETECTION: Duration = Duration::from_millis(9500);
/// How long the list of models may take: its first time it reads the catalogue.
const PATIENCE: Duration = Duration::from_secs(30);
/// The provider that OpenCode itself runs, which needs no account.
const OWN: &str = "opencode";

/// The adapter.
pub struct OpenCodeRuntime {
    /// The server's own working folder: a folder of ours, no workspace.
    notes: PathBuf,
    picked: Mutex<Option<PathBuf>>,
    slot: Slot,
}

impl OpenCodeRuntime {
    /// With a folder of ours that its server runs in; made when it is needed.
    pub fn new(notes: impl Into<PathBuf>) -> Self {
        Self { notes: notes.into(), picked: Mutex::default(), slot: Slot::default() }
    }

    fn program(&self, env: &Environment) -> Result<Found, Failure> {
        let picked = self.picked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        detect::find("opencode", picked.as_deref(), env)
    }

    /// The server, started if it does not run.
    async fn lease(&self, env: &Environment) -> Result<Lease, Failure> {
        let found = self.program(env)?;
        std::fs::create_dir_all(&self.notes).map_err(|error| {
            let message = format!("The folder {} cannot be made: {error}", self.notes.display());
            Failure::new(FailureKind::Rejected, message)
        })?;
        self.slot.lease(found, env.clone(), self.notes.clone()).await
    }

    async fn detect(&self, env: &Environment) -> Description {
        let mut description =
            Description { path: None, found: None, version: None, login: Login::Unknown, problem: None };
        let found = match self.program(env) {
            Ok(found) => found,
            Err(problem) => return Description { problem: Some(problem), ..description },
        };
        description.path = Some(found.path.clone());
        description.found = Some(found.how.to_owned());
        // The server tells all of it: `--version` would start the same program a second time. On a machine that is too busy to
        // start it in time nothing is known yet, and the turn will tell.
        match tokio::time::timeout(DETECTION, self.ask(env, &mut description)).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => description.problem = Some(problem),
            Err(_) => tracing::info!("OpenCode was not ready in time to say its version and login"),
        }
        description
    }

    async fn ask(&self, env: &Environment, description: &mut Description) -> Result<(), Failure> {
        let failed = |error: http::CallError| failure::of_call(&error);
        let lease = self.lease(env).await?;
        let health = lease.http.get("/global/health", PATIENCE).await.map_err(failed)?;
        description.version = health["version"].as_str().map(str::to_owned);
        let providers = lease.http.get("/config/providers", PATIENCE).await.map_err(failed)?;
        description.login = login(&providers);
        match description.login {
            Login::Out { .. } => Err(not_logged_in()),
            _ => Ok(()),
        }
    }

    async fn list(&self, env: &Environment) -> Result<Vec<ModelInfo>, Failure> {
        let lease = self.lease(env).await?;
        let ask = async {
            let providers = lease.http.get("/config/providers", PATIENCE).await?;
            Ok::<_, http::CallError>((providers, lease.http.get("/config", PATIENCE).await?))
        };
        let (providers, config) = ask.await.map_err(|error| failure::of_call(&error))?;
        Ok(offers(&providers, config["model"].as_str()))
    }
}

fn not_logged_in() -> Failure {
    Failure::new(FailureKind::NotLoggedIn, "OpenCode has no provider to work with").hint("opencode auth login")
}

/// The login state out of the providers that can be used.
fn login(providers: &Value) -> Login {
    let list = providers["providers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = list
        .iter()
        .filter(|provider| provider["id"] != OWN)
        .filter_map(|provider| provider["name"].as_str().or(provider["id"].as_str()))
        .collect();
    match (names.as_slice(), list.is_empty()) {
        (_, true) => Login::Out { hint: "opencode auth login".into() },
        ([], _) => Login::In { method: "OpenCode's own free models".into() },
        (names, _) => Login::In { method: names.join(", ") },
    }
}

/// The models on offer, as `provider/model`.
fn offers(providers: &Value, chosen: Option<&str>) -> Vec<ModelInfo> {
    let list = providers["providers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut offers = Vec::new();
    for provider in list {
        let Some(owner) = provider["id"].as_str() else { continue };
        for (id, model) in provider["models"].as_object().into_iter().flatten() {
            let id = format!("{owner}/{id}");
            let name = model["name"].as_str().unwrap_or(&id);
            let whose = provider["name"].as_str().unwrap_or(owner);
            offers.push(ModelInfo {
                default: chosen == Some(id.as_str()),
                name: if list.len() > 1 { format!("{name} ({whose})") } else { name.to_owned() },
                window: model["limit"]["context"].as_u64().filter(|window| *window > 0),
                efforts: model["variants"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(effort, _)| effort.clone())
                    .collect(),
                id,
            });
        }
    }
    offers
}

impl AgentRuntime for OpenCodeRuntime {
    fn id(&self) -> ProviderId {
        ProviderId::opencode()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            fork: true,
            usage: true,
            mcp: true,
            // Proved in tests/contract/opencode/sessions.rs.
            keeps: Keeps {
                failed_unanswered: Kept::PromptOnly,
                failed_answered: Kept::Unknown,
                interrupted_unanswered: Kept::PromptOnly,
                interrupted_answered: Kept::Unknown,
                rewinds: true,
            },
        }
    }

    fn describe<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Description> {
        self.detect(env).boxed()
    }

    fn models<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Result<Vec<ModelInfo>, Failure>> {
        self.list(env).boxed()
    }

    fn pick(&self, path: Option<PathBuf>) {
        *self.picked.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    fn open(&self, spec: SessionSpec) -> BoxFuture<'_, Result<Opened, Failure>> {
        self.open_session(spec).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.slot.close().boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recorded_providers_are_logins_and_models() {
        let provider = |id: &str, name: &str| {
            json!({"id": id, "name": name, "models": {"m-1": {"name": "Model 1", "limit": {"context": 200_000},
                "variants": {"high": {}, "max": {}}}}})
        };
        let one = json!({"providers": [provider("anthropic", "Anthropic")]});
        assert_eq!(login(&one), Login::In { method: "Anthropic".into() });
        let expected = ModelInfo {
            id: "anthropic/m-1".into(),
            name: "Model 1".into(),
            window: Some(200_000),
            efforts: vec!["high".into(), "max".into()],
            default: true,
        };
        assert_eq!(offers(&one, Some("anthropic/m-1")), [expected]);
        let two = json!({"providers": [provider("anthropic", "Anthropic"), provider("opencode", "OpenCode Zen")]});
        assert_eq!(login(&two), Login::In { method: "Anthropic".into() });
        let names: Vec<_> = offers(&two, None).into_iter().map(|offer| (offer.name, offer.default)).collect();
        assert_eq!(names, [("Model 1 (Anthropic)".into(), false), ("Model 1 (OpenCode Zen)".into(), false)]);
        let own = json!({"providers": [provider("opencode", "OpenCode Zen")]});
        assert_eq!(login(&own), Login::In { method: "OpenCode's own free models".into() });
        assert_eq!(login(&json!({"providers": []})), Login::Out { hint: "opencode auth login".into() });
    }
}
