//! The shapes of work items: files, tools and how they stand.

use changeover_core::{
    event::RuntimeEvent,
    part::{FileDelta, WorkStatus},
};
use serde_json::Value;

use super::wire::{Change, ChangeKind, McpError, McpResult};

/// How an item stands, by its own word; a beginning is always running.
pub(super) fn status(word: &str, done: bool) -> WorkStatus {
    match word {
        _ if !done => WorkStatus::Running,
        "failed" => WorkStatus::Failed,
        "declined" => WorkStatus::Declined,
        "interrupted" => WorkStatus::Interrupted,
        // It has ended, and nothing says that it ended badly.
        _ => WorkStatus::Completed,
    }
}

/// Codex gives a diff for a changed file and the bare text for a new or deleted one; all become diffs.
pub(super) fn deltas(changes: Vec<Change>) -> Vec<FileDelta> {
    changes
        .into_iter()
        .map(|change| {
            let diff = match &change.kind {
                ChangeKind::Add => whole_file(&change.diff, '+'),
                ChangeKind::Delete => whole_file(&change.diff, '-'),
                ChangeKind::Update { move_path: Some(to) } => {
                    format!("rename from {}\nrename to {to}\n{}", change.path, change.diff)
                }
                ChangeKind::Update { move_path: None } | ChangeKind::Other => change.diff,
            };
            FileDelta { path: change.path, diff }
        })
        .collect()
}

/// A whole file as one hunk.
fn whole_file(text: &str, sign: char) -> String {
    let count = text.lines().count();
    let range = if count == 0 { "0,0".to_owned() } else { format!("1,{count}") };
    let mut diff = if sign == '+' { format!("@@ -0,0 +{range} @@\n") } else { format!("@@ -{range} +0,0 @@\n") };
    for line in text.split_inclusive('\n') {
        diff.push(sign);
        diff.push_str(line);
    }
    if !text.is_empty() && !text.ends_with('\n') {
        diff.push_str("\n\\ No newline at end of file\n");
    }
    diff
}

/// An MCP tool's answer as text.
pub(super) fn mcp_output(result: Option<McpResult>, error: Option<McpError>) -> Option<String> {
    if let Some(error) = error {
        return Some(error.message);
    }
    let parts = result?.content;
    let texts = parts.iter().map(|part| part["text"].as_str().map_or_else(|| part.to_string(), str::to_owned));
    Some(texts.collect::<Vec<_>>().join("\n"))
}

/// A tool call of a shape of its own: what it says of itself is its input.
pub(super) fn generic(kind: String, id: String, mut body: Value, done: bool) -> RuntimeEvent {
    let word = body["status"].as_str().unwrap_or_default().to_owned();
    let status = match (status(&word, done), body["success"].as_bool()) {
        (WorkStatus::Completed, Some(false)) => WorkStatus::Failed,
        (status, _) => status,
    };
    let name = body["tool"].as_str().unwrap_or(&kind).to_owned();
    let mut output = None;
    if let Some(fields) = body.as_object_mut() {
        let said = ["results", "contentItems", "output", "result"];
        output = said.iter().filter_map(|field| fields.remove(*field)).find(|value| !value.is_null());
        for field in ["type", "id", "status", "success", "startedAtMs", "completedAtMs", "durationMs"] {
            fields.remove(field);
        }
        fields.retain(|_, value| !value.is_null());
    }
    let output = output.filter(|_| done).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    RuntimeEvent::Tool { item: id, name, input: body.to_string(), output, status }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn recorded_changes_become_diffs() {
        let changes: Vec<Change> = serde_json::from_value(json!([
            {"path": "/w/new.txt", "kind": {"type": "add"}, "diff": "hello\nworld\n"},
            {"path": "/w/new.txt", "kind": {"type": "update", "move_path": null}, "diff": "@@ -1,2 +1,2 @@\n hello\n-world\n+there\n"},
            {"path": "/w/a", "kind": {"type": "update", "move_path": "/w/b"}, "diff": "@@ -1 +1 @@\n-x\n+y\n"},
            {"path": "/w/old", "kind": {"type": "delete"}, "diff": "gone"},
            {"path": "/w/empty", "kind": {"type": "add"}, "diff": ""},
        ]))
        .unwrap();
        let seen: Vec<_> = deltas(changes).into_iter().map(|delta| (delta.path, delta.diff)).collect();
        let expected = [
            ("/w/new.txt", "@@ -0,0 +1,2 @@\n+hello\n+world\n"),
            ("/w/new.txt", "@@ -1,2 +1,2 @@\n hello\n-world\n+there\n"),
            ("/w/a", "rename from /w/a\nrename to /w/b\n@@ -1 +1 @@\n-x\n+y\n"),
            ("/w/old", "@@ -1,1 +0,0 @@\n-gone\n\\ No newline at end of file\n"),
            ("/w/empty", "@@ -0,0 +0,0 @@\n"),
        ];
        assert_eq!(seen, expected.map(|(path, diff)| (path.to_owned(), diff.to_owned())));
    }

    #[test]
    fn a_tool_without_a_part_of_its_own_is_shown_as_it_is() {
        let body = json!({"type": "webSearch", "id": "ws_1", "query": "x", "action": {"type": "search"}, "results": null, "startedAtMs": 1});
        let event = generic("webSearch".into(), "ws_1".into(), body, true);
        let expected = RuntimeEvent::Tool {
            item: "ws_1".into(),
            name: "webSearch".into(),
            input: r#"{"query":"x","action":{"type":"search"}}"#.into(),
            output: None,
            status: WorkStatus::Completed,
        };
        assert_eq!(event, expected);
        let body = json!({"type": "dynamicToolCall", "id": "d", "tool": "look", "success": false, "contentItems": [{"type": "inputText", "text": "no"}]});
        let RuntimeEvent::Tool { name, output, status, .. } = generic("dynamicToolCall".into(), "d".into(), body, true)
        else {
            panic!("no tool")
        };
        assert_eq!((name.as_str(), status), ("look", WorkStatus::Failed));
        assert_eq!(output.as_deref(), Some(r#"[{"type":"inputText","text":"no"}]"#));
    }
}
