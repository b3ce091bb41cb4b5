//! The driver as the model has it: carries out effects one by one, can die between any two, and finds again only what was
//! committed.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
};

use changeover_core::{
    Millis,
    approval::ApprovalDecision,
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
    handoff::{
        items::{Scope, item_at},
        plain::PlainSizes,
        render::{self, Frame, Takeover},
        select::select,
    },
    id::{PromptId, QueuedId, TurnId},
    message::Message,
    notice::Handover,
    provider::{ApprovalMode, ProviderId, Target},
    transition::{Transition, TransitionKind},
    turn::{
        self,
        record::{ApprovalState, TurnPhase},
        state::{Change, Effect, Input, Outlook, Response, ResumeAt, ThreadState},
        write::Write,
    },
};
use uuid::Uuid;

use super::{
    setup::{load, provider, providers, target},
    sim::{Manner, Sim, failure},
    store::{self, Store},
};

/// What takes long and comes back later.
#[derive(Debug)]
enum Report {
    Prepare {
        turn: TurnId,
        attempt: u32,
        target: Target,
        transition: Transition,
        scope: Scope,
        from: Option<ProviderId>,
    },
    Open {
        turn: TurnId,
        attempt: u32,
        target: Target,
        resume: Option<ResumeAt>,
        usable: bool,
    },
    Written {
        turn: TurnId,
        prompt: PromptId,
        result: Result<(), Failure>,
    },
    Exited {
        provider: ProviderId,
    },
}

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Op {
    /// The world goes on: the `a`-th of what can happen next.
    Go {
        a: u8,
        b: u8,
    },
    /// The world goes on in good order, so many things.
    Well(u8),
    Send {
        provider: u8,
        len: u8,
        all: bool,
    },
    /// The last request once more, as a client asks that heard no answer.
    Repeat,
    Again {
        which: u8,
        provider: u8,
    },
    Interrupt,
    QueueEdit {
        which: u8,
        take: bool,
    },
    QueueGo,
    Choose {
        provider: u8,
    },
    Answer {
        decision: ApprovalDecision,
    },
    Wait(u8),
    Flush,
    Pin(u8),
    Exclude(u8),
    /// A process dies.
    Die {
        provider: u8,
        b: u8,
    },
    /// The CLI's files are deleted.
    Lose {
        provider: u8,
    },
    /// The next prompt's bytes do not leave.
    Stick,
    /// The app dies, so many effects from now.
    Crash {
        after: u8,
    },
}

pub struct World {
    pub state: ThreadState,
    pub store: Store,
    /// What a screen shows that was told every change.
    pub screen: Vec<Message>,
    pub sims: BTreeMap<ProviderId, Sim>,
    pub budget: u64,
    pub now: Millis,
    /// The answer to the last command.
    pub response: Option<Response>,
    /// A line for everything that happened, where `T6_TRACE` is set.
    pub trace: Vec<String>,
    traced: bool,
    pub watch: super::check::Watch,
    reports: VecDeque<Report>,
    crash_in: Option<u8>,
    stuck: bool,
    dice: u64,
    ids: u128,
    sent: u32,
    last: Option<Input>,
}

impl World {
    pub fn new(manners: [Manner; 3], budget: u64, seed: u64) -> Self {
        let sims: BTreeMap<_, _> =
            providers().into_iter().zip(manners).map(|(id, manner)| (id.clone(), Sim::new(id, manner))).collect();
        let store = Store::default();
        let state = load(&store, &sims, 0);
        Self {
            state,
            store,
            screen: Vec::new(),
            sims,
            budget,
            now: 1_000,
            response: None,
            trace: Vec::new(),
            traced: std::env::var_os("T6_TRACE").is_some(),
            watch: super::check::Watch::default(),
            reports: VecDeque::new(),
            crash_in: None,
            stuck: false,
            dice: seed | 1,
            ids: 0,
            sent: 0,
            last: None,
        }
    }

    fn dice(&mut self) -> u8 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 56) as u8
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.traced {
            let line = line();
            self.trace.push(line);
        }
    }

    /// Gives an input to `step` and carries out what comes of it.
    pub fn input(&mut self, input: Input) {
        self.note(|| format!("{input:?}"));
        self.now += 1;
        let ids = &mut self.ids;
        let mut next = || {
            *ids += 1;
            Uuid::from_u128(*ids)
        };
        let effects = turn::step(&mut self.state, input, self.now, &mut next);
        let mut recorded = false;
        for effect in effects {
            recorded |= matches!(effect, Effect::Commit(_));
            if let Some(left) = &mut self.crash_in {
                if *left == 0 {
                    return self.crash();
                }
                *left -= 1;
            }
            self.carry_out(effect);
        }
        super::check::holds(self);
        if recorded {
            super::check::sessions(self);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Show(change) => self.show(change),
            other => {
                self.note(|| format!("    {other:?}"));
                self.act(other);
            }
        }
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(writes) => {
                self.store.commit(&writes);
                super::check::committed(self, &writes);
            }
            Effect::Show(_) => {}
            Effect::Respond(response) => self.response = Some(response),
            Effect::Prepare { turn, attempt, target, transition, scope, from } => {
                self.reports.push_back(Report::Prepare { turn, attempt, target, transition, scope, from });
            }
            Effect::Open { turn, attempt, target, resume } => {
                if let Some(resume) = &resume {
                    let row = &self.store.sessions[&target.provider];
                    assert_eq!(row.session_id, resume.session_id, "only the live session is opened");
                    assert!(!self.store.retired.contains(&resume.session_id));
                }
                let sim = self.sims.get_mut(&target.provider).expect("a provider");
                let usable = sim.live.as_ref().is_some_and(|live| {
                    resume.as_ref().is_some_and(|r| !r.rewind && live.engine_id.as_ref() == Some(&r.session_id))
                });
                if !usable && sim.live.is_some() {
                    // What still ran in the process that makes way ends with it (S2).
                    self.close(&target.provider);
                    self.reports.push_back(Report::Exited { provider: target.provider.clone() });
                }
                self.reports.push_back(Report::Open { turn, attempt, target, resume, usable });
            }
            Effect::Write { turn, provider, prompt, text } => {
                super::check::prompt(self, &text);
                let stuck = std::mem::take(&mut self.stuck);
                let sim = self.sims.get_mut(&provider).expect("a provider");
                if sim.live.is_none() {
                    return self.reports.push_back(Report::Exited { provider });
                }
                let result = if stuck { Err(failure(FailureKind::Exited)) } else { sim.send(prompt, text) };
                self.reports.push_back(Report::Written { turn, prompt, result });
            }
            Effect::Answer { provider, key, .. } => {
                if let Some(sim) = self.sims.get_mut(&provider) {
                    sim.answer(&key);
                }
            }
            Effect::Interrupt { provider } => match self.sims.get_mut(&provider).and_then(|s| s.live.as_mut()) {
                Some(live) => live.interrupted = true,
                None => self.reports.push_back(Report::Exited { provider }),
            },
            Effect::Kill { provider } => {
                let b = self.dice();
                if let Some(sim) = self.sims.get_mut(&provider) {
                    sim.kill(b);
                }
                self.reports.push_back(Report::Exited { provider });
            }
            Effect::Close { provider } => self.close(&provider),
        }
    }

    fn close(&mut self, provider: &ProviderId) {
        let b = self.dice();
        if let Some(sim) = self.sims.get_mut(provider) {
            sim.kill(b);
        }
    }

    fn show(&mut self, change: Change) {
        match change {
            Change::Message(message) => self.screen.push(*message),
            Change::Wrote(write) => store::write_message(&mut self.screen, &write),
            Change::Text { message, key, text } => {
                let message = self.screen.iter_mut().find(|m| m.id == message).expect("a message on the screen");
                store::append(message, &key, &text);
            }
            Change::Turn(_) | Change::Sessions(_) | Change::Warning(_) => {}
        }
    }

    /// kill -9 of the app, and the guard ends what it left; then it starts again.
    fn crash(&mut self) {
        self.note(|| "CRASH".into());
        self.crash_in = None;
        self.stuck = false;
        self.reports.clear();
        for provider in providers() {
            self.close(&provider);
        }
        self.state = load(&self.store, &self.sims, self.now);
        self.screen.clone_from(&self.store.messages);
        super::check::sessions(self);
        self.input(Input::Recover);
    }

    pub fn op(&mut self, op: &Op) {
        self.note(|| format!("{op:?}"));
        match op {
            Op::Go { a, b } => {
                self.go(*a, *b);
            }
            Op::Well(n) => {
                for _ in 0..*n {
                    if !self.go_well() {
                        break;
                    }
                }
            }
            Op::Send { provider: p, len, all } => {
                let mode = if *all { ApprovalMode::All } else { ApprovalMode::Ask };
                self.send(provider(*p), usize::from(*len) * 4, mode);
            }
            Op::Repeat => {
                if let Some(input) = self.last.clone()
                    && self.asks_again(&input)
                {
                    self.response = None;
                    self.input(input);
                    let answer = &self.response;
                    assert!(
                        matches!(answer, None | Some(Response::Started { .. } | Response::Queued(_))),
                        "{answer:?}"
                    );
                }
            }
            Op::Again { which, provider: p } => {
                let able: Vec<usize> = (0..self.store.messages.len())
                    .filter(|at| store::can_be_sent_again(&self.store.messages, *at))
                    .collect();
                if let Some(at) = pick(&able, *which) {
                    self.again(*at, provider(*p));
                }
            }
            Op::Interrupt => {
                self.response = None;
                self.input(Input::Interrupt);
                if self.response == Some(Response::Done) {
                    super::check::stopped(self);
                }
            }
            Op::QueueEdit { which, take } => {
                let ids: Vec<QueuedId> = self.state.queue.iter().map(|q| q.id).collect();
                if let Some(id) = pick(&ids, *which) {
                    let text = (!take).then(|| self.text(3));
                    self.input(Input::QueueEdit { id: *id, text });
                }
            }
            Op::QueueGo => self.input(Input::QueueGo),
            Op::Choose { provider: p } => {
                let chosen = target(provider(*p), ApprovalMode::Ask);
                self.input(Input::Target(chosen));
            }
            Op::Answer { decision } => self.answer(*decision),
            Op::Wait(n) => {
                self.now += [100, 300, 2_100, 301_000][usize::from(*n % 4)];
                self.input(Input::Tick);
            }
            Op::Flush => self.input(Input::Flush),
            Op::Pin(which) => self.mark(*which, |m| &mut m.pinned),
            Op::Exclude(which) => self.mark(*which, |m| &mut m.excluded),
            Op::Die { provider: p, b } => {
                if let Some(sim) = self.sims.get_mut(&provider(*p)) {
                    sim.make(super::sim::Move::Die, *b);
                }
            }
            Op::Lose { provider: p } => {
                if let Some(sim) = self.sims.get_mut(&provider(*p)).filter(|sim| sim.live.is_none()) {
                    sim.sessions.clear();
                }
            }
            Op::Stick => self.stuck = true,
            Op::Crash { after: 0 } => self.crash(),
            Op::Crash { after } => self.crash_in = Some(*after),
        }
    }

    fn text(&mut self, len: usize) -> String {
        self.sent += 1;
        format!("zqu{}qz {}", self.sent, "u".repeat(len))
    }

    pub fn send(&mut self, provider: ProviderId, len: usize, mode: ApprovalMode) {
        let text = self.text(len);
        let client_id = format!("client-{}", self.sent);
        let input = Input::Send { client_id, text, target: target(provider, mode) };
        self.last = Some(input.clone());
        self.input(input);
    }

    pub fn again(&mut self, at: usize, provider: ProviderId) {
        self.sent += 1;
        let message = &self.store.messages[at];
        let (id, seq, text) = (message.id, message.seq, message.text());
        let client_id = format!("client-{}", self.sent);
        let target = target(provider.clone(), ApprovalMode::Ask);
        let input = Input::Again { client_id, message: id, seq, text, target };
        if self.state.turn.is_some() {
            return self.input(input);
        }
        self.last = Some(input.clone());
        super::check::sent_again(self, seq);
        let foreseen = self.state.outlook_again(&provider, seq);
        self.input(input);
        if let Some(Report::Prepare { transition, scope, from, .. }) = self.reports.back() {
            let outlook = Outlook { transition: *transition, scope: scope.clone(), from: from.clone() };
            assert_eq!(foreseen, outlook, "H1: preview and turn agree");
        }
    }

    /// Whether the request would reach `step`: what has its turn on disk is answered from there.
    fn asks_again(&self, input: &Input) -> bool {
        let (Input::Send { client_id, .. } | Input::Again { client_id, .. }) = input else { return false };
        let open = self.state.turn.as_ref().is_some_and(|t| t.record.client_id == *client_id);
        let waits = self.state.queue.iter().any(|q| q.client_id == *client_id);
        open || waits
    }

    pub fn answer(&mut self, decision: ApprovalDecision) {
        let open = self.state.turn.as_ref().and_then(|t| t.approvals.iter().find(|a| a.state == ApprovalState::Open));
        if let Some(id) = open.map(|a| a.id) {
            self.input(Input::Answer { id, decision });
        }
    }

    fn mark(&mut self, which: u8, flag: impl Fn(&mut Message) -> &mut bool) {
        let content: Vec<usize> =
            (0..self.store.messages.len()).filter(|at| self.store.messages[*at].is_content()).collect();
        if let Some(at) = pick(&content, which) {
            for messages in [&mut self.store.messages, &mut self.screen] {
                let set = flag(&mut messages[*at]);
                *set = !*set;
            }
        }
    }

    /// One of the things that can happen next; false where nothing can.
    fn go(&mut self, a: u8, b: u8) -> bool {
        if !self.reports.is_empty() && a < 160 {
            self.report(b);
            return true;
        }
        let mut able = Vec::new();
        for (id, sim) in &self.sims {
            if sim.live.as_ref().is_some_and(|l| !l.events.is_empty()) {
                able.extend(std::iter::repeat_n((id.clone(), None), 12));
            }
            let busy = sim.live.as_ref().is_some_and(|l| l.turn.is_some());
            let moves = sim.moves();
            able.extend(moves.into_iter().take(if busy { 99 } else { 1 }).map(|m| (id.clone(), Some(m))));
        }
        let Some((id, step)) = pick(&able, a).cloned() else {
            if self.reports.is_empty() {
                return false;
            }
            self.report(b);
            return true;
        };
        match step {
            None => self.event(&id),
            Some(step) => {
                self.note(|| format!("  {id} {step:?} {b}"));
                self.sims.get_mut(&id).expect("a provider").make(step, b);
            }
        }
        true
    }

    /// Whether a process lives, or its end is on its way.
    pub fn lives(&self, provider: &ProviderId) -> bool {
        let ends = |r: &Report| matches!(r, Report::Exited { provider: p } if p == provider);
        self.sims[provider].live.is_some() || self.reports.iter().any(ends)
    }

    /// No more misfortune from here on.
    pub fn calm(&mut self) {
        self.crash_in = None;
        self.stuck = false;
    }

    /// The next thing in good order; false where nothing is left to do.
    pub fn go_well(&mut self) -> bool {
        if !self.reports.is_empty() {
            self.report(255);
            return true;
        }
        let with_event = |sim: &Sim| sim.live.as_ref().is_some_and(|l| !l.events.is_empty());
        if let Some(id) = self.sims.values().find(|s| with_event(s)).map(|s| s.provider.clone()) {
            self.event(&id);
            return true;
        }
        if self.state.turn.as_ref().is_some_and(|t| t.record.phase == TurnPhase::Waiting) {
            self.answer(ApprovalDecision::Once);
            return true;
        }
        let able = self.sims.values().find_map(|s| s.good_move().map(|m| (s.provider.clone(), m)));
        if let Some((id, step)) = able {
            self.note(|| format!("  {id} {step:?} well"));
            self.sims.get_mut(&id).expect("a provider").make(step, 0);
            return true;
        }
        match self.state.wake_at() {
            Some(at) if self.state.turn.is_some() => {
                self.now = self.now.max(at);
                self.input(Input::Tick);
                true
            }
            _ => false,
        }
    }

    fn event(&mut self, id: &ProviderId) {
        let sim = self.sims.get_mut(id).expect("a provider");
        let Some(live) = sim.live.as_mut() else { return };
        let Some(event) = live.events.pop_front() else { return };
        if let RuntimeEvent::SessionKnown { session_id, .. } = &event {
            live.engine_id = Some(session_id.clone());
        }
        if matches!(event, RuntimeEvent::Exited { .. }) {
            sim.live = None;
        }
        self.input(Input::Event { provider: id.clone(), event });
    }

    fn report(&mut self, b: u8) {
        let Some(report) = self.reports.pop_front() else { return };
        let input = match report {
            Report::Prepare { turn, attempt, target, transition, scope, from } => {
                let result = if b < 6 {
                    Err(failure(FailureKind::FolderGone))
                } else {
                    Ok(self.handover(&target, transition, &scope, from))
                };
                Input::Prepared { turn, attempt, result }
            }
            Report::Open { turn, attempt, target, resume, usable } => {
                let lives = self.sims[&target.provider].live.is_some();
                let result = match b {
                    0..4 => Err(failure(FailureKind::NotLoggedIn)),
                    4..8 => Err(failure(FailureKind::Rejected)),
                    8..12 => Err(failure(FailureKind::SessionGone)),
                    _ if usable && lives => Ok(()),
                    _ => {
                        // Another process of it that was opened for a turn which was stopped gives way.
                        let dice = self.dice();
                        let sim = self.sims.get_mut(&target.provider).expect("a provider");
                        sim.kill(dice);
                        let opened = sim.open(resume.as_ref());
                        // A new process: whatever the one before still ran has ended with it.
                        let event = RuntimeEvent::Exited { failure: failure(FailureKind::Exited) };
                        self.input(Input::Event { provider: target.provider.clone(), event });
                        opened
                    }
                };
                Input::Opened { turn, attempt, result }
            }
            Report::Written { turn, prompt, result } => Input::Written { turn, prompt, result },
            Report::Exited { provider } => {
                let event = RuntimeEvent::Exited { failure: failure(FailureKind::Exited) };
                Input::Event { provider, event }
            }
        };
        self.input(input);
    }

    /// The handover as the engine makes it, of the real rules.
    fn handover(
        &self,
        target: &Target,
        transition: Transition,
        scope: &Scope,
        from: Option<ProviderId>,
    ) -> Option<(Handover, String)> {
        if matches!(transition.kind, TransitionKind::Fresh | TransitionKind::Reuse) {
            return None;
        }
        let messages = &self.store.messages;
        let selection = select(&mut PlainSizes::new(messages, scope), self.budget, None)
            .unwrap_or_else(|never: Infallible| match never {});
        let items: Vec<_> = selection
            .chosen
            .iter()
            .filter_map(|chosen| {
                let message = messages.iter().find(|m| m.seq == chosen.place.seq)?;
                item_at(message, chosen.place.index)
            })
            .collect();
        assert_eq!(items.len(), selection.chosen.len());
        let frame = Frame { kind: transition.kind, thread_read: None };
        let text = render::render(&frame, &selection, None, &items);
        let takeover = Takeover { provider: target.provider.clone(), model: None, from, kind: transition.kind };
        Some((render::notice(takeover, &selection, &text), text))
    }
}

fn pick<T>(from: &[T], n: u8) -> Option<&T> {
    from.get(usize::from(n).checked_rem(from.len())?)
}

/// The writes of a batch that put a session.
pub fn sessions_in(writes: &[Write]) -> impl Iterator<Item = &changeover_core::session::SessionRecord> {
    writes.iter().filter_map(|write| match write {
        Write::Session(record) => Some(record),
        _ => None,
    })
}
