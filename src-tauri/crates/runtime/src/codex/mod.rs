//! Codex, through `codex app-server`: one process for each open session, so that ending one disturbs no other.

mod approval;
mod catalogue;
mod client;
mod failure;
mod item;
mod normalize;
mod open;
mod output;
mod session;
mod shell;
mod wire;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};

use changeover_core::{
    event::{Keeps, Kept},
    failure::Failure,
    provider::ProviderId,
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::detect::{self, Found};
use crate::session::{AgentRuntime, Capabilities, Description, Environment, Login, ModelInfo, Opened, SessionSpec};
use catalogue::Catalogue;
use open::Server;

/// How long detection may take in all (R2).
const DETECTION: Duration = Duration::from_secs(10);

/// The adapter.
#[derive(Debug)]
pub struct CodexRuntime {
    /// Where the raised catalogues lie (G2): a folder of ours.
    notes: PathBuf,
    picked: std::sync::Mutex<Option<PathBuf>>,
    catalogues: Mutex<HashMap<Key, Arc<Catalogue>>>,
    /// The model that a program uses by default, where it is in no catalogue.
    defaults: std::sync::Mutex<HashMap<Key, String>>,
}

/// What a catalogue depends on: the program as it is on disk, and where its account and settings are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    program: PathBuf,
    changed: Option<std::time::SystemTime>,
    home: Option<String>,
}

impl Key {
    fn of(program: &Path, env: &Environment) -> Self {
        Self {
            program: program.to_owned(),
            changed: std::fs::metadata(program).and_then(|data| data.modified()).ok(),
            home: env.get("CODEX_HOME").or_else(|| env.get("HOME")).cloned(),
        }
    }
}

impl CodexRuntime {
    /// With a folder of ours for the files that Codex is given; made when it is needed.
    pub fn new(notes: impl Into<PathBuf>) -> Self {
        Self {
            notes: notes.into(),
            picked: std::sync::Mutex::default(),
            catalogues: Mutex::default(),
            defaults: std::sync::Mutex::default(),
        }
    }

    fn program(&self, env: &Environment) -> Result<Found, Failure> {
        let picked = self.picked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        detect::find("codex", picked.as_deref(), env)
    }

    /// The catalogue, asked for once per program and home.
    async fn catalogue(&self, found: &Found, env: &Environment) -> Result<Arc<Catalogue>, Failure> {
        let key = Key::of(&found.path, env);
        let mut known = self.catalogues.lock().await;
        if let Some(catalogue) = known.get(&key) {
            return Ok(Arc::clone(catalogue));
        }
        let catalogue = Arc::new(Catalogue::ask(found, env, &self.notes_folder()?).await?);
        known.insert(key, Arc::clone(&catalogue));
        Ok(catalogue)
    }

    fn notes_folder(&self) -> Result<PathBuf, Failure> {
        std::fs::create_dir_all(&self.notes).map_err(|error| {
            let message = format!("The folder {} cannot be made: {error}", self.notes.display());
            Failure::new(changeover_core::failure::FailureKind::Rejected, message)
        })?;
        Ok(self.notes.clone())
    }

    /// An app server for questions, in no workspace.
    async fn server(&self, env: &Environment) -> Result<(Found, Server), Failure> {
        let found = self.program(env)?;
        let folder = self.notes_folder()?;
        let server = Server::start(&found, &folder, env.clone(), Vec::new()).await?;
        Ok((found, server))
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
        match detect::version(&found, &[], env).await {
            // "codex-cli 0.171.0"
            Ok(version) => description.version = version.split_whitespace().last().map(str::to_owned),
            Err(problem) => return Description { problem: Some(problem), ..description },
        }
        match self.login(env).await {
            Ok(login) => {
                description.problem = match &login {
                    Login::Out { hint } => {
                        let failure = changeover_core::failure::FailureKind::NotLoggedIn;
                        Some(Failure::new(failure, "Codex is not logged in").hint(hint.clone()))
                    }
                    _ => None,
                };
                description.login = login;
            }
            Err(problem) => description.problem = Some(problem),
        }
        description
    }

    async fn login(&self, env: &Environment) -> Result<Login, Failure> {
        let (_, server) = self.server(env).await?;
        let account = server.call("account/read", json!({})).await;
        let settings = server.call("config/read", json!({"includeLayers": false})).await;
        server.close().await;
        Ok(login(&account?, &settings?["config"], env))
    }

    async fn list(&self, env: &Environment) -> Result<Vec<ModelInfo>, Failure> {
        let (found, server) = self.server(env).await?;
        let catalogue = self.catalogue(&found, env).await;
        let listed = async {
            let mut models = Vec::new();
            let mut cursor = Value::Null;
            loop {
                let page = server.call("model/list", json!({"cursor": cursor})).await?;
                models.extend(page["data"].as_array().cloned().unwrap_or_default());
                cursor = page["nextCursor"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            let settings = server.call("config/read", json!({"includeLayers": false})).await?;
            Ok::<_, Failure>((models, settings["config"].clone()))
        };
        let listed = listed.await;
        server.close().await;
        let (models, settings) = listed?;
        Ok(offers(&models, &settings, catalogue.ok().as_deref()))
    }
}

/// The login state out of the account and the settings: a provider of the user's own needs none, but its key.
fn login(account: &Value, settings: &Value, env: &Environment) -> Login {
    if session::logged_out(account) {
        return Login::Out { hint: "Run `codex login` in a terminal.".into() };
    }
    if account["requiresOpenaiAuth"] == true {
        let method = match account["account"]["type"].as_str() {
            Some("apiKey") => "API key",
            Some("chatgpt") => "ChatGPT account",
            Some(other) => other,
            None => "account",
        };
        return Login::In { method: method.to_owned() };
    }
    let provider = settings["model_provider"].as_str().unwrap_or_default();
    match settings["model_providers"][provider]["env_key"].as_str() {
        Some(variable) if env.get(variable).is_none_or(String::is_empty) => Login::Out {
            hint: format!("Set {variable} in your environment: Codex's provider {provider} takes its key from there."),
        },
        Some(_) => Login::In { method: format!("key of {provider}") },
        None => Login::In { method: "no login needed".into() },
    }
}

/// The models on offer; the one that the settings name is always among them, and is the default.
fn offers(listed: &[Value], settings: &Value, catalogue: Option<&Catalogue>) -> Vec<ModelInfo> {
    let chosen = settings["model"].as_str();
    let figure = settings["model_context_window"].as_u64();
    let window = |model: &str| catalogue.map(|catalogue| catalogue.window(model, figure));
    let mut offers: Vec<ModelInfo> = listed
        .iter()
        .filter(|model| model["hidden"] != true)
        .filter_map(|model| {
            let id = model["model"].as_str().or(model["id"].as_str())?;
            let efforts = model["supportedReasoningEfforts"].as_array();
            let effort = |effort: &Value| effort["reasoningEffort"].as_str().map(str::to_owned);
            Some(ModelInfo {
                id: id.to_owned(),
                name: model["displayName"].as_str().unwrap_or(id).to_owned(),
                window: window(id),
                efforts: efforts.into_iter().flatten().filter_map(effort).collect(),
                default: chosen.map_or(model["isDefault"] == true, |chosen| chosen == id),
            })
        })
        .collect();
    if let Some(chosen) = chosen.filter(|chosen| !offers.iter().any(|offer| offer.id == *chosen)) {
        let (id, name) = (chosen.to_owned(), chosen.to_owned());
        offers.insert(0, ModelInfo { id, name, window: window(chosen), efforts: Vec::new(), default: true });
    }
    offers
}

impl AgentRuntime for CodexRuntime {
    fn id(&self) -> ProviderId {
        ProviderId::codex()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            fork: true,
            usage: true,
            mcp: true,
            // Proved in tests/contract/codex/sessions.rs: the prompt stays. Of half a reply what was whole stays (a text before a
            // tool call, the call), what streamed does not. After a failure that is told as void, so the rest is the reply; after
            // an interrupt it is shown as it was, and then neither everything nor the prompt alone is what stays.
            keeps: Keeps {
                failed_unanswered: Kept::PromptOnly,
                failed_answered: Kept::Everything,
                interrupted_unanswered: Kept::PromptOnly,
                interrupted_answered: Kept::Unknown,
                rewinds: true,
            },
        }
    }

    fn describe<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Description> {
        async move {
            tokio::time::timeout(DETECTION, self.detect(env)).await.unwrap_or_else(|_| {
                let found = self.program(env).ok();
                Description {
                    found: found.as_ref().map(|found| found.how.to_owned()),
                    path: found.map(|found| found.path),
                    version: None,
                    login: Login::Unknown,
                    problem: Some(detect::slow("Codex did not answer within 10 seconds")),
                }
            })
        }
        .boxed()
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
}
