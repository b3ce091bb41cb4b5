//! The runtime for ACP agents: one process per session, one task that reads it.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, PromptResponse, RequestPermissionRequest, SessionNotification, StopReason,
};
use changeover_core::{
    approval::{ApprovalRequest, ApprovalSubject},
    event::{Ended, Keeps, RuntimeEvent},
    failure::{Failure, FailureKind},
    provider::ProviderId,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{process::ChildStdout, sync::mpsc, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    failure,
    normalize::Normalizer,
    open::{Greeted, Offers, check_folder, minute},
    wire::{self, INVALID_PARAMS, Incoming, METHOD_NOT_FOUND, Peer, RpcError},
};
use crate::{
    detect::{self, Found},
    environment::for_provider,
    process::{
        Launch, Process,
        lines::{JsonWriter, Line, LineReader},
    },
    session::{
        AgentRuntime, Answer, Capabilities, Description, EVENTS_BOUND, Environment, Login, ModelInfo, Opened, Prompt,
        Session, SessionSpec,
    },
};

/// Where an agent's program is.
#[derive(Debug, Clone)]
pub enum Program {
    /// Searched for by this name, unless picked by hand (R6).
    Search(String),
    /// Part of this app.
    BuiltIn(PathBuf),
}

/// An agent that speaks ACP, and how it is started.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    /// Its provider id.
    pub id: ProviderId,
    /// Its program.
    pub program: Program,
    /// The arguments that make it speak ACP. Never a secret.
    pub args: Vec<String>,
    /// Variables that its child gets besides the session's.
    pub env: Environment,
    /// What is proved about its history (T9).
    pub keeps: Keeps,
}

/// The runtime for one ACP agent.
#[derive(Debug)]
pub struct AcpRuntime {
    agent: AcpAgent,
    picked: Mutex<Option<PathBuf>>,
    /// The minute in which sessions were made by this process (see `Greeted::session`).
    born: Mutex<HashMap<String, u64>>,
}

impl AcpRuntime {
    /// For this agent.
    pub fn new(agent: AcpAgent) -> Self {
        Self { agent, picked: Mutex::default(), born: Mutex::default() }
    }

    fn found(&self, env: &Environment) -> Result<Found, Failure> {
        match &self.agent.program {
            Program::Search(name) => {
                let picked = self.picked.lock().unwrap_or_else(PoisonError::into_inner).clone();
                detect::find(name, picked.as_deref(), env)
            }
            Program::BuiltIn(path) => Ok(Found { path: path.clone(), how: "built in", tools: Vec::new() }),
        }
    }

    /// Starts the agent and shakes hands.
    async fn start(&self, env: &Environment, folder: PathBuf) -> Result<(Greeted, Link), Failure> {
        check_folder(&folder)?;
        let mut env = for_provider(env.clone(), &self.agent.id);
        let found = self.found(&env)?;
        env = found.environment(env);
        env.extend(self.agent.env.clone());
        let args = self.agent.args.iter().map(Into::into).collect();
        let spawned = Launch { program: found.path, args, folder, env }.spawn()?;
        let peer = Peer::new(JsonWriter::new(spawned.stdin));
        let (events, inbox) = mpsc::channel(EVENTS_BOUND);
        let (notes, noted) = mpsc::unbounded_channel();
        let over = CancellationToken::new();
        let link = Arc::new(Shared {
            state: Mutex::default(),
            peer: peer.clone(),
            process: Arc::clone(&spawned.process),
            notes,
        });
        let reader = Reader { link: Arc::clone(&link), events, noted, over: over.clone() };
        tokio::spawn(reader.run(spawned.stdout));
        let link = Link { shared: link, events: inbox, over: over.drop_guard() };
        let greeted = Greeted::new(peer, spawned.process).await?;
        link.shared.state().login = greeted.login_hint();
        Ok((greeted, link))
    }

    async fn opened(&self, spec: SessionSpec) -> Result<Opened, Failure> {
        let (greeted, link) = self.start(&spec.env, spec.folder.clone()).await?;
        let born = |id: &str| self.born.lock().unwrap_or_else(PoisonError::into_inner).get(id).copied();
        let described = greeted.session(&spec, born).await?;
        if spec.resume.is_none() {
            let mut born = self.born.lock().unwrap_or_else(PoisonError::into_inner);
            born.retain(|_, made| *made == minute());
            born.insert(described.session_id.clone(), minute());
        }
        let mut first =
            vec![RuntimeEvent::SessionKnown { session_id: described.session_id.clone(), model: described.model }];
        first.extend(described.warnings.into_iter().map(|message| RuntimeEvent::Warning { message }));
        {
            let mut state = link.shared.state();
            state.session_id = Some(described.session_id.clone());
            state.edits_are_ours = described.edits_are_ours;
            for event in first {
                // The reader is there as long as the link is.
                let _ = link.shared.notes.send(event);
            }
        }
        let closes = greeted.hello.agent_capabilities.session_capabilities.close.is_some();
        let session = AcpSession { shared: link.shared, session_id: described.session_id, closes, _over: link.over };
        Ok(Opened { session: Arc::new(session), events: link.events })
    }

    async fn described(&self, env: &Environment) -> Description {
        let built_in = matches!(self.agent.program, Program::BuiltIn(_));
        let login = if built_in { Login::In { method: "no account needed".into() } } else { Login::Unknown };
        let mut description = Description { path: None, found: None, version: None, login, problem: None };
        let found = match self.found(&for_provider(env.clone(), &self.agent.id)) {
            Ok(found) => found,
            Err(problem) => return Description { problem: Some(problem), ..description },
        };
        description.path = Some(found.path);
        description.found = Some(found.how.into());
        match timeout(Duration::from_secs(9), self.start(env, std::env::temp_dir())).await {
            Ok(Ok((greeted, _link))) => {
                description.version = greeted.version();
                greeted.process.kill().await;
            }
            Ok(Err(problem)) => description.problem = Some(problem),
            Err(_) => {
                let message = "the agent gave no sign of life in 9 s";
                description.problem = Some(Failure::new(FailureKind::Unavailable, message));
            }
        }
        description
    }

    async fn offered(&self, env: &Environment) -> Result<Vec<ModelInfo>, Failure> {
        let (greeted, _link) = self.start(env, std::env::temp_dir()).await?;
        let params = json!({"cwd": std::env::temp_dir(), "mcpServers": []});
        let answer = timeout(Duration::from_secs(60), greeted.peer.call("session/new", &params)).await;
        greeted.process.kill().await;
        match answer {
            Ok(Ok(answer)) => Ok(Offers::read(&answer).models),
            Ok(Err(error)) => Err(failure::of_call(error, greeted.login_hint().as_deref())),
            Err(_) => Err(Failure::new(FailureKind::Unavailable, "the agent did not list its models in 60 s")),
        }
    }
}

impl AgentRuntime for AcpRuntime {
    fn id(&self) -> ProviderId {
        self.agent.id.clone()
    }

    /// What ACP has; an agent that lacks some of it answers `open` with `SessionGone` (resume) or warns (MCP).
    fn capabilities(&self) -> Capabilities {
        Capabilities { resume: true, fork: false, usage: true, mcp: true, keeps: self.agent.keeps }
    }

    /// What is part of the app is not picked.
    fn pick(&self, path: Option<PathBuf>) {
        *self.picked.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    fn describe<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Description> {
        Box::pin(self.described(env))
    }

    fn models<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Result<Vec<ModelInfo>, Failure>> {
        Box::pin(self.offered(env))
    }

    fn open(&self, spec: SessionSpec) -> BoxFuture<'_, Result<Opened, Failure>> {
        Box::pin(self.opened(spec))
    }
}

/// A connection before it is a session. Dropping it ends the process.
struct Link {
    shared: Arc<Shared>,
    events: mpsc::Receiver<RuntimeEvent>,
    over: DropGuard,
}

/// What the session's methods and its reader share.
struct Shared {
    state: Mutex<State>,
    peer: Peer,
    process: Arc<Process>,
    /// Events that the session's methods make themselves; a handful, read by the reader before the pipe.
    notes: mpsc::UnboundedSender<RuntimeEvent>,
}

#[derive(Default)]
struct State {
    /// Absent while the session opens: whatever comes then (a replayed history) is no event.
    session_id: Option<String>,
    normalizer: Normalizer,
    /// The id of the open prompt's request.
    turn: Option<u64>,
    cancelling: bool,
    edits_are_ours: bool,
    questions: HashMap<String, Question>,
    login: Option<String>,
}

struct Question {
    id: Value,
    item: String,
    options: Vec<PermissionOption>,
}

impl Question {
    fn option(&self, kind: PermissionOptionKind) -> Option<Value> {
        let option = self.options.iter().find(|option| option.kind == kind)?;
        Some(json!({"outcome": {"outcome": "selected", "optionId": option.option_id}}))
    }
}

fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// All open questions are void.
    fn withdraw(&mut self) -> Vec<(Question, RuntimeEvent)> {
        let mut open: Vec<_> = self.questions.drain().collect();
        open.sort_by(|a, b| a.0.cmp(&b.0));
        open.into_iter().map(|(key, question)| (question, RuntimeEvent::ApprovalWithdrawn { key })).collect()
    }

    /// The prompt was answered.
    fn ended(&mut self, result: Result<Value, RpcError>) -> Vec<RuntimeEvent> {
        let answered = self.normalizer.answered();
        let mut warning = None;
        let ended = match result {
            Err(error) => Ended::Failed(failure::failure(&error, self.login.as_deref())),
            Ok(value) => match serde_json::from_value::<PromptResponse>(value) {
                Err(error) => {
                    let message = format!("the agent ended its turn with something else than a reason: {error}");
                    Ended::Failed(Failure::new(FailureKind::Protocol, message))
                }
                Ok(response) => match response.stop_reason {
                    StopReason::Cancelled => Ended::Interrupted,
                    StopReason::Refusal => {
                        Ended::Failed(Failure::new(FailureKind::Rejected, "The model refused to answer."))
                    }
                    // Gemini says so without asking its model when the context is full.
                    StopReason::MaxTokens if !answered => Ended::Failed(Failure::new(
                        FailureKind::Overflow,
                        "The prompt does not fit the model's window.",
                    )),
                    StopReason::MaxTokens => {
                        warning = Some("The reply reached the model's limit and was cut off there.");
                        Ended::Completed
                    }
                    StopReason::MaxTurnRequests => {
                        warning = Some("The agent stopped at its own limit of requests for one turn.");
                        Ended::Interrupted
                    }
                    _ => Ended::Completed,
                },
            },
        };
        self.turn = None;
        self.cancelling = false;
        let mut events: Vec<_> = self.withdraw().into_iter().map(|(_, event)| event).collect();
        events.extend(self.normalizer.end(ended != Ended::Completed));
        events.extend(warning.map(|message| RuntimeEvent::Warning { message: message.into() }));
        events.push(RuntimeEvent::Ended(ended));
        events
    }
}

/// Reads the agent's lines until there are no more.
struct Reader {
    link: Arc<Shared>,
    events: mpsc::Sender<RuntimeEvent>,
    noted: mpsc::UnboundedReceiver<RuntimeEvent>,
    over: CancellationToken,
}

impl Reader {
    async fn run(mut self, stdout: ChildStdout) {
        let mut lines = LineReader::new(stdout);
        let over = self.over.clone();
        // A dropped session stops reading even in the middle of a full channel.
        let read = over.run_until_cancelled(self.read(&mut lines)).await;
        self.link.peer.hang_up();
        if read.is_none() {
            self.link.process.kill().await;
            return;
        }
        // No more lines: as a rule it is ending. If not, it cannot be talked to any more.
        if timeout(Duration::from_secs(2), self.link.process.exited()).await.is_err() {
            self.link.process.kill().await;
        }
        let failure = self.link.process.exit_failure().await;
        self.link.process.kill().await;
        let (opened, withdrawn) = {
            let mut state = self.link.state();
            state.turn = None;
            (state.session_id.is_some(), state.withdraw())
        };
        if opened {
            while let Ok(event) = self.noted.try_recv() {
                let _ = self.events.send(event).await;
            }
            for (_, event) in withdrawn {
                let _ = self.events.send(event).await;
            }
            let _ = self.events.send(RuntimeEvent::Exited { failure }).await;
        }
    }

    /// Ends with the pipe or the process, or when nobody wants the events.
    async fn read(&mut self, lines: &mut LineReader<ChildStdout>) {
        let process = Arc::clone(&self.link.process);
        let exited = process.exited();
        tokio::pin!(exited);
        let mut dead = false;
        loop {
            // A child of a dead agent can hold the pipe open: what is in it is read, and no more waited for.
            let next = async {
                match dead {
                    true => timeout(Duration::from_millis(500), lines.next()).await.unwrap_or(Ok(None)),
                    false => lines.next().await,
                }
            };
            let events = tokio::select! {
                biased;
                Some(event) = self.noted.recv() => vec![event],
                line = next => match line {
                    Ok(Some(Line::Text(line))) => self.line(&line).await,
                    Ok(Some(Line::TooLong { bytes })) => {
                        self.if_open(RuntimeEvent::Raw { kind: format!("a line of {bytes} bytes") })
                    }
                    Ok(None) | Err(_) => return,
                },
                _ = &mut exited, if !dead => {
                    dead = true;
                    continue;
                }
            };
            for event in events {
                if self.events.send(event).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn line(&self, line: &str) -> Vec<RuntimeEvent> {
        match wire::read(line) {
            Incoming::Garbage => self.if_open(RuntimeEvent::Raw { kind: "no message".into() }),
            Incoming::Notification { method, params } if method == "session/update" => self.update(params),
            Incoming::Notification { method, .. } => self.if_open(RuntimeEvent::Raw { kind: method }),
            Incoming::Request { id, method, params } if method == "session/request_permission" => {
                self.question(id, params).await
            }
            Incoming::Request { id, method, .. } => {
                let error = RpcError::new(METHOD_NOT_FOUND, format!("{method} is not supported"));
                // A closed pipe ends the reading by itself.
                let _ = self.link.peer.answer(&id, Err(error)).await;
                self.if_open(RuntimeEvent::Raw { kind: method })
            }
            Incoming::Response { id, result } => {
                let mut state = self.link.state();
                if state.turn == Some(id) {
                    return state.ended(result);
                }
                drop(state);
                match self.link.peer.settle(id, result) {
                    None => Vec::new(),
                    Some(_) => self.if_open(RuntimeEvent::Raw { kind: "an answer to no question".into() }),
                }
            }
        }
    }

    fn if_open(&self, event: RuntimeEvent) -> Vec<RuntimeEvent> {
        if self.link.state().session_id.is_some() { vec![event] } else { Vec::new() }
    }

    fn update(&self, params: Value) -> Vec<RuntimeEvent> {
        let kind = || params.pointer("/update/sessionUpdate").and_then(Value::as_str).unwrap_or("update").to_owned();
        let mut state = self.link.state();
        let Some(ours) = state.session_id.clone() else { return Vec::new() };
        match serde_json::from_value::<SessionNotification>(params.clone()) {
            Ok(update) if *update.session_id.0 == *ours => state.normalizer.update(update.update),
            // A sub-agent's session, or a frame of a later protocol.
            _ => vec![RuntimeEvent::Raw { kind: kind() }],
        }
    }

    async fn question(&self, id: Value, params: Value) -> Vec<RuntimeEvent> {
        let request = match serde_json::from_value::<RequestPermissionRequest>(params) {
            Ok(request) => request,
            Err(error) => {
                let error = RpcError::new(INVALID_PARAMS, error.to_string());
                let _ = self.link.peer.answer(&id, Err(error)).await;
                return self.if_open(RuntimeEvent::Raw { kind: "session/request_permission".into() });
            }
        };
        let (events, answer) = {
            let mut state = self.link.state();
            let (mut events, item, subject) = state.normalizer.question(&request);
            let question = Question { id: id.clone(), item: item.clone(), options: request.options };
            let ours = state.edits_are_ours && matches!(subject, ApprovalSubject::Edit { .. });
            let answer = if state.cancelling || state.session_id.is_none() {
                Some(cancelled())
            } else if ours {
                question.option(PermissionOptionKind::AllowOnce)
            } else {
                None
            };
            if answer.is_none() {
                let key = id.to_string();
                let reason = None;
                events.push(RuntimeEvent::ApprovalWanted(ApprovalRequest {
                    key: key.clone(),
                    item: Some(item),
                    subject,
                    reason,
                }));
                state.questions.insert(key, question);
            }
            (events, answer)
        };
        if let Some(answer) = answer {
            let _ = self.link.peer.answer(&id, Ok(answer)).await;
        }
        events
    }
}

/// An open session: one process.
struct AcpSession {
    shared: Arc<Shared>,
    session_id: String,
    /// The agent has `session/close`.
    closes: bool,
    _over: DropGuard,
}

impl AcpSession {
    async fn gone(&self) -> Failure {
        match timeout(Duration::from_secs(1), self.shared.process.exit_failure()).await {
            Ok(failure) => failure,
            Err(_) => Failure::new(FailureKind::Exited, "the agent does not read any more"),
        }
    }

    async fn write_prompt(&self, prompt: Prompt) -> Result<(), Failure> {
        if self.shared.process.exit().is_some() {
            return Err(self.gone().await);
        }
        let id = self.shared.peer.reserve();
        {
            let mut state = self.shared.state();
            if state.turn.is_some() {
                return Err(Failure::new(FailureKind::Protocol, "a prompt is already open in this session"));
            }
            state.turn = Some(id);
            state.cancelling = false;
            state.normalizer.begin();
        }
        let params = json!({"sessionId": self.session_id, "prompt": [{"type": "text", "text": prompt.text}]});
        if self.shared.peer.ask(id, "session/prompt", &params).await.is_err() {
            self.shared.state().turn = None;
            return Err(self.gone().await);
        }
        Ok(())
    }

    async fn write_answer(&self, key: String, answer: Answer) -> Result<(), Failure> {
        let (id, outcome, note) = {
            let mut state = self.shared.state();
            let Some(question) = state.questions.get(&key) else { return Ok(()) };
            let outcome = match answer {
                Answer::Allow => question.option(PermissionOptionKind::AllowOnce),
                Answer::Deny => question
                    .option(PermissionOptionKind::RejectOnce)
                    .or_else(|| question.option(PermissionOptionKind::RejectAlways))
                    .or_else(|| Some(cancelled())),
            };
            let Some(outcome) = outcome else {
                // Only "always" is on offer, which would hold for more than was asked for.
                let message = "This agent cannot be allowed something once, only for good.";
                return Err(
                    Failure::new(FailureKind::Rejected, message).hint("Deny it, or allow it in the agent itself.")
                );
            };
            let Some(question) = state.questions.remove(&key) else { return Ok(()) };
            let note = if answer == Answer::Deny { state.normalizer.declined(&question.item) } else { None };
            (question.id, outcome, note)
        };
        if let Some(note) = note {
            let _ = self.shared.notes.send(note);
        }
        match self.shared.peer.answer(&id, Ok(outcome)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone().await),
        }
    }

    async fn cancel(&self) -> Result<(), Failure> {
        let open = {
            let mut state = self.shared.state();
            if state.turn.is_none() {
                return Ok(());
            }
            state.cancelling = true;
            state.withdraw()
        };
        let params = json!({"sessionId": self.session_id});
        let mut written = self.shared.peer.tell("session/cancel", &params).await;
        for (question, event) in open {
            // Gemini does not cancel while a question of its waits.
            written = written.and(self.shared.peer.answer(&question.id, Ok(cancelled())).await);
            let _ = self.shared.notes.send(event);
        }
        match written {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone().await),
        }
    }

    async fn close_in_order(&self) {
        if self.closes {
            let params = json!({"sessionId": self.session_id});
            // Out of politeness only: what follows ends it in any case.
            let _ = timeout(Duration::from_secs(1), self.shared.peer.call("session/close", &params)).await;
        }
        self.shared.peer.close().await;
        let _ = timeout(Duration::from_secs(1), self.shared.process.exited()).await;
        self.shared.process.end(Duration::from_secs(1)).await;
    }
}

impl Session for AcpSession {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.write_prompt(prompt))
    }

    fn answer(&self, key: String, answer: Answer) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.write_answer(key, answer))
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.cancel())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close_in_order())
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.process.kill())
    }
}
