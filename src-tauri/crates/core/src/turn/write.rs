//! What a step wants on disk: data, applied by the store in one transaction.

use crate::{
    Millis,
    id::MessageId,
    message::{Message, MessageState, SessionStamp},
    part::{Part, WorkStatus},
    provider::{ProviderId, Target},
    session::SessionRecord,
    turn::record::{Approval, Queued, TurnRecord},
};

/// One change to a thread. A batch of them is one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Appends a message with its parts under `message.seq`, which must be the thread's next number. For a handover notice
    /// `text` is the exact text (T4).
    Append {
        /// The message.
        message: Box<Message>,
        /// The exact text of a handover.
        text: Option<String>,
    },
    /// Changes how a message stands. A state that is not `Open` also brings the thread's size index up to date.
    MessageState {
        /// Which message.
        message: MessageId,
        /// The new state.
        state: MessageState,
        /// When a reply ended.
        ended_at: Option<Millis>,
        /// Who was asked, for a user message that is sent again (T8).
        provider: Option<ProviderId>,
    },
    /// The model that answers, once the runtime has said it.
    MessageModel {
        /// Which reply.
        message: MessageId,
        /// The model.
        model: String,
    },
    /// The session that gives a reply, where another attempt of its turn went to another one, or to its next incarnation (B8).
    MessageSession {
        /// Which reply, still open.
        message: MessageId,
        /// The session.
        session: Option<SessionStamp>,
    },
    /// Adds a part, or replaces the body of the part with the same key.
    Part {
        /// Which message.
        message: MessageId,
        /// The part.
        part: Part,
    },
    /// Appends bytes to a text, a reasoning or a command's output, as one chunk (S1).
    Chunk {
        /// Which message.
        message: MessageId,
        /// Which part.
        key: String,
        /// What is appended.
        text: String,
    },
    /// Changes how a part of work stands, its bytes as they are.
    PartStatus {
        /// Which message.
        message: MessageId,
        /// Which part.
        key: String,
        /// The new status.
        status: WorkStatus,
        /// A command's exit code, once known.
        exit_code: Option<i32>,
    },
    /// Folds parts away (S2).
    Supersede {
        /// Which message.
        message: MessageId,
        /// Their keys.
        keys: Vec<String>,
    },
    /// Puts the provider's live session as it now is.
    Session(SessionRecord),
    /// The provider's session is no longer used; its row stays as a retired one.
    DropSession {
        /// Whose.
        provider: ProviderId,
        /// When.
        at: Millis,
    },
    /// Puts a turn as it now is; `text` is the handover's exact text while it is not yet a notice.
    Turn {
        /// The turn.
        turn: Box<TurnRecord>,
        /// The exact text that goes with its prompt.
        text: Option<String>,
    },
    /// Replaces the queue.
    Queue(Vec<Queued>),
    /// Puts an approval as it now is.
    Approval(Approval),
    /// Remembers "in this thread" (R4).
    Rule(String),
    /// The provider and model of the next turn (T7).
    Target(Target),
    /// Gives the thread a title unless the user has named it.
    Title(String),
}
