//! ACP's updates as events of ours.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Plan, PlanEntryStatus, RequestPermissionRequest, SessionUpdate, ToolCall,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind,
};
use changeover_core::{
    approval::ApprovalSubject,
    event::RuntimeEvent,
    part::{FileDelta, PlanEntry, WorkStatus},
    usage::ContextFigure,
};
use serde_json::Value;

/// How much of a text is kept to know it again, in bytes.
const SAYS_BOUND: usize = 4096;

/// What one session's updates add up to.
#[derive(Debug, Default)]
pub struct Normalizer {
    /// A turn is open: text outside of one belongs to no reply.
    open: bool,
    /// The prompt is known to stand in the agent's history.
    taken: bool,
    /// The model made something.
    answered: bool,
    /// Text items of this turn so far.
    texts: usize,
    /// The text item that grows: reasoning or not, the agent's id, ours.
    growing: Option<(bool, Option<String>, String)>,
    /// The beginning of what that item says.
    says: String,
    tools: HashMap<String, Tool>,
    /// A window that the agent names before it knows: not believed until a turn has ended with it.
    doubtful_window: Option<u64>,
    /// What was reported with it in this turn.
    doubted: Option<ContextFigure>,
}

#[derive(Debug)]
struct Tool {
    call: ToolCall,
    /// The files, as last told with their diffs: a later update may replace the diff by words.
    files: Vec<FileDelta>,
    declined: bool,
    /// It was last told as running.
    running: bool,
}

impl Normalizer {
    /// A prompt was written.
    pub fn begin(&mut self) {
        // What still runs may be heard of again; the rest is forgotten.
        self.tools.retain(|_, tool| tool.running);
        let tools = std::mem::take(&mut self.tools);
        *self = Self { open: true, tools, doubtful_window: self.doubtful_window, ..Self::default() };
    }

    /// Claude's adapter says 200000 until its first result, whatever the model (seen with 0.49).
    pub fn doubt_window(&mut self, window: u64) {
        self.doubtful_window = Some(window);
    }

    /// The turn is over. What is still running ends with it if `cut`: agents end their commands with a cancelled turn.
    pub fn end(&mut self, cut: bool) -> Vec<RuntimeEvent> {
        self.open = false;
        self.growing = None;
        if !cut {
            let stood = self.doubted.take();
            if stood.is_some() {
                self.doubtful_window = None;
            }
            return stood.map(RuntimeEvent::Context).into_iter().collect();
        }
        let mut items: Vec<_> = self.tools.values_mut().filter(|tool| tool.running).collect();
        items.sort_by_key(|tool| tool.call.tool_call_id.0.clone());
        items.into_iter().map(|tool| tool.event(Some(WorkStatus::Interrupted))).collect()
    }

    /// The turn failed with these words. Claude's adapter says them as text first: that text is not the model's.
    pub fn void(&mut self, words: &str) -> Option<RuntimeEvent> {
        let (reasoning, _, item) = self.growing.as_ref()?;
        let said = self.says.trim();
        let same = !reasoning && !said.is_empty() && said.len() < SAYS_BOUND && words.contains(said);
        same.then(|| RuntimeEvent::Superseded { items: vec![item.clone()] })
    }

    /// Whether the model has made anything in this turn.
    pub fn answered(&self) -> bool {
        self.answered
    }

    /// One update.
    pub fn update(&mut self, update: SessionUpdate) -> Vec<RuntimeEvent> {
        let mut events = Vec::new();
        match update {
            SessionUpdate::UserMessageChunk(_) => self.take(&mut events),
            SessionUpdate::AgentMessageChunk(chunk) => self.chunk(false, chunk, &mut events),
            SessionUpdate::AgentThoughtChunk(chunk) => self.chunk(true, chunk, &mut events),
            SessionUpdate::ToolCall(call) => self.tool(call, &mut events),
            SessionUpdate::ToolCallUpdate(update) => self.tool_update(update, &mut events),
            SessionUpdate::Plan(plan) => self.plan(plan, &mut events),
            // Claude's adapter counts nothing after an error; no context is empty once there is a prompt.
            SessionUpdate::UsageUpdate(usage) if usage.used == 0 => {}
            SessionUpdate::UsageUpdate(usage) => {
                let window = (usage.size > 0).then_some(usage.size);
                let mut figure = ContextFigure { used: usage.used, window };
                if window.is_some() && window == self.doubtful_window {
                    self.doubted = Some(figure);
                    figure.window = None;
                } else if window.is_some() {
                    (self.doubted, self.doubtful_window) = (None, None);
                }
                events.push(RuntimeEvent::Context(figure));
            }
            SessionUpdate::CompactionUpdate(_) => events.push(RuntimeEvent::Compacted),
            // About the session, not about the turn.
            SessionUpdate::AvailableCommandsUpdate(_)
            | SessionUpdate::CurrentModeUpdate(_)
            | SessionUpdate::ConfigOptionUpdate(_)
            | SessionUpdate::SessionInfoUpdate(_) => {}
            other => events.push(RuntimeEvent::Raw { kind: kind_of(&other) }),
        }
        events
    }

    fn take(&mut self, events: &mut Vec<RuntimeEvent>) {
        if self.open && !self.taken {
            self.taken = true;
            events.push(RuntimeEvent::Taken);
        }
    }

    fn chunk(&mut self, reasoning: bool, chunk: ContentChunk, events: &mut Vec<RuntimeEvent>) {
        let Some(delta) = text_of(&chunk.content) else {
            events.push(RuntimeEvent::Raw { kind: "content".into() });
            return;
        };
        if delta.is_empty() {
            return;
        }
        if !self.open {
            events.push(RuntimeEvent::Raw { kind: "text outside of a turn".into() });
            return;
        }
        self.take(events);
        self.answered = true;
        let id = chunk.message_id.map(|id| id.to_string());
        let item = match &self.growing {
            Some((was, before, item)) if *was == reasoning && *before == id => item.clone(),
            _ => {
                self.texts += 1;
                let item = format!("text-{}", self.texts);
                self.says.clear();
                self.growing = Some((reasoning, id, item.clone()));
                item
            }
        };
        if self.says.len() < SAYS_BOUND {
            self.says += &delta;
        }
        events.push(if reasoning {
            RuntimeEvent::Reasoning { item, delta }
        } else {
            RuntimeEvent::Text { item, delta }
        });
    }

    fn tool(&mut self, call: ToolCall, events: &mut Vec<RuntimeEvent>) {
        if self.open {
            self.take(events);
            self.answered = true;
            // What the agent says after a tool is a new item.
            self.growing = None;
        }
        let id = call.tool_call_id.to_string();
        let declined = self.tools.get(&id).is_some_and(|tool| tool.declined);
        let tool =
            self.tools.entry(id).insert_entry(Tool { call, files: Vec::new(), declined, running: false }).into_mut();
        events.push(tool.event(None));
    }

    fn tool_update(&mut self, update: ToolCallUpdate, events: &mut Vec<RuntimeEvent>) {
        let id = update.tool_call_id.to_string();
        match self.tools.get_mut(&id) {
            Some(tool) if tool.call.kind == ToolKind::Execute && added(&update).is_some() => {
                events.extend(added(&update).map(|delta| RuntimeEvent::CommandOutput { item: id, delta }));
            }
            Some(tool) => {
                tool.call.update(update.fields);
                events.push(tool.event(None));
            }
            None => {
                let mut call = ToolCall::new(update.tool_call_id, "");
                call.update(update.fields);
                self.tool(call, events);
            }
        }
    }

    fn plan(&mut self, plan: Plan, events: &mut Vec<RuntimeEvent>) {
        if !self.open {
            return;
        }
        self.take(events);
        let entries = plan.entries.into_iter().map(|entry| PlanEntry {
            text: entry.content,
            status: match entry.status {
                PlanEntryStatus::Completed => Some(WorkStatus::Completed),
                PlanEntryStatus::InProgress => Some(WorkStatus::Running),
                _ => None,
            },
        });
        events.push(RuntimeEvent::Plan { item: "plan".into(), entries: entries.collect() });
    }

    /// A question: the events that bring its item up to date, the item, and what is asked for.
    pub fn question(&mut self, request: &RequestPermissionRequest) -> (Vec<RuntimeEvent>, String, ApprovalSubject) {
        let mut events = Vec::new();
        // Gemini's question is the first that is heard of the call.
        self.tool_update(request.tool_call.clone(), &mut events);
        let item = request.tool_call.tool_call_id.to_string();
        let subject = match self.tools.get_mut(&item) {
            Some(tool) => tool.subject(),
            None => ApprovalSubject::Tool { name: item.clone(), input: String::new() },
        };
        (events, item, subject)
    }

    /// We said no to an item.
    pub fn declined(&mut self, item: &str) -> Option<RuntimeEvent> {
        let tool = self.tools.get_mut(item)?;
        tool.declined = true;
        Some(tool.event(None))
    }
}

impl Tool {
    fn event(&mut self, status: Option<WorkStatus>) -> RuntimeEvent {
        let item = self.call.tool_call_id.to_string();
        let exit_code = exit_code(&self.call);
        let status = status.unwrap_or(match self.call.status {
            _ if self.declined => WorkStatus::Declined,
            ToolCallStatus::Completed if exit_code.is_some_and(|code| code != 0) => WorkStatus::Failed,
            ToolCallStatus::Completed => WorkStatus::Completed,
            ToolCallStatus::Failed => WorkStatus::Failed,
            _ => WorkStatus::Running,
        });
        self.running = status == WorkStatus::Running;
        if self.call.kind == ToolKind::Execute {
            let output = output(&self.call);
            return RuntimeEvent::Command { item, command: command(&self.call), status, exit_code, output };
        }
        let files = self.files();
        if is_edit(self.call.kind) && !files.is_empty() {
            return RuntimeEvent::FileChange { item, files, status };
        }
        let (name, input) = name_and_input(&self.call);
        RuntimeEvent::Tool { item, name, input, output: output(&self.call), status }
    }

    fn files(&mut self) -> Vec<FileDelta> {
        let now = files(&self.call);
        let told = |files: &[FileDelta]| files.iter().any(|file| !file.diff.is_empty());
        if told(&now) || !told(&self.files) {
            self.files = now;
        }
        self.files.clone()
    }

    /// In full: what cannot be shown as a command or a diff is shown as the tool's whole input.
    fn subject(&mut self) -> ApprovalSubject {
        let input = |name: &str| self.call.raw_input.as_ref()?.get(name)?.as_str().map(str::to_owned);
        if self.call.kind == ToolKind::Execute {
            let cwd = ["cwd", "workdir", "dir_path", "directory"].iter().find_map(|name| input(name));
            return ApprovalSubject::Command { command: command(&self.call), cwd };
        }
        let files = self.files();
        if is_edit(self.call.kind) && files.iter().any(|file| !file.diff.is_empty()) {
            return ApprovalSubject::Edit { files };
        }
        let (name, input) = name_and_input(&self.call);
        ApprovalSubject::Tool { name, input }
    }
}

/// More of a command's output, as an addition to what was told before: what agents that have terminals of their own say in an
/// update that says nothing else.
fn added(update: &ToolCallUpdate) -> Option<String> {
    let data = update.meta.as_ref()?.get("terminal_output")?.get("data")?.as_str()?;
    Some(data.to_owned())
}

fn is_edit(kind: ToolKind) -> bool {
    matches!(kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move)
}

fn name_and_input(call: &ToolCall) -> (String, String) {
    let name = call.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| call.title.clone());
    (name, call.raw_input.as_ref().map(Value::to_string).unwrap_or_default())
}

/// The command line: from the input where it stands there, else the title.
fn command(call: &ToolCall) -> String {
    let given = call.raw_input.as_ref().and_then(|input| match input.get("command").or_else(|| input.get("cmd"))? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => words.iter().map(Value::as_str).collect::<Option<Vec<_>>>().map(|words| words.join(" ")),
        _ => None,
    });
    given.unwrap_or_else(|| call.title.trim_matches('`').to_owned())
}

/// OpenCode: `metadata.exit`; Claude: `Exit code 3` as the first line of the output; Gemini: not told.
fn exit_code(call: &ToolCall) -> Option<i32> {
    let output = call.raw_output.as_ref();
    let number = output.and_then(|output| {
        let inside = output.get("metadata").and_then(|m| m.get("exit")).or_else(|| output.get("exitCode"));
        inside.or_else(|| output.get("exit_code"))?.as_i64()
    });
    if let Some(number) = number {
        return i32::try_from(number).ok();
    }
    let text = output.and_then(Value::as_str)?;
    text.strip_prefix("Exit code ")?.lines().next()?.trim().parse().ok()
}

/// The output: the raw text where there is one, else the shown content without its Markdown fence.
fn output(call: &ToolCall) -> Option<String> {
    let raw = call.raw_output.as_ref().and_then(|output| match output {
        Value::String(text) => Some(text.as_str()),
        other => other.get("output").and_then(Value::as_str),
    });
    if let Some(raw) = raw {
        let rest = raw.strip_prefix("Exit code ").and_then(|rest| rest.split_once('\n'));
        return Some(rest.map_or(raw, |(_, rest)| rest).to_owned());
    }
    let shown: Vec<String> = call
        .content
        .iter()
        .filter_map(|content| match content {
            ToolCallContent::Content(content) => text_of(&content.content),
            _ => None,
        })
        .collect();
    // Before it runs, the content is about the question (Gemini: the folder), not output.
    if shown.is_empty() || call.status == ToolCallStatus::Pending {
        let object = call.raw_output.as_ref().filter(|output| !output.is_null());
        return object.map(Value::to_string);
    }
    Some(unfenced(&shown.join("\n")).to_owned())
}

/// Claude's adapter wraps a command's output in a fence.
fn unfenced(text: &str) -> &str {
    let inside = text.trim_end().strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.and_then(|inside| inside.split_once('\n')).map_or(text, |(_, body)| body)
}

fn files(call: &ToolCall) -> Vec<FileDelta> {
    let diffs: Vec<FileDelta> = call
        .content
        .iter()
        .filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(FileDelta {
                path: diff.path.display().to_string(),
                diff: unified(diff.old_text.as_deref().unwrap_or(""), &diff.new_text),
            }),
            _ => None,
        })
        .collect();
    if !diffs.is_empty() {
        return diffs;
    }
    let places = call.locations.iter().map(|place| place.path.display().to_string());
    places.map(|path| FileDelta { path, diff: String::new() }).collect()
}

/// A unified diff with three lines around.
fn unified(old: &str, new: &str) -> String {
    similar::TextDiff::from_lines(old, new).unified_diff().context_radius(3).to_string()
}

fn text_of(content: &ContentBlock) -> Option<String> {
    match content {
        ContentBlock::Text(text) => Some(text.text.clone()),
        ContentBlock::ResourceLink(link) => Some(format!("[{}]({})", link.name, link.uri)),
        _ => None,
    }
}

/// What an update calls itself.
pub(super) fn kind_of(update: &SessionUpdate) -> String {
    let value = serde_json::to_value(update).unwrap_or_default();
    value.get("sessionUpdate").and_then(Value::as_str).unwrap_or("update").to_owned()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::UsageUpdate;

    use super::*;

    fn figures(events: Vec<RuntimeEvent>) -> Vec<(u64, Option<u64>)> {
        let figure = |event| if let RuntimeEvent::Context(f) = event { Some((f.used, f.window)) } else { None };
        events.into_iter().filter_map(figure).collect()
    }

    #[test]
    fn a_doubtful_window_is_believed_when_a_turn_ends_with_it_and_dropped_for_another() {
        let usage = |used, size| SessionUpdate::UsageUpdate(UsageUpdate::new(used, size));
        let mut small = Normalizer::default();
        small.doubt_window(200_000);
        small.begin();
        assert_eq!(figures(small.update(usage(1, 200_000))), [(1, None)]);
        assert_eq!(figures(small.end(true)), [], "a turn that was cut off proves nothing");
        small.begin();
        assert_eq!(figures(small.update(usage(2, 200_000))), [(2, None)]);
        assert_eq!(figures(small.end(false)), [(2, Some(200_000))]);
        small.begin();
        assert_eq!(figures(small.update(usage(3, 200_000))), [(3, Some(200_000))]);

        let mut large = Normalizer::default();
        large.doubt_window(200_000);
        large.begin();
        assert_eq!(figures(large.update(usage(1, 200_000))), [(1, None)]);
        assert_eq!(figures(large.update(usage(1, 1_000_000))), [(1, Some(1_000_000))]);
        assert_eq!(figures(large.end(false)), []);
    }
}
