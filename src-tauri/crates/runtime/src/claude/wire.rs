//! The frames of `claude -p --output-format stream-json`, as far as this adapter reads them, and the lines it writes.
//!
//! Tolerant by design: unknown fields are passed over, a frame that does not fit becomes [`Inbound::Unknown`].

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// One line from the CLI.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Inbound {
    /// A piece of a streamed message.
    Stream(StreamFrame),
    /// A whole content block (the CLI sends one frame per block), or one that it made up itself.
    Assistant(MessageFrame),
    /// Tool results, or a line that the CLI put into its history.
    User(MessageFrame),
    /// `system/init`: at every turn.
    Init(InitFrame),
    /// `system/status` with "requesting": a request to the model is on its way.
    Requesting {
        /// The prompts it answers.
        prompts: Vec<String>,
    },
    /// `system/session_state_changed`.
    State {
        /// "running", "requires_action" or "idle".
        state: String,
    },
    /// `system/api_retry`.
    Retry(RetryFrame),
    /// `system/compact_boundary`.
    Compacted,
    /// `system/task_started`, `task_notification`.
    Task(TaskFrame),
    /// `command_lifecycle`: what becomes of a prompt.
    Lifecycle(LifecycleFrame),
    /// `rate_limit_event`.
    RateLimit {
        /// "allowed", "allowed_warning" or "rejected".
        status: String,
        /// When the limit ends, in seconds since 1970.
        resets_at: Option<i64>,
    },
    /// The end of a turn of the CLI's.
    Result(Box<ResultFrame>),
    /// The CLI asks us.
    ControlRequest {
        /// Its key.
        id: String,
        /// What it asks.
        request: Value,
    },
    /// The CLI takes a question back.
    ControlCancel {
        /// The question's key.
        id: String,
    },
    /// An answer to a request of ours.
    ControlResponse {
        /// Our key.
        id: String,
        /// The answer, or the error in words.
        answer: Result<Value, String>,
    },
    /// A frame that says nothing we need.
    Nothing,
    /// A frame that this adapter does not know.
    Unknown {
        /// Its type as far as readable.
        kind: String,
    },
}

/// A `stream_event`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct StreamFrame {
    /// The API's own event.
    pub event: StreamEvent,
    /// Set: a sub-agent's.
    #[serde(default)]
    pub parent_tool_use_id: Option<String>,
}

/// The API's own streaming event, flat.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct StreamEvent {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub index: u64,
    #[serde(default)]
    pub delta: Option<Delta>,
    #[serde(default)]
    pub message: Option<StreamMessage>,
    #[serde(default)]
    pub content_block: Option<BlockStart>,
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// The delta of a block or of the message.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Delta {
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub thinking: Option<String>,
    #[serde(default)]
    pub stop_reason: Option<String>,
}

/// The head of a streamed message.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct StreamMessage {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub model: String,
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// The head of a block.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct BlockStart {
    #[serde(rename = "type")]
    pub kind: String,
}

/// Token counts, as far as a frame names them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub input_tokens: Option<u64>,
    #[serde(default)]
    pub cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    pub cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    pub output_tokens: Option<u64>,
}

/// An `assistant` or `user` frame.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct MessageFrame {
    pub message: Message,
    #[serde(default)]
    pub uuid: Option<String>,
    #[serde(default)]
    pub parent_tool_use_id: Option<String>,
    /// What a tool gave, structured; a string when it failed.
    #[serde(default)]
    pub tool_use_result: Value,
    #[serde(default)]
    pub tool_result_meta: Vec<ToolResultMeta>,
    /// Made up by the CLI and not kept in its history.
    #[serde(default, rename = "isSynthetic")]
    pub synthetic: bool,
    #[serde(default, rename = "isReplay")]
    pub replay: bool,
    /// "authentication_failed", "rate_limit", …: the frame tells an error of the API's.
    #[serde(default)]
    pub error: Option<String>,
}

/// How leave for a tool was given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ToolResultMeta {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub permission_decision: Option<PermissionDecision>,
}

/// What was decided about a tool call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct PermissionDecision {
    #[serde(default)]
    pub decision: String,
}

/// The message in a frame.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub model: String,
    /// A text, or a list of blocks.
    #[serde(default)]
    pub content: Value,
}

/// The model name under which the CLI speaks for itself.
pub(super) const SYNTHETIC: &str = "<synthetic>";

impl MessageFrame {
    /// The blocks; a bare text counts as one.
    pub fn blocks(&self) -> Vec<Value> {
        match &self.message.content {
            Value::Array(blocks) => blocks.clone(),
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            _ => Vec::new(),
        }
    }

    /// Whether the CLI made it up: never the model's word (T2).
    pub fn made_up(&self) -> bool {
        self.message.model == SYNTHETIC || self.synthetic
    }
}

/// `system/init`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct InitFrame {
    #[serde(default)]
    pub session_id: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub mcp_servers: Vec<McpServer>,
}

/// An MCP server as the CLI sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct McpServer {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub status: String,
}

/// `system/api_retry`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct RetryFrame {
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub max_retries: Option<u32>,
    #[serde(default)]
    pub error_status: Option<u16>,
    #[serde(default)]
    pub error: Option<String>,
}

/// `system/task_started` and `system/task_notification`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct TaskFrame {
    #[serde(default)]
    pub subtype: String,
    #[serde(default)]
    pub tool_use_id: Option<String>,
    /// "completed", "failed" or "stopped".
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub output_file: Option<String>,
    #[serde(default)]
    pub summary: Option<String>,
}

/// `command_lifecycle`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct LifecycleFrame {
    #[serde(default)]
    pub command_uuid: String,
    /// "queued", "started", then one of "completed", "cancelled", "discarded", "refused".
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub session_id: Option<String>,
}

/// `result`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct ResultFrame {
    #[serde(default)]
    pub subtype: String,
    #[serde(default)]
    pub is_error: bool,
    #[serde(default)]
    pub terminal_reason: Option<String>,
    #[serde(default)]
    pub api_error_status: Option<u16>,
    #[serde(default)]
    pub result: Option<String>,
    #[serde(default)]
    pub errors: Vec<Value>,
    #[serde(default, rename = "modelUsage")]
    pub model_usage: serde_json::Map<String, Value>,
}

impl ResultFrame {
    /// What the CLI says about the end, in words.
    pub fn words(&self) -> String {
        let told = self.result.clone().filter(|text| !text.trim().is_empty());
        told.unwrap_or_else(|| {
            let errors: Vec<&str> = self.errors.iter().filter_map(Value::as_str).collect();
            errors.join("; ")
        })
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    subtype: Option<Value>,
}

/// Reads one line. Never fails: what cannot be read is [`Inbound::Unknown`].
pub(super) fn parse(line: &str) -> Inbound {
    // Deltas are nearly all of the traffic: they are read once, the rest twice.
    if line.starts_with(r#"{"type":"stream_event""#)
        && let Ok(frame) = serde_json::from_str(line)
    {
        return Inbound::Stream(frame);
    }
    let Ok(head) = serde_json::from_str::<Head>(line) else {
        return Inbound::Unknown { kind: "not JSON".into() };
    };
    let subtype = head.subtype.as_ref().and_then(Value::as_str).unwrap_or_default();
    typed(&head.kind, subtype, line).unwrap_or_else(|| {
        let kind = if subtype.is_empty() { head.kind.clone() } else { format!("{}/{subtype}", head.kind) };
        Inbound::Unknown { kind }
    })
}

fn typed(kind: &str, subtype: &str, line: &str) -> Option<Inbound> {
    fn read<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
        serde_json::from_str(line).ok()
    }
    #[derive(Deserialize)]
    struct Status {
        #[serde(default)]
        status: Option<String>,
        #[serde(default)]
        user_message_uuids: Vec<String>,
    }
    #[derive(Deserialize)]
    struct State {
        state: String,
    }
    #[derive(Deserialize)]
    struct Request {
        request_id: String,
        #[serde(default)]
        request: Value,
    }
    #[derive(Deserialize)]
    struct Limit {
        rate_limit_info: LimitInfo,
    }
    #[derive(Deserialize)]
    struct LimitInfo {
        status: String,
        #[serde(default, rename = "resetsAt")]
        resets_at: Option<f64>,
    }
    Some(match (kind, subtype) {
        ("stream_event", _) => Inbound::Stream(read(line)?),
        ("assistant", _) => Inbound::Assistant(read(line)?),
        ("user", _) => Inbound::User(read(line)?),
        ("result", _) => Inbound::Result(Box::new(read(line)?)),
        ("command_lifecycle", _) => Inbound::Lifecycle(read(line)?),
        ("control_request", _) => {
            let Request { request_id: id, request } = read(line)?;
            Inbound::ControlRequest { id, request }
        }
        ("control_cancel_request", _) => Inbound::ControlCancel { id: read::<Request>(line)?.request_id },
        ("control_response", _) => control_response(&read(line)?)?,
        ("rate_limit_event", _) => {
            let info = read::<Limit>(line)?.rate_limit_info;
            #[expect(clippy::cast_possible_truncation, reason = "a time in seconds")]
            let resets_at = info.resets_at.map(|at| at as i64);
            Inbound::RateLimit { status: info.status, resets_at }
        }
        ("system", "init") => Inbound::Init(read(line)?),
        ("system", "status") => {
            let status: Status = read(line)?;
            match status.status.as_deref() {
                Some("requesting") => Inbound::Requesting { prompts: status.user_message_uuids },
                _ => Inbound::Nothing,
            }
        }
        ("system", "session_state_changed") => Inbound::State { state: read::<State>(line)?.state },
        ("system", "api_retry") => Inbound::Retry(read(line)?),
        ("system", "compact_boundary") => Inbound::Compacted,
        ("system", "task_started" | "task_notification") => Inbound::Task(read(line)?),
        (
            "system",
            "thinking_tokens"
            | "task_updated"
            | "task_progress"
            | "background_tasks_changed"
            | "hook_started"
            | "hook_progress"
            | "hook_response"
            | "commands_changed"
            | "permission_denied",
        )
        | ("keep_alive" | "tool_progress" | "tool_use_summary" | "auth_status", _) => Inbound::Nothing,
        _ => return None,
    })
}

fn control_response(line: &Value) -> Option<Inbound> {
    let response = line.get("response")?;
    let id = response.get("request_id")?.as_str()?.to_owned();
    let answer = match response.get("subtype").and_then(Value::as_str) {
        Some("success") => Ok(response.get("response").cloned().unwrap_or(Value::Null)),
        _ => Err(response.get("error").and_then(Value::as_str).unwrap_or("no reason given").to_owned()),
    };
    Some(Inbound::ControlResponse { id, answer })
}

/// A request of ours.
pub(super) fn control_request(id: &str, request: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

/// Asks the CLI to stop its turn; with `queued`, prompts that have not begun are taken out of its queue too.
pub(super) fn interrupt(id: &str, queued: bool) -> Value {
    let mut request = json!({"subtype": "interrupt"});
    if queued {
        request["cancel_queued"] = json!(true);
    }
    control_request(id, &request)
}

/// A prompt. Its uuid makes it idempotent: the CLI runs one that its history holds no second time.
///
/// Where the last block of a prompt begins with a slash, the CLI takes it for a command of its own: `/clear` would forget the
/// session. So such a text is not the last: a blank block follows, which the CLI leaves out of its requests.
pub(super) fn prompt(id: Uuid, text: &str) -> Value {
    let mut content = vec![json!({"type": "text", "text": text})];
    if text.starts_with('/') {
        content.push(json!({"type": "text", "text": " "}));
    }
    json!({
        "type": "user",
        "uuid": id,
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": null,
        "session_id": "",
    })
}

/// Leave for a tool. The input goes back as it came.
pub(super) fn allow(id: &str, input: &Value) -> Value {
    answer(id, &json!({"behavior": "allow", "updatedInput": input}))
}

/// No leave for a tool; the turn goes on.
pub(super) fn deny(id: &str) -> Value {
    answer(
        id,
        &json!({"behavior": "deny", "message": "The user said no to this. Go on without it, or ask what they want instead."}),
    )
}

fn answer(id: &str, response: &Value) -> Value {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}})
}

/// An answer to something that this adapter does not do.
pub(super) fn unsupported(id: &str) -> Value {
    json!({"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": "not supported by this client"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_a_later_version_is_unknown_and_never_an_error() {
        let unknown = |line: &str| match parse(line) {
            Inbound::Unknown { kind } => kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(unknown(r#"{"type":"system","subtype":"from_the_future","x":[1]}"#), "system/from_the_future");
        assert_eq!(unknown(r#"{"type":"hologram"}"#), "hologram");
        assert_eq!(unknown(r#"{"type":"assistant","message":7}"#), "assistant");
        assert_eq!(unknown("Loading…"), "not JSON");
        assert_eq!(unknown(r#"{"type":"system","subtype":{"a":1}}"#), "system");
        assert_eq!(unknown("[1]"), "not JSON");
    }

    #[test]
    fn a_delta_is_read_whatever_else_its_frame_holds() {
        let line = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hé"}},"session_id":"s","parent_tool_use_id":null,"uuid":"u","api_message_id":"m"}"#;
        let Inbound::Stream(frame) = parse(line) else { panic!() };
        assert_eq!((frame.event.index, frame.parent_tool_use_id), (1, None));
        assert_eq!(frame.event.delta.and_then(|d| d.text).as_deref(), Some("hé"));
    }
}
