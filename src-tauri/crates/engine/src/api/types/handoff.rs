//! Handovers, before and after.

use changeover_core::{
    id::{MessageId, ThreadId},
    notice::{Handover, LeftOutReason},
    provider::Target,
    seq::Seq,
    transition::TransitionKind,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// Asks what the next turn will be (H1).
    pub struct HandoffPreviewParams {
        /// In which thread.
        thread_id: ThreadId,
        /// For whom; absent: the thread's choice.
        #[serde(default)] target: Option<Target>,
        /// A refused or failed message that would be sent again (T8); absent: a new one.
        #[serde(default)] message_id: Option<MessageId>,
        /// With the exact text.
        #[serde(default)] with_text: bool,
    }
    /// What the next turn will be.
    pub struct HandoffPreviewResponse {
        /// For whom.
        target: Target,
        /// Which transition.
        kind: TransitionKind,
        /// What is told; absent for fresh and reuse.
        handover: Option<Handover>,
        /// The exact text, if asked for.
        text: Option<String>,
        /// What stays behind, one row each, newest first (at most 200).
        left_out: Vec<LeftOutRow>,
        /// What to give to `turn/start`.
        hash: String,
    }
    /// A message that stays behind.
    pub struct LeftOutRow {
        /// Its number.
        seq: Seq,
        /// Whether the user wrote it.
        user: bool,
        /// Its first line, at most 120 characters.
        line: String,
        /// Its size in bytes.
        bytes: u64,
        /// Why it stays.
        reason: LeftOutReason,
    }
    /// The exact text of a handover, and what stayed.
    pub struct HandoffTextResponse {
        /// The text, byte for byte as sent.
        text: String,
        /// What stayed behind, newest first (at most 200).
        left_out: Vec<LeftOutRow>,
    }
}
