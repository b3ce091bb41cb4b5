//! Turns and what waits for one.

use changeover_core::{
    Millis,
    id::{MessageId, QueuedId, ThreadId, TurnId},
    provider::Target,
    seq::Seq,
    turn::record::TurnPhase,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use super::HandoffPreviewResponse;

wire! {
    /// The open turn as shown.
    pub struct TurnView {
        /// Its id.
        id: TurnId,
        /// Its user message.
        message_id: MessageId,
        /// Who answers.
        target: Target,
        /// Where it stands.
        phase: TurnPhase,
        /// When it began.
        started_at: Millis,
        /// Which attempt, from 1.
        attempt: u32,
        /// A retry that goes on right now.
        retry: Option<RetryView>,
    }
    /// A retry as shown (R10).
    pub struct RetryView {
        /// Which try, from 1.
        attempt: u32,
        /// Of how many, if known.
        max: Option<u32>,
        /// Why.
        message: String,
    }
    /// Sends a message.
    pub struct TurnStartParams {
        /// In which thread.
        thread_id: ThreadId,
        /// The caller's id for this request (1 to 64 characters): a second request with it is answered, not repeated.
        client_turn_id: String,
        /// The message, 1 byte to 8 MiB.
        text: String,
        /// Who answers; absent: the thread's choice.
        #[serde(default)] target: Option<Target>,
        /// The hash of the preview on screen (H1): if what would be told differs, nothing is sent.
        #[serde(default)] preview_hash: Option<String>,
    }
    /// Sends a refused or failed message again as itself (T8).
    pub struct TurnAgainParams {
        /// In which thread.
        thread_id: ThreadId,
        /// The caller's id for this request.
        client_turn_id: String,
        /// The message.
        message_id: MessageId,
        /// Who answers; absent: the thread's choice.
        #[serde(default)] target: Option<Target>,
        /// The hash of the preview on screen (H1): if what would be told differs, nothing is sent.
        #[serde(default)] preview_hash: Option<String>,
    }
    /// Sends the head of a queue that was held after a stop or a failure.
    pub struct QueueGoParams {
        /// In which thread.
        thread_id: ThreadId,
    }
    /// Takes a queued message back, or changes it.
    pub struct QueueEditParams {
        /// In which thread.
        thread_id: ThreadId,
        /// Which.
        queued_id: QueuedId,
        /// The new text; absent: take it back.
        #[serde(default)] text: Option<String>,
    }
}

/// What became of a sent message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TurnStartResponse {
    /// A turn has begun; the message is on disk.
    Started {
        /// The turn.
        turn_id: TurnId,
        /// The message.
        message_id: MessageId,
        /// Its number.
        seq: Seq,
    },
    /// A turn runs; the message waits on disk.
    Queued {
        /// Its id.
        queued_id: QueuedId,
    },
    /// What would be told is no longer what was previewed (H1): nothing was sent, here is the new preview.
    Changed {
        /// The new preview.
        preview: Box<HandoffPreviewResponse>,
    },
}
