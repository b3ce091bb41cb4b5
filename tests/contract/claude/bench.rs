//! A fenced-in Claude Code behind its adapter.

use changeover_core::provider::ApprovalMode;
use changeover_runtime::{
    claude::Claude,
    session::{AgentRuntime, Resume, SessionSpec},
};
use changeover_tests::agents::AgentHome;

pub use crate::talk::{PATIENCE, Talk, commands, exists, failed, lives, reply};

pub fn spec(home: &AgentHome) -> SessionSpec {
    SessionSpec {
        folder: home.work(),
        resume: None,
        model: None,
        effort: None,
        mode: ApprovalMode::Ask,
        mcp: None,
        env: home.env().clone(),
    }
}

pub async fn open(home: &AgentHome) -> Talk {
    open_with(spec(home)).await
}

pub async fn open_with(spec: SessionSpec) -> Talk {
    Claude::default().open(spec).await.unwrap_or_else(|failure| panic!("{failure:?}")).into()
}

pub fn resume(home: &AgentHome, session_id: &str, anchor: Option<&str>, rewind: bool) -> SessionSpec {
    let anchor = anchor.map(str::to_owned);
    SessionSpec {
        resume: Some(Resume { session_id: session_id.to_owned(), anchor, rewind, fork: false }),
        ..spec(home)
    }
}
