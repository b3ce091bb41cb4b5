//! What is known of a provider's session in a thread (T1, T3, T6).

use serde::{Deserialize, Serialize};

use crate::{
    id::TurnId,
    notice::LeftOut,
    provider::ProviderId,
    seq::{Seq, SeqRange},
    usage::ContextFigure,
};

/// What one accepted turn told a session, so that it can be taken back with the turn (T3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// The turn.
    pub turn: TurnId,
    /// The user message it carried; told by being the prompt.
    #[ts(type = "number")]
    pub message_seq: Seq,
    /// The session's mark before the turn.
    #[ts(type = "number")]
    pub known_before: Seq,
    /// Messages told as history.
    pub told: Vec<SeqRange>,
    /// Messages left out, with the reason.
    pub left_out: Vec<LeftOut>,
    /// The runtime's place in its own history before the turn: where a rewind goes (T9).
    pub anchor_before: Option<String>,
}

/// One provider's live session in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// Whose session.
    pub provider: ProviderId,
    /// The provider's own id.
    pub session_id: String,
    /// The folder it runs in.
    pub folder: String,
    /// The model it last ran on, if chosen.
    pub model: Option<String>,
    /// Counts up whenever something left the session's history (T3).
    pub incarnation: u32,
    /// How far into the transcript it has seen.
    #[ts(type = "number")]
    pub known_upto_seq: Seq,
    /// What each accepted turn told it, oldest first.
    pub turns: Vec<Told>,
    /// The runtime's place in its own history after the last finished turn (T9).
    pub anchor: Option<String>,
    /// The session's history holds more than we count on: the next open must rewind to `anchor` first (T9).
    pub rewind: bool,
    /// Its context and window as last reported.
    pub context: Option<ContextFigure>,
}

impl SessionRecord {
    /// The same, to be brought back to a place before its next prompt (T9): its next incarnation (T3). `known` is what it holds
    /// there.
    #[must_use]
    pub fn brought_back(&self, anchor: Option<String>, known: Seq) -> Self {
        Self { incarnation: self.incarnation + 1, known_upto_seq: known, anchor, rewind: true, ..self.clone() }
    }
}
