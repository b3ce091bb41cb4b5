//! Events of one session into runtime events. Pure: no clock, no connection.

use std::collections::{HashMap, HashSet};

use changeover_core::{
    Millis,
    approval::ApprovalRequest,
    event::{Ended, RuntimeEvent},
    failure::Failure,
    usage::ContextFigure,
};
use serde_json::Value;

use super::{failure, tools::Tools};

/// How many replies in a row may break off before the turn is stopped (R10): OpenCode itself asks on for ever, at once.
const CUTS: u32 = 10;
/// A wait for a limit's end that is longer than this, in milliseconds, is none (X6).
const LONG_WAIT: Millis = 60_000;

/// Where the turn of the outstanding prompt stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No prompt is outstanding.
    #[default]
    Idle,
    /// Written; the turn has not begun.
    Sent,
    /// The turn runs and can be stopped.
    Running,
}

/// What the session has to do beside passing on events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Stop the turn: it gets nowhere.
    Abort,
    /// The server says that nothing runs, and the turn has not ended by what it said: ask whether that is so.
    Ask,
    /// The turn was stopped, and its last words are still to come: they do in a moment, or never.
    Wait,
}

/// What an event meant.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    pub events: Vec<RuntimeEvent>,
    pub act: Option<Act>,
}

/// The state of one session's stream.
#[derive(Default)]
pub(super) struct Normalizer {
    session: String,
    /// The sessions of its sub-agents: what they ask is asked here, what they say is not.
    children: HashSet<String>,
    /// User messages that are known: none of them is the outstanding prompt.
    prompts: HashSet<String>,
    /// Windows in tokens by `provider/model`.
    windows: HashMap<String, u64>,
    model: Option<String>,
    tools: Tools,
    /// Replies of the last turn, whose last words may come late.
    late: HashSet<String>,
    /// Open questions, and whether they are answered already.
    asked: HashMap<String, bool>,
    turn: Option<Turn>,
    /// How many turns there were: a timer must not end another turn than its own.
    count: u64,
}

#[derive(Default)]
struct Turn {
    /// The prompt's message, once it is taken.
    prompt: Option<String>,
    busy: bool,
    stopping: bool,
    /// Its replies, one for each request to the model.
    replies: HashSet<String>,
    last: Option<String>,
    /// The last reply has ended, and not only to run tools.
    done: bool,
    /// The last reply is closed, in whatever way.
    closed: bool,
    failure: Option<Failure>,
    /// Text and reasoning of the current request, and whether it is reasoning.
    open: HashMap<String, bool>,
    /// In the order in which they began.
    order: Vec<String>,
    /// Made void by a retry: what still comes of them is nothing.
    void: HashSet<String>,
    /// The current request has called a tool.
    called: bool,
    /// Replies in a row that broke off.
    cuts: u32,
    /// The current reply has broken off.
    cut: bool,
    /// It has been stopped for that.
    given_up: bool,
}

impl Turn {
    /// What the current request has made so far is void (S2).
    fn supersede(&mut self, out: &mut Vec<RuntimeEvent>) {
        self.open.clear();
        let items = std::mem::take(&mut self.order);
        if !items.is_empty() {
            self.void.extend(items.iter().cloned());
            out.push(RuntimeEvent::Superseded { items });
        }
    }
}

impl Normalizer {
    /// For this session, whose history holds these user messages.
    pub fn new(
        session: String,
        prompts: HashSet<String>,
        windows: HashMap<String, u64>,
        model: Option<String>,
    ) -> Self {
        Self { session, prompts, windows, model, ..Self::default() }
    }

    /// A prompt goes out. `false`: one is still out, nothing is changed.
    pub fn sent(&mut self) -> bool {
        if self.turn.is_some() {
            return false;
        }
        self.turn = Some(Turn::default());
        self.count += 1;
        self.tools.clear();
        true
    }

    /// The prompt did not go out after all.
    pub fn unsent(&mut self) {
        self.turn = None;
    }

    /// We ask the server to stop.
    pub fn interrupting(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.stopping = true;
        }
    }

    /// Where the outstanding prompt's turn stands.
    pub fn phase(&self) -> Phase {
        match &self.turn {
            None => Phase::Idle,
            Some(turn) if turn.busy => Phase::Running,
            Some(_) => Phase::Sent,
        }
    }

    /// The turn's number.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether a question is open; from now on it is answered.
    pub fn answer(&mut self, key: &str) -> bool {
        self.asked.get_mut(key).is_some_and(|answered| !std::mem::replace(answered, true))
    }

    /// The server, asked, says whether anything runs in this session; or the last words had time to come.
    pub fn settled(&mut self, count: u64, busy: bool) -> Vec<RuntimeEvent> {
        let mut out = Vec::new();
        if count == self.count && !busy && self.turn.as_ref().is_some_and(|turn| turn.busy) {
            self.end(&mut out);
        }
        out
    }

    /// An event. `now`: milliseconds since 1970.
    pub fn event(&mut self, event: &Value, now: Millis) -> Meaning {
        let mut meaning = Meaning::default();
        let properties = &event["properties"];
        let kind = event["type"].as_str().unwrap_or_default();
        let session = properties["sessionID"].as_str().unwrap_or_default();
        if session != self.session {
            self.others(kind, session, properties, &mut meaning.events);
            return meaning;
        }
        let out = &mut meaning.events;
        match kind {
            "message.updated" => self.message(&properties["info"], out),
            "message.part.updated" => self.part(&properties["part"], out),
            "message.part.delta" => self.delta(properties, out),
            "message.part.removed" | "message.removed" => {}
            "session.status" => meaning.act = self.status(&properties["status"], now, out),
            "session.idle" => meaning.act = self.idle(out),
            "session.error" => self.error(&properties["error"]),
            "session.compacted" => out.push(RuntimeEvent::Compacted),
            "permission.asked" => self.ask(properties, true, out),
            "permission.replied" => self.replied(properties, out),
            "session.created" | "session.updated" | "session.diff" | "session.deleted" | "todo.updated" => {}
            other => out.push(RuntimeEvent::Raw { kind: other.to_owned() }),
        }
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.cuts >= CUTS && !turn.given_up) {
            turn.given_up = true;
            meaning.act = Some(Act::Abort);
        }
        meaning
    }

    /// What concerns another session: only a sub-agent's questions are ours.
    fn others(&mut self, kind: &str, session: &str, properties: &Value, out: &mut Vec<RuntimeEvent>) {
        let parent = properties["info"]["parentID"].as_str();
        match kind {
            "session.created" if parent.is_some_and(|p| p == self.session || self.children.contains(p)) => {
                self.children.insert(session.to_owned());
            }
            "permission.asked" if self.children.contains(session) => self.ask(properties, false, out),
            "permission.replied" if self.children.contains(session) => self.replied(properties, out),
            _ => {}
        }
    }

    fn message(&mut self, info: &Value, out: &mut Vec<RuntimeEvent>) {
        let Some(id) = info["id"].as_str() else { return };
        let Some(turn) = &mut self.turn else { return };
        if info["role"] == "user" {
            if self.prompts.insert(id.to_owned()) && turn.prompt.is_none() {
                turn.prompt = Some(id.to_owned());
                out.push(RuntimeEvent::Taken);
            }
            return;
        }
        if turn.prompt.is_none() || info["parentID"].as_str() != turn.prompt.as_deref() {
            return;
        }
        let model = match (info["providerID"].as_str(), info["modelID"].as_str()) {
            (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
            _ => None,
        };
        if model.is_some() && model != self.model {
            self.model.clone_from(&model);
            out.push(RuntimeEvent::SessionKnown { session_id: self.session.clone(), model });
        }
        if turn.replies.insert(id.to_owned()) {
            if std::mem::take(&mut turn.cut) {
                turn.supersede(out);
                out.push(RuntimeEvent::Retrying {
                    attempt: turn.cuts,
                    max: Some(CUTS),
                    message: "the model's reply broke off".into(),
                });
            }
            turn.last = Some(id.to_owned());
            turn.open.clear();
            turn.order.clear();
            turn.called = false;
            out.push(RuntimeEvent::Requested);
        }
        if turn.last.as_deref() == Some(id) {
            let finish = info["finish"].as_str();
            let error = &info["error"];
            turn.closed = info["time"]["completed"].is_number() || !error.is_null();
            turn.done = finish.is_some_and(|finish| !matches!(finish, "tool-calls" | "unknown"));
            if !error.is_null() && !failure::is_abort(error) && turn.failure.is_none() {
                turn.failure = Some(failure::of_turn(error));
            }
        }
    }

    /// An error of the turn; the first one says why.
    fn error(&mut self, error: &Value) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.prompt.is_some())
            && !failure::is_abort(error)
            && turn.failure.is_none()
        {
            turn.failure = Some(failure::of_turn(error));
        }
    }

    fn part(&mut self, part: &Value, out: &mut Vec<RuntimeEvent>) {
        let message = part["messageID"].as_str().unwrap_or_default();
        let item = part["id"].as_str().unwrap_or_default();
        let kind = part["type"].as_str().unwrap_or_default();
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.replies.contains(message)) else {
            // What a command was still doing when its turn ended (S2).
            if kind == "tool" && self.late.contains(message) {
                out.extend(self.tools.update(part, true));
            }
            return;
        };
        match kind {
            "text" | "reasoning" => {
                if turn.void.contains(item) {
                    return;
                }
                let reasoning = kind == "reasoning";
                if turn.open.insert(item.to_owned(), reasoning).is_none() {
                    turn.order.push(item.to_owned());
                }
                // Its end states it whole. At its beginning it is empty.
                let text = part["text"].as_str().unwrap_or_default();
                if part["time"]["end"].is_number() && !text.is_empty() {
                    out.push(RuntimeEvent::Whole { item: item.to_owned(), reasoning, text: text.to_owned() });
                }
            }
            "tool" => {
                turn.called = true;
                out.extend(self.tools.update(part, turn.stopping));
            }
            "step-finish" => {
                turn.cut = part["reason"] == "unknown" && !turn.called;
                if turn.cut {
                    turn.cuts += 1;
                    if turn.cuts >= CUTS {
                        turn.failure.get_or_insert_with(|| failure::cut(CUTS));
                    }
                } else {
                    turn.cuts = 0;
                }
                self.usage(&part["tokens"], out);
            }
            "compaction" => out.push(RuntimeEvent::Compacted),
            "step-start" | "snapshot" | "patch" | "agent" | "retry" | "file" | "subtask" => {}
            other => out.push(RuntimeEvent::Raw { kind: format!("part {other}") }),
        }
    }

    fn delta(&mut self, properties: &Value, out: &mut Vec<RuntimeEvent>) {
        let item = properties["partID"].as_str().unwrap_or_default();
        let message = properties["messageID"].as_str().unwrap_or_default();
        let (Some(delta), "text") = (properties["delta"].as_str(), properties["field"].as_str().unwrap_or_default())
        else {
            return;
        };
        let Some(turn) = self.turn.as_ref().filter(|turn| turn.replies.contains(message)) else { return };
        let (item, delta) = (item.to_owned(), delta.to_owned());
        match turn.open.get(&item) {
            Some(true) => out.push(RuntimeEvent::Reasoning { item, delta }),
            Some(false) => out.push(RuntimeEvent::Text { item, delta }),
            None => {}
        }
    }

    /// What the main session's last request saw (G3): each request states its own figures.
    fn usage(&self, tokens: &Value, out: &mut Vec<RuntimeEvent>) {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let parts = [
            &tokens["input"],
            &tokens["output"],
            &tokens["reasoning"],
            &tokens["cache"]["read"],
            &tokens["cache"]["write"],
        ];
        let sum = parts.into_iter().map(number).fold(0, u64::saturating_add);
        let used = tokens["total"].as_u64().unwrap_or(sum);
        // A reply that broke off has no figures.
        if used > 0 {
            let window = self.model.as_ref().and_then(|model| self.windows.get(model)).copied();
            out.push(RuntimeEvent::Context(ContextFigure { used, window }));
        }
    }

    fn status(&mut self, status: &Value, now: Millis, out: &mut Vec<RuntimeEvent>) -> Option<Act> {
        let turn = self.turn.as_mut().filter(|turn| turn.prompt.is_some())?;
        match status["type"].as_str() {
            Some("busy") => turn.busy = true,
            Some("retry") => {
                turn.busy = true;
                turn.supersede(out);
                let message = status["message"].as_str().unwrap_or_default();
                let until = status["next"].as_i64().unwrap_or(now);
                if until - now > LONG_WAIT && turn.failure.is_none() {
                    turn.failure = Some(failure::limited(message, until));
                    return Some(Act::Abort);
                }
                let attempt = status["attempt"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
                out.push(RuntimeEvent::Retrying { attempt, max: None, message: failure::inner(message) });
            }
            _ => {}
        }
        None
    }

    /// The server says that nothing runs. That may still be of the turn before.
    fn idle(&mut self, out: &mut Vec<RuntimeEvent>) -> Option<Act> {
        let turn = self.turn.as_ref().filter(|turn| turn.busy)?;
        if turn.stopping && !turn.closed {
            return Some(Act::Wait);
        }
        if turn.stopping || turn.failure.is_some() || turn.done {
            self.end(out);
            return None;
        }
        Some(Act::Ask)
    }

    fn end(&mut self, out: &mut Vec<RuntimeEvent>) {
        let Some(turn) = self.turn.take() else { return };
        let mut open: Vec<String> = self.asked.drain().filter(|(_, answered)| !answered).map(|(key, _)| key).collect();
        open.sort();
        out.extend(open.into_iter().map(|key| RuntimeEvent::ApprovalWithdrawn { key }));
        let ended = match turn.failure {
            Some(failure) => Ended::Failed(failure),
            None if turn.stopping => Ended::Interrupted,
            None if turn.done || turn.closed => Ended::Completed,
            None => Ended::Failed(failure::unfinished()),
        };
        if ended != Ended::Completed {
            out.extend(self.tools.cut());
        }
        // After a failure it is not proved what the history holds.
        if !matches!(ended, Ended::Failed(_))
            && let Some(anchor) = turn.last
        {
            out.push(RuntimeEvent::Anchor { anchor });
        }
        self.late = turn.replies;
        out.push(RuntimeEvent::Ended(ended));
    }

    fn ask(&mut self, asked: &Value, own: bool, out: &mut Vec<RuntimeEvent>) {
        let Some(key) = asked["id"].as_str() else { return };
        let (item, subject) = self.tools.question(asked);
        self.asked.insert(key.to_owned(), false);
        // A sub-agent's item is no part of the reply.
        let item = item.filter(|_| own);
        out.push(RuntimeEvent::ApprovalWanted(ApprovalRequest { key: key.to_owned(), item, subject, reason: None }));
    }

    /// A question was answered: by us, or by what OpenCode concluded from another answer.
    fn replied(&mut self, replied: &Value, out: &mut Vec<RuntimeEvent>) {
        let Some(key) = replied["requestID"].as_str() else { return };
        if self.asked.remove(key) == Some(false) {
            out.push(RuntimeEvent::ApprovalWithdrawn { key: key.to_owned() });
        }
    }
}
