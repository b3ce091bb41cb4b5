//! Messages and their parts.

use changeover_core::{
    id::{MessageId, ThreadId},
    part::Part,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// Names a message.
    pub struct MessageParams {
        /// In which thread.
        thread_id: ThreadId,
        /// Which.
        message_id: MessageId,
    }
    /// Switches something of a message on or off.
    pub struct MessageSwitchParams {
        /// In which thread.
        thread_id: ThreadId,
        /// Which.
        message_id: MessageId,
        /// On or off.
        on: bool,
    }
    /// Names a part.
    pub struct PartReadParams {
        /// In which thread.
        thread_id: ThreadId,
        /// In which message.
        message_id: MessageId,
        /// The part's key.
        key: String,
    }
    /// A part, whole.
    pub struct PartReadResponse {
        /// The part.
        part: Part,
    }
}
