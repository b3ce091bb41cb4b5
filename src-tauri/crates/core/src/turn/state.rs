//! The thread's state between steps, what comes in and what goes out (DESIGN 2b).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Millis,
    approval::ApprovalDecision,
    event::{Keeps, RuntimeEvent},
    failure::Failure,
    handoff::items::Scope,
    id::{ApprovalId, MessageId, PromptId, QueuedId, ThreadId, TurnId},
    message::{Message, SessionStamp},
    notice::Handover,
    part::{Part, PartBody, WorkStatus},
    provider::{ProviderId, Target},
    seq::Seq,
    session::SessionRecord,
    transition::{self, Transition},
    turn::{
        record::{Approval, Queued, ReplyRef, TurnRecord},
        write::Write,
    },
};

/// How long what was shown waits for more before it is written, in milliseconds. S1's 250 ms are to the moment at which it is on
/// disk: the rest is for the transaction itself, on a slow disk and a busy machine too.
pub const FLUSH_MS: Millis = 150;
/// How long a CLI may take to end its turn when asked, before its tree is killed, in milliseconds. R5's 3 s are to the moment at
/// which nothing is left of it: as much again for finding, killing and looking once more on a busy machine.
pub const INTERRUPT_MS: Millis = 1_500;
/// R10: this long without progress ends a turn, in milliseconds.
pub const NO_PROGRESS_MS: Millis = 5 * 60_000;
/// R10: this many retries without progress end a turn.
pub const NO_PROGRESS_RETRIES: u32 = 10;
/// R10: this many model requests without progress end a turn.
pub const NO_PROGRESS_REQUESTS: u32 = 20;
/// Attempts of a turn that ends by a retryable error before the model answered (G16).
pub const MAX_ATTEMPTS: u32 = 3;
/// How many messages may wait in a thread.
pub const QUEUE_BOUND: usize = 50;

/// All that decides a thread's next step.
#[derive(Debug, Clone)]
pub struct ThreadState {
    /// The thread.
    pub thread: ThreadId,
    /// Provider and model of the next turn (T7).
    pub target: Target,
    /// The workspace's real path.
    pub folder: String,
    /// The number that the next message gets.
    pub next_seq: Seq,
    /// The highest and second highest content seq: enough to tell "any content other than message m".
    pub content: [Option<Seq>; 2],
    /// Who answered last.
    pub answered_by: Option<ProviderId>,
    /// Whether the thread has a title.
    pub titled: bool,
    /// Live sessions.
    pub sessions: BTreeMap<ProviderId, SessionRecord>,
    /// The open turn.
    pub turn: Option<OpenTurn>,
    /// Messages that wait (R8).
    pub queue: Vec<Queued>,
    /// "In this thread" (R4).
    pub rules: BTreeSet<String>,
    /// Work that goes on after its turn (S2), by provider and item.
    pub late: BTreeMap<(ProviderId, String), Late>,
    /// What each provider's CLI keeps (T9). Absent: nothing is proved.
    pub keeps: BTreeMap<ProviderId, Keeps>,
    /// Attempts a turn gets (G16).
    pub max_attempts: u32,
    /// What was shown and is not yet on disk.
    pub pending: Pending,
}

/// A command, tool or file change that outlived its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// The reply it belongs to.
    pub message: MessageId,
    /// Its part there.
    pub key: String,
    /// A command's line, for a change of status that does not repeat it; empty for other work.
    pub command: String,
}

impl Late {
    /// Of a part as it is stored; `None` where it is no work that goes on. After a crash this is how all that an ended process
    /// left "running" is found, to be closed.
    pub fn of(message: MessageId, part: &Part) -> Option<Self> {
        let command = match &part.body {
            PartBody::Command { command, status: WorkStatus::Running, .. } => command.clone(),
            PartBody::Tool { status: WorkStatus::Running, .. }
            | PartBody::FileChange { status: WorkStatus::Running, .. } => String::new(),
            _ => return None,
        };
        Some(Self { message, key: part.key.clone(), command })
    }
}

/// Parts and chunks that wait for the next commit.
#[derive(Debug, Clone, Default)]
pub struct Pending {
    /// In order.
    pub writes: Vec<Write>,
    /// When they must be on disk.
    pub due: Option<Millis>,
}

/// The open turn in memory.
#[derive(Debug, Clone)]
pub struct OpenTurn {
    /// What is on disk of it.
    pub record: TurnRecord,
    /// The message's text.
    pub message_text: String,
    /// The handover's exact text, while it is not yet a notice.
    pub handover_text: Option<String>,
    /// The transition that was prepared.
    pub transition: Transition,
    /// The session id as the runtime says it.
    pub session_id: Option<String>,
    /// The model as the runtime says it.
    pub model: Option<String>,
    /// The runtime's place in its history as last reported.
    pub anchor: Option<String>,
    /// Whether the model has made anything in this attempt (T2). The reply is there from the first attempt on that it did.
    pub answered: bool,
    /// It goes on in a reply that an earlier attempt began.
    pub continued: bool,
    /// The parts that this attempt has made of the reply.
    pub parts: BTreeMap<String, LivePart>,
    /// The parts of earlier attempts that stand.
    pub earlier: BTreeMap<String, LivePart>,
    /// The highest content message besides this turn's own, and who gave the last reply before it: once there is a reply, later
    /// attempts cannot ask the thread.
    pub before: Option<(Option<Seq>, Option<ProviderId>)>,
    /// The hash of the last handover that this turn left a notice of: told once more, it leaves none.
    pub noticed: Option<String>,
    /// Approvals of this turn.
    pub approvals: Vec<Approval>,
    /// R10's clock.
    pub progress: Progress,
    /// Kill the tree if the turn has not ended by then.
    pub kill_at: Option<Millis>,
    /// The tree was killed already.
    pub killed: bool,
    /// The turn is being stopped by us for this reason, not by the user.
    pub abort: Option<Failure>,
    /// The retry that goes on.
    pub retry: Option<Retry>,
    /// Context that was reported before there was a session row.
    pub early_context: Option<crate::usage::ContextFigure>,
}

/// A part of the open reply, without its bytes.
#[derive(Debug, Clone)]
pub struct LivePart {
    /// Text, reasoning, or work.
    pub kind: LiveKind,
    /// Bytes of text so far.
    pub len: u64,
    /// FNV-1a of the text so far, to tell whether the runtime's final text is what was streamed.
    pub hash: u64,
}

/// What a live part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveKind {
    /// Text.
    Text,
    /// Reasoning.
    Reasoning,
    /// A command; its line is kept for changes of status.
    Command {
        /// The command line.
        command: String,
        /// How it stands.
        status: WorkStatus,
    },
    /// A tool, a file change, a plan; kept whole, since a change of status repeats it.
    Other(Part),
}

/// R10's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// When something last moved.
    pub at: Millis,
    /// Model requests since.
    pub requests: u32,
    /// Retries since.
    pub retries: u32,
}

/// A retry that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Which try, from 1.
    pub attempt: u32,
    /// Of how many.
    pub max: Option<u32>,
    /// Why.
    pub message: String,
}

/// What comes in.
#[derive(Debug, Clone)]
pub enum Input {
    /// A person sends a message.
    Send {
        /// The caller's id.
        client_id: String,
        /// The text.
        text: String,
        /// Who answers.
        target: Target,
    },
    /// A person sends a refused or failed message again (T8).
    Again {
        /// The caller's id.
        client_id: String,
        /// The message.
        message: MessageId,
        /// Its number.
        seq: Seq,
        /// Its text.
        text: String,
        /// Who answers.
        target: Target,
    },
    /// A person stops the turn.
    Interrupt,
    /// A person changes a queued message, or takes it back.
    QueueEdit {
        /// Which.
        id: QueuedId,
        /// New text; `None`: take it back.
        text: Option<String>,
    },
    /// Sends the head of a queue that was held after a stop or a failure.
    QueueGo,
    /// A person answers an approval.
    Answer {
        /// Which.
        id: ApprovalId,
        /// How.
        decision: ApprovalDecision,
    },
    /// A person chooses who answers next.
    Target(Target),
    /// The driver has checked the folder and made the handover's text.
    Prepared {
        /// For which turn.
        turn: TurnId,
        /// For which attempt.
        attempt: u32,
        /// The handover and its exact text, `None` for fresh and reuse; or why it cannot go.
        result: Result<Option<(Handover, String)>, Failure>,
    },
    /// The session is open, or not.
    Opened {
        /// For which turn.
        turn: TurnId,
        /// For which attempt.
        attempt: u32,
        /// Or why not.
        result: Result<(), Failure>,
    },
    /// The prompt's bytes left us, or not.
    Written {
        /// For which turn.
        turn: TurnId,
        /// For which prompt.
        prompt: PromptId,
        /// Or why not.
        result: Result<(), Failure>,
    },
    /// A runtime reports.
    Event {
        /// Whose session.
        provider: ProviderId,
        /// What.
        event: RuntimeEvent,
    },
    /// Time has passed.
    Tick,
    /// Somebody wants to read: what was shown goes to disk now.
    Flush,
    /// The app starts again and finds this state on disk.
    Recover,
}

/// What a prompt would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// Which transition.
    pub transition: Transition,
    /// What of the transcript.
    pub scope: Scope,
    /// Who answered before.
    pub from: Option<ProviderId>,
}

/// What goes out; the driver carries it out in order, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// One transaction. Nothing after it happens before it is on disk.
    Commit(Vec<Write>),
    /// Shows something that is, or within 250 ms will be, on disk (S1).
    Show(Change),
    /// Checks the folder, makes the handover → `Input::Prepared`.
    Prepare {
        /// For which turn.
        turn: TurnId,
        /// For which attempt.
        attempt: u32,
        /// For whom.
        target: Target,
        /// Which transition.
        transition: Transition,
        /// What of the transcript.
        scope: Scope,
        /// Who answered before.
        from: Option<ProviderId>,
    },
    /// Opens the session (or finds it open) → `Input::Opened`.
    Open {
        /// For which turn.
        turn: TurnId,
        /// For which attempt.
        attempt: u32,
        /// Whose, and how.
        target: Target,
        /// The session to go on with.
        resume: Option<ResumeAt>,
    },
    /// Writes the prompt → `Input::Written`.
    Write {
        /// For which turn.
        turn: TurnId,
        /// To whom.
        provider: ProviderId,
        /// The prompt.
        prompt: PromptId,
        /// Its text.
        text: String,
    },
    /// Answers an approval of the CLI.
    Answer {
        /// Whose.
        provider: ProviderId,
        /// The runtime's key.
        key: String,
        /// Yes or no.
        allow: bool,
    },
    /// Asks the CLI to end its turn.
    Interrupt {
        /// Whose.
        provider: ProviderId,
    },
    /// Kills the session's process tree; `Exited` follows.
    Kill {
        /// Whose.
        provider: ProviderId,
    },
    /// Ends the session in good order.
    Close {
        /// Whose.
        provider: ProviderId,
    },
    /// Answers the command that came in.
    Respond(Response),
}

/// A session to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeAt {
    /// The provider's own id.
    pub session_id: String,
    /// The place in its history that we count on, where known.
    pub anchor: Option<String>,
    /// Bring it back to there first (T9).
    pub rewind: bool,
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// A turn has begun.
    Started {
        /// The turn.
        turn: TurnId,
        /// The message.
        message: MessageId,
        /// Its number.
        seq: Seq,
    },
    /// The message waits.
    Queued(QueuedId),
    /// Done.
    Done,
    /// It cannot be done, and why.
    Refused(Refusal),
}

/// Why a command was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Fifty messages wait already.
    #[error("{QUEUE_BOUND} messages wait in this thread already. Take one back, or wait for the turn to end.")]
    QueueFull,
    /// A turn runs.
    #[error("A turn is running in this thread. Stop it first, or wait for its end.")]
    Busy,
    /// No turn runs.
    #[error("No turn is running in this thread.")]
    Idle,
    /// The queued message was sent or taken back.
    #[error("This message does not wait any more.")]
    NotQueued,
    /// The approval was settled.
    #[error("This question has been settled already.")]
    Settled,
}

/// What the screen is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A message is new.
    Message(Box<Message>),
    /// A write that shows as it is.
    Wrote(Box<Write>),
    /// Text to append.
    Text {
        /// In which message.
        message: MessageId,
        /// Which part.
        key: String,
        /// What.
        text: String,
    },
    /// The open turn as it now is.
    Turn(Option<(Box<TurnRecord>, Option<Retry>)>),
    /// Live sessions as they now are.
    Sessions(Vec<SessionRecord>),
    /// Something to know.
    Warning(String),
}

/// Ids that a step may hand out: made by the driver (house rule 1).
pub trait Ids {
    /// A new id.
    fn next(&mut self) -> uuid::Uuid;
}

impl<F: FnMut() -> uuid::Uuid> Ids for F {
    fn next(&mut self) -> uuid::Uuid {
        self()
    }
}

impl ThreadState {
    /// The highest content seq other than `message`'s own.
    pub fn content_besides(&self, message: Seq) -> Option<Seq> {
        self.content.into_iter().flatten().find(|seq| *seq != message)
    }

    /// Notes that a content message was appended.
    pub(super) fn note_content(&mut self, seq: Seq) {
        self.content = [Some(seq), self.content[0]];
    }

    /// What a prompt that carries this message would be: the transition (T1) and what of the transcript it concerns. Turn and
    /// preview both ask here (H1).
    pub fn outlook(&self, provider: &ProviderId, message: Seq) -> Outlook {
        self.outlook_after(provider, message, self.content_besides(message), self.answered_by.clone())
    }

    /// The same where it is known what else was said.
    pub(super) fn outlook_after(
        &self,
        provider: &ProviderId,
        message: Seq,
        besides: Option<Seq>,
        from: Option<ProviderId>,
    ) -> Outlook {
        let session = self.sessions.get(provider);
        let transition = transition::decide(session.map(|s| s.known_upto_seq), besides);
        let own = session.map(|s| SessionStamp { id: s.session_id.clone(), incarnation: s.incarnation });
        let scope = Scope { after: transition.after_seq, upto: besides.unwrap_or(0), prompt: Some(message), own };
        Outlook { transition, scope, from }
    }

    /// The same for a message that is sent again (T8), which first takes it back where this session was asked it before.
    pub fn outlook_again(&self, provider: &ProviderId, message: Seq) -> Outlook {
        let mut after = self.clone();
        match after.asked_before(provider, message) {
            None => {}
            Some(Some(back)) => {
                after.sessions.insert(provider.clone(), back);
            }
            Some(None) => {
                after.sessions.remove(provider);
            }
        }
        after.outlook(provider, message)
    }

    /// What becomes of a session that was asked this message before, and answered in part, when it is asked again (T8): it goes
    /// back to before that turn, else it is dropped (`Some(None)`), so that the message stands in it once. What came after is
    /// told to it anew. `None`: it was not asked, and stays as it is.
    pub(super) fn asked_before(&self, provider: &ProviderId, message: Seq) -> Option<Option<SessionRecord>> {
        let session = self.sessions.get(provider)?;
        let at = session.turns.iter().position(|told| told.message_seq == message)?;
        let told = session.turns.get(at)?;
        Some(told.anchor_before.as_ref().filter(|_| self.keeps_of(provider).rewinds).map(|anchor| SessionRecord {
            turns: session.turns.iter().take(at).cloned().collect(),
            ..session.brought_back(Some(anchor.clone()), told.known_before)
        }))
    }

    /// What the provider's CLI keeps.
    pub(super) fn keeps_of(&self, provider: &ProviderId) -> Keeps {
        self.keeps.get(provider).copied().unwrap_or(Keeps::UNKNOWN)
    }

    /// When the next `Tick` is due, if anything waits for time.
    pub fn wake_at(&self) -> Option<Millis> {
        let turn = self.turn.as_ref();
        let stall = turn.filter(|t| t.clock_runs()).map(|t| t.progress.at + NO_PROGRESS_MS);
        [self.pending.due, turn.filter(|t| !t.killed).and_then(|t| t.kill_at), stall].into_iter().flatten().min()
    }

    /// The reply of the open turn.
    pub(super) fn reply(&self) -> Option<ReplyRef> {
        self.turn.as_ref().and_then(|t| t.record.reply)
    }
}
