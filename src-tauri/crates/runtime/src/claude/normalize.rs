//! Frames in, events out: the state of one Claude Code conversation. Pure; the client does what [`Effect`] says.
//!
//! The CLI runs turns that nobody of us asked for: when a command in the background ends, it tells its model at once. While a
//! turn of ours is open that belongs to it (sub-agents work that way, and the CLI counts as busy until they are done). When
//! none is open, it is stopped and its words are let go: no agent speaks or acts unasked, and the next prompt finds the news
//! in the history.

use std::collections::{BTreeMap, BTreeSet};

use changeover_core::{
    Millis,
    approval::ApprovalRequest,
    event::{Ended, RuntimeEvent},
    failure::{Failure, FailureKind},
    part::WorkStatus,
    usage::{ContextFigure, RequestUsage},
};
use serde_json::Value;

use super::{
    failure,
    stream::Stream,
    tools::{self, TaskEnd, Tools},
    wire::{self, Inbound, InitFrame, LifecycleFrame, MessageFrame, ResultFrame, Usage},
};
use crate::session::Answer;

/// What the client is to do.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// Tell this.
    Event(RuntimeEvent),
    /// Write this line.
    Write(Value),
    /// Read what a command in the background printed, then tell its end.
    CommandEnd {
        item: String,
        command: String,
        status: WorkStatus,
        exit_code: Option<i32>,
        output_file: Option<String>,
    },
}

/// The state of one conversation.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    session_id: Option<String>,
    model: Option<String>,
    prompt: Option<Outstanding>,
    /// The CLI has told of a prompt's life: from then on nothing else says that one began.
    has_lifecycle: bool,
    /// The CLI tells when it is idle: from then on only that ends a turn.
    has_states: bool,
    /// A turn of nobody's runs, and was asked to stop.
    unasked: bool,
    stopping: bool,
    /// Something in the background was ended by our asking to stop.
    cut_short: bool,
    stream: Stream,
    tools: Tools,
    approvals: BTreeMap<String, Asked>,
    anchor: Option<String>,
    usage: RequestUsage,
    window: Option<u64>,
    limit_ends: Option<Millis>,
    warned: BTreeSet<String>,
    requests: u64,
}

/// The one prompt that is out (R8).
#[derive(Debug)]
struct Outstanding {
    id: String,
    /// It stands in the history, and its turn runs.
    started: bool,
    /// The CLI has let go of it.
    closed: Option<Ended>,
    /// A turn of it has ended so; it is over when the CLI is idle.
    end: Option<Ended>,
}

#[derive(Debug)]
struct Asked {
    input: Value,
    tool: Option<String>,
}

impl Conversation {
    /// A prompt is about to be written.
    ///
    /// # Errors
    /// `Protocol` when one is out already (R8).
    pub fn writing(&mut self, id: String) -> Result<(), Failure> {
        if self.prompt.is_some() {
            let message = "A prompt is still out: Claude Code takes one at a time.";
            return Err(Failure::new(FailureKind::Protocol, message));
        }
        self.prompt = Some(Outstanding { id, started: false, closed: None, end: None });
        self.stopping = false;
        self.cut_short = false;
        Ok(())
    }

    /// It was not written after all.
    pub fn unwritten(&mut self) {
        self.prompt = None;
    }

    /// The line that asks the CLI to stop.
    pub fn interrupt(&mut self) -> Value {
        self.stopping = true;
        wire::interrupt(&self.key(), true)
    }

    /// The answer to a question; `None` when it is no longer open.
    pub fn answer(&mut self, key: &str, answer: Answer) -> Option<Value> {
        let asked = self.approvals.remove(key)?;
        Some(match answer {
            Answer::Allow => wire::allow(key, &asked.input),
            Answer::Deny => {
                if let Some(tool) = &asked.tool {
                    self.tools.denied(tool);
                }
                wire::deny(key)
            }
        })
    }

    /// Whether a prompt is out.
    pub fn is_busy(&self) -> bool {
        self.prompt.is_some()
    }

    /// The process is gone: what was open is cut off.
    pub fn exited(&mut self) -> Vec<RuntimeEvent> {
        self.prompt = None;
        let mut events = self.tools.cut_off(true);
        events.extend(self.withdraw_all());
        events
    }

    /// Takes one frame.
    pub fn frame(&mut self, frame: Inbound) -> Vec<Effect> {
        let mut out = Vec::new();
        match frame {
            Inbound::Stream(frame) if frame.parent_tool_use_id.is_none() && self.mine() => {
                let (events, usage) = self.stream.piece(frame.event);
                out.extend(events.into_iter().map(Effect::Event));
                out.extend(usage.and_then(|(usage, model)| self.context(usage, model)).map(Effect::Event));
            }
            Inbound::Assistant(frame) => self.assistant(&frame, &mut out),
            Inbound::User(frame) => self.user(&frame, &mut out),
            Inbound::Init(frame) => self.init(frame, &mut out),
            Inbound::Requesting { .. } => {
                self.asked_for(&mut out);
                if self.mine() {
                    out.push(Effect::Event(RuntimeEvent::Requested));
                }
            }
            Inbound::State { state } => self.state(&state, &mut out),
            Inbound::Retry(retry) if self.mine() => {
                let status = retry.error_status.map(|status| status.to_string());
                let words: Vec<String> = status.into_iter().chain(retry.error).collect();
                let (attempt, max, message) = (retry.attempt, retry.max_retries, words.join(" "));
                out.push(Effect::Event(RuntimeEvent::Retrying { attempt, max, message }));
            }
            Inbound::Compacted => out.push(Effect::Event(RuntimeEvent::Compacted)),
            Inbound::Task(task) => {
                // The model has had its say, but its sub-agents' work was cut off: that is no turn that ended by itself.
                self.cut_short |= self.stopping && task.status.as_deref() == Some("stopped");
                out.extend(self.tools.task(&task).map(|end| match end {
                    TaskEnd::Other(event) => Effect::Event(event),
                    TaskEnd::Command { item, command, status, exit_code, output_file } => {
                        Effect::CommandEnd { item, command, status, exit_code, output_file }
                    }
                }));
            }
            Inbound::Lifecycle(frame) => self.lifecycle(frame, &mut out),
            // Told when it changes, not with every prompt that meets it.
            Inbound::RateLimit { status, resets_at } => {
                self.limit_ends =
                    resets_at.filter(|_| status == "rejected").map(|seconds| seconds.saturating_mul(1000));
            }
            Inbound::Result(result) => self.result(&result, &mut out),
            Inbound::ControlRequest { id, request } => self.asked(id, &request, &mut out),
            Inbound::ControlCancel { id } => {
                if self.approvals.remove(&id).is_some() {
                    out.push(Effect::Event(RuntimeEvent::ApprovalWithdrawn { key: id }));
                }
            }
            Inbound::Unknown { kind } => out.push(Effect::Event(RuntimeEvent::Raw { kind })),
            Inbound::Stream(_) | Inbound::Retry(_) | Inbound::ControlResponse { .. } | Inbound::Nothing => {}
        }
        out
    }

    /// Whether what the model now does belongs to our prompt.
    fn mine(&self) -> bool {
        self.prompt.as_ref().is_some_and(|prompt| prompt.started)
    }

    /// A turn begins. One that nobody asked for is stopped, once.
    fn asked_for(&mut self, out: &mut Vec<Effect>) {
        if !self.mine() && !self.unasked {
            self.unasked = true;
            // Not with the queue: our own prompt may wait in it.
            out.push(Effect::Write(wire::interrupt(&self.key(), false)));
        }
    }

    fn key(&mut self) -> String {
        self.requests += 1;
        format!("stop-{}", self.requests)
    }

    fn assistant(&mut self, frame: &MessageFrame, out: &mut Vec<Effect>) {
        if let Some(parent) = &frame.parent_tool_use_id {
            out.extend(self.tools.subagent(parent, frame).map(Effect::Event));
            return;
        }
        if !self.mine() || frame.made_up() {
            return;
        }
        let blocks = frame.blocks();
        let id = &frame.message.id;
        out.extend(self.stream.whole(id, &blocks).into_iter().map(Effect::Event));
        for block in blocks.iter().filter(|b| b["type"] == "tool_use") {
            out.extend(self.tools.begin(block).map(Effect::Event));
        }
        self.anchor = frame.uuid.clone().or(self.anchor.take());
    }

    fn user(&mut self, frame: &MessageFrame, out: &mut Vec<Effect>) {
        if frame.parent_tool_use_id.is_some() || !self.mine() {
            return;
        }
        out.extend(self.tools.results(frame, self.stopping).into_iter().map(Effect::Event));
        if !frame.made_up() && !frame.replay {
            // Any line of the history is a place to come back to, not the model's alone: after an interrupt the last is the CLI's.
            self.anchor = frame.uuid.clone().or(self.anchor.take());
        }
    }

    fn init(&mut self, frame: InitFrame, out: &mut Vec<Effect>) {
        for server in frame.mcp_servers {
            let problem = match server.status.as_str() {
                "failed" => "could not be reached",
                "needs-auth" => "needs you to log in",
                _ => continue,
            };
            if self.warned.insert(server.name.clone()) {
                let message = format!("Claude Code's MCP server {} {problem}.", server.name);
                out.push(Effect::Event(RuntimeEvent::Warning { message }));
            }
        }
        self.known(frame.session_id, frame.model, out);
        if !self.has_lifecycle && self.prompt.as_ref().is_some_and(|prompt| !prompt.started) {
            self.started(out);
        }
        self.asked_for(out);
    }

    /// Tells the session's id and model when they are news.
    fn known(&mut self, session_id: Option<String>, model: Option<String>, out: &mut Vec<Effect>) {
        let Some(session_id) = session_id.filter(|id| !id.is_empty()) else { return };
        let news = self.session_id.as_ref() != Some(&session_id) || (model.is_some() && self.model != model);
        if news {
            self.session_id = Some(session_id.clone());
            self.model = model.or(self.model.take());
            let model = self.model.clone();
            out.push(Effect::Event(RuntimeEvent::SessionKnown { session_id, model }));
        }
    }

    fn started(&mut self, out: &mut Vec<Effect>) {
        if let Some(prompt) = self.prompt.as_mut().filter(|prompt| !prompt.started) {
            prompt.started = true;
            // A turn of nobody's that runs on is ours from here on: the CLI folds the prompt into it.
            self.unasked = false;
            out.push(Effect::Event(RuntimeEvent::Taken));
        }
    }

    fn lifecycle(&mut self, frame: LifecycleFrame, out: &mut Vec<Effect>) {
        self.has_lifecycle = true;
        if self.prompt.as_ref().is_none_or(|prompt| prompt.id != frame.command_uuid) {
            return;
        }
        let closed = match frame.state.as_str() {
            "started" => {
                self.known(frame.session_id, None, out);
                self.started(out);
                return;
            }
            // Without a start: the history holds this very prompt already, and the CLI does not run it twice.
            "completed" => {
                self.known(frame.session_id, None, out);
                Ended::Completed
            }
            "cancelled" => Ended::Interrupted,
            "discarded" | "refused" => {
                let message = format!("Claude Code has {} the prompt.", frame.state);
                Ended::Failed(Failure::new(FailureKind::Rejected, message))
            }
            _ => return,
        };
        let Some(prompt) = self.prompt.as_mut() else { return };
        let never_ran = !prompt.started;
        if never_ran {
            prompt.end = Some(closed);
            if prompt.end == Some(Ended::Completed) {
                self.started(out);
            }
            self.finish(out);
        } else {
            prompt.closed = Some(closed);
        }
    }

    fn result(&mut self, result: &ResultFrame, out: &mut Vec<Effect>) {
        self.learn_window(result, out);
        if !self.mine() {
            self.unasked = false;
            return;
        }
        let ended = failure::ended(result, self.limit_ends);
        let Some(prompt) = self.prompt.as_mut() else { return };
        // The first thing that went wrong is what the turn ended by, whatever its sub-agents still say.
        if prompt.end.as_ref().is_none_or(|end| *end == Ended::Completed) {
            prompt.end = Some(ended);
        }
        if !self.has_states {
            self.finish(out);
        }
    }

    fn state(&mut self, state: &str, out: &mut Vec<Effect>) {
        self.has_states = true;
        if state != "idle" {
            return;
        }
        self.unasked = false;
        if let Some(prompt) = &mut self.prompt {
            prompt.end = prompt.end.take().or(prompt.closed.take());
            if prompt.end.is_some() {
                self.finish(out);
            }
        }
    }

    /// The turn is over: what it left open is cut off, then its end is told.
    fn finish(&mut self, out: &mut Vec<Effect>) {
        let Some(ended) = self.prompt.take().and_then(|prompt| prompt.end) else { return };
        let ended = if self.cut_short && ended == Ended::Completed { Ended::Interrupted } else { ended };
        out.extend(self.stream.end(ended == Ended::Interrupted).map(Effect::Event));
        out.extend(self.tools.cut_off(false).into_iter().map(Effect::Event));
        out.extend(self.withdraw_all().into_iter().map(Effect::Event));
        out.extend(self.anchor.take().map(|anchor| Effect::Event(RuntimeEvent::Anchor { anchor })));
        out.push(Effect::Event(RuntimeEvent::Ended(ended)));
        self.stopping = false;
    }

    fn withdraw_all(&mut self) -> Vec<RuntimeEvent> {
        let open = std::mem::take(&mut self.approvals);
        open.into_keys().map(|key| RuntimeEvent::ApprovalWithdrawn { key }).collect()
    }

    fn asked(&mut self, id: String, request: &Value, out: &mut Vec<Effect>) {
        let text = |key: &str| request.get(key).and_then(Value::as_str).map(str::to_owned);
        let kind = text("subtype").unwrap_or_default();
        if kind != "can_use_tool" {
            out.push(Effect::Write(wire::unsupported(&id)));
            out.push(Effect::Event(RuntimeEvent::Raw { kind: format!("control_request/{kind}") }));
            return;
        }
        if !self.mine() {
            out.push(Effect::Write(wire::deny(&id)));
            return;
        }
        let tool = text("tool_name").unwrap_or_default();
        let input = request.get("input").cloned().unwrap_or(Value::Null);
        let subject = tools::subject(&tool, &input);
        let item = text("tool_use_id").filter(|id| self.tools.knows(id));
        let reason = input.get("description").and_then(Value::as_str).map(str::to_owned).or(text("decision_reason"));
        self.approvals.insert(id.clone(), Asked { input, tool: item.clone() });
        out.push(Effect::Event(RuntimeEvent::ApprovalWanted(ApprovalRequest { key: id, item, subject, reason })));
    }

    /// The figure after a request (G3), from what this piece told and what the ones before it did.
    fn context(&mut self, usage: Usage, model: Option<String>) -> Option<RuntimeEvent> {
        if model.is_some() {
            self.usage = RequestUsage::default();
        }
        let now = &mut self.usage;
        now.input = usage.input_tokens.unwrap_or(now.input);
        now.cache_read = usage.cache_read_input_tokens.unwrap_or(now.cache_read);
        now.cache_write = usage.cache_creation_input_tokens.unwrap_or(now.cache_write);
        now.output = usage.output_tokens.unwrap_or(now.output);
        let used = now.context();
        (used > 0).then_some(RuntimeEvent::Context(ContextFigure { used, window: self.window }))
    }

    /// The window stands in the result alone, beside those of sub-agents' models.
    fn learn_window(&mut self, result: &ResultFrame, out: &mut Vec<Effect>) {
        let of = |usage: &Value| usage.get("contextWindow").and_then(Value::as_u64).filter(|window| *window > 0);
        let model = self.stream.model().or(self.model.as_deref()).unwrap_or_default();
        let exact = result.model_usage.get(model);
        let canonical = || result.model_usage.values().find(|usage| usage["canonicalModel"] == model);
        let only = || result.model_usage.values().next().filter(|_| result.model_usage.len() == 1);
        let window = exact.or_else(canonical).or_else(only).and_then(of);
        if window.is_some() && window != self.window {
            self.window = window;
            let used = self.usage.context();
            if used > 0 {
                out.push(Effect::Event(RuntimeEvent::Context(ContextFigure { used, window })));
            }
        }
    }
}
