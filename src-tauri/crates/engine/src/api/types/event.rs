//! Events on the channel.

use changeover_core::{
    Millis,
    id::{MessageId, ThreadId},
    message::{Message, MessageState},
    part::{Part, WorkStatus},
    provider::ProviderId,
    turn::record::{Approval, Queued},
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use super::{ProjectSummary, ProviderView, SessionView, ThreadSummary, TurnView};

wire! {
    /// Which threads' texts this connection wants as they stream; summaries of all others come anyway.
    pub struct EventWatchParams {
        /// At most 16.
        thread_ids: Vec<ThreadId>,
    }
}

/// An event on the channel. Events of a thread are numbered without gaps; a gap means: read the thread again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The thread, unless it is about the whole app.
    pub thread_id: Option<ThreadId>,
    /// Its number in that thread (0 for app events).
    pub n: u64,
    /// What happened.
    pub body: EventBody,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventBody {
    /// A message is new.
    Message {
        /// The message.
        message: Message,
    },
    /// A message stands otherwise.
    MessageState {
        /// Which.
        message_id: MessageId,
        /// How it stands.
        state: MessageState,
        /// When it ended.
        ended_at: Option<Millis>,
        /// Who answers or was asked.
        provider: Option<ProviderId>,
    },
    /// The model that answers has become known.
    MessageModel {
        /// Which reply.
        message_id: MessageId,
        /// The model.
        model: String,
    },
    /// A piece of work stands otherwise; its text stays as it is.
    PartStatus {
        /// In which message.
        message_id: MessageId,
        /// Which part.
        key: String,
        /// How it stands.
        status: WorkStatus,
        /// A command's exit code, once known.
        exit_code: Option<i32>,
    },
    /// Pins or exclusion of a message changed.
    MessageFlags {
        /// Which.
        message_id: MessageId,
        /// Pinned.
        pinned: bool,
        /// Excluded.
        excluded: bool,
    },
    /// A part is new or replaced.
    Part {
        /// In which message.
        message_id: MessageId,
        /// The part.
        part: Part,
    },
    /// Text to append to a part: a text, a reasoning, or a command's output.
    Text {
        /// In which message.
        message_id: MessageId,
        /// Which part.
        key: String,
        /// What to append.
        text: String,
    },
    /// Parts were made void by a retry.
    Superseded {
        /// In which message.
        message_id: MessageId,
        /// Which parts.
        keys: Vec<String>,
    },
    /// The open turn as it now is; `null`: none.
    Turn {
        /// The turn.
        turn: Option<TurnView>,
    },
    /// The queue as it now is.
    Queue {
        /// The queue.
        queue: Vec<Queued>,
    },
    /// An approval as it now is.
    Approval {
        /// The approval.
        approval: Approval,
    },
    /// The live sessions as they now are.
    Sessions {
        /// The sessions.
        sessions: Vec<SessionView>,
    },
    /// Something to know that ends nothing.
    Warning {
        /// What.
        message: String,
    },
    /// A thread's summary as it now is (sent for every thread, watched or not).
    Thread {
        /// The thread.
        thread: ThreadSummary,
    },
    /// A thread was deleted.
    ThreadDeleted {},
    /// A project as it now is.
    Project {
        /// The project.
        project: ProjectSummary,
    },
    /// A project was taken off the list; its threads are listed no more.
    ProjectRemoved {
        /// Which.
        project_id: changeover_core::id::ProjectId,
    },
    /// Providers as they now are.
    Providers {
        /// All of them.
        providers: Vec<ProviderView>,
    },
    /// The disk: `null` when all is well, else what is wrong and what to do (S1).
    Storage {
        /// What is wrong.
        problem: Option<String>,
    },
}
