//! Starting an app server, and opening a thread in it: a new one, an earlier one, or an earlier one brought back to a turn.

use std::{
    ffi::OsString,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};

use changeover_core::{
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
    provider::ApprovalMode,
};
use serde_json::{Map, Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

use super::{
    CodexRuntime, Key,
    catalogue::Catalogue,
    client::{self, CallError, Client},
    normalize::{Normalizer, RAISED_WINDOW},
    output,
    session::{self, CodexSession},
};
use crate::{
    detect::Found,
    process::{MARK, Process, Spawned, lines::JsonWriter},
    session::{EVENTS_BOUND, Environment, Opened, Resume, SessionSpec},
};

/// How long the app server may take to start, and for any answer while a thread opens.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it has to end by itself.
const GRACE: Duration = Duration::from_secs(1);
/// Our MCP server's token in the app server's environment: in no argv, no file (M1).
const MCP_TOKEN: &str = "CHANGEOVER_MCP_TOKEN";
/// How many turns of an earlier session are listed at a time.
const TURNS: u32 = 100;

/// A running app server, past its handshake.
pub(super) struct Server {
    pub client: Arc<Client>,
    pub process: Arc<Process>,
    reader: JoinHandle<()>,
    sender: mpsc::Sender<RuntimeEvent>,
    events: mpsc::Receiver<RuntimeEvent>,
}

impl Server {
    /// Starts it. A configuration that it does not take is an error, never a start with defaults: that would be the real
    /// OpenAI provider.
    pub async fn start(found: &Found, folder: &Path, env: Environment, more: Vec<String>) -> Result<Self, Failure> {
        let mut args: Vec<OsString> = ["app-server", "--strict-config"].map(OsString::from).to_vec();
        for setting in more {
            args.extend([OsString::from("-c"), OsString::from(setting)]);
        }
        let launch = found.launch(args, folder.to_owned(), env);
        let Spawned { stdin, stdout, process } = launch.spawn()?;
        let client = Arc::new(Client::new(JsonWriter::new(stdin)));
        let (sender, events) = mpsc::channel(EVENTS_BOUND);
        let reader = tokio::spawn(Arc::clone(&client).read(stdout, Arc::clone(&process), sender.clone()));
        let server = Self { client, process, reader, sender, events };
        let info = json!({"name": "changeover", "title": "Changeover", "version": env!("CARGO_PKG_VERSION")});
        let hello = json!({"clientInfo": info, "capabilities": {"experimentalApi": true}});
        let greeted = match server.client.call("initialize", hello, PATIENCE).await {
            Ok(_) => server.client.notify("initialized").await.map_err(|_| CallError::Gone),
            Err(error) => Err(error),
        };
        match greeted {
            Ok(()) => Ok(server),
            Err(CallError::Gone) => Err(output::not_started(&server.process).await),
            Err(error) => Err(client::failed(error, &server.process).await),
        }
    }

    /// Asks and waits.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, Failure> {
        match self.client.call(method, params, PATIENCE).await {
            Ok(result) => Ok(result),
            Err(error) => Err(client::failed(error, &self.process).await),
        }
    }

    /// Ends it, and returns when nothing of it is left.
    pub async fn close(self) {
        self.client.close().await;
        if tokio::time::timeout(GRACE, self.process.exited()).await.is_err() {
            tracing::debug!("codex does not end by itself");
        }
        self.process.end(GRACE).await;
        self.reader.abort();
    }
}

/// A thread as the app server has opened it.
struct Thread {
    id: String,
    model: Option<String>,
}

impl CodexRuntime {
    pub(super) async fn open_session(&self, spec: SessionSpec) -> Result<Opened, Failure> {
        let found = self.program(&spec.env)?;
        let key = Key::of(&found.path, &spec.env);
        let catalogue = match self.catalogue(&found, &spec.env).await {
            Ok(catalogue) => Some(catalogue),
            Err(failure) if failure.kind == FailureKind::NotInstalled => return Err(failure),
            Err(failure) => {
                // A broken configuration shows at the next step, in better words.
                tracing::warn!(why = failure.message, "codex gives no catalogue; its own compaction stays on");
                None
            }
        };
        let defaults = || self.defaults.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unknown = spec.model.clone().or_else(|| defaults().get(&key).cloned());
        // Only the app server knows which model a thread has by default; one that is in no catalogue needs an entry in
        // ours before it starts, so it starts once more.
        loop {
            let raised = match &catalogue {
                Some(catalogue) => Some(self.raised(&key, catalogue, unknown.as_deref())?),
                None => None,
            };
            let server = Server::start(&found, &spec.folder, environment(&spec), settings(&spec, raised)).await?;
            let thread = open_thread(&server, &spec).await;
            let lacks = |model: &String| {
                catalogue.as_ref().is_some_and(|catalogue| !catalogue.covers(model)) && unknown.as_ref() != Some(model)
            };
            match thread {
                Ok(thread) if thread.model.as_ref().is_some_and(lacks) => {
                    unknown = thread.model;
                    if let (None, Some(model)) = (&spec.model, &unknown) {
                        defaults().insert(key.clone(), model.clone());
                    }
                    server.close().await;
                }
                Ok(thread) => return finish(server, thread, &spec, catalogue.as_deref()).await,
                Err(failure) => {
                    server.close().await;
                    return Err(failure);
                }
            }
        }
    }

    /// The raised catalogue's file (G2), one for each program and unknown model.
    fn raised(&self, key: &Key, catalogue: &Catalogue, model: Option<&str>) -> Result<PathBuf, Failure> {
        let extra = model.filter(|model| !catalogue.covers(model));
        let mut hasher = DefaultHasher::new();
        (key, extra).hash(&mut hasher);
        let file = self.notes_folder()?.join(format!("codex-models-{:016x}.json", hasher.finish()));
        catalogue.write_raised(&file, extra).map_err(|error| {
            Failure::new(FailureKind::Rejected, format!("{} cannot be written: {error}", file.display()))
        })?;
        Ok(file)
    }
}

/// The child's environment: the session's own, and our MCP server's token.
fn environment(spec: &SessionSpec) -> Environment {
    let mut env = spec.env.clone();
    if let Some(mcp) = &spec.mcp {
        env.insert(MCP_TOKEN.to_owned(), mcp.token.clone());
    }
    env
}

/// Settings for the command line: the user's own configuration is never written.
fn settings(spec: &SessionSpec, raised: Option<PathBuf>) -> Vec<String> {
    let mut settings = Vec::new();
    if let Some(file) = raised {
        // A string of JSON is one of TOML.
        settings.push(format!("model_catalog_json={}", Value::from(file.display().to_string())));
        // The user's own, lower figures would bring compaction back; the true window is kept by us.
        settings.push(format!("model_context_window={RAISED_WINDOW}"));
        settings.push(format!("model_auto_compact_token_limit={RAISED_WINDOW}"));
    }
    if let Some(mark) = spec.env.get(MARK) {
        // Commands carry the mark even where the user lets them inherit nothing (R5).
        settings.push(format!("shell_environment_policy.set.{MARK}={}", Value::from(mark.as_str())));
    }
    settings
}

/// What goes without asking (R4). In `All` the engine says yes; the sandbox stays.
fn policy(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Ask | ApprovalMode::All => "untrusted",
        ApprovalMode::Edits => "on-request",
    }
}

/// What a thread is opened with, new or not.
fn thread_params(spec: &SessionSpec) -> Map<String, Value> {
    let mut config = Map::new();
    // A goal makes Codex begin turn after turn by itself: nobody's prompt, and the next one would be folded into it (R8).
    config.insert("features.goals".into(), false.into());
    if let Some(mcp) = &spec.mcp {
        let server = json!({
            "url": mcp.url,
            "bearer_token_env_var": MCP_TOKEN,
            "default_tools_approval_mode": "approve",
        });
        config.insert("mcp_servers".into(), json!({"changeover": server}));
    }
    let params = json!({
        "cwd": spec.folder,
        "model": spec.model,
        "approvalPolicy": policy(spec.mode),
        "sandbox": "workspace-write",
        "config": config,
    });
    match params {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

async fn open_thread(server: &Server, spec: &SessionSpec) -> Result<Thread, Failure> {
    let account = server.call("account/read", json!({})).await?;
    if session::logged_out(&account) {
        return Err(session::not_logged_in());
    }
    let mut params = thread_params(spec);
    let opened = match &spec.resume {
        None => server.call("thread/start", params.into()).await?,
        Some(resume) => {
            params.insert("threadId".into(), resume.session_id.as_str().into());
            params.insert("excludeTurns".into(), true.into());
            if resume.fork {
                params.insert("lastTurnId".into(), resume.anchor.as_deref().into());
                server.call("thread/fork", params.into()).await?
            } else {
                server.call("thread/resume", params.into()).await?
            }
        }
    };
    let id = opened["thread"]["id"].as_str();
    let id = id.ok_or_else(|| Failure::new(FailureKind::Protocol, "Codex opened a session without an id"))?;
    Ok(Thread { id: id.to_owned(), model: opened["model"].as_str().map(str::to_owned) })
}

/// What stands in a thread's history after a turn, as the id of the first turn that does.
///
/// # Errors
/// `SessionGone` when the turn is not there: then the history is not the one that we count on (T10).
async fn after(server: &Server, thread: &str, anchor: &str) -> Result<Option<String>, Failure> {
    let mut after: Option<String> = None;
    let mut cursor = Value::Null;
    loop {
        let params = json!({"threadId": thread, "cursor": cursor, "limit": TURNS, "sortDirection": "desc"});
        let page = server.call("thread/turns/list", params).await?;
        let turns = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        for turn in turns.iter().filter_map(|turn| turn["id"].as_str()) {
            if turn == anchor {
                return Ok(after);
            }
            after = Some(turn.to_owned());
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() || turns.is_empty() {
            return Err(Failure::new(FailureKind::SessionGone, format!("Codex: turn not found: {anchor}")));
        }
    }
}

/// Brings an earlier session to where we count on it: what came after is taken out in place, and its id stays (T9).
/// Whether anything was.
async fn rewind(server: &Server, thread: &str, resume: &Resume) -> Result<bool, Failure> {
    let Some(anchor) = &resume.anchor else {
        let nowhere = || Failure::new(FailureKind::SessionGone, "Codex: no turn is known to bring the session back to");
        return if resume.rewind { Err(nowhere()) } else { Ok(false) };
    };
    match after(server, thread, anchor).await? {
        Some(first) if resume.rewind => {
            server.call("thread/revert", json!({"threadId": thread, "beforeTurnId": first})).await?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

async fn finish(
    server: Server,
    thread: Thread,
    spec: &SessionSpec,
    catalogue: Option<&Catalogue>,
) -> Result<Opened, Failure> {
    let settled = async {
        let rewound = match &spec.resume {
            Some(resume) if !resume.fork => rewind(&server, &thread.id, resume).await?,
            _ => false,
        };
        let settings = server.call("config/read", json!({"includeLayers": true, "cwd": spec.folder})).await?;
        Ok((rewound, own_window(&settings)))
    };
    let (rewound, chosen) = match settled.await {
        Ok(settled) => settled,
        Err(failure) => {
            server.close().await;
            return Err(failure);
        }
    };
    let window = match (catalogue, &thread.model) {
        (Some(catalogue), Some(model)) => Some(catalogue.window(model, chosen)),
        _ => None,
    };
    let Server { client, process, reader, sender, events } = server;
    let known = RuntimeEvent::SessionKnown { session_id: thread.id.clone(), model: thread.model };
    let normalizer = Normalizer::new(thread.id.clone(), spec.folder.display().to_string(), window);
    let held = client.opened(thread.id, normalizer, rewound);
    for event in std::iter::once(known).chain(held) {
        // The receiver is in our hands.
        let _ = sender.send(event).await;
    }
    let session = CodexSession { client, process, reader, effort: spec.effort.clone() };
    Ok(Opened { session: Arc::new(session), events })
}

/// The window that the user's own configuration names, in tokens: ours stands above it and is not theirs.
fn own_window(settings: &Value) -> Option<u64> {
    let layers = settings["layers"].as_array()?;
    let theirs = layers.iter().filter(|layer| layer["name"]["type"] != "sessionFlags");
    theirs.filter_map(|layer| layer["config"]["model_context_window"].as_u64()).next()
}
