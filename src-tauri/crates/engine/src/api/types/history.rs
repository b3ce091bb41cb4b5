//! What was said, as an agent may read it (M2, H2).

use changeover_core::{
    Millis,
    id::ThreadId,
    message::{MessageState, Role},
    part::WorkStatus,
    provider::ProviderId,
    seq::Seq,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// Reads what was said, as an agent may read it (M2, H2).
    pub struct HistoryReadParams {
        /// In which thread.
        thread_id: ThreadId,
        /// Only messages below this number; absent: the newest.
        #[serde(default)] before_seq: Option<Seq>,
        /// At most so many (1 to 100; default 20); the page is bounded in bytes too.
        #[serde(default)] limit: Option<u32>,
    }
    /// A page of what was said.
    pub struct HistoryReadResponse {
        /// The thread.
        thread_id: ThreadId,
        /// Its title.
        title: String,
        /// Oldest first.
        messages: Vec<HistoryMessage>,
        /// What to give as `beforeSeq` for the page before this one; absent: this page begins with the first message.
        next_before_seq: Option<Seq>,
    }
    /// A message as an agent may read it.
    pub struct HistoryMessage {
        /// Its number.
        seq: Seq,
        /// Who it is from (never the system).
        role: Role,
        /// Who answered; for a user message, who was asked last.
        provider: Option<ProviderId>,
        /// The model that answered, as far as known.
        model: Option<String>,
        /// How it stands.
        state: MessageState,
        /// When it was written.
        at: Millis,
        /// The same as text: `2026-11-30T08:00:12Z`.
        time: String,
        /// Left out by the user (H2): its number and who it is from stand, nothing else.
        left_out: bool,
        /// What was said and run, in order; superseded tries, reasoning, tool calls and file changes are not among it.
        blocks: Vec<HistoryBlock>,
    }
    /// Searches what was said, as an agent may (M2, H2).
    pub struct HistorySearchParams {
        /// Words, or phrases in double quotes; all must occur. 1 to 256 characters.
        words: String,
        /// At most so many (1 to 50; default 20).
        #[serde(default)] limit: Option<u32>,
    }
    /// What was found.
    pub struct HistorySearchResponse {
        /// Newest first.
        hits: Vec<HistoryHit>,
        /// What was not searched, in words, if anything.
        not_searched: Option<String>,
    }
    /// One hit.
    pub struct HistoryHit {
        /// In which thread.
        thread_id: ThreadId,
        /// Its title.
        title: String,
        /// Which message.
        seq: Seq,
        /// Who wrote it.
        role: Role,
        /// Who answered; for a user message, who was asked last.
        provider: Option<ProviderId>,
        /// When it was written.
        at: Millis,
        /// The same as text.
        time: String,
        /// The text around the hit, on one line.
        excerpt: String,
    }
    /// The threads that may be read.
    pub struct HistoryListResponse {
        /// The caller's own first, then last changed first.
        threads: Vec<HistoryThread>,
        /// How many more there are.
        more: u64,
    }
    /// A thread that may be read.
    pub struct HistoryThread {
        /// The thread.
        thread_id: ThreadId,
        /// Its title.
        title: String,
        /// What it is to the caller.
        relation: HistoryRelation,
        /// The thread it was forked from.
        parent_thread_id: Option<ThreadId>,
        /// Its highest message number (0: none yet).
        last_seq: Seq,
        /// When something last happened in it.
        updated_at: Millis,
        /// The same as text.
        updated: String,
    }
}

/// Something said or run, as an agent may read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum HistoryBlock {
    /// Prose, byte for byte but for a marked cut.
    Text {
        /// The text.
        text: String,
        /// Bytes that were left away where the text says so; 0: it is whole.
        cut: u64,
    },
    /// A shell command.
    Command {
        /// The command line.
        command: String,
        /// How it stands.
        status: WorkStatus,
        /// Exit code, once known.
        exit_code: Option<i32>,
        /// Its output.
        output: String,
        /// Bytes that were left away of line and output where they say so; 0: both are whole.
        cut: u64,
    },
    /// Work in the middle of a very long reply that is left away.
    Gap {
        /// How many texts and commands.
        blocks: u64,
    },
}

/// What a thread is to the session that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum HistoryRelation {
    /// Its own conversation.
    Own,
    /// A thread that its own was forked from, directly or not.
    Ancestor,
    /// A thread that was forked from its own, directly or not.
    Branch,
    /// Any thread: the caller is no agent's session.
    Any,
}
