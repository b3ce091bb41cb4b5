//! A CLI as the model has it: its sessions really hold what was put into them, cut, and kept as its `Keeps` says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use changeover_core::{
    approval::{ApprovalRequest, ApprovalSubject},
    event::{Ended, Keeps, Kept, RuntimeEvent},
    failure::{Failure, FailureKind},
    id::PromptId,
    part::WorkStatus,
    provider::ProviderId,
    turn::state::ResumeAt,
    usage::ContextFigure,
};

/// Where a CLI says its places in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchors {
    /// Nowhere.
    Never,
    /// After each finished line of a reply, and at the end (Claude).
    Lines,
    /// At the end of a turn (Codex).
    Turns,
}

/// How a CLI behaves.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub keeps: Keeps,
    /// What stands in its history when its process was killed in the middle of a reply: no adapter declares it, and `step` does
    /// not ask (T10).
    pub killed: Kept,
    /// A rewind makes a new session and leaves the old one as it is.
    pub forks: bool,
    pub anchors: Anchors,
    /// Says its session's id when it opens, not first in a turn.
    pub says_id_at_once: bool,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Prompt { id: PromptId, answered: bool },
    Reply,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub kind: Kind,
    pub text: String,
    pub anchor: Option<String>,
}

#[derive(Debug)]
pub struct Sim {
    pub provider: ProviderId,
    pub manner: Manner,
    /// What stands on its disk and in its memory.
    pub sessions: BTreeMap<String, Vec<Entry>>,
    /// The session that a session was forked from, all the way.
    pub roots: BTreeMap<String, String>,
    pub live: Option<Live>,
    /// The prompt in whose turn it has last compacted its history.
    pub compacted_in: Option<PromptId>,
    made: u32,
}

/// Its process.
#[derive(Debug)]
pub struct Live {
    pub id: String,
    pub told_id: bool,
    /// The id as the engine has it.
    pub engine_id: Option<String>,
    pub events: VecDeque<RuntimeEvent>,
    pub turn: Option<SimTurn>,
    pub interrupted: bool,
    pub dead: bool,
    pub running: Vec<String>,
}

#[derive(Debug)]
pub struct SimTurn {
    pub prompt: PromptId,
    text: String,
    taken: bool,
    /// How much of the history was there before.
    start: usize,
    pub answered: bool,
    /// Text of the line that streams.
    line: String,
    item: u32,
    /// What the mark of each of its lines begins with.
    nonce: String,
    said: bool,
    pub asked: BTreeSet<String>,
}

/// What it can do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    SayId,
    Take,
    Request,
    Retry,
    Think,
    Say,
    Line,
    Void,
    Run,
    Print,
    RunEnd,
    Ask,
    TakeBack,
    Context,
    Compact,
    Complete,
    EndEmpty,
    Stop,
    Fail,
    Die,
}

pub fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind, format!("simulated {kind:?}"))
}

impl Sim {
    pub fn new(provider: ProviderId, manner: Manner) -> Self {
        Self {
            provider,
            manner,
            sessions: BTreeMap::new(),
            roots: BTreeMap::new(),
            live: None,
            compacted_in: None,
            made: 0,
        }
    }

    fn name(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{}-{what}{}", self.provider, self.made)
    }

    /// Opens a process; `Err` where the session is not there.
    pub fn open(&mut self, resume: Option<&ResumeAt>) -> Result<(), Failure> {
        assert!(self.live.is_none(), "one process a session");
        let gone = || Err(failure(FailureKind::SessionGone));
        let id = match resume {
            None => {
                let id = self.name("s");
                self.sessions.insert(id.clone(), Vec::new());
                self.roots.insert(id.clone(), id.clone());
                id
            }
            Some(resume) => {
                let Some(history) = self.sessions.get(&resume.session_id) else { return gone() };
                if resume.rewind {
                    let anchor = resume.anchor.as_ref().expect("a rewind has a place to go to");
                    let Some(at) = history.iter().rposition(|e| e.anchor.as_ref() == Some(anchor)) else {
                        return gone();
                    };
                    let cut = history[..=at].to_vec();
                    let id = if self.manner.forks { self.name("f") } else { resume.session_id.clone() };
                    self.sessions.insert(id.clone(), cut);
                    let root = self.roots[&resume.session_id].clone();
                    self.roots.insert(id.clone(), root);
                    id
                } else {
                    resume.session_id.clone()
                }
            }
        };
        let events = VecDeque::new();
        let engine_id = resume.map(|r| r.session_id.clone());
        let mut live = Live {
            id,
            told_id: false,
            engine_id,
            events,
            turn: None,
            interrupted: false,
            dead: false,
            running: Vec::new(),
        };
        if self.manner.says_id_at_once {
            live.say_id();
        }
        self.live = Some(live);
        Ok(())
    }

    /// Takes a prompt's bytes; `Err`: they did not leave.
    pub fn send(&mut self, prompt: PromptId, text: String) -> Result<(), Failure> {
        let live = self.live.as_mut().expect("a process");
        if live.dead {
            return Err(failure(FailureKind::Exited));
        }
        assert!(live.turn.is_none(), "at most one prompt is outstanding (R8)");
        let history = &self.sessions[&live.id];
        if let Some(Entry { kind: Kind::Prompt { answered: false, .. }, text, .. }) = history.last() {
            panic!("a second prompt on top of an unanswered one (T9): {text:?}");
        }
        let start = history.len();
        self.made += 1;
        let nonce = format!("zq{}r{}", &self.provider.as_str()[..2], self.made);
        live.interrupted = false;
        live.turn = Some(SimTurn {
            prompt,
            text,
            taken: false,
            start,
            answered: false,
            line: String::new(),
            item: 0,
            nonce,
            said: false,
            asked: BTreeSet::new(),
        });
        Ok(())
    }

    pub fn answer(&mut self, key: &str) {
        if let Some(turn) = self.live.as_mut().and_then(|l| l.turn.as_mut()) {
            turn.asked.remove(key);
        }
    }

    /// What it may do now, likelier things more often.
    pub fn moves(&self) -> Vec<Move> {
        use Move::*;
        let Some(live) = self.live.as_ref().filter(|l| !l.dead) else { return Vec::new() };
        let Some(turn) = &live.turn else {
            let mut idle = vec![Context, Die];
            if !live.running.is_empty() {
                idle.extend([Print, RunEnd, RunEnd]);
            }
            return idle;
        };
        if live.interrupted {
            // It may have ended by itself just before it heard of it.
            let mut moves = vec![Stop, Stop, Stop, Fail, Die];
            moves.push(if turn.answered { Complete } else { EndEmpty });
            moves.extend([if turn.taken { Say } else { Take }]);
            return moves;
        }
        if !turn.asked.is_empty() {
            return vec![TakeBack, Die, Fail];
        }
        if !turn.taken {
            return vec![SayId, Take, Take, Take, Take, Take, Fail, Die];
        }
        if !turn.answered {
            return vec![Request, Retry, Think, Say, Say, Say, Say, Run, Ask, Fail, Fail, EndEmpty, Stop, Die];
        }
        let mut moves = vec![
            Say, Say, Line, Line, Void, Run, Ask, Context, Retry, Complete, Complete, Complete, Fail, Fail, Stop, Die,
        ];
        if turn.start > 3 {
            moves.push(Compact);
        }
        if !live.running.is_empty() {
            moves.extend([Print, RunEnd]);
        }
        moves
    }

    /// The move that a CLI in good order would make, if any is its turn.
    pub fn good_move(&self) -> Option<Move> {
        let live = self.live.as_ref().filter(|l| !l.dead)?;
        let turn = live.turn.as_ref()?;
        Some(match () {
            () if live.interrupted => Move::Stop,
            () if !turn.asked.is_empty() => return None,
            () if !turn.taken => Move::Take,
            () if !turn.said => Move::Say,
            () => Move::Complete,
        })
    }

    /// Does it. `b` decides what is left open.
    pub fn make(&mut self, step: Move, b: u8) {
        let item = |n: u32| format!("i{n}");
        let Self { manner, sessions, live, made, provider, compacted_in, .. } = self;
        let Some(live) = live.as_mut().filter(|l| !l.dead) else { return };
        let history = sessions.get_mut(&live.id).expect("a live session is there");
        let Some(turn) = live.turn.as_mut() else {
            let event = match (step, live.running.first().cloned()) {
                (Move::Print, Some(item)) => RuntimeEvent::CommandOutput { item, delta: "late\n".into() },
                (Move::RunEnd, Some(item)) => {
                    live.running.remove(0);
                    ended_command(item, b)
                }
                (Move::Die, _) => {
                    live.dead = true;
                    RuntimeEvent::Exited { failure: failure(FailureKind::Exited) }
                }
                _ => RuntimeEvent::Context(ContextFigure { used: u64::from(b) * 100, window: None }),
            };
            live.events.push_back(event);
            return;
        };
        match step {
            Move::SayId => live.say_id(),
            Move::Take => {
                turn.taken = true;
                history.push(turn.entry());
                live.say_id();
                live.events.push_back(RuntimeEvent::Taken);
            }
            Move::Request => live.events.push_back(RuntimeEvent::Requested),
            Move::Retry => {
                live.events.push_back(RuntimeEvent::Retrying { attempt: 1, max: None, message: "busy".into() })
            }
            Move::Think => {
                turn.answer(history);
                live.events.push_back(RuntimeEvent::Reasoning { item: "r".into(), delta: "hm ".into() });
            }
            Move::Say => {
                turn.answer(history);
                let text = if turn.line.is_empty() {
                    format!("{}l{}qz {} ", turn.nonce, turn.item, "w".repeat(usize::from(b) * 3))
                } else {
                    "more ".to_owned()
                };
                turn.said = true;
                turn.line.push_str(&text);
                live.events.push_back(RuntimeEvent::Text { item: item(turn.item), delta: text });
            }
            Move::Line => {
                if !turn.line.is_empty() {
                    let whole =
                        RuntimeEvent::Whole { item: item(turn.item), reasoning: false, text: turn.line.clone() };
                    live.events.push_back(whole);
                    let anchor = turn.close_line(history, made, manner.anchors == Anchors::Lines);
                    live.events.extend(anchor.map(|anchor| RuntimeEvent::Anchor { anchor }));
                }
            }
            Move::Void => {
                // The stream was cut and starts over: what it had said of this line is void.
                if !turn.line.is_empty() {
                    turn.line.clear();
                    live.events.push_back(RuntimeEvent::Superseded { items: vec![item(turn.item)] });
                    turn.item += 1;
                }
            }
            Move::Run => {
                turn.answer(history);
                *made += 1;
                let item = format!("c{made}");
                live.running.push(item.clone());
                let command = format!("run zq{}c{made}qz", &provider.as_str()[..2]);
                let status = WorkStatus::Running;
                live.events.push_back(RuntimeEvent::Command { item, command, status, exit_code: None, output: None });
            }
            Move::Print => {
                if let Some(item) = live.running.first() {
                    live.events.push_back(RuntimeEvent::CommandOutput { item: item.clone(), delta: "out\n".into() });
                }
            }
            Move::RunEnd => {
                if !live.running.is_empty() {
                    let item = live.running.remove(0);
                    live.events.push_back(ended_command(item, b));
                }
            }
            Move::Ask => {
                turn.answer(history);
                *made += 1;
                let key = format!("k{made}");
                turn.asked.insert(key.clone());
                let subject = ApprovalSubject::Command { command: format!("make {}", b % 3), cwd: None };
                let request = ApprovalRequest { key, item: None, subject, reason: None };
                live.events.push_back(RuntimeEvent::ApprovalWanted(request));
            }
            Move::TakeBack => {
                if let Some(key) = turn.asked.pop_first() {
                    live.events.push_back(RuntimeEvent::ApprovalWithdrawn { key });
                }
            }
            Move::Context => {
                live.events.push_back(RuntimeEvent::Context(ContextFigure { used: u64::from(b) * 10, window: None }));
            }
            Move::Compact => {
                // All that was there before this turn is a summary now, of which nobody knows what it holds.
                let summary = Entry { kind: Kind::Reply, text: "in short".into(), anchor: None };
                history.splice(..turn.start, [summary]);
                turn.start = 1;
                *compacted_in = Some(turn.prompt);
                live.events.push_back(RuntimeEvent::Compacted);
            }
            Move::Complete => live.end(history, Kept::Everything, Ended::Completed, manner.anchors, made, true),
            // Nobody knows what it holds then (R058).
            Move::EndEmpty => live.end(history, any(b, false), Ended::Completed, manner.anchors, made, true),
            Move::Stop => {
                let keeps = manner.keeps;
                let kept = if turn.answered { keeps.interrupted_answered } else { keeps.interrupted_unanswered };
                let kept = really(kept, turn, b);
                live.end(history, kept, Ended::Interrupted, manner.anchors, made, b.is_multiple_of(2));
            }
            Move::Fail => {
                let keeps = manner.keeps;
                let kept = if turn.answered { keeps.failed_answered } else { keeps.failed_unanswered };
                let kept = really(kept, turn, b);
                // What the cut has made void is no part of the reply any more (S2).
                if kept == Kept::Everything && b.is_multiple_of(3) && !turn.line.is_empty() {
                    turn.line.clear();
                    live.events.push_back(RuntimeEvent::Superseded { items: vec![item(turn.item)] });
                    turn.item += 1;
                }
                let kind = match b % 4 {
                    0 | 1 => FailureKind::Unavailable,
                    2 => FailureKind::RateLimited,
                    _ if !turn.taken && b % 8 == 7 => FailureKind::SessionGone,
                    _ if turn.answered => FailureKind::Protocol,
                    _ => FailureKind::NotLoggedIn,
                };
                live.end(history, kept, Ended::Failed(failure(kind)), manner.anchors, made, b.is_multiple_of(2));
            }
            Move::Die => {
                live.kill(history, manner, b);
                live.dead = true;
                live.events.push_back(RuntimeEvent::Exited { failure: failure(FailureKind::Exited) });
            }
        }
    }

    /// Its process tree is killed, or ended with the app: nothing more is heard of it.
    pub fn kill(&mut self, b: u8) {
        if let Some(mut live) = self.live.take() {
            let history = self.sessions.get_mut(&live.id).expect("a live session is there");
            live.kill(history, &self.manner, b);
        }
    }
}

impl Live {
    fn say_id(&mut self) {
        if !self.told_id {
            self.told_id = true;
            self.events.push_back(RuntimeEvent::SessionKnown { session_id: self.id.clone(), model: None });
        }
    }

    fn end(
        &mut self,
        history: &mut Vec<Entry>,
        kept: Kept,
        ended: Ended,
        anchors: Anchors,
        made: &mut u32,
        tells: bool,
    ) {
        let Some(mut turn) = self.turn.take() else { return };
        turn.keep(history, kept, made, anchors);
        // A place is named only where there is one of this turn.
        let last = history.get(turn.start..).and_then(<[Entry]>::last).and_then(|e| e.anchor.clone());
        if let Some(anchor) = last.filter(|_| tells) {
            self.events.push_back(RuntimeEvent::Anchor { anchor });
        }
        self.events.push_back(RuntimeEvent::Ended(ended));
        self.interrupted = false;
    }

    fn kill(&mut self, history: &mut Vec<Entry>, manner: &Manner, b: u8) {
        self.running.clear();
        let Some(mut turn) = self.turn.take() else { return };
        let kept = if turn.answered { really(manner.killed, &turn, b) } else { any(b, false) };
        let mut made = 0;
        turn.keep(history, kept, &mut made, Anchors::Never);
    }
}

impl SimTurn {
    fn entry(&self) -> Entry {
        Entry { kind: Kind::Prompt { id: self.prompt, answered: false }, text: self.text.clone(), anchor: None }
    }

    fn answer(&mut self, history: &mut [Entry]) {
        self.answered = true;
        if let Some(Entry { kind: Kind::Prompt { answered, .. }, .. }) = history.get_mut(self.start) {
            *answered = true;
        }
    }

    fn close_line(&mut self, history: &mut Vec<Entry>, made: &mut u32, named: bool) -> Option<String> {
        *made += 1;
        let anchor = named.then(|| format!("a{made}"));
        history.push(Entry { kind: Kind::Reply, text: std::mem::take(&mut self.line), anchor: anchor.clone() });
        self.item += 1;
        anchor
    }

    /// Brings the history to what the CLI keeps of this turn.
    fn keep(&mut self, history: &mut Vec<Entry>, kept: Kept, made: &mut u32, anchors: Anchors) {
        if !self.taken && kept != Kept::Nothing {
            history.push(self.entry());
        }
        match kept {
            Kept::Everything if self.answered => {
                if !self.line.is_empty() {
                    self.close_line(history, made, false);
                }
            }
            // The lines that were whole, as they stand there.
            Kept::Unknown if self.answered => {}
            Kept::Everything | Kept::PromptOnly => history.truncate(self.start + 1),
            Kept::Nothing | Kept::Unknown => history.truncate(self.start),
        }
        if history.len() > self.start && anchors != Anchors::Never {
            *made += 1;
            if let Some(last) = history.last_mut() {
                last.anchor.get_or_insert_with(|| format!("a{made}"));
            }
        }
    }
}

/// What a CLI does whose declaration says nothing (after an answer `Unknown` is: the lines that were whole); and before a prompt is taken it may well hold nothing of it.
fn really(kept: Kept, turn: &SimTurn, b: u8) -> Kept {
    match kept {
        Kept::Unknown => any(b, turn.answered),
        _ if !turn.taken && b.is_multiple_of(2) => Kept::Nothing,
        known => known,
    }
}

fn any(b: u8, answered: bool) -> Kept {
    match b % 4 {
        0 => Kept::Nothing,
        2 if answered => Kept::Everything,
        3 if answered => Kept::Unknown,
        _ => Kept::PromptOnly,
    }
}

fn ended_command(item: String, b: u8) -> RuntimeEvent {
    let output = b.is_multiple_of(2).then(|| format!("all of {item}\n"));
    let status = if b < 128 { WorkStatus::Completed } else { WorkStatus::Failed };
    RuntimeEvent::Command { item, command: String::new(), status, exit_code: Some(i32::from(b >= 128)), output }
}
