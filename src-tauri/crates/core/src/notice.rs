//! Notices: Changeover's own rows in a thread, drawn as dividers and cards. Never content.

use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    provider::ProviderId,
    seq::{Seq, SeqRange},
    transition::TransitionKind,
};

/// Why a message or command was not handed over (T4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum LeftOutReason {
    /// It did not fit the budget (B3).
    Budget,
    /// The user excluded it (H2).
    Excluded,
    /// It looks like a secret and was kept here (X7).
    Secret,
    /// The handoff document covers it (T1a).
    Document,
}

/// A stretch of messages that stayed behind, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// The messages; notices in between do not count.
    pub range: SeqRange,
    /// Why.
    pub reason: LeftOutReason,
}

/// One item of a handoff as counted: for the strip and the list of what went (X2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct ItemMark {
    /// The message it belongs to.
    #[ts(type = "number")]
    pub seq: Seq,
    /// What it is.
    pub kind: ItemKind,
    /// What it costs of the budget, in bytes (rendered plus 64, B3).
    #[ts(type = "number")]
    pub bytes: u64,
}

/// What an item of a handoff is (B2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum ItemKind {
    /// The newest handoff document.
    Summary,
    /// A user message's text.
    User,
    /// A reply's text.
    Assistant,
    /// One command with exit code and output.
    Command,
}

/// What was handed over at a transition, and what stayed (T4). The exact text is stored beside the notice and read on its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Handover {
    /// Who took over.
    pub provider: ProviderId,
    /// Its model, as far as known.
    pub model: Option<String>,
    /// Who answered before, for "Back to …" and the rail.
    pub from: Option<ProviderId>,
    /// Handoff, delta or replay.
    pub kind: TransitionKind,
    /// Messages told, as seq ranges.
    pub told: Vec<SeqRange>,
    /// Messages left out, with the reason.
    pub left_out: Vec<LeftOut>,
    /// How many content messages were told.
    #[ts(type = "number")]
    pub messages_told: u64,
    /// How many content messages there were to tell.
    #[ts(type = "number")]
    pub messages_total: u64,
    /// How many commands were told.
    #[ts(type = "number")]
    pub commands_told: u64,
    /// How many commands there were to tell.
    #[ts(type = "number")]
    pub commands_total: u64,
    /// What the chosen items cost of the budget, in bytes.
    #[ts(type = "number")]
    pub used: u64,
    /// The budget, in bytes.
    #[ts(type = "number")]
    pub budget: u64,
    /// Length of the exact text, in bytes.
    #[ts(type = "number")]
    pub bytes: u64,
    /// SHA-256 of the exact text, in hex.
    pub hash: String,
    /// The chosen items in chronological order (for the strip).
    pub items: Vec<ItemMark>,
}

/// What a system row says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// A transition that told something (T4).
    Handover(Handover),
    /// A session that turned out to be gone; the turn went on in a fresh one (T5).
    SessionGone {
        /// Whose session.
        provider: ProviderId,
        /// The CLI's own words.
        reason: String,
    },
    /// A turn that was refused or failed; the message can be sent again (T8).
    Error {
        /// Whose turn.
        provider: ProviderId,
        /// What went wrong.
        failure: Failure,
    },
    /// The CLI compacted its history although it was told not to (G2).
    Compacted {
        /// Whose session.
        provider: ProviderId,
    },
}
