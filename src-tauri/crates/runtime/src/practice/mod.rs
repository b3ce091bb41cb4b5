//! The practice agent (R1): an agent that ships in the app, needs no account and is no model. It speaks ACP over its standard
//! streams like any other agent, so that on a fresh machine everything can be tried, and tested, through the real path.

mod agent;
mod history;
mod output;
mod rules;
mod turn;

use std::path::PathBuf;

use changeover_core::{
    event::{Keeps, Kept},
    provider::ProviderId,
};

pub use agent::{practice_agent_main, run_practice_agent};

use crate::{
    acp::{AcpAgent, AcpRuntime, Program},
    session::Environment,
};

/// Names the folder in which the practice agent keeps its sessions; without it they live as long as its process.
pub const HOME: &str = "CHANGEOVER_PRACTICE_HOME";

/// What the practice agent keeps: a prompt as soon as it comes, a reply when its turn ends, however it ends. It cannot go back. Each line is proved in `tests/practice.rs`.
pub const KEEPS: Keeps = Keeps {
    failed_unanswered: Kept::PromptOnly,
    failed_answered: Kept::Everything,
    interrupted_unanswered: Kept::PromptOnly,
    interrupted_answered: Kept::Everything,
    rewinds: false,
};

/// The runtime of the practice agent: `program args…` (as a rule this app and `practice-agent`) with its sessions in `home`.
pub fn practice_runtime(program: PathBuf, args: Vec<String>, home: Option<PathBuf>) -> AcpRuntime {
    let home = home.and_then(|home| home.into_os_string().into_string().ok());
    let env: Environment = home.into_iter().map(|home| (HOME.to_owned(), home)).collect();
    AcpRuntime::new(AcpAgent {
        id: ProviderId::practice(),
        program: Program::BuiltIn(program),
        args,
        env,
        keeps: KEEPS,
    })
}
