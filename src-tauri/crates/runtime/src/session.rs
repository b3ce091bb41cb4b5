//! The one trait that every provider is behind (R1). What a provider cannot do is absent here, not an error deep in a call.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use changeover_core::{
    event::{Keeps, RuntimeEvent},
    failure::Failure,
    id::PromptId,
    power::{Cannot, Power},
    provider::{ApprovalMode, ProviderId},
};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// Environment variables for a child: complete, never added to what this process has.
pub type Environment = BTreeMap<String, String>;

/// How many events wait between an adapter and its reader; when full, the adapter stops reading the pipe.
pub const EVENTS_BOUND: usize = 1024;

/// Whether a provider can be used, and if not, how to get on (R2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Login {
    /// Logged in, or no login needed; with a word on how ("API key", "account").
    In {
        /// How.
        method: String,
    },
    /// Not logged in; what to do about it.
    Out {
        /// The command or step that logs in.
        hint: String,
    },
    /// Cannot be told without asking the provider.
    Unknown,
}

/// What detection found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The program, resolved: exactly what is run (R6). Absent: not installed.
    pub path: Option<PathBuf>,
    /// How it was found: "PATH", "login shell", "picked by hand", "built in".
    pub found: Option<String>,
    /// Its version as it says it.
    pub version: Option<String>,
    /// Login state.
    pub login: Login,
    /// Why it cannot be used, and the way on; `None` when it can.
    pub problem: Option<Failure>,
}

/// A model on offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The provider's own name, as given to `SessionSpec::model`.
    pub id: String,
    /// The name that people read.
    pub name: String,
    /// Context window in tokens, where known before the first turn.
    pub window: Option<u64>,
    /// Reasoning efforts on offer, weakest first.
    pub efforts: Vec<String>,
    /// The provider's default.
    pub default: bool,
}

/// What a runtime can do (R2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Sessions can be opened again by id.
    pub resume: bool,
    /// Sessions can be forked natively (F2).
    pub fork: bool,
    /// Reports its context.
    pub usage: bool,
    /// Takes MCP servers over HTTP.
    pub mcp: bool,
    /// What its history holds after something went wrong (T9).
    pub keeps: Keeps,
}

impl Capabilities {
    /// What is missing, for people (R2).
    pub fn cannot(&self) -> Vec<Cannot> {
        let all = [
            (self.resume, Power::Resume),
            (self.fork, Power::Fork),
            (self.usage, Power::Usage),
            (self.mcp, Power::Mcp),
        ];
        all.into_iter().filter(|(can, _)| !can).map(|(_, power)| power.into()).collect()
    }
}

/// Our MCP server as a session sees it (M1). The token goes through the environment or stdin, never through argv.
#[derive(Clone, PartialEq, Eq)]
pub struct McpAccess {
    /// `http://127.0.0.1:PORT/mcp`.
    pub url: String,
    /// The session's own bearer token.
    pub token: String,
}

impl std::fmt::Debug for McpAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpAccess").field("url", &self.url).field("token", &"…").finish()
    }
}

/// An earlier session to open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resume {
    /// The provider's own id.
    pub session_id: String,
    /// The place in its history that we count on, where known: the end of its last finished turn.
    pub anchor: Option<String>,
    /// More than that may stand in it: bring it back to `anchor` first, for good (T9). False: as it is.
    pub rewind: bool,
    /// Leave it as it is, and open a copy of what it holds up to `anchor` (`None`: all of it) under an id of its own (F2).
    /// Above `rewind`.
    pub fork: bool,
}

/// All that a session needs to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSpec {
    /// The workspace. The engine has checked that it exists (R9).
    pub folder: PathBuf,
    /// `None`: a new session.
    pub resume: Option<Resume>,
    /// Model by the provider's name; `None`: its default.
    pub model: Option<String>,
    /// Effort by the provider's name; `None`: its default.
    pub effort: Option<String>,
    /// What goes without asking (R4).
    pub mode: ApprovalMode,
    /// Our MCP server.
    pub mcp: Option<McpAccess>,
    /// The child's whole environment, the mark of R5 in it (see `process::MARK`).
    pub env: Environment,
}

/// A prompt to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its id: given to the CLI where it takes one.
    pub id: PromptId,
    /// The whole text: handover and new message.
    pub text: String,
}

/// A yes or no for the CLI. "In this thread" is kept by the engine and never told to it (R4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Allow,
    /// Do not; the turn goes on without.
    Deny,
}

/// An open session: one process, or one conversation in a shared one. Dropping it ends what is its own.
pub trait Session: Send + Sync {
    /// Writes a prompt. `Ok` means that its bytes left us (T2 "written"), nothing more. At most one prompt is outstanding (R8).
    ///
    /// # Errors
    /// The bytes did not leave us: nothing was written, the prompt may go elsewhere.
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<(), Failure>>;

    /// Answers an approval by the runtime's key. An unknown or withdrawn key is no error: the event stream says so.
    fn answer(&self, key: String, answer: Answer) -> BoxFuture<'_, Result<(), Failure>>;

    /// Asks the CLI to stop its turn; the end comes as an event. The engine's deadline kills the tree if it does not (R5).
    fn interrupt(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// Ends the session in good order, then by force, its whole process tree with it; returns when nothing of it is left.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Ends the session's process tree at once (R5: after the deadline of an interrupt).
    fn kill(&self) -> BoxFuture<'_, ()>;
}

/// An open session and its one stream of events.
pub struct Opened {
    /// The session.
    pub session: Arc<dyn Session>,
    /// Its events, bounded by [`EVENTS_BOUND`]. `Exited` is the last one.
    pub events: mpsc::Receiver<RuntimeEvent>,
}

/// A provider's adapter.
pub trait AgentRuntime: Send + Sync {
    /// Whose adapter.
    fn id(&self) -> ProviderId;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// What it cannot do, in words: shown where it is chosen (R2). Proved like everything else, by the contract scenarios.
    fn cannot(&self) -> Vec<Cannot> {
        self.capabilities().cannot()
    }

    /// Finds the program, its version and login with the user's environment; at most 10 s. `NoProgress` as the problem says that
    /// it took longer: [`open`](Self::open) has more time.
    fn describe<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Description>;

    /// The models on offer.
    ///
    /// # Errors
    /// The program could not be asked.
    fn models<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Result<Vec<ModelInfo>, Failure>>;

    /// Uses this program instead of looking for one (R6), or looks again; for the next [`describe`](Self::describe) and
    /// [`open`](Self::open).
    fn pick(&self, path: Option<PathBuf>);

    /// Opens a session: a new one, or an earlier one.
    ///
    /// # Errors
    /// `SessionGone` when the CLI does not know the session (only by the exact wordings, T5); `NotInstalled`, `NotLoggedIn`,
    /// or what else kept it from opening. Nothing was sent then.
    fn open(&self, spec: SessionSpec) -> BoxFuture<'_, Result<Opened, Failure>>;

    /// Ends what its sessions shared, once they are closed: the app is going.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
