//! Threads, their pages and their sessions.

use changeover_core::{
    Millis,
    id::{ProjectId, ThreadId},
    message::Message,
    notice::LeftOutReason,
    provider::{ProviderId, Target},
    seq::{Seq, SeqRange},
    turn::record::{Approval, Queued},
    usage::ContextFigure,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use super::TurnView;

wire! {
    /// A thread in the sidebar.
    pub struct ThreadSummary {
        /// Its id.
        id: ThreadId,
        /// Its project.
        project_id: ProjectId,
        /// Its title; empty until the first message.
        title: String,
        /// Provider and model of its next turn.
        target: Target,
        /// Its highest message number.
        last_seq: Seq,
        /// How far the user has read.
        seen_seq: Seq,
        /// What its row shows.
        mark: ThreadMark,
        /// When it was made.
        created_at: Millis,
        /// When something last happened in it.
        updated_at: Millis,
        /// Put away.
        archived: bool,
        /// Kept on top.
        pinned: bool,
        /// The thread it was forked from.
        parent_thread_id: Option<ThreadId>,
    }
    /// Starts an empty thread.
    pub struct ThreadStartParams {
        /// In which project.
        project_id: ProjectId,
        /// Provider and model of its first turn; absent: as last used.
        #[serde(default)] target: Option<Target>,
    }
    /// One thread.
    pub struct ThreadResponse {
        /// The thread.
        thread: ThreadSummary,
    }
    /// Which threads to list.
    pub struct ThreadListParams {
        /// Of one project only.
        #[serde(default)] project_id: Option<ProjectId>,
        /// Archived ones too.
        #[serde(default)] archived: bool,
    }
    /// Threads, newest first.
    pub struct ThreadListResponse {
        /// The threads.
        threads: Vec<ThreadSummary>,
    }
    /// Names a thread.
    pub struct ThreadParams {
        /// Which.
        thread_id: ThreadId,
    }
    /// Reads a page of a thread.
    pub struct ThreadReadParams {
        /// Which thread.
        thread_id: ThreadId,
        /// Where.
        #[serde(default)] at: PageAt,
        /// At most so many messages (1 to 200; default 60).
        #[serde(default)] limit: Option<u32>,
    }
    /// A page of a thread, and what is live in it.
    pub struct ThreadReadResponse {
        /// The thread.
        thread: ThreadSummary,
        /// Ascending by seq.
        messages: Vec<Message>,
        /// Older messages exist.
        has_before: bool,
        /// Newer messages exist.
        has_after: bool,
        /// Texts of this page that are given in short, each with where; `part/read` gives the whole.
        cuts: Vec<CutView>,
        /// The open turn.
        turn: Option<TurnView>,
        /// Messages that wait.
        queue: Vec<Queued>,
        /// Open approvals, and settled ones of the open turn.
        approvals: Vec<Approval>,
        /// Its live sessions.
        sessions: Vec<SessionView>,
        /// The unsent text of the composer.
        draft: String,
        /// Number of the last event that this answer includes; later ones come by the channel.
        event: u64,
    }
    /// A text that a page gives in short.
    pub struct CutView {
        /// The message.
        seq: Seq,
        /// The part.
        key: String,
        /// Bytes of its text before the gap.
        at: u64,
        /// Bytes that are left away there.
        bytes: u64,
    }
    /// A live session of a thread.
    pub struct SessionView {
        /// Whose.
        provider: ProviderId,
        /// The provider's own id.
        session_id: String,
        /// Counts up whenever its history lost something.
        incarnation: u32,
        /// How far it has seen.
        known_upto_seq: Seq,
        /// Context and window as last reported.
        context: Option<ContextFigure>,
    }
    /// T6's four sets for one session.
    pub struct SessionSets {
        /// The session.
        session: SessionView,
        /// Its own replies.
        own: Vec<SeqRange>,
        /// Told, each in exactly one turn.
        told: Vec<SeqRange>,
        /// Left out, with the reason.
        left_out: Vec<LeftOutView>,
        /// Not seen yet.
        above: Vec<SeqRange>,
    }
    /// A stretch left out.
    pub struct LeftOutView {
        /// Which messages.
        range: SeqRange,
        /// Why.
        reason: LeftOutReason,
    }
    /// T6's sets for each live session of a thread.
    pub struct ThreadSessionsResponse {
        /// One entry a session.
        sessions: Vec<SessionSets>,
    }
    /// Renames a thread; kept for good.
    pub struct ThreadRenameParams {
        /// Which.
        thread_id: ThreadId,
        /// 1 to 200 characters.
        title: String,
    }
    /// Puts a thread away, or takes it back.
    pub struct ThreadArchiveParams {
        /// Which.
        thread_id: ThreadId,
        /// Away or back.
        on: bool,
        /// Whether its turn may be stopped for it, if one runs: the person was asked (S4). Else that is an error (`running`).
        #[serde(default)] stop: bool,
    }
    /// Deletes a thread.
    pub struct ThreadDeleteParams {
        /// Which.
        thread_id: ThreadId,
        /// Whether its turn may be stopped for it, if one runs: the person was asked (S4). Else that is an error (`running`).
        #[serde(default)] stop: bool,
    }
    /// Switches something of a thread on or off.
    pub struct ThreadSwitchParams {
        /// Which.
        thread_id: ThreadId,
        /// On or off.
        on: bool,
    }
    /// The user has read up to here.
    pub struct ThreadSeenParams {
        /// Which.
        thread_id: ThreadId,
        /// The highest seq on screen.
        seq: Seq,
    }
    /// Keeps the composer's unsent text.
    pub struct ThreadDraftParams {
        /// Which.
        thread_id: ThreadId,
        /// At most 1 MiB.
        text: String,
    }
    /// Chooses provider and model of the next turn (T7).
    pub struct ThreadTargetParams {
        /// Which.
        thread_id: ThreadId,
        /// The choice.
        target: Target,
    }
}

/// What a thread's row shows at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ThreadMark {
    /// Nothing goes on.
    #[default]
    Idle,
    /// A turn runs.
    Running,
    /// A person is awaited.
    Waiting,
    /// The last turn failed or was refused.
    Failed,
}

/// Where a page lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PageAt {
    /// The end of the thread.
    #[default]
    Newest,
    /// Just before this message.
    Before {
        /// Its number.
        seq: Seq,
    },
    /// Just after this message.
    After {
        /// Its number.
        seq: Seq,
    },
    /// Around this message.
    Around {
        /// Its number.
        seq: Seq,
    },
}
