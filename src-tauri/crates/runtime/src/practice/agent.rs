//! The agent's side of the protocol.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_client_protocol::{
    schema::ProtocolVersion,
    v1::schema::{
        AgentCapabilities, ContentBlock, ContentChunk, Implementation, InitializeResponse, LoadSessionRequest,
        LoadSessionResponse, McpCapabilities, NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse,
        SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode, SessionModeState,
        SessionNotification, SessionUpdate, StopReason, UsageUpdate,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    HOME,
    history::{History, Record},
    rules,
    turn::{Stop, Turn},
};
use crate::{
    acp::wire::{self, INVALID_PARAMS, Incoming, METHOD_NOT_FOUND, Peer, RESOURCE_NOT_FOUND, RpcError},
    process::lines::{JsonWriter, Line, LineReader},
};

/// Its models: name, what people read, window in tokens.
const MODELS: [(&str, &str, u64); 2] =
    [("practice", "Practice (no model)", 200_000), ("practice-small", "Practice, small window (no model)", 20_000)];

/// The whole work of the sub-command `practice-agent`: speaks ACP over this process's standard streams until their end.
///
/// # Errors
/// The streams broke, or it was asked to crash.
pub fn practice_agent_main() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (input, mut into) = tokio::io::duplex(64 * 1024);
    let (output, mut out_of) = tokio::io::duplex(64 * 1024);
    let handle = runtime.handle().clone();
    // A thread that may wait for ever in a read: the process does not wait for it.
    std::thread::spawn(move || copy_in(&handle, &mut into));
    let handle = runtime.handle().clone();
    let writing = std::thread::spawn(move || copy_out(&handle, &mut out_of));
    let result = runtime.block_on(run_practice_agent(input, output));
    if result.is_ok() {
        // The writer is gone, so this ends with the last line.
        let _ = writing.join();
    }
    runtime.shutdown_background();
    result
}

fn copy_in(handle: &tokio::runtime::Handle, into: &mut DuplexStream) {
    let mut buffer = vec![0; 64 * 1024];
    let mut input = io::stdin().lock();
    while let Ok(n @ 1..) = input.read(&mut buffer) {
        if handle.block_on(into.write_all(&buffer[..n])).is_err() {
            return;
        }
    }
}

fn copy_out(handle: &tokio::runtime::Handle, out_of: &mut DuplexStream) {
    let mut buffer = vec![0; 64 * 1024];
    let mut output = io::stdout().lock();
    while let Ok(n @ 1..) = handle.block_on(out_of.read(&mut buffer)) {
        if output.write_all(&buffer[..n]).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

/// Speaks ACP over two streams until the input ends; sessions are kept in the folder that `CHANGEOVER_PRACTICE_HOME` names.
///
/// # Errors
/// The streams broke, or it was asked to crash.
pub async fn run_practice_agent(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let peer = Peer::new(JsonWriter::new(output));
    let home = std::env::var_os(HOME).map(PathBuf::from);
    let (crash, mut crashed) = mpsc::channel(1);
    let mut agent = Agent { peer: peer.clone(), home, sessions: HashMap::new(), crash, turns: JoinSet::new() };
    let mut lines = LineReader::new(input);
    loop {
        let line = tokio::select! {
            biased;
            Some(()) = crashed.recv() => return Err(io::Error::other("crashed, as asked for")),
            line = lines.next() => line?,
        };
        match line {
            Some(Line::Text(line)) => agent.line(&line).await?,
            Some(Line::TooLong { .. }) => {}
            None => break,
        }
    }
    peer.hang_up();
    for session in agent.sessions.values() {
        session.lock().cancel.cancel();
    }
    // Commands end with their turns.
    let _ =
        tokio::time::timeout(Duration::from_secs(2), async { while agent.turns.join_next().await.is_some() {} }).await;
    Ok(())
}

struct Agent {
    peer: Peer,
    home: Option<PathBuf>,
    sessions: HashMap<String, Shared>,
    crash: mpsc::Sender<()>,
    turns: JoinSet<()>,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<State>>);

struct State {
    folder: PathBuf,
    history: History,
    model: usize,
    edits: bool,
    busy: bool,
    cancel: CancellationToken,
}

impl Shared {
    fn new(folder: PathBuf, history: History) -> Self {
        let cancel = CancellationToken::new();
        Self(Arc::new(Mutex::new(State { folder, history, model: 0, edits: false, busy: false, cancel })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Answered = Result<Value, RpcError>;

fn parsed<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params).map_err(|error| RpcError::new(INVALID_PARAMS, error.to_string()))
}

fn told(result: impl Serialize) -> Answered {
    serde_json::to_value(result).map_err(broken)
}

fn broken(error: impl std::fmt::Display) -> RpcError {
    RpcError::new(-32603, error.to_string())
}

impl Agent {
    async fn line(&mut self, line: &str) -> io::Result<()> {
        match wire::read(line) {
            Incoming::Request { id, method, params } if method == "session/prompt" => self.prompt(id, params).await,
            Incoming::Request { id, method, params } => {
                let answer = self.request(&method, params).await;
                self.peer.answer(&id, answer).await
            }
            Incoming::Notification { method, params } if method == "session/cancel" => {
                let session = params.get("sessionId").and_then(Value::as_str).and_then(|id| self.sessions.get(id));
                if let Some(session) = session {
                    session.lock().cancel.cancel();
                }
                Ok(())
            }
            Incoming::Response { id, result } => {
                self.peer.settle(id, result);
                Ok(())
            }
            Incoming::Notification { .. } | Incoming::Garbage => Ok(()),
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Answered {
        match method {
            "initialize" => told(
                InitializeResponse::new(ProtocolVersion::V1)
                    .agent_capabilities(
                        AgentCapabilities::new().load_session(true).mcp_capabilities(McpCapabilities::new().http(true)),
                    )
                    .agent_info(Implementation::new("changeover-practice", env!("CARGO_PKG_VERSION"))),
            ),
            "session/new" => {
                let request: NewSessionRequest = parsed(params)?;
                let id = uuid::Uuid::new_v4().to_string();
                let history = History::create(self.home.as_deref(), &id).map_err(broken)?;
                self.sessions.insert(id.clone(), Shared::new(request.cwd, history));
                told(NewSessionResponse::new(id).modes(modes()).config_options(options(0)))
            }
            "session/load" => {
                let request: LoadSessionRequest = parsed(params)?;
                let id = request.session_id.to_string();
                let history = History::open(self.home.as_deref(), &id).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => RpcError::new(RESOURCE_NOT_FOUND, format!("Resource not found: {id}")),
                    _ => broken(error),
                })?;
                self.replay(&id, &history).await.map_err(broken)?;
                self.sessions.insert(id, Shared::new(request.cwd, history));
                told(LoadSessionResponse::new().modes(modes()).config_options(options(0)))
            }
            "session/set_mode" => {
                let session = self.session(&params)?;
                session.lock().edits = params.get("modeId").and_then(Value::as_str) == Some("acceptEdits");
                Ok(json!({}))
            }
            "session/set_config_option" => {
                let session = self.session(&params)?;
                let wanted = params.get("value").and_then(Value::as_str);
                let model = MODELS.iter().position(|(id, ..)| Some(*id) == wanted);
                let model = model.ok_or_else(|| RpcError::new(INVALID_PARAMS, "no such model"))?;
                session.lock().model = model;
                Ok(json!({"configOptions": options(model)}))
            }
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("{method} is not supported"))),
        }
    }

    fn session(&self, params: &Value) -> Result<Shared, RpcError> {
        let id = params.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let session = self.sessions.get(id).cloned();
        session.ok_or_else(|| RpcError::new(INVALID_PARAMS, format!("Session not found: {id}")))
    }

    /// ACP: a loaded session's history goes to the client before the answer.
    async fn replay(&self, id: &str, history: &History) -> io::Result<()> {
        for record in history.records() {
            let update = match record {
                Record::User(text) => {
                    SessionUpdate::UserMessageChunk(ContentChunk::new(ContentBlock::from(text.as_str())))
                }
                Record::Agent(text) => {
                    SessionUpdate::AgentMessageChunk(ContentChunk::new(ContentBlock::from(text.as_str())))
                }
                Record::Filled(_) => continue,
            };
            self.peer.tell("session/update", &SessionNotification::new(id.to_owned(), update)).await?;
        }
        Ok(())
    }

    async fn prompt(&mut self, id: Value, params: Value) -> io::Result<()> {
        let begun = parsed::<PromptRequest>(params).and_then(|request| self.begin(&request));
        let (session, turn) = match begun {
            Ok(begun) => begun,
            Err(error) => return self.peer.answer(&id, Err(error)).await,
        };
        let (peer, crash) = (self.peer.clone(), self.crash.clone());
        self.turns.spawn(async move {
            if let Some(answer) = take(&session, turn, &crash).await {
                // A closed pipe ends the reading, and that everything.
                let _ = peer.answer(&id, answer).await;
            }
        });
        Ok(())
    }

    /// The prompt stands in the history from here on.
    fn begin(&self, request: &PromptRequest) -> Result<(Shared, Turn), RpcError> {
        let id = request.session_id.to_string();
        let session = self.session(&json!({"sessionId": id}))?;
        let text: String = request
            .prompt
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect();
        let (before, message) = rules::split(&text);
        let (told_bytes, message) = (before.len(), message.to_owned());
        let mut state = session.lock();
        if state.busy {
            return Err(RpcError::new(-32600, "a turn is running in this session"));
        }
        state.history.push(Record::User(text)).map_err(broken)?;
        state.busy = true;
        state.cancel = CancellationToken::new();
        let turn = Turn {
            peer: self.peer.clone(),
            session: id,
            folder: state.folder.clone(),
            cancel: state.cancel.clone(),
            edits: state.edits,
            told_bytes,
            message,
            prompts: state.history.prompts().map(str::to_owned).collect(),
            said: String::new(),
            filled: None,
            tools: 0,
            texts: 1,
        };
        drop(state);
        Ok((session, turn))
    }
}

/// Takes the turn; the answer to the prompt, if there is to be one.
async fn take(session: &Shared, mut turn: Turn, crash: &mpsc::Sender<()>) -> Option<Answered> {
    let (tokens, window) = {
        let state = session.lock();
        (state.history.tokens(), MODELS[state.model].2)
    };
    let acts = rules::acts(&turn.message);
    let done = if tokens > window && !acts.iter().any(|act| matches!(act, rules::Act::Fill(_))) {
        let message = format!("The prompt exceeds the maximum number of tokens: {tokens} of {window}");
        Err(Stop::Error(RpcError::new(400, message)))
    } else {
        turn.perform(&acts).await
    };
    if let Err(Stop::Crash) = done {
        // What was said is lost with the process, as it would be.
        let _ = crash.send(()).await;
        return None;
    }
    if let Err(Stop::Hang) = done {
        return None;
    }
    let used = {
        let mut state = session.lock();
        let said = std::mem::take(&mut turn.said);
        let mut kept = if said.is_empty() { Ok(()) } else { state.history.push(Record::Agent(said)) };
        if let Some(tokens) = turn.filled {
            kept = kept.and(state.history.push(Record::Filled(tokens)));
        }
        state.busy = false;
        if let Err(error) = kept {
            return Some(Err(broken(error)));
        }
        state.history.tokens()
    };
    let usage = SessionUpdate::UsageUpdate(UsageUpdate::new(used, window));
    let _ = turn.peer.tell("session/update", &SessionNotification::new(turn.session.clone(), usage)).await;
    match done {
        Ok(()) => Some(told(PromptResponse::new(StopReason::EndTurn))),
        Err(Stop::Cancelled) => Some(told(PromptResponse::new(StopReason::Cancelled))),
        Err(Stop::Error(error)) => Some(Err(error)),
        Err(Stop::Nonsense) => Some(Ok(json!({"stopReason": 7}))),
        Err(Stop::Gone | Stop::Crash | Stop::Hang) => None,
    }
}

fn modes() -> SessionModeState {
    let modes = vec![SessionMode::new("default", "Ask"), SessionMode::new("acceptEdits", "Edits go without asking")];
    SessionModeState::new("default", modes)
}

fn options(model: usize) -> Vec<SessionConfigOption> {
    let models: Vec<SessionConfigSelectOption> = MODELS
        .iter()
        .map(|(id, name, window)| {
            let mut meta = serde_json::Map::new();
            meta.insert("contextWindow".into(), json!(window));
            SessionConfigSelectOption::new(*id, *name).meta(meta)
        })
        .collect();
    let (id, ..) = MODELS[model];
    vec![SessionConfigOption::select("model", "Model", id, models).category(SessionConfigOptionCategory::Model)]
}
