//! Agents that speak ACP.

use changeover_core::{failure::Failure, provider::ProviderId};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use super::{ModelView, ProviderView};

wire! {
    /// An agent that speaks ACP: known by name, or added by the user (R1).
    pub struct AgentView {
        /// Its provider: `acp:<name>`.
        id: ProviderId,
        /// Its short name.
        name: String,
        /// Known by name: it can be picked by hand, not changed or removed.
        known: bool,
        /// The program, as given.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables, besides the user's own environment.
        env: Vec<AgentVariable>,
        /// How to install it, if known.
        install: Option<String>,
        /// How to log in, if known.
        login: Option<String>,
        /// How it stands.
        provider: ProviderView,
    }
    /// A variable of an agent.
    pub struct AgentVariable {
        /// Its name.
        name: String,
        /// Its value; absent for a secret, which is never shown.
        value: Option<String>,
        /// Whether it is a secret.
        secret: bool,
        /// A secret whose value is not known (any more): to be given again.
        missing: bool,
    }
    /// All agents that speak ACP.
    pub struct AgentListResponse {
        /// The known ones in the picker's order, then the user's own.
        agents: Vec<AgentView>,
        /// Whether secret values outlive this run. If not, they are asked for again after a restart.
        secrets_last: bool,
    }
    /// An agent as the user describes it.
    pub struct AgentDraft {
        /// 1 to 32 letters, digits, dots, dashes or underscores; the provider is `acp:<name>`.
        name: String,
        /// A program on the `PATH`, or its absolute path.
        command: String,
        /// Its arguments. No secrets: everybody on the machine can read them.
        #[serde(default)] args: Vec<String>,
        /// Variables besides the user's own environment.
        #[serde(default)] env: Vec<AgentVariableDraft>,
    }
    /// A variable as the user gives it.
    pub struct AgentVariableDraft {
        /// Its name.
        name: String,
        /// Its value; absent: as it was.
        #[serde(default)] value: Option<String>,
        /// Whether it is a secret; absent: told from its name.
        #[serde(default)] secret: Option<bool>,
    }
    /// Adds an agent, or changes one.
    pub struct AgentSetParams {
        /// The agent.
        agent: AgentDraft,
        /// Changes the one of this name; else the name must be free.
        #[serde(default)] change: bool,
    }
    /// Names one of the user's own agents.
    pub struct AgentRemoveParams {
        /// Its short name.
        name: String,
    }
    /// Tries an agent: a saved or known one by its id, or one that is not saved yet.
    pub struct AgentTestParams {
        /// Its provider.
        #[serde(default)] id: Option<ProviderId>,
        /// As it would be saved.
        #[serde(default)] agent: Option<AgentDraft>,
    }
    /// What came of it.
    pub struct AgentTestResponse {
        /// Why it does not work, and the way on; absent: it works.
        problem: Option<Failure>,
        /// What it says of itself.
        report: Option<AgentReport>,
    }
    /// What an agent says of itself.
    pub struct AgentReport {
        /// The program that was run.
        path: String,
        /// Its own name.
        name: Option<String>,
        /// Its version.
        version: Option<String>,
        /// Its models.
        models: Vec<ModelView>,
        /// The names of its modes.
        modes: Vec<String>,
        /// Opens earlier sessions again; else a session ends with its process, and the next turn is a handoff.
        resumes: bool,
        /// Takes MCP servers over HTTP; else it cannot look into the conversation.
        mcp: bool,
    }
}
