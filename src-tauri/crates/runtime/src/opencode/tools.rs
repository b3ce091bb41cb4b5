//! Tool calls as parts of the reply: commands, file changes, the plan, everything else (S2); and the questions about them.

use std::collections::HashMap;

use changeover_core::{
    approval::ApprovalSubject,
    event::RuntimeEvent,
    part::{FileDelta, PlanEntry, WorkStatus},
};
use serde_json::{Value, json};
use similar::TextDiff;

use super::{failure, server::MCP_PREFIX};

/// The plan's item: there is one a turn.
const PLAN: &str = "plan";

/// The calls of a session's turns, by the part that shows them.
#[derive(Debug, Default)]
pub(super) struct Tools {
    calls: HashMap<String, Call>,
}

#[derive(Debug, Default)]
struct Call {
    /// The model's own id of the call.
    id: String,
    input: Value,
    /// What a running command has printed so far.
    output: String,
    /// Its line, if it is a command.
    command: Option<String>,
    done: bool,
}

impl Tools {
    /// A new turn begins: what earlier ones had open is no longer told apart.
    pub fn clear(&mut self) {
        self.calls.clear();
    }

    /// A call as it now stands. `stopping`: it ends because of an interrupt.
    pub fn update(&mut self, part: &Value, stopping: bool) -> Vec<RuntimeEvent> {
        let (Some(item), Some(name)) = (part["id"].as_str(), part["tool"].as_str()) else { return Vec::new() };
        let state = &part["state"];
        // Its input is not there yet.
        if state["status"] == "pending" {
            return Vec::new();
        }
        let call = self.calls.entry(item.to_owned()).or_default();
        if call.done {
            return Vec::new();
        }
        call.id = part["callID"].as_str().unwrap_or_default().to_owned();
        call.input = state["input"].clone();
        let status = status(state, stopping);
        call.done = status != WorkStatus::Running;
        let item = item.to_owned();
        let text = |key: &str| call.input[key].as_str().map(str::to_owned);
        match name {
            "bash" => call.command(item, text("command").unwrap_or_default(), state, status),
            "edit" | "write" | "apply_patch" | "patch" | "multiedit" => {
                let files = files(&state["metadata"]).or_else(|| of_input(name, &call.input)).unwrap_or_default();
                vec![RuntimeEvent::FileChange { item, files, status }]
            }
            "todowrite" => plan(&call.input).into_iter().collect(),
            _ => {
                let output = state["output"].as_str().or(state["error"].as_str()).map(str::to_owned);
                vec![RuntimeEvent::Tool { item, name: tool_name(name), input: call.input.to_string(), output, status }]
            }
        }
    }

    /// Commands that run, as ended by an interrupt.
    pub fn cut(&mut self) -> Vec<RuntimeEvent> {
        let mut open: Vec<(&String, &mut Call)> =
            self.calls.iter_mut().filter(|(_, call)| !call.done && call.command.is_some()).collect();
        open.sort_by(|one, other| one.0.cmp(other.0));
        let ended = |(item, call): (&String, &mut Call)| RuntimeEvent::Command {
            item: item.clone(),
            command: call.command.clone().unwrap_or_default(),
            status: WorkStatus::Interrupted,
            exit_code: None,
            output: None,
        };
        open.into_iter().map(ended).collect()
    }

    /// What a question is about, and the part it belongs to.
    pub fn question(&self, asked: &Value) -> (Option<String>, ApprovalSubject) {
        let call = asked["tool"]["callID"].as_str().and_then(|id| self.calls.iter().find(|(_, call)| call.id == id));
        let input = call.map(|(_, call)| &call.input);
        let item = call.map(|(item, _)| item.clone());
        let kind = asked["permission"].as_str().unwrap_or_default();
        let metadata = &asked["metadata"];
        let subject = match (kind, metadata["command"].as_str()) {
            ("bash", Some(command)) => {
                let cwd = input.and_then(|input| input["workdir"].as_str()).map(str::to_owned);
                ApprovalSubject::Command { command: command.to_owned(), cwd }
            }
            ("edit", _) => ApprovalSubject::Edit { files: files(metadata).unwrap_or_default() },
            _ => {
                let patterns: Vec<&str> =
                    asked["patterns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                // "In this thread" is remembered by name: a yes for one folder is none for all.
                let name = match patterns.as_slice() {
                    [] | ["*"] => tool_name(kind),
                    some => format!("{} {}", tool_name(kind), some.join(" ")),
                };
                let mut about = json!({"patterns": patterns, "details": metadata});
                if let Some(input) = input {
                    about["input"] = input.clone();
                }
                ApprovalSubject::Tool { name, input: about.to_string() }
            }
        };
        (item, subject)
    }
}

impl Call {
    fn command(&mut self, item: String, command: String, state: &Value, status: WorkStatus) -> Vec<RuntimeEvent> {
        let output = state["metadata"]["output"].as_str();
        let begun = self.command.replace(command.clone()).is_some();
        if status == WorkStatus::Running && begun {
            let Some(output) = output else { return Vec::new() };
            let before = std::mem::replace(&mut self.output, output.to_owned());
            return match output.strip_prefix(before.as_str()) {
                Some("") => Vec::new(),
                Some(more) => vec![RuntimeEvent::CommandOutput { item, delta: more.to_owned() }],
                // What it shows of a long output is its end: not an addition to what was there.
                None => {
                    let output = Some(output.to_owned());
                    vec![RuntimeEvent::Command { item, command, status, exit_code: None, output }]
                }
            };
        }
        let exit_code = state["metadata"]["exit"].as_i64().and_then(|code| i32::try_from(code).ok());
        let output = match status {
            WorkStatus::Running => output,
            // The model is told of an interrupt in the same text; people see it by the status.
            WorkStatus::Interrupted => output.or(state["error"].as_str().filter(|error| !failure::aborted(error))),
            _ => state["output"].as_str().or(state["error"].as_str()),
        };
        vec![RuntimeEvent::Command { item, command, status, exit_code, output: output.map(str::to_owned) }]
    }
}

/// How a call stands. A command that ended with another exit code than 0 is "completed" to OpenCode.
fn status(state: &Value, stopping: bool) -> WorkStatus {
    let exit = &state["metadata"]["exit"];
    let error = state["error"].as_str().unwrap_or_default();
    match state["status"].as_str() {
        Some("completed") if exit.is_null() && stopping => WorkStatus::Interrupted,
        Some("completed") if exit.is_i64() && exit != 0 => WorkStatus::Failed,
        Some("completed") => WorkStatus::Completed,
        Some("error") if failure::refused(error) => WorkStatus::Declined,
        Some("error") if failure::aborted(error) || stopping => WorkStatus::Interrupted,
        Some("error") => WorkStatus::Failed,
        _ => WorkStatus::Running,
    }
}

/// A tool of our own MCP server as Claude Code writes it too, so that one name means one tool whoever calls it.
fn tool_name(name: &str) -> String {
    let ours = name.strip_prefix(MCP_PREFIX).and_then(|rest| rest.split_once('_'));
    ours.map_or_else(|| name.to_owned(), |(_, tool)| format!("mcp__changeover__{tool}"))
}

/// The changes that a call's or a question's details name.
fn files(metadata: &Value) -> Option<Vec<FileDelta>> {
    let of = |value: &Value, path: &[&str], diff: &[&str]| {
        let find = |names: &[&str]| names.iter().find_map(|name| value[*name].as_str()).map(str::to_owned);
        Some(FileDelta { path: find(path)?, diff: find(diff)? })
    };
    if let Some(list) = metadata["files"].as_array().filter(|list| !list.is_empty()) {
        let one = |file| of(file, &["filePath", "file", "relativePath"], &["patch", "diff"]);
        return list.iter().map(one).collect();
    }
    let one = of(&metadata["filediff"], &["file"], &["patch", "diff"])
        .or_else(|| of(metadata, &["filepath", "filePath"], &["diff"]))?;
    Some(vec![one])
}

/// The change as the model asked for it, where OpenCode states no diff.
fn of_input(tool: &str, input: &Value) -> Option<Vec<FileDelta>> {
    if let Some(patch) = input["patchText"].as_str() {
        return Some(vec![FileDelta { path: "patch".into(), diff: patch.to_owned() }]);
    }
    let path = input["filePath"].as_str()?.to_owned();
    let (old, new) = match tool {
        "write" => ("", input["content"].as_str()?),
        _ => (input["oldString"].as_str()?, input["newString"].as_str()?),
    };
    let diff = TextDiff::from_lines(old, new).unified_diff().to_string();
    Some(vec![FileDelta { path, diff }])
}

fn plan(input: &Value) -> Option<RuntimeEvent> {
    let entry = |todo: &Value| {
        let status = match todo["status"].as_str() {
            Some("completed") => Some(WorkStatus::Completed),
            Some("in_progress") => Some(WorkStatus::Running),
            Some("cancelled") => Some(WorkStatus::Declined),
            _ => None,
        };
        Some(PlanEntry { text: todo["content"].as_str()?.to_owned(), status })
    };
    let entries = input["todos"].as_array()?.iter().filter_map(entry).collect();
    Some(RuntimeEvent::Plan { item: PLAN.into(), entries })
}
