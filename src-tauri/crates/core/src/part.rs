//! Parts of a message (S2), keyed by the runtime's own item id so that an item that starts over replaces its first try.

use serde::{Deserialize, Serialize};

/// Whether a piece of work goes on, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum WorkStatus {
    /// Not finished; also after its turn has ended ("still running").
    Running,
    /// Finished well (for a command: exit code 0).
    Completed,
    /// Finished badly.
    Failed,
    /// The user said no; it never ran.
    Declined,
    /// Cut off by an interrupt, a crash or a kill.
    Interrupted,
}

/// One file that an agent changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct FileDelta {
    /// Path as the agent named it.
    pub path: String,
    /// Unified diff, or the new text where the agent gives no diff.
    pub diff: String,
}

/// One entry of an agent's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct PlanEntry {
    /// What is to be done.
    pub text: String,
    /// Whether it is done, under way, or not begun (`None`).
    pub status: Option<WorkStatus>,
}

/// What a part is. Texts are kept byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PartBody {
    /// Prose; Markdown in a reply.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning, as far as the provider shows it. Never handed over.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A shell command (S2, B2).
    Command {
        /// The command line as the agent ran it, without the shell wrapper.
        command: String,
        /// How it stands.
        status: WorkStatus,
        /// Exit code, once known.
        exit_code: Option<i32>,
        /// Standard output and error, merged as the runtime gives them.
        output: String,
    },
    /// Any other tool call.
    Tool {
        /// The tool's name.
        name: String,
        /// Its input, as JSON text.
        input: String,
        /// Its output as text, once known.
        output: Option<String>,
        /// How it stands.
        status: WorkStatus,
    },
    /// Files changed.
    FileChange {
        /// The changes.
        files: Vec<FileDelta>,
        /// How it stands.
        status: WorkStatus,
    },
    /// The agent's plan as it now stands.
    Plan {
        /// Its entries in order.
        entries: Vec<PlanEntry>,
    },
    /// A file that the user attached; in a handoff it is one line: name, kind, path (B2).
    Attachment {
        /// File name.
        name: String,
        /// Media type.
        kind: String,
        /// Where it lies.
        path: String,
        /// Its size in bytes.
        #[ts(type = "number")]
        bytes: u64,
    },
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// The runtime's item id, unique within the message.
    pub key: String,
    /// Replaced by a later try of the same item (S2): folded away, in no handoff.
    #[serde(default)]
    pub superseded: bool,
    /// What it is.
    pub body: PartBody,
}

impl Part {
    /// A text part.
    pub fn text(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { key: key.into(), superseded: false, body: PartBody::Text { text: text.into() } }
    }
}
