//! Frames of one thread into runtime events. Pure: no clock, no pipe.

use std::collections::{BTreeMap, HashMap, HashSet};

use changeover_core::{
    event::{Ended, RuntimeEvent},
    failure::{Failure, FailureKind},
    part::{FileDelta, PlanEntry, WorkStatus},
    usage::ContextFigure,
};
use serde_json::{Value, value::RawValue};

use super::{
    approval::{self, Form, Question},
    failure,
    item::{deltas, generic, mcp_output, status},
    shell,
    wire::{self, Delta, ErrorNote, Item, Note, Place, RateLimits, Turn, Usage},
};
use crate::session::Answer;

/// A window at or above this, in tokens, is our own raised catalogue speaking, not the model (G2).
pub(super) const RAISED_WINDOW: u64 = 100_000_000;

/// Where the turn of the outstanding prompt stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No prompt is outstanding.
    #[default]
    Idle,
    /// Written; the turn has not begun.
    Sent,
    /// The turn runs and can be interrupted.
    Running(String),
}

/// What the client has to do beside passing on events.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A turn that we did not ask for has begun: stop it, or the next prompt would be folded into it (R8).
    StopTurn(String),
    /// The turn was interrupted: end what it still runs (R5).
    EndCommands,
}

/// What a frame meant.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    /// For the reader of the session.
    pub events: Vec<RuntimeEvent>,
    /// For the client.
    pub act: Option<Act>,
}

/// The state of one thread's stream.
#[derive(Debug, Default)]
pub(super) struct Normalizer {
    thread: String,
    folder: String,
    /// The model's true window in tokens, where known.
    window: Option<u64>,
    /// The id under which the outstanding prompt was sent.
    prompt: Option<String>,
    turn: Option<String>,
    running: bool,
    /// A response has ended; the next thing that the model makes comes from another request.
    between: bool,
    total: u64,
    /// Text and reasoning begun by the current request and not finished.
    open: Vec<String>,
    /// Running commands and their lines.
    commands: BTreeMap<String, String>,
    /// Commands that were ended by an interrupt.
    cut: HashSet<String>,
    files: HashMap<String, Vec<FileDelta>>,
    asked: HashMap<String, Asked>,
    limits: RateLimits,
}

#[derive(Debug)]
struct Asked {
    id: Value,
    form: Form,
    ours: bool,
}

impl Normalizer {
    /// For this thread in this workspace.
    pub fn new(thread: String, folder: String, window: Option<u64>) -> Self {
        Self { thread, folder, window, ..Self::default() }
    }

    /// A prompt goes out under this id. `false`: one is still out, nothing is changed.
    pub fn sent(&mut self, prompt: String) -> bool {
        if self.prompt.is_some() {
            return false;
        }
        self.prompt = Some(prompt);
        self.turn = None;
        self.running = false;
        self.between = false;
        self.open.clear();
        self.cut.clear();
        true
    }

    /// The prompt did not go out after all.
    pub fn unsent(&mut self) {
        self.prompt = None;
    }

    /// `turn/start` was answered.
    pub fn started(&mut self, answer: Result<&Value, &wire::RpcError>) -> Meaning {
        let mut meaning = Meaning::default();
        match answer {
            Ok(result) => {
                if self.prompt.is_some() && self.turn.is_none() {
                    self.turn = result["turn"]["id"].as_str().map(str::to_owned);
                }
            }
            Err(error) => self.end(Ended::Failed(failure::of_rpc(error)), &mut meaning.events),
        }
        meaning
    }

    /// We ask the CLI to stop: commands that run now end because of it.
    pub fn interrupting(&mut self) {
        self.cut.extend(self.commands.keys().cloned());
    }

    /// Codex does not always tell of a command's end when it ends it with its turn.
    fn cut(&mut self, out: &mut Vec<RuntimeEvent>) {
        self.interrupting();
        let events = self.commands.iter().map(|(item, command)| RuntimeEvent::Command {
            item: item.clone(),
            command: command.clone(),
            status: WorkStatus::Interrupted,
            exit_code: None,
            output: None,
        });
        out.extend(events);
    }

    /// Where the outstanding prompt's turn stands.
    pub fn phase(&self) -> Phase {
        match (&self.prompt, &self.turn) {
            (None, _) => Phase::Idle,
            (Some(_), Some(turn)) if self.running => Phase::Running(turn.clone()),
            (Some(_), _) => Phase::Sent,
        }
    }

    /// A question of the app server's: what to write back at once, if anything.
    pub fn question(&mut self, id: Value, method: &str, params: &RawValue) -> (Meaning, Option<Result<Value, ()>>) {
        let key = id.to_string();
        let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
        let ours = params["threadId"] == self.thread.as_str();
        let mut meaning = Meaning::default();
        let question =
            approval::question(key.clone(), method, &params, &self.folder, |item| self.files.get(item).cloned());
        let reply = match question {
            Question::Ask(mut request, form) => {
                // A sub-agent's item is no part of the reply.
                request.item = request.item.filter(|_| ours);
                self.asked.insert(key, Asked { id, form, ours });
                meaning.events.push(RuntimeEvent::ApprovalWanted(request));
                None
            }
            Question::Answer(result) => Some(Ok(result)),
            Question::Refuse => {
                meaning.events.push(RuntimeEvent::Raw { kind: method.to_owned() });
                Some(Err(()))
            }
        };
        (meaning, reply)
    }

    /// The answer to a question: its id and result; none if it is no longer open.
    pub fn answer(&mut self, key: &str, answer: Answer) -> Option<(Value, Value)> {
        let asked = self.asked.remove(key)?;
        Some((asked.id, asked.form.result(answer)))
    }

    /// A notification.
    pub fn note(&mut self, method: &str, params: &RawValue) -> Meaning {
        let mut meaning = Meaning::default();
        let (place, note) = wire::read(method, params);
        let ours = place.thread_id.as_deref().is_none_or(|thread| thread == self.thread);
        if let Note::Resolved(id) = &note {
            // A sub-agent's question too.
            let key = id.to_string();
            if self.asked.remove(&key).is_some() {
                meaning.events.push(RuntimeEvent::ApprovalWithdrawn { key });
            }
        } else if ours {
            meaning.act = self.ours(note, place, method, &mut meaning.events);
        }
        meaning
    }

    fn ours(&mut self, note: Note, place: Place, method: &str, out: &mut Vec<RuntimeEvent>) -> Option<Act> {
        let current = place.turn_id.is_some() && place.turn_id == self.turn;
        match note {
            Note::ItemStarted(item) => self.item(item, false, current, out),
            Note::ItemCompleted(item) => self.item(item, true, current, out),
            Note::Text(Delta { item_id, delta, .. }) | Note::PlanText(Delta { item_id, delta, .. }) if current => {
                out.push(RuntimeEvent::Text { item: item_id, delta });
            }
            Note::Summary(Delta { item_id, delta, .. }) if current => {
                out.push(RuntimeEvent::Reasoning { item: item_id, delta });
            }
            Note::SummaryPart(part) if current && part.summary_index > 0 => {
                out.push(RuntimeEvent::Reasoning { item: part.item_id, delta: PARAGRAPH.into() });
            }
            Note::ReasoningContent(Delta { item_id, delta, .. }) if current => {
                out.push(RuntimeEvent::Reasoning { item: raw_reasoning(&item_id), delta });
            }
            Note::CommandOutput(Delta { item_id, delta, .. }) => {
                out.push(RuntimeEvent::CommandOutput { item: item_id, delta });
            }
            Note::FilesUpdated(updated) => {
                let files = deltas(updated.changes);
                self.files.insert(updated.item_id.clone(), files.clone());
                out.push(RuntimeEvent::FileChange { item: updated.item_id, files, status: WorkStatus::Running });
            }
            Note::Plan(plan) if current => out.push(RuntimeEvent::Plan {
                item: format!("plan:{}", self.turn.as_deref().unwrap_or_default()),
                entries: plan.plan.into_iter().map(entry).collect(),
            }),
            Note::Usage(usage) => self.usage(usage, current, out),
            Note::Error(note) if current && note.will_retry => self.retry(note, out),
            // The end of the turn says the same.
            Note::Error(_) if current => {}
            Note::Error(note) => out.push(RuntimeEvent::Warning { message: failure::words(&note.error.message) }),
            Note::TurnStarted(turn) => return self.turn_started(turn),
            Note::TurnCompleted(turn) => return self.turn_completed(turn, out),
            Note::RateLimits(limits) => self.limits = limits,
            Note::Rerouted { to, why } => {
                let why = if why.is_empty() { why } else { format!(" ({why})") };
                out.push(RuntimeEvent::Warning { message: format!("The provider answers with {to} instead{why}") });
            }
            // Harmless: the model runs with general settings.
            Note::Warning(message) if message.starts_with("Model metadata for") => {}
            Note::Warning(message) => out.push(RuntimeEvent::Warning { message }),
            Note::McpFailed { name, error } => {
                out.push(RuntimeEvent::Warning { message: format!("The MCP server {name} did not start: {error}") });
            }
            Note::Unknown => out.push(RuntimeEvent::Raw { kind: method.to_owned() }),
            // Text of a turn that we did not ask for is nobody's reply.
            Note::Text(_)
            | Note::PlanText(_)
            | Note::Summary(_)
            | Note::SummaryPart(_)
            | Note::ReasoningContent(_)
            | Note::Plan(_)
            | Note::Resolved(_)
            | Note::Nothing => {}
        }
        None
    }

    fn turn_started(&mut self, turn: Turn) -> Option<Act> {
        if self.prompt.is_none() {
            return Some(Act::StopTurn(turn.id));
        }
        if self.turn.get_or_insert(turn.id.clone()) == &turn.id {
            self.running = true;
        }
        None
    }

    fn turn_completed(&mut self, turn: Turn, out: &mut Vec<RuntimeEvent>) -> Option<Act> {
        if self.prompt.is_none() || self.turn.as_ref().is_some_and(|ours| *ours != turn.id) {
            return None;
        }
        let ended = match turn.status.as_str() {
            "completed" => {
                out.push(RuntimeEvent::Anchor { anchor: turn.id });
                Ended::Completed
            }
            "interrupted" => {
                self.cut(out);
                Ended::Interrupted
            }
            "failed" => {
                self.void(out);
                Ended::Failed(failure::of_turn(turn.error.as_ref(), &self.limits))
            }
            other => Ended::Failed(Failure::new(
                FailureKind::Protocol,
                format!("Codex ended a turn with a status that is not known: {other}"),
            )),
        };
        let act = (ended == Ended::Interrupted).then_some(Act::EndCommands);
        self.end(ended, out);
        act
    }

    fn end(&mut self, ended: Ended, out: &mut Vec<RuntimeEvent>) {
        let mut withdrawn: Vec<String> =
            self.asked.iter().filter(|(_, asked)| asked.ours).map(|(key, _)| key.clone()).collect();
        withdrawn.sort();
        for key in withdrawn {
            self.asked.remove(&key);
            out.push(RuntimeEvent::ApprovalWithdrawn { key });
        }
        if self.prompt.take().is_some() {
            out.push(RuntimeEvent::Ended(ended));
        }
        self.turn = None;
        self.running = false;
    }

    fn usage(&mut self, usage: Usage, current: bool, out: &mut Vec<RuntimeEvent>) {
        // After an overflow Codex states a full window of no tokens; an interrupt repeats the figure before.
        if usage.last.input_tokens == 0 && usage.last.output_tokens == 0 {
            return;
        }
        if current && usage.total.total_tokens != self.total {
            if self.between {
                out.push(RuntimeEvent::Requested);
            }
            self.between = true;
            self.open.clear();
        }
        self.total = usage.total.total_tokens;
        let window = match usage.model_context_window {
            Some(said) if said < RAISED_WINDOW / 2 => Some(said),
            _ => self.window,
        };
        out.push(RuntimeEvent::Context(ContextFigure { used: usage.last.total_tokens, window }));
    }

    /// What a request that failed had begun and not finished: it is not in the history either.
    fn void(&mut self, out: &mut Vec<RuntimeEvent>) {
        let open = std::mem::take(&mut self.open);
        if !open.is_empty() {
            out.push(RuntimeEvent::Superseded { items: open });
        }
    }

    /// The request failed and goes out again: what it had begun is void, what it had finished stands (S2).
    fn retry(&mut self, note: ErrorNote, out: &mut Vec<RuntimeEvent>) {
        self.void(out);
        let (attempt, max) = tries(&note.error.message);
        let why = note.error.additional_details.as_deref().unwrap_or(&note.error.message);
        out.push(RuntimeEvent::Retrying { attempt, max, message: failure::words(why) });
        out.push(RuntimeEvent::Requested);
        self.between = false;
    }

    /// Something that the model made: after a finished response it comes from another request.
    fn made(&mut self, current: bool, out: &mut Vec<RuntimeEvent>) {
        if current && std::mem::take(&mut self.between) {
            out.push(RuntimeEvent::Requested);
        }
    }

    fn item(&mut self, item: Item, done: bool, current: bool, out: &mut Vec<RuntimeEvent>) {
        if !done && !matches!(item, Item::User(_) | Item::Compaction | Item::Nothing | Item::Unknown(_)) {
            self.made(current, out);
        }
        match item {
            Item::User(user) => {
                if !done && current && user.client_id.is_some() && user.client_id == self.prompt {
                    out.push(RuntimeEvent::Taken);
                    out.push(RuntimeEvent::Requested);
                }
            }
            Item::Message(message) | Item::PlanText(message) if current => {
                self.text(vec![(message.id, message.text)], false, done, out);
            }
            Item::Reasoning(reasoning) if current => {
                let raw = (raw_reasoning(&reasoning.id), reasoning.content.join(PARAGRAPH));
                self.text(vec![(reasoning.id, reasoning.summary.join(PARAGRAPH)), raw], true, done, out);
            }
            Item::Message(_) | Item::PlanText(_) | Item::Reasoning(_) => {}
            Item::Command(command) => {
                let mut status = status(&command.status, done);
                let line = shell::unwrapped(&command.command);
                if done {
                    self.commands.remove(&command.id);
                    if self.cut.remove(&command.id) && status == WorkStatus::Failed {
                        status = WorkStatus::Interrupted;
                    }
                } else {
                    self.commands.insert(command.id.clone(), line.clone());
                }
                out.push(RuntimeEvent::Command {
                    item: command.id,
                    command: line,
                    status,
                    exit_code: command.exit_code,
                    output: command.aggregated_output,
                });
            }
            Item::Files(files) => {
                let status = status(&files.status, done);
                let changes = deltas(files.changes);
                if done {
                    self.files.remove(&files.id);
                } else {
                    self.files.insert(files.id.clone(), changes.clone());
                }
                out.push(RuntimeEvent::FileChange { item: files.id, files: changes, status });
            }
            Item::Mcp(call) => {
                let status = status(&call.status, done);
                let output = mcp_output(call.result, call.error);
                let name = approval::mcp_name(&call.server, &call.tool);
                out.push(RuntimeEvent::Tool { item: call.id, name, input: call.arguments.to_string(), output, status });
            }
            Item::Other { kind, id, body } => out.push(generic(kind, id, body, done)),
            Item::Compaction if done => out.push(RuntimeEvent::Compacted),
            Item::Compaction | Item::Nothing => {}
            Item::Unknown(kind) => out.push(RuntimeEvent::Raw { kind: format!("item:{kind}") }),
        }
    }

    fn text(&mut self, items: Vec<(String, String)>, reasoning: bool, done: bool, out: &mut Vec<RuntimeEvent>) {
        for (item, text) in items {
            if !done {
                self.open.push(item);
                continue;
            }
            self.open.retain(|open| *open != item);
            if !text.is_empty() {
                out.push(RuntimeEvent::Whole { item, reasoning, text });
            }
        }
    }
}

/// Between the parts of a reasoning summary.
const PARAGRAPH: &str = "\n\n";

/// Reasoning word for word, where a provider shows it, is an item beside its summary.
fn raw_reasoning(item: &str) -> String {
    format!("{item}:raw")
}

fn entry(step: wire::Step) -> PlanEntry {
    let status = match step.status.as_str() {
        "inProgress" => Some(WorkStatus::Running),
        "completed" => Some(WorkStatus::Completed),
        _ => None,
    };
    PlanEntry { text: step.step, status }
}

/// `Reconnecting... 2/5`: which try, of how many.
fn tries(message: &str) -> (u32, Option<u32>) {
    let last = message.split_whitespace().last().unwrap_or_default();
    match last.split_once('/').map(|(n, max)| (n.parse(), max.parse())) {
        Some((Ok(n), Ok(max))) => (n, Some(max)),
        _ => (1, None),
    }
}

#[cfg(test)]
mod tests;
