//! Approvals (R4): what an agent asks leave for, and what was answered.

use serde::{Deserialize, Serialize};

use crate::part::FileDelta;

/// What an agent wants to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ApprovalSubject {
    /// Run a command; in full, never shortened.
    Command {
        /// The command line.
        command: String,
        /// Where, if not the workspace.
        cwd: Option<String>,
    },
    /// Change files.
    Edit {
        /// The changes in full.
        files: Vec<FileDelta>,
    },
    /// Use another tool.
    Tool {
        /// Its name.
        name: String,
        /// Its input, as JSON text.
        input: String,
    },
}

/// An agent's question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// The runtime's own key for the question, unique while its process lives.
    pub key: String,
    /// The item of the reply it belongs to, if known.
    pub item: Option<String>,
    /// What it wants to do.
    pub subject: ApprovalSubject,
    /// The agent's reason, if it gave one.
    pub reason: Option<String>,
}

/// What a person, or the thread's rule, answered. `Thread` is kept and answered by us; the CLI only ever hears yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalDecision {
    /// Yes, this once.
    Once,
    /// Yes, and the same command in this thread from now on.
    Thread,
    /// No; the agent is told and goes on.
    Deny,
}

impl ApprovalSubject {
    /// What "this command in this thread" remembers: the exact command, or the tool. Edits are remembered as a kind.
    pub fn rule(&self) -> String {
        match self {
            Self::Command { command, cwd } => format!("command:{}:{command}", cwd.as_deref().unwrap_or("")),
            Self::Edit { .. } => "edit".into(),
            Self::Tool { name, .. } => format!("tool:{name}"),
        }
    }
}
