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
    power::{Cannot, Power},
    provider::ProviderId,
};
use futures::future::BoxFuture;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    known::Known,
    lacks,
    open::{Greeted, check_folder, minute},
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

/// How long an agent may take until it greets, and half of that until it opens a session, when it is looked at. Within the
/// 10 s of `describe`.
const LOOK_LIMIT: Duration = Duration::from_secs(6);

/// Where an agent's program is.
#[derive(Debug, Clone)]
pub enum Program {
    /// Searched for by this name, unless picked by hand (R6).
    Search(String),
    /// Part of this app.
    BuiltIn(PathBuf),
}

/// An agent that speaks ACP, and how it is started.
#[derive(Clone)]
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

impl std::fmt::Debug for AcpAgent {
    /// Without the values of its variables: a key may be among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let env: Vec<_> = self.env.keys().collect();
        let mut debug = f.debug_struct("AcpAgent");
        debug.field("id", &self.id).field("program", &self.program).field("args", &self.args);
        debug.field("env", &env).field("keeps", &self.keeps).finish()
    }
}

/// What an agent says of itself when it is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The program that was run.
    pub path: PathBuf,
    /// Its own name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its models.
    pub models: Vec<ModelInfo>,
    /// The names of its modes.
    pub modes: Vec<String>,
    /// Whether it opens earlier sessions again.
    pub resumes: bool,
    /// Whether it takes MCP servers over HTTP.
    pub mcp: bool,
}

/// The runtime for one ACP agent.
#[derive(Debug)]
pub struct AcpRuntime {
    agent: AcpAgent,
    known: Option<&'static Known>,
    /// The models of the last look: what comes after it need not start the agent once more.
    looked: Mutex<Option<Vec<ModelInfo>>>,
    picked: Mutex<Option<PathBuf>>,
    /// The minute in which sessions were made by this process (see `Greeted::session`).
    born: Mutex<HashMap<String, u64>>,
    /// What it lacks by its last greeting.
    lacks: Mutex<Vec<Power>>,
}

impl AcpRuntime {
    /// For this agent.
    pub fn new(agent: AcpAgent) -> Self {
        let known = Known::of(&agent.id);
        Self {
            agent,
            known,
            looked: Mutex::default(),
            picked: Mutex::default(),
            born: Mutex::default(),
            lacks: Mutex::default(),
        }
    }

    /// How it is started.
    pub fn agent(&self) -> &AcpAgent {
        &self.agent
    }

    fn found(&self, env: &Environment) -> Result<Found, Failure> {
        match &self.agent.program {
            Program::Search(name) => {
                let picked = self.picked.lock().unwrap_or_else(PoisonError::into_inner).clone();
                detect::find(name, picked.as_deref(), env).map_err(|failure| match self.known {
                    Some(known) if picked.is_none() => {
                        failure.hint(format!("{}, or pick the program by hand in the settings.", known.install))
                    }
                    _ => failure,
                })
            }
            Program::BuiltIn(path) => Ok(Found { path: path.clone(), how: "built in", ..Found::default() }),
        }
    }

    /// A program that is part of the app is not installed by itself.
    fn lost(&self, failure: Failure) -> Failure {
        match &self.agent.program {
            Program::BuiltIn(path) if failure.kind == FailureKind::NotInstalled => {
                let message = format!("{} is a part of Changeover that cannot be run", path.display());
                Failure::new(FailureKind::NotInstalled, message).hint("Install Changeover again.")
            }
            _ => failure,
        }
    }

    /// Starts the agent and shakes hands.
    async fn start(&self, env: &Environment, folder: PathBuf) -> Result<(Greeted, Link), Failure> {
        check_folder(&folder)?;
        let mut env = for_provider(env.clone(), &self.agent.id);
        let found = self.found(&env)?;
        // What is known to be good for an agent gives way to what the user has set; what was set up for it does not.
        for (name, value) in &self.agent.env {
            if self.known.is_none() || !env.contains_key(name) {
                env.insert(name.clone(), value.clone());
            }
        }
        let args = self.agent.args.iter().map(Into::into).collect();
        let spawned = found.launch(args, folder, env).spawn().map_err(|failure| self.lost(failure))?;
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
        let greeted = Greeted::new(peer, spawned.process, self.known.map(|known| known.login)).await?;
        *self.lacks.lock().unwrap_or_else(PoisonError::into_inner) = lacks::told(&greeted.hello);
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
        *self.looked() = None;
        match timeout(LOOK_LIMIT, self.start(env, look_folder(env))).await {
            Ok(Ok((greeted, _link))) => {
                description.version = greeted.version();
                // Only a session tells whether the agent is logged in, and what it offers. One that takes its time is ready.
                let session = timeout(LOOK_LIMIT / 2, greeted.offers(&look_folder(env))).await;
                greeted.process.kill().await;
                match session {
                    Ok(Ok(offers)) => *self.looked() = Some(offers.models),
                    Ok(Err(problem)) => {
                        if let (FailureKind::NotLoggedIn, Some(hint)) = (problem.kind, problem.hint.clone()) {
                            description.login = Login::Out { hint };
                        }
                        description.problem = Some(problem);
                    }
                    Err(_) => {}
                }
            }
            Ok(Err(problem)) => description.problem = Some(problem),
            Err(_) => {
                let message = format!("the agent gave no sign of life in {} s", LOOK_LIMIT.as_secs());
                description.problem = Some(detect::slow(message));
            }
        }
        description
    }

    fn looked(&self) -> std::sync::MutexGuard<'_, Option<Vec<ModelInfo>>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn offered(&self, env: &Environment) -> Result<Vec<ModelInfo>, Failure> {
        if let Some(models) = self.looked().take() {
            return Ok(models);
        }
        self.tried(env).await.map(|report| report.models)
    }

    /// Starts it, opens a session and ends it again: all that there is to know about whether it works.
    ///
    /// # Errors
    /// It was not found, or where it failed, in its own words.
    pub async fn tried(&self, env: &Environment) -> Result<Report, Failure> {
        let folder = look_folder(env);
        let path = self.found(&for_provider(env.clone(), &self.agent.id))?.path;
        let (greeted, _link) = self.start(env, folder.clone()).await?;
        let offers = timeout(Duration::from_secs(60), greeted.offers(&folder)).await;
        greeted.process.kill().await;
        let offers =
            offers.map_err(|_| Failure::new(FailureKind::Unavailable, "the agent opened no session in 60 s"))??;
        let can = &greeted.hello.agent_capabilities;
        Ok(Report {
            path,
            name: greeted.hello.agent_info.as_ref().map(|info| info.title.clone().unwrap_or_else(|| info.name.clone())),
            version: greeted.version(),
            modes: offers.mode_names(),
            models: offers.models,
            resumes: can.load_session || can.session_capabilities.resume.is_some(),
            mcp: lacks::takes_our_server(&greeted.hello),
        })
    }
}

/// Where an agent is looked at: an empty folder that stays the same, since agents keep books by folder. The system's own for
/// temporary files is no such place: everybody can write there, and agents look around.
fn look_folder(env: &Environment) -> PathBuf {
    let text = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || text("HOME").or_else(|| text("USERPROFILE"));
    let cache = match std::env::consts::OS {
        "macos" => home().map(|home| home.join("Library/Caches")),
        "windows" => text("LOCALAPPDATA"),
        _ => text("XDG_CACHE_HOME").or_else(|| home().map(|home| home.join(".cache"))),
    };
    let folder = cache.filter(|cache| cache.is_absolute()).map(|cache| cache.join("changeover/look"));
    let made = folder.filter(|folder| std::fs::create_dir_all(folder).is_ok());
    made.unwrap_or_else(std::env::temp_dir)
}

impl AgentRuntime for AcpRuntime {
    fn id(&self) -> ProviderId {
        self.agent.id.clone()
    }

    /// What ACP has; an agent that lacks some of it answers `open` with `SessionGone` (resume) or warns (MCP). Our MCP server is
    /// offered unless its last greeting said that it cannot be.
    fn capabilities(&self) -> Capabilities {
        let mcp = !self.lacks.lock().unwrap_or_else(PoisonError::into_inner).contains(&Power::Mcp);
        Capabilities { resume: true, fork: false, usage: true, mcp, keeps: self.agent.keeps }
    }

    fn cannot(&self) -> Vec<Cannot> {
        let mut all = self.capabilities().cannot();
        let told = self.lacks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for power in lacks::known(&self.agent.id).iter().copied().chain(told) {
            if all.iter().all(|cannot| cannot.power != power) {
                all.push(power.into());
            }
        }
        all
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
