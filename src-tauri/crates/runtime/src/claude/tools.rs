//! Tool calls as parts of the reply: commands, file changes, the plan, everything else (S2).

use std::collections::BTreeMap;

use changeover_core::{
    approval::ApprovalSubject,
    event::RuntimeEvent,
    part::{FileDelta, PlanEntry, WorkStatus},
};
use serde_json::Value;

use super::{
    diff,
    wire::{MessageFrame, TaskFrame},
};

/// What a sub-agent's tool part shows of its work, at most, in bytes.
const PROGRESS_BOUND: usize = 16 * 1024;

/// The calls that have not finished, by the CLI's own id, which is the item id too.
#[derive(Debug, Default)]
pub(super) struct Tools {
    open: BTreeMap<String, Call>,
    /// The plan that `TaskCreate` and `TaskUpdate` keep, in order: id, words, status.
    plan: Vec<(String, PlanEntry)>,
}

#[derive(Debug)]
struct Call {
    kind: Kind,
    /// Goes on in the background; its end comes as a task's notice.
    background: bool,
    /// We said no.
    denied: bool,
}

#[derive(Debug)]
enum Kind {
    Command { command: String },
    Files { files: Vec<FileDelta> },
    TaskCreate { text: String },
    Other { name: String, input: String, progress: String },
}

/// The end of something that ran in the background.
#[derive(Debug, PartialEq)]
pub(super) enum TaskEnd {
    /// A command: its output stands in a file.
    Command { item: String, command: String, status: WorkStatus, exit_code: Option<i32>, output_file: Option<String> },
    /// Anything else.
    Other(RuntimeEvent),
}

impl Tools {
    /// A call of the main thread's: the part that shows it.
    pub fn begin(&mut self, block: &Value) -> Option<RuntimeEvent> {
        let item = block.get("id")?.as_str()?.to_owned();
        let name = block.get("name").and_then(Value::as_str).unwrap_or("tool").to_owned();
        let input = block.get("input").unwrap_or(&Value::Null);
        let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
        let (kind, event) = if let Some(command) = text("command").filter(|_| name == "Bash") {
            let event = command_event(&item, &command, WorkStatus::Running, None, None);
            (Kind::Command { command }, event)
        } else if let Some(files) = diff::of_input(&name, input) {
            let event =
                RuntimeEvent::FileChange { item: item.clone(), files: files.clone(), status: WorkStatus::Running };
            (Kind::Files { files }, event)
        } else if let Some(entries) = todos(&name, input) {
            return Some(RuntimeEvent::Plan { item: PLAN.into(), entries });
        } else if name == "TaskCreate" {
            self.open.insert(item, Call::new(Kind::TaskCreate { text: text("subject").unwrap_or_default() }));
            return None;
        } else if name == "TaskUpdate" {
            return self.update_plan(text("taskId")?.as_str(), text("subject"), text("status").as_deref());
        } else {
            let input = input.to_string();
            let kind = Kind::Other { name: name.clone(), input: input.clone(), progress: String::new() };
            let status = WorkStatus::Running;
            (kind, RuntimeEvent::Tool { item: item.clone(), name, input, output: None, status })
        };
        self.open.insert(item, Call::new(kind));
        Some(event)
    }

    /// The results in a `user` frame of the main thread's. `stopping`: we have asked the CLI to stop.
    pub fn results(&mut self, frame: &MessageFrame, stopping: bool) -> Vec<RuntimeEvent> {
        let blocks = frame.blocks();
        let results: Vec<&Value> = blocks.iter().filter(|b| b["type"] == "tool_result").collect();
        let alone = results.len() == 1;
        let nothing = Value::Null;
        let structured = if alone { &frame.tool_use_result } else { &nothing };
        let mut events = Vec::new();
        for block in results {
            let Some(id) = block["tool_use_id"].as_str() else { continue };
            let refused = frame
                .tool_result_meta
                .iter()
                .filter(|meta| meta.id == id)
                .filter_map(|meta| meta.permission_decision.as_ref())
                .any(|d| matches!(d.decision.as_str(), "deny" | "reject"));
            events.extend(self.result(id, block, structured, refused, stopping));
        }
        events
    }

    fn result(
        &mut self,
        id: &str,
        block: &Value,
        structured: &Value,
        refused: bool,
        stopping: bool,
    ) -> Option<RuntimeEvent> {
        let in_background = structured.get("backgroundTaskId").is_some_and(|v| !v.is_null())
            || structured.get("isAsync").and_then(Value::as_bool) == Some(true);
        if in_background {
            self.open.get_mut(id)?.background = true;
            return None;
        }
        let call = self.open.remove(id)?;
        let failed = block["is_error"].as_bool().unwrap_or(false);
        let text = text_of(&block["content"]);
        let interrupted = structured.get("interrupted").and_then(Value::as_bool) == Some(true);
        let status = match failed {
            _ if call.denied => WorkStatus::Declined,
            _ if interrupted => WorkStatus::Interrupted,
            false => WorkStatus::Completed,
            true if stopping => WorkStatus::Interrupted,
            true if refused => WorkStatus::Declined,
            true => WorkStatus::Failed,
        };
        let item = id.to_owned();
        Some(match call.kind {
            Kind::Command { command } => match status {
                WorkStatus::Completed => {
                    let output = streams(structured).unwrap_or(text);
                    command_event(&item, &command, status, Some(0), Some(output))
                }
                WorkStatus::Failed => {
                    let (exit_code, output) = exit_code(&text);
                    command_event(&item, &command, status, exit_code, Some(output))
                }
                // What stands there then is said to the model, by the CLI, not printed by the command.
                _ => command_event(&item, &command, status, None, streams(structured)),
            },
            Kind::Files { files } => {
                let files = diff::of_result(structured).unwrap_or(files);
                RuntimeEvent::FileChange { item, files, status }
            }
            Kind::TaskCreate { text } => {
                let id = structured.pointer("/task/id").map_or(item, text_of);
                self.plan.push((id, PlanEntry { text, status: None }));
                self.plan_event()
            }
            Kind::Other { name, input, .. } => RuntimeEvent::Tool { item, name, input, output: Some(text), status },
        })
    }

    /// What a sub-agent said or called: shown in the part of the call that started it.
    pub fn subagent(&mut self, parent: &str, frame: &MessageFrame) -> Option<RuntimeEvent> {
        let Kind::Other { name, input, progress } = &mut self.open.get_mut(parent)?.kind else { return None };
        for block in frame.blocks() {
            let line = match block["type"].as_str() {
                Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
                Some("tool_use") => {
                    let what =
                        block["input"]["command"].as_str().map_or_else(|| block["input"].to_string(), str::to_owned);
                    format!("[{}] {what}", block["name"].as_str().unwrap_or("tool"))
                }
                _ => continue,
            };
            progress.push_str(line.trim_end());
            progress.push('\n');
        }
        if progress.len() > PROGRESS_BOUND {
            let mut cut = progress.len() - PROGRESS_BOUND;
            while !progress.is_char_boundary(cut) {
                cut += 1;
            }
            progress.drain(..cut);
        }
        let (name, input, output) = (name.clone(), input.clone(), Some(progress.clone()));
        Some(RuntimeEvent::Tool { item: parent.to_owned(), name, input, output, status: WorkStatus::Running })
    }

    /// A notice about a task: the end of a command or sub-agent that ran in the background.
    pub fn task(&mut self, task: &TaskFrame) -> Option<TaskEnd> {
        if task.subtype != "task_notification" {
            return None;
        }
        let item = task.tool_use_id.clone()?;
        if !self.open.get(&item)?.background {
            return None;
        }
        let call = self.open.remove(&item)?;
        let summary = task.summary.clone().unwrap_or_default();
        let status = match task.status.as_deref() {
            Some("completed") => WorkStatus::Completed,
            Some("stopped") => WorkStatus::Interrupted,
            _ => WorkStatus::Failed,
        };
        Some(match call.kind {
            Kind::Command { command } => {
                let exit_code = match status {
                    WorkStatus::Completed => Some(0),
                    _ => {
                        summary.rsplit_once("exit code ").and_then(|(_, code)| code.trim_end_matches('.').parse().ok())
                    }
                };
                TaskEnd::Command { item, command, status, exit_code, output_file: task.output_file.clone() }
            }
            Kind::Files { files } => TaskEnd::Other(RuntimeEvent::FileChange { item, files, status }),
            Kind::TaskCreate { .. } => return None,
            Kind::Other { name, input, .. } => {
                TaskEnd::Other(RuntimeEvent::Tool { item, name, input, output: Some(summary), status })
            }
        })
    }

    /// We said no to this call.
    pub fn denied(&mut self, id: &str) {
        if let Some(call) = self.open.get_mut(id) {
            call.denied = true;
        }
    }

    /// Whether the call is one of the main thread's.
    pub fn knows(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// The turn is over: what did not finish is cut off, but for commands in the background. With `all`, those too.
    pub fn cut_off(&mut self, all: bool) -> Vec<RuntimeEvent> {
        let stays = |call: &Call| !all && call.background && matches!(call.kind, Kind::Command { .. });
        let (keep, cut): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.open).into_iter().partition(|(_, call)| stays(call));
        self.open = keep;
        let status = WorkStatus::Interrupted;
        cut.into_iter()
            .filter_map(|(item, call)| match call.kind {
                Kind::Command { command } => Some(command_event(&item, &command, status, None, None)),
                Kind::Files { files } => Some(RuntimeEvent::FileChange { item, files, status }),
                Kind::TaskCreate { .. } => None,
                Kind::Other { name, input, progress } => {
                    let output = Some(progress).filter(|text| !text.is_empty());
                    Some(RuntimeEvent::Tool { item, name, input, output, status })
                }
            })
            .collect()
    }

    fn update_plan(&mut self, id: &str, text: Option<String>, status: Option<&str>) -> Option<RuntimeEvent> {
        if status == Some("deleted") {
            self.plan.retain(|(known, _)| known != id);
        } else {
            let (_, entry) = self.plan.iter_mut().find(|(known, _)| known == id)?;
            if let Some(text) = text {
                entry.text = text;
            }
            if let Some(status) = status {
                entry.status = plan_status(status);
            }
        }
        Some(self.plan_event())
    }

    fn plan_event(&self) -> RuntimeEvent {
        let entries = self.plan.iter().map(|(_, entry)| entry.clone()).collect();
        RuntimeEvent::Plan { item: PLAN.into(), entries }
    }
}

/// The item under which a reply's plan stands: it is one, replaced as it changes.
const PLAN: &str = "plan";

impl Call {
    fn new(kind: Kind) -> Self {
        Self { kind, background: false, denied: false }
    }
}

/// What leave is asked for.
pub(super) fn subject(tool: &str, input: &Value) -> ApprovalSubject {
    if tool == "Bash"
        && let Some(command) = input.get("command").and_then(Value::as_str)
    {
        return ApprovalSubject::Command { command: command.to_owned(), cwd: None };
    }
    match diff::of_input(tool, input) {
        Some(files) => ApprovalSubject::Edit { files },
        None => ApprovalSubject::Tool { name: tool.to_owned(), input: input.to_string() },
    }
}

fn command_event(
    item: &str,
    command: &str,
    status: WorkStatus,
    exit_code: Option<i32>,
    output: Option<String>,
) -> RuntimeEvent {
    RuntimeEvent::Command { item: item.to_owned(), command: command.to_owned(), status, exit_code, output }
}

fn todos(tool: &str, input: &Value) -> Option<Vec<PlanEntry>> {
    let entries = input.get("todos").filter(|_| tool == "TodoWrite")?.as_array()?;
    let entry = |todo: &Value| PlanEntry {
        text: todo["content"].as_str().unwrap_or_default().to_owned(),
        status: plan_status(todo["status"].as_str().unwrap_or_default()),
    };
    Some(entries.iter().map(entry).collect())
}

fn plan_status(word: &str) -> Option<WorkStatus> {
    match word {
        "completed" => Some(WorkStatus::Completed),
        "in_progress" => Some(WorkStatus::Running),
        _ => None,
    }
}

/// A result's content as text: a string, or blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .map(|b| b["text"].as_str().unwrap_or(if b["type"] == "image" { "[image]" } else { "" }))
                .collect();
            texts.join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Standard output, then standard error: the CLI keeps them apart.
fn streams(structured: &Value) -> Option<String> {
    let out = structured.get("stdout")?.as_str()?;
    let err = structured.get("stderr").and_then(Value::as_str).unwrap_or_default();
    let between = if out.is_empty() || err.is_empty() || out.ends_with('\n') { "" } else { "\n" };
    Some(format!("{out}{between}{err}"))
}

/// `Exit code 3`, a line break, what was printed: the only place where the CLI tells the code.
fn exit_code(text: &str) -> (Option<i32>, String) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    match first.strip_prefix("Exit code ").and_then(|code| code.trim().parse().ok()) {
        Some(code) => (Some(code), rest.to_owned()),
        None => (None, text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn frame(content: Value, structured: Value) -> MessageFrame {
        serde_json::from_value(json!({"message": {"content": [content]}, "tool_use_result": structured})).unwrap()
    }

    #[test]
    fn a_command_that_goes_on_in_the_background_ends_with_its_notice() {
        let mut tools = Tools::default();
        tools.begin(&json!({"id": "t1", "name": "Bash", "input": {"command": "make", "run_in_background": true}}));
        let started = frame(
            json!({"type": "tool_result", "tool_use_id": "t1", "content": "Command running in background"}),
            json!({"stdout": "", "backgroundTaskId": "b1"}),
        );
        assert_eq!(tools.results(&started, false), []);
        assert_eq!(tools.cut_off(false), []);
        let notice = TaskFrame {
            subtype: "task_notification".into(),
            tool_use_id: Some("t1".into()),
            status: Some("failed".into()),
            output_file: Some("/tmp/o".into()),
            summary: Some("Background command \"make\" failed with exit code 4".into()),
        };
        let (item, command, status) = ("t1".into(), "make".into(), WorkStatus::Failed);
        let end = TaskEnd::Command { item, command, status, exit_code: Some(4), output_file: Some("/tmp/o".into()) };
        assert_eq!(tools.task(&notice), Some(end));
        assert_eq!(tools.task(&notice), None);
    }

    #[test]
    fn the_plan_is_one_part_however_it_is_kept() {
        let mut tools = Tools::default();
        let todos = json!({"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "c", "status": "pending"}]});
        let entry = |text: &str, status| PlanEntry { text: text.into(), status };
        let (done, running) = (Some(WorkStatus::Completed), Some(WorkStatus::Running));
        let plan = |entries| Some(RuntimeEvent::Plan { item: "plan".into(), entries });
        let told = tools.begin(&json!({"id": "t1", "name": "TodoWrite", "input": todos}));
        assert_eq!(told, plan(vec![entry("a", done), entry("b", running), entry("c", None)]));
        assert_eq!(tools.begin(&json!({"id": "t2", "name": "TaskCreate", "input": {"subject": "x"}})), None);
        let made =
            frame(json!({"type": "tool_result", "tool_use_id": "t2", "content": "ok"}), json!({"task": {"id": "7"}}));
        assert_eq!(tools.results(&made, false).pop(), plan(vec![entry("x", None)]));
        let update = json!({"id": "t3", "name": "TaskUpdate", "input": {"taskId": "7", "status": "in_progress"}});
        assert_eq!(tools.begin(&update), plan(vec![entry("x", running)]));
    }

    #[test]
    fn a_sub_agents_words_stand_in_the_part_of_its_call_and_are_bounded() {
        let mut tools = Tools::default();
        tools.begin(&json!({"id": "t1", "name": "Agent", "input": {"prompt": "p"}}));
        let said = frame(json!({"type": "text", "text": "é".repeat(PROGRESS_BOUND)}), Value::Null);
        let Some(RuntimeEvent::Tool { item, output: Some(output), .. }) = tools.subagent("t1", &said) else { panic!() };
        assert!(item == "t1" && output.len() <= PROGRESS_BOUND && output.ends_with("é\n"));
        assert_eq!(tools.subagent("unknown", &said), None);
    }
}
