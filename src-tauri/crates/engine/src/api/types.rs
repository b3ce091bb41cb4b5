//! What the API takes and gives. Rust declares, TypeScript is generated (house rule 5).

use changeover_core::{
    Millis,
    approval::ApprovalDecision,
    failure::Failure,
    id::{ApprovalId, MessageId, ProjectId, QueuedId, ThreadId, TurnId},
    message::{Message, MessageState, Role},
    notice::{Handover, LeftOutReason},
    part::{Part, WorkStatus},
    power::Cannot,
    provider::{ProviderId, Target},
    seq::{Seq, SeqRange},
    transition::TransitionKind,
    turn::record::{Approval, Queued, TurnPhase},
    usage::ContextFigure,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

macro_rules! wire {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$fmeta:meta])* $field:ident : $ty:ty),* $(,)? })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
        #[serde(rename_all = "camelCase")]
        $vis struct $name { $($(#[$fmeta])* pub $field: $ty),* }
    )+};
}

wire! {
    /// No parameters.
    pub struct Nothing {}

    /// About this engine.
    pub struct AppInfoResponse {
        /// Version of the app.
        version: String,
        /// The data folder in use.
        data_folder: String,
        /// `linux`, `macos` or `windows`.
        platform: String,
        /// Whether this process shows a real window (dialogs can be asked for).
        window: bool,
    }

    /// A project in the sidebar.
    pub struct ProjectSummary {
        /// Its id.
        id: ProjectId,
        /// The folder's name, or the name the user gave.
        name: String,
        /// The folder's real path.
        path: String,
        /// Whether the folder exists right now.
        exists: bool,
        /// When it was opened first.
        created_at: Millis,
    }
    /// Opens a folder as a project; the same real path is the same project.
    pub struct ProjectOpenParams {
        /// Absolute path of a folder; `~` is the home folder.
        path: String,
    }
    /// The project.
    pub struct ProjectOpenResponse {
        /// The project.
        project: ProjectSummary,
    }
    /// All projects.
    pub struct ProjectListResponse {
        /// Newest first.
        projects: Vec<ProjectSummary>,
    }

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
    /// Which threads' texts this connection wants as they stream; summaries of all others come anyway.
    pub struct EventWatchParams {
        /// At most 16.
        thread_ids: Vec<ThreadId>,
    }

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
    /// Answers an approval.
    pub struct ApprovalAnswerParams {
        /// In which thread.
        thread_id: ThreadId,
        /// Which.
        approval_id: ApprovalId,
        /// The answer.
        decision: ApprovalDecision,
    }
    /// An approval that waits, anywhere.
    pub struct ApprovalEntry {
        /// In which thread.
        thread_id: ThreadId,
        /// The approval.
        approval: Approval,
    }
    /// All open approvals.
    pub struct ApprovalListResponse {
        /// Oldest first.
        approvals: Vec<ApprovalEntry>,
    }

    /// Asks what the next turn will be (H1).
    pub struct HandoffPreviewParams {
        /// In which thread.
        thread_id: ThreadId,
        /// For whom; absent: the thread's choice.
        #[serde(default)] target: Option<Target>,
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
    /// The exact text of a handover, and what stayed.
    pub struct HandoffTextResponse {
        /// The text, byte for byte as sent.
        text: String,
        /// What stayed behind, newest first (at most 200).
        left_out: Vec<LeftOutRow>,
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

    /// A provider as the picker and settings show it (R2).
    pub struct ProviderView {
        /// Its id.
        id: ProviderId,
        /// The name that people read.
        name: String,
        /// How it stands.
        state: ProviderState,
        /// Its version.
        version: Option<String>,
        /// The program that is run.
        path: Option<String>,
        /// How it was found.
        found: Option<String>,
        /// How it is logged in.
        login: Option<String>,
        /// What keeps it from being used, and the way on.
        problem: Option<Failure>,
        /// What it cannot do, each in a sentence (R2).
        cannot: Vec<Cannot>,
        /// Its models, once known.
        models: Vec<ModelView>,
    }
    /// A model on offer.
    pub struct ModelView {
        /// The provider's own name.
        id: String,
        /// The name that people read.
        name: String,
        /// Its window in tokens, if known.
        window: Option<u64>,
        /// Reasoning efforts, weakest first.
        efforts: Vec<String>,
        /// The provider's default.
        default: bool,
    }
    /// Lists providers.
    pub struct ProviderListParams {
        /// Look again.
        #[serde(default)] refresh: bool,
    }
    /// All providers.
    pub struct ProviderListResponse {
        /// In the picker's order.
        providers: Vec<ProviderView>,
    }
    /// Picks a provider's program by hand.
    pub struct ProviderPickParams {
        /// Which provider.
        provider: ProviderId,
        /// Absolute path of its program; absent: find it again.
        #[serde(default)] path: Option<String>,
    }

    /// Searches all threads.
    pub struct SearchParams {
        /// Words; all must occur. 1 to 256 characters.
        words: String,
        /// At most so many (1 to 100; default 50).
        #[serde(default)] limit: Option<u32>,
    }
    /// One hit.
    pub struct SearchHit {
        /// In which thread.
        thread_id: ThreadId,
        /// Which message.
        seq: Seq,
        /// The text around the hit.
        excerpt: String,
        /// When it was written.
        at: Millis,
    }
    /// Hits, newest first.
    pub struct SearchResponse {
        /// The hits.
        hits: Vec<SearchHit>,
        /// What was not searched, in words, if anything.
        not_searched: Option<String>,
    }
    /// Reads a setting.
    pub struct SettingGetParams {
        /// Its name.
        name: String,
    }
    /// Writes a setting.
    pub struct SettingPutParams {
        /// Its name: letters, digits, dots; at most 64.
        name: String,
        /// Its value; `null` removes it. At most 64 KiB.
        value: serde_json::Value,
    }
    /// A setting's value.
    pub struct SettingResponse {
        /// Its value, `null` if never set.
        value: serde_json::Value,
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

/// Whether a provider can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ProviderState {
    /// Being looked for.
    Looking,
    /// Ready.
    Ready,
    /// Not installed.
    NotFound,
    /// Installed, not logged in.
    NotLoggedIn,
    /// Installed, but broken; `problem` says how.
    Broken,
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
