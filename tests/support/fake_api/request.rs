//! What a request asks for, the same for both wires.

use std::collections::BTreeMap;

use serde_json::Value;

/// The heading under which the app's framing puts the new message. What stands above its last occurrence is history:
/// directives there were for an earlier turn.
pub const NEW_MESSAGE_HEADING: &str = "## New message";

/// Tool names and their schemas; the tools of a namespace are `namespace::tool`.
pub(super) type Tools = BTreeMap<String, Value>;

/// What the script needs to know of a request.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The newest user message's own text.
    pub(super) text: String,
    /// Tool results since then.
    pub(super) results: usize,
    pub(super) tools: Tools,
}

/// Text blocks with which a CLI tells the model where it is.
const CONTEXT: [&str; 6] =
    ["<system-reminder", "<environment_context", "<user_instructions", "<permissions", "<skills", "# AGENTS.md"];

/// The CLIs' notes that a turn was interrupted; they stand in the history as if the user had said them.
const INTERRUPTED: [&str; 2] = ["<turn_aborted", "[Request interrupted"];

/// Whether a text block is context that a CLI added by itself.
pub(super) fn is_context(text: &str) -> bool {
    CONTEXT.iter().any(|start| text.trim_start().starts_with(start))
}

fn own_text(block: &Value) -> Option<&str> {
    let text = block.as_str().or_else(|| block["text"].as_str())?;
    let start = text.trim_start();
    let note = INTERRUPTED.iter().any(|note| start.starts_with(note));
    (!start.is_empty() && !note && !is_context(text)).then_some(text)
}

/// The blocks of a content field: a bare string is one block.
pub(super) fn blocks(content: &Value) -> Vec<&Value> {
    match content {
        Value::Array(list) => list.iter().collect(),
        Value::Null => Vec::new(),
        other => vec![other],
    }
}

/// What follows the last heading line; the whole text without one.
fn new_message(text: &str) -> String {
    let mut start = 0;
    let mut found = 0;
    for line in text.split_inclusive('\n') {
        start += line.len();
        if line.trim_end() == NEW_MESSAGE_HEADING {
            found = start;
        }
    }
    text[found..].trim().to_owned()
}

/// An Anthropic Messages body. The newest text block counts alone: after a failure or an interrupt Claude Code puts
/// the unanswered prompt, the aborted tool result and the new prompt into one user message.
pub(super) fn anthropic(body: &Value) -> Asked {
    let mut asked = Asked::default();
    let tools = blocks(&body["tools"]);
    asked.tools = tools
        .iter()
        .filter_map(|tool| Some((tool["name"].as_str()?.to_owned(), tool["input_schema"].clone())))
        .collect();
    'messages: for message in blocks(&body["messages"]).into_iter().rev().filter(|message| message["role"] == "user") {
        for block in blocks(&message["content"]).into_iter().rev() {
            if block["type"] == "tool_result" {
                asked.results += 1;
            } else if let Some(text) = own_text(block) {
                asked.text = new_message(text);
                break 'messages;
            }
        }
    }
    asked
}

/// An OpenAI Responses body.
pub(super) fn responses(body: &Value) -> Asked {
    let mut asked = Asked::default();
    for tool in blocks(&body["tools"]) {
        let name = tool["name"].as_str().unwrap_or_default();
        match tool["type"].as_str() {
            Some("function" | "custom") => {
                asked.tools.insert(name.to_owned(), tool["parameters"].clone());
            }
            Some("namespace") => {
                for inner in blocks(&tool["tools"]) {
                    let inner_name = inner["name"].as_str().unwrap_or_default();
                    asked.tools.insert(format!("{name}::{inner_name}"), inner["parameters"].clone());
                }
            }
            Some("local_shell") => {
                asked.tools.insert("local_shell".to_owned(), Value::Null);
            }
            _ => {}
        }
    }
    for item in blocks(&body["input"]).into_iter().rev() {
        if item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output")) {
            asked.results += 1;
        } else if item["role"] == "user"
            && let Some(text) = blocks(&item["content"]).into_iter().rev().find_map(own_text)
        {
            asked.text = new_message(text);
            break;
        } else if let Some(text) = item.as_str() {
            asked.text = new_message(text);
            break;
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_newest_message_is_read() {
        let body = json!({"tools": [{"name": "Bash", "input_schema": {}}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": "old [[error:401]]"}, {"type": "text", "text": "new"}, {"type": "text", "text": "<system-reminder>x"}]},
            {"role": "assistant", "content": []},
            {"role": "user", "content": [{"type": "tool_result"}, {"type": "text", "text": "<system-reminder>x"}]},
            {"role": "system", "content": "x"},
        ]});
        let asked = anthropic(&body);
        assert_eq!((asked.text.as_str(), asked.results, asked.tools.len()), ("new", 1, 1));
    }

    #[test]
    fn text_after_an_aborted_tool_result_is_a_new_prompt() {
        let body = json!({"messages": [{"role": "user", "content": [
            {"type": "tool_result"}, {"type": "text", "text": "[Request interrupted by user for tool use]"}, {"type": "text", "text": "next"}]}]});
        let asked = anthropic(&body);
        assert_eq!((asked.text.as_str(), asked.results), ("next", 0));
    }

    #[test]
    fn a_responses_body_is_read_from_its_end() {
        let body = json!({"tools": [{"type": "namespace", "name": "mcp__app", "tools": [{"name": "read"}]}], "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
            {"type": "function_call", "name": "x"}, {"type": "function_call_output", "output": "y"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<turn_aborted>"}]},
        ]});
        let asked = responses(&body);
        assert_eq!((asked.text.as_str(), asked.results), ("two", 1));
        assert_eq!(asked.tools.keys().collect::<Vec<_>>(), ["mcp__app::read"]);
    }

    #[test]
    fn what_stands_above_the_last_heading_is_history() {
        let text = "## History\n## New message\n[[error:401]]\n## New message \nhello\n## New message of mine";
        assert_eq!(new_message(text), "hello\n## New message of mine");
        assert_eq!(new_message("no heading"), "no heading");
        assert_eq!(new_message("## New message"), "");
    }
}
