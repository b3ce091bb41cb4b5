//! What the tests of `step` share: a thread that is stepped, with ids that count up and a clock that stands still.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

use changeover_core::{
    Millis,
    approval::{ApprovalRequest, ApprovalSubject},
    event::{Ended, Keeps, Kept, RuntimeEvent},
    failure::{Failure, FailureKind},
    id::{MessageId, PromptId, ThreadId, TurnId},
    message::{Message, MessageState, Role, SessionStamp},
    notice::{Handover, LeftOut, LeftOutReason, Notice},
    part::{Part, WorkStatus},
    provider::{ApprovalMode, ProviderId, Target},
    seq::{Seq, SeqRange},
    session::{SessionRecord, Told},
    transition::{Transition, TransitionKind},
    turn::{
        self,
        record::{ReplyRef, TurnPhase, TurnRecord},
        state::{Effect, Input, Pending, Response, ThreadState},
        write::Write,
    },
};
use uuid::Uuid;

pub const NOW: Millis = 1_000;

/// A declaration in which every case is the same.
pub fn keeps(kept: Kept, rewinds: bool) -> Keeps {
    Keeps {
        failed_unanswered: kept,
        failed_answered: kept,
        interrupted_unanswered: kept,
        interrupted_answered: kept,
        rewinds,
    }
}

pub fn claude() -> ProviderId {
    ProviderId::claude()
}

pub fn codex() -> ProviderId {
    ProviderId::codex()
}

pub fn target(provider: ProviderId) -> Target {
    Target { provider, model: None, effort: None, mode: ApprovalMode::Ask }
}

pub fn failed(kind: FailureKind) -> Failure {
    Failure::new(kind, "so it said")
}

pub fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// A thread under test.
pub struct Thread {
    pub state: ThreadState,
    pub now: Millis,
    pub ids: u128,
}

impl Thread {
    pub fn new() -> Self {
        let state = ThreadState {
            thread: ThreadId(id(u128::MAX)),
            target: target(claude()),
            folder: "/work".into(),
            next_seq: 1,
            content: [None, None],
            answered_by: None,
            titled: false,
            sessions: BTreeMap::new(),
            turn: None,
            queue: Vec::new(),
            rules: BTreeSet::new(),
            late: BTreeMap::new(),
            keeps: BTreeMap::new(),
            max_attempts: 3,
            pending: Pending::default(),
        };
        Self { state, now: NOW, ids: 0 }
    }

    /// The same with what both CLIs keep.
    pub fn keeping(keeps: Keeps) -> Self {
        let mut thread = Self::new();
        thread.state.keeps = [(claude(), keeps), (codex(), keeps)].into();
        thread
    }

    /// All effects of an input.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        let ids = &mut self.ids;
        turn::step(&mut self.state, input, self.now, &mut || {
            *ids += 1;
            id(*ids)
        })
    }

    /// The effects of an input, but for what is shown.
    pub fn does(&mut self, input: Input) -> Vec<Effect> {
        self.step(input).into_iter().filter(|e| !matches!(e, Effect::Show(_))).collect()
    }

    pub fn send(&mut self, text: &str, provider: ProviderId) -> Vec<Effect> {
        let client_id = format!("client {text}");
        self.does(Input::Send { client_id, text: text.into(), target: target(provider) })
    }

    pub fn again(&mut self, client_id: &str, seq: Seq, message: u128, provider: ProviderId) -> Vec<Effect> {
        let (client_id, text, target) = (client_id.into(), "one".into(), target(provider));
        self.does(Input::Again { client_id, message: MessageId(id(message)), seq, text, target })
    }

    pub fn record(&self) -> &TurnRecord {
        &self.state.turn.as_ref().expect("an open turn").record
    }

    pub fn phase(&self) -> TurnPhase {
        self.record().phase
    }

    pub fn session(&self, provider: &ProviderId) -> Option<&SessionRecord> {
        self.state.sessions.get(provider)
    }

    pub fn prepared(&mut self, result: Result<Option<(Handover, String)>, Failure>) -> Vec<Effect> {
        let (turn, attempt) = (self.record().id, self.record().attempt);
        self.does(Input::Prepared { turn, attempt, result })
    }

    pub fn opened(&mut self, result: Result<(), Failure>) -> Vec<Effect> {
        let (turn, attempt) = (self.record().id, self.record().attempt);
        self.does(Input::Opened { turn, attempt, result })
    }

    pub fn event(&mut self, event: RuntimeEvent) -> Vec<Effect> {
        let provider = self.record().target.provider.clone();
        self.does(Input::Event { provider, event })
    }

    /// From preparing to sent, with a handover where the transition tells something.
    pub fn goes(&mut self) -> PromptId {
        let transition = self.state.turn.as_ref().expect("an open turn").transition;
        let handed = match transition.kind {
            TransitionKind::Fresh | TransitionKind::Reuse => None,
            kind => Some(self.handover(kind, transition)),
        };
        self.prepared(Ok(handed));
        self.opened(Ok(()));
        self.record().prompt.expect("a prompt")
    }

    /// A handover that tells everything of its scope.
    pub fn handover(&self, kind: TransitionKind, transition: Transition) -> (Handover, String) {
        let upto = self.state.content_besides(self.record().message_seq).expect("something to tell");
        let told = vec![SeqRange { from: transition.after_seq + 1, to: upto }];
        (handover(self.record().target.provider.clone(), kind, told), "history".into())
    }

    pub fn knows(&mut self, session_id: &str) {
        self.event(RuntimeEvent::SessionKnown { session_id: session_id.into(), model: None });
    }

    pub fn taken(&mut self) -> Vec<Effect> {
        self.event(RuntimeEvent::Taken)
    }

    pub fn says(&mut self, text: &str) -> Vec<Effect> {
        self.event(RuntimeEvent::Text { item: "t".into(), delta: text.into() })
    }

    pub fn runs(&mut self, item: &str) -> Vec<Effect> {
        self.event(command(item, WorkStatus::Running, None))
    }

    pub fn anchored(&mut self, anchor: &str) {
        self.event(RuntimeEvent::Anchor { anchor: anchor.into() });
    }

    pub fn ends(&mut self, ended: Ended) -> Vec<Effect> {
        self.event(RuntimeEvent::Ended(ended))
    }

    pub fn fails(&mut self, kind: FailureKind) -> Vec<Effect> {
        self.ends(Ended::Failed(failed(kind)))
    }

    pub fn exits(&mut self, provider: ProviderId) -> Vec<Effect> {
        let event = RuntimeEvent::Exited { failure: failed(FailureKind::Exited) };
        self.does(Input::Event { provider, event })
    }

    /// One whole turn: message, reply, and its place in the session's history.
    pub fn talks(&mut self, text: &str, provider: ProviderId, session: &str, anchor: Option<&str>) {
        self.send(text, provider);
        self.goes();
        self.knows(session);
        self.taken();
        self.says("hello");
        if let Some(anchor) = anchor {
            self.anchored(anchor);
        }
        self.ends(Ended::Completed);
        assert_eq!(self.state.turn.as_ref().map(|t| &t.record), None);
    }

    /// A turn of Claude's that stands in the phase, on top of one that went well (if `after`).
    pub fn stands_in(phase: TurnPhase, keeps: Keeps, after: bool) -> Self {
        let mut thread = Self::keeping(keeps);
        if after {
            thread.talks("before", claude(), "s1", Some("a1"));
        }
        thread.send("one", claude());
        if phase != TurnPhase::Preparing {
            thread.goes();
            thread.knows("s1");
        }
        if matches!(phase, TurnPhase::Taken | TurnPhase::Streaming | TurnPhase::Waiting | TurnPhase::Interrupting) {
            thread.taken();
        }
        if matches!(phase, TurnPhase::Streaming | TurnPhase::Waiting) {
            thread.says("par");
        }
        if phase == TurnPhase::Waiting {
            thread.event(wanted("k", "make"));
        }
        if phase == TurnPhase::Interrupting {
            thread.does(Input::Interrupt);
        }
        assert_eq!(thread.phase(), phase);
        thread
    }
}

pub fn handover(provider: ProviderId, kind: TransitionKind, told: Vec<SeqRange>) -> Handover {
    Handover {
        provider,
        model: None,
        from: None,
        kind,
        told,
        left_out: vec![LeftOut { range: SeqRange { from: 1, to: 1 }, reason: LeftOutReason::Budget }],
        messages_told: 1,
        messages_total: 2,
        commands_told: 0,
        commands_total: 0,
        used: 100,
        budget: 16_000,
        bytes: 7,
        hash: "00".into(),
        items: Vec::new(),
    }
}

pub fn command(item: &str, status: WorkStatus, exit_code: Option<i32>) -> RuntimeEvent {
    RuntimeEvent::Command { item: item.into(), command: "make".into(), status, exit_code, output: None }
}

pub fn wanted(key: &str, command: &str) -> RuntimeEvent {
    RuntimeEvent::ApprovalWanted(request(key, command))
}

pub fn request(key: &str, command: &str) -> ApprovalRequest {
    let subject = ApprovalSubject::Command { command: command.into(), cwd: None };
    ApprovalRequest { key: key.into(), item: None, subject, reason: None }
}

/// The batches that go to disk.
pub fn commits(effects: &[Effect]) -> Vec<Vec<Write>> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Commit(writes) => Some(writes.clone()),
            _ => None,
        })
        .collect()
}

/// The last state of the turn that these effects put on disk.
pub fn turn_in(effects: &[Effect]) -> TurnRecord {
    let mut turns = commits(effects).into_iter().flatten().filter_map(|write| match write {
        Write::Turn { turn, .. } => Some(*turn),
        _ => None,
    });
    turns.next_back().expect("a turn is put")
}

/// The error notice that these effects leave, if any.
pub fn error_in(effects: &[Effect]) -> Option<FailureKind> {
    commits(effects).into_iter().flatten().find_map(|write| match write {
        Write::Append { message, .. } => match message.notice {
            Some(Notice::Error { failure, .. }) => Some(failure.kind),
            _ => None,
        },
        _ => None,
    })
}

/// How the message and the reply stand after these effects, by id.
pub fn states_in(effects: &[Effect]) -> Vec<(MessageId, MessageState)> {
    let states = commits(effects).into_iter().flatten().filter_map(|write| match write {
        Write::MessageState { message, state, .. } => Some((message, state)),
        _ => None,
    });
    states.collect()
}

pub fn user(id_: u128, seq: Seq, text: &str, provider: ProviderId) -> Message {
    Message {
        id: MessageId(id(id_)),
        seq,
        role: Role::User,
        state: MessageState::Open,
        provider: Some(provider),
        model: None,
        session: None,
        created_at: NOW,
        ended_at: None,
        pinned: false,
        excluded: false,
        parts: vec![Part::text("text", text)],
        notice: None,
    }
}

pub fn reply(id_: u128, seq: Seq, provider: ProviderId, stamp: Option<(&str, u32)>) -> Message {
    Message {
        role: Role::Assistant,
        session: stamp.map(|(id, incarnation)| SessionStamp { id: id.into(), incarnation }),
        parts: Vec::new(),
        ..user(id_, seq, "", provider)
    }
}

pub fn notice(id_: u128, seq: Seq, notice: Notice) -> Message {
    Message {
        role: Role::System,
        state: MessageState::Done,
        provider: None,
        parts: Vec::new(),
        notice: Some(notice),
        ..user(id_, seq, "", claude())
    }
}

/// A turn that has just begun.
pub fn begun(turn: u128, client_id: &str, message: u128, message_seq: Seq, provider: ProviderId) -> TurnRecord {
    TurnRecord {
        id: TurnId(id(turn)),
        client_id: client_id.into(),
        message: MessageId(id(message)),
        message_seq,
        target: target(provider),
        phase: TurnPhase::Preparing,
        attempt: 1,
        gone: false,
        go_on: false,
        compacted: false,
        prompt: None,
        session: None,
        anchor_before: None,
        known_before: 0,
        handover: None,
        upto: message_seq,
        reply: None,
        started_at: NOW,
        ended_at: None,
        failure: None,
    }
}

pub fn put(turn: TurnRecord, text: Option<&str>) -> Write {
    Write::Turn { turn: Box::new(turn), text: text.map(str::to_owned) }
}

pub fn append(message: Message, text: Option<&str>) -> Write {
    Write::Append { message: Box::new(message), text: text.map(str::to_owned) }
}

pub fn reply_ref(id_: u128, seq: Seq) -> Option<ReplyRef> {
    Some(ReplyRef { id: MessageId(id(id_)), seq })
}

pub fn state(message: u128, state: MessageState, ended_at: Option<Millis>, provider: ProviderId) -> Write {
    Write::MessageState { message: MessageId(id(message)), state, ended_at, provider: Some(provider) }
}

pub fn started(turn: u128, message: u128, seq: Seq) -> Effect {
    Effect::Respond(Response::Started { turn: TurnId(id(turn)), message: MessageId(id(message)), seq })
}

pub fn told(turn: u128, message_seq: Seq, known_before: Seq, told: Vec<SeqRange>, anchor: Option<&str>) -> Told {
    Told {
        turn: TurnId(id(turn)),
        message_seq,
        known_before,
        left_out: if told.is_empty() {
            Vec::new()
        } else {
            vec![LeftOut { range: SeqRange { from: 1, to: 1 }, reason: LeftOutReason::Budget }]
        },
        told,
        anchor_before: anchor.map(str::to_owned),
    }
}

/// A live session as `talks` leaves it.
pub fn session(
    provider: ProviderId,
    session_id: &str,
    known: Seq,
    turns: Vec<Told>,
    anchor: Option<&str>,
) -> SessionRecord {
    SessionRecord {
        provider,
        session_id: session_id.into(),
        folder: "/work".into(),
        model: None,
        incarnation: 0,
        known_upto_seq: known,
        turns,
        anchor: anchor.map(str::to_owned),
        rewind: false,
        context: None,
    }
}
