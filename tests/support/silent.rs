//! A runtime whose sessions take a prompt and never say a word: for tests that need a session's token, not its answer.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use changeover_core::{
    event::{Keeps, RuntimeEvent},
    failure::Failure,
    id::ThreadId,
    provider::{ApprovalMode, ProviderId, Target},
};
use changeover_engine::{Engine, api::Caller};
use changeover_runtime::session::{
    AgentRuntime, Answer, Capabilities, Description, EVENTS_BOUND, Environment, Login, McpAccess, ModelInfo, Opened,
    Prompt, Session, SessionSpec,
};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::json;
use tokio::sync::mpsc;

/// The runtime; it passes on what each session is told about our MCP server.
pub struct Silent {
    opened: mpsc::UnboundedSender<Option<McpAccess>>,
}

/// What sessions were told, in the order in which they were opened.
pub struct Told(mpsc::UnboundedReceiver<Option<McpAccess>>);

impl Silent {
    /// One that stands in Codex's place.
    pub fn new() -> (Self, Told) {
        let (opened, told) = mpsc::unbounded_channel();
        (Self { opened }, Told(told))
    }
}

impl Told {
    /// Sends a message in a thread, whose session then is open until the engine closes; what it was told about MCP.
    pub async fn session_in(&mut self, engine: &Engine, thread: ThreadId) -> McpAccess {
        let target = Target { provider: ProviderId::codex(), model: None, effort: None, mode: ApprovalMode::Ask };
        let params =
            json!({"threadId": thread, "clientTurnId": thread.to_string(), "text": "Go on.", "target": target});
        engine.dispatch("turn/start", params, &Caller::default()).await.expect("the turn starts");
        self.0.recv().await.expect("a session is opened").expect("it is offered MCP")
    }
}

impl AgentRuntime for Silent {
    fn id(&self) -> ProviderId {
        ProviderId::codex()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { resume: false, fork: false, usage: false, mcp: true, keeps: Keeps::UNKNOWN }
    }

    fn describe<'a>(&'a self, _: &'a Environment) -> BoxFuture<'a, Description> {
        let login = Login::In { method: "none needed".into() };
        let description =
            Description { path: None, found: Some("built in".into()), version: None, login, problem: None };
        async { description }.boxed()
    }

    fn models<'a>(&'a self, _: &'a Environment) -> BoxFuture<'a, Result<Vec<ModelInfo>, Failure>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn pick(&self, _: Option<PathBuf>) {}

    fn open(&self, spec: SessionSpec) -> BoxFuture<'_, Result<Opened, Failure>> {
        let (sender, events) = mpsc::channel(EVENTS_BOUND);
        let session = std::sync::Arc::new(Quiet(Mutex::new(Some(sender))));
        let _ = self.opened.send(spec.mcp);
        async { Ok(Opened { session, events }) }.boxed()
    }
}

/// Holds its stream of events open until it is closed.
struct Quiet(Mutex<Option<mpsc::Sender<RuntimeEvent>>>);

impl Quiet {
    fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Session for Quiet {
    fn send(&self, _: Prompt) -> BoxFuture<'_, Result<(), Failure>> {
        async { Ok(()) }.boxed()
    }

    fn answer(&self, _: String, _: Answer) -> BoxFuture<'_, Result<(), Failure>> {
        async { Ok(()) }.boxed()
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), Failure>> {
        async { Ok(()) }.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async { self.end() }.boxed()
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        async { self.end() }.boxed()
    }
}
