//! The runtime for ACP agents: one process per session, one task that reads it.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use changeover_core::{
    event::{Keeps, RuntimeEvent},
    failure::{Failure, FailureKind},
    provider::ProviderId,
};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    failure,
    open::{Greeted, Offers, check_folder, minute},
    reader::Reader,
    session::{AcpSession, Shared},
    wire::Peer,
};
use crate::{
    detect::{self, Found},
    environment::for_provider,
    process::lines::JsonWriter,
    session::{
        AgentRuntime, Capabilities, Description, EVENTS_BOUND, Environment, Login, ModelInfo, Opened, SessionSpec,
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
            Program::BuiltIn(path) => Ok(Found { path: path.clone(), how: "built in", ..Found::default() }),
        }
    }

    /// Starts the agent and shakes hands.
    async fn start(&self, env: &Environment, folder: PathBuf) -> Result<(Greeted, Link), Failure> {
        check_folder(&folder)?;
        let mut env = for_provider(env.clone(), &self.agent.id);
        let found = self.found(&env)?;
        env.extend(self.agent.env.clone());
        let args = self.agent.args.iter().map(Into::into).collect();
        let spawned = found.launch(args, folder, env).spawn()?;
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
            if greeted.hello.agent_info.as_ref().is_some_and(|info| info.name.contains("claude")) {
                state.normalizer.doubt_window(200_000);
            }
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
