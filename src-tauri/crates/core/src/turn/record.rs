//! What is on disk of a turn, a queued message and an approval.

use serde::{Deserialize, Serialize};

use crate::{
    Millis,
    approval::ApprovalRequest,
    failure::Failure,
    id::{ApprovalId, MessageId, PromptId, QueuedId, TurnId},
    notice::Handover,
    provider::Target,
    seq::Seq,
};

/// Where a turn stands (DESIGN 2b). A crash finds exactly one of these on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum TurnPhase {
    /// The user message is durable; nothing was written to a runtime.
    Preparing,
    /// The prompt is about to leave us, or has left (T2 "written").
    Sent,
    /// The prompt stands in the CLI's history (T2 "taken").
    Taken,
    /// The model made something: the reply streams (T2 "answered").
    Streaming,
    /// An approval is open.
    Waiting,
    /// Stop was asked; a deadline runs.
    Interrupting,
    /// Ended by itself.
    Completed,
    /// Ended by the user or a crash.
    Interrupted,
    /// Ended by an error after the model answered.
    Failed,
    /// Ended before the model answered.
    Refused,
}

impl TurnPhase {
    /// Whether the turn has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Interrupted | Self::Failed | Self::Refused)
    }
    /// Whether the model has made anything (T2).
    pub fn is_answered(self) -> bool {
        matches!(self, Self::Streaming | Self::Waiting | Self::Completed | Self::Failed)
    }
}

/// A turn as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Its id.
    pub id: TurnId,
    /// The caller's id for the request: a second request with it is answered, not repeated.
    pub client_id: String,
    /// The user message.
    pub message: MessageId,
    /// Its number.
    pub message_seq: Seq,
    /// Who answers.
    pub target: Target,
    /// Where it stands.
    pub phase: TurnPhase,
    /// Which attempt this is, from 1 (G16).
    pub attempt: u32,
    /// A session was found gone in this turn: at most once (T5).
    pub gone: bool,
    /// The prompt is not the message but asks to go on with a reply that was cut off (T9).
    #[serde(default)]
    pub go_on: bool,
    /// The CLI compacted its history while this turn ran: what it still holds is not known (G2, T10).
    #[serde(default)]
    pub compacted: bool,
    /// The prompt as written, once there is one.
    pub prompt: Option<PromptId>,
    /// The session the prompt went to, if it was known then.
    pub session: Option<String>,
    /// The session's anchor before the prompt (T9).
    pub anchor_before: Option<String>,
    /// The session's mark before the prompt.
    pub known_before: Seq,
    /// What the prompt told, for the notice written on acceptance (T2). `None`: nothing was told.
    pub handover: Option<Handover>,
    /// The highest message the session will have been told of once it answers.
    pub upto: Seq,
    /// The reply, once answered.
    pub reply: Option<ReplyRef>,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Why it failed or was refused.
    pub failure: Option<Failure>,
}

/// A turn's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyRef {
    /// The message.
    pub id: MessageId,
    /// Its number.
    pub seq: Seq,
}

/// A message that waits for the running turn (R8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// Its id.
    pub id: QueuedId,
    /// The caller's id for the request.
    pub client_id: String,
    /// What will be sent.
    pub text: String,
    /// To whom.
    pub target: Target,
    /// When it was queued.
    #[ts(type = "number")]
    pub at: Millis,
}

/// How an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalState {
    /// A person is awaited.
    Open,
    /// Allowed, this once.
    Once,
    /// Allowed, and the same from now on in this thread.
    Thread,
    /// Allowed by an earlier "in this thread", or by the mode.
    Rule,
    /// Denied.
    Denied,
    /// No longer open without an answer: its process ended, the turn was stopped, or the agent took it back (R4).
    Withdrawn,
}

/// An approval as stored and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The turn that asked.
    pub turn: TurnId,
    /// What is asked.
    pub request: ApprovalRequest,
    /// How it stands.
    pub state: ApprovalState,
    /// When it was asked.
    #[ts(type = "number")]
    pub asked_at: Millis,
    /// When it was settled.
    #[ts(type = "number | null")]
    pub settled_at: Option<Millis>,
}
