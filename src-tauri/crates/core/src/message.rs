//! Messages: the transcript's rows.

use serde::{Deserialize, Serialize};

use crate::{
    Millis,
    id::MessageId,
    notice::Notice,
    part::{Part, PartBody},
    provider::ProviderId,
    seq::Seq,
};

/// Who a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The person.
    User,
    /// The provider that answered.
    Assistant,
    /// Changeover itself: a notice, never content.
    System,
}

/// How a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum MessageState {
    /// A user message whose turn has not been answered yet, or a reply that still streams.
    Open,
    /// Whole.
    Done,
    /// A user message that was refused, or whose turn ended before the model made anything (T2).
    NotAnswered,
    /// A reply that was interrupted, by the user or a crash.
    Interrupted,
    /// A reply that an error cut off.
    Failed,
}

/// One message with all its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its identity; the same in every fork that holds it.
    pub id: MessageId,
    /// Its number in this thread.
    #[ts(type = "number")]
    pub seq: Seq,
    /// Who it is from.
    pub role: Role,
    /// How it stands.
    pub state: MessageState,
    /// Who answered; for a user message, who was asked last.
    pub provider: Option<ProviderId>,
    /// The model that answered, as far as known.
    pub model: Option<String>,
    /// The session that gave this reply, and its incarnation (B8).
    pub session: Option<SessionStamp>,
    /// When it was written.
    #[ts(type = "number")]
    pub created_at: Millis,
    /// When a reply ended.
    #[ts(type = "number | null")]
    pub ended_at: Option<Millis>,
    /// Offered to every handoff first (H2).
    pub pinned: bool,
    /// Kept out of every handoff (H2).
    pub excluded: bool,
    /// Its parts in order; empty for a notice.
    pub parts: Vec<Part>,
    /// What a system row says.
    pub notice: Option<Notice>,
}

/// Which session, in which incarnation, gave a reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct SessionStamp {
    /// The provider's own session id.
    pub id: String,
    /// The incarnation at the time of the reply.
    pub incarnation: u32,
}

impl Message {
    /// Whether it counts for transitions and handoffs: user and assistant messages do, notices never.
    pub fn is_content(&self) -> bool {
        self.role != Role::System
    }

    /// All text of the message as B2 hands it over: its live text parts, a blank line between; an attachment is one line.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in self.parts.iter().filter(|p| !p.superseded) {
            let piece = match &part.body {
                PartBody::Text { text } => text.clone(),
                PartBody::Attachment { name, kind, path, .. } => format!("Attachment: {name} ({kind}) {path}"),
                _ => continue,
            };
            if piece.is_empty() {
                continue;
            }
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            out.push_str(&piece);
        }
        out
    }
}
