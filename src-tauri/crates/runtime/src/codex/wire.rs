//! The frames of `codex app-server` that we use: JSON-RPC lines without the `jsonrpc` member. Whatever else it says is
//! [`Note::Unknown`], never an error.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// One line from the app server: an answer, a notification, or a question of its own (both `id` and `method`).
#[derive(Debug, Deserialize)]
pub(super) struct Frame {
    pub id: Option<Value>,
    pub method: Option<String>,
    pub params: Option<Box<RawValue>>,
    pub result: Option<Value>,
    pub error: Option<RpcError>,
}

/// The error of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    pub code: i64,
    pub message: String,
}

/// Where a notification belongs. Sub-agents are threads of their own in the same process.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Place {
    pub thread_id: Option<String>,
    pub turn_id: Option<String>,
}

/// A notification that means something to us.
#[derive(Debug)]
pub(super) enum Note {
    ItemStarted(Item),
    ItemCompleted(Item),
    Text(Delta),
    Summary(Delta),
    SummaryPart(SummaryPart),
    ReasoningContent(Delta),
    PlanText(Delta),
    CommandOutput(Delta),
    FilesUpdated(FilesUpdated),
    Plan(Plan),
    Usage(Usage),
    Error(ErrorNote),
    TurnStarted(Turn),
    TurnCompleted(Turn),
    Resolved(Value),
    RateLimits(RateLimits),
    Rerouted {
        to: String,
        why: String,
    },
    Warning(String),
    McpFailed {
        name: String,
        error: String,
    },
    /// Known, and of no use here.
    Nothing,
    /// Not known to this adapter.
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delta {
    /// Here too, so that the commonest frame is read once.
    thread_id: Option<String>,
    turn_id: Option<String>,
    pub item_id: String,
    pub delta: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SummaryPart {
    pub item_id: String,
    #[serde(default)]
    pub summary_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FilesUpdated {
    pub item_id: String,
    pub changes: Vec<Change>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Plan {
    pub plan: Vec<Step>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Step {
    pub step: String,
    #[serde(default)]
    pub status: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    /// Of the whole thread: it only grows.
    #[serde(default)]
    pub total: Tokens,
    /// Of the last request.
    pub last: Tokens,
    pub model_context_window: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct Tokens {
    pub total_tokens: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorNote {
    pub error: TurnError,
    #[serde(default)]
    pub will_retry: bool,
}

/// Why a request or a turn failed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnError {
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub codex_error_info: Option<Value>,
    #[serde(default)]
    pub additional_details: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Turn {
    pub id: String,
    #[serde(default)]
    pub status: String,
    pub error: Option<TurnError>,
}

/// The account's limits, as last told.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RateLimits {
    pub primary: Option<Limit>,
    pub secondary: Option<Limit>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Limit {
    pub used_percent: f64,
    /// Seconds since 1970.
    pub resets_at: Option<i64>,
}

/// One file of a change.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Change {
    pub path: String,
    pub kind: ChangeKind,
    #[serde(default)]
    pub diff: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum ChangeKind {
    Add,
    Delete,
    Update {
        #[serde(default)]
        move_path: Option<String>,
    },
    #[serde(other)]
    Other,
}

/// A part of a turn.
#[derive(Debug)]
pub(super) enum Item {
    User(User),
    Message(Message),
    Reasoning(Reasoning),
    /// A plan in prose (plan mode).
    PlanText(Message),
    Command(Command),
    Files(Files),
    Mcp(Mcp),
    Compaction,
    /// Any other tool's call: its type, its id and all it says.
    Other {
        kind: String,
        id: String,
        body: Value,
    },
    /// Known, and of no use here.
    Nothing,
    /// Not known to this adapter.
    Unknown(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct User {
    pub client_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub id: String,
    #[serde(default)]
    pub text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Reasoning {
    pub id: String,
    #[serde(default)]
    pub summary: Vec<String>,
    #[serde(default)]
    pub content: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Command {
    pub id: String,
    pub command: String,
    #[serde(default)]
    pub status: String,
    pub aggregated_output: Option<String>,
    pub exit_code: Option<i32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Files {
    pub id: String,
    #[serde(default)]
    pub changes: Vec<Change>,
    #[serde(default)]
    pub status: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Mcp {
    pub id: String,
    pub server: String,
    pub tool: String,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub arguments: Value,
    pub result: Option<McpResult>,
    pub error: Option<McpError>,
}

#[derive(Debug, Deserialize)]
pub(super) struct McpResult {
    #[serde(default)]
    pub content: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct McpError {
    pub message: String,
}

/// Tool calls that have a shape of their own and are shown as they are.
const TOOLS: [&str; 8] = [
    "webSearch",
    "dynamicToolCall",
    "collabAgentToolCall",
    "subAgentActivity",
    "imageView",
    "imageGeneration",
    "sleep",
    "functionCallOutput",
];

impl Item {
    /// Reads an item; one that is shaped otherwise than this adapter knows is unknown, by its type.
    fn read(body: Value) -> Self {
        let kind = body["type"].as_str().unwrap_or_default().to_owned();
        fn known<T: DeserializeOwned>(kind: String, body: Value, item: impl Fn(T) -> Item) -> Item {
            serde_json::from_value(body).map_or(Item::Unknown(kind), item)
        }
        match kind.as_str() {
            "userMessage" => known(kind, body, Self::User),
            "agentMessage" => known(kind, body, Self::Message),
            "reasoning" => known(kind, body, Self::Reasoning),
            "plan" => known(kind, body, Self::PlanText),
            "commandExecution" => known(kind, body, Self::Command),
            "fileChange" => known(kind, body, Self::Files),
            "mcpToolCall" => known(kind, body, Self::Mcp),
            "contextCompaction" => Self::Compaction,
            "hookPrompt" | "enteredReviewMode" | "exitedReviewMode" => Self::Nothing,
            other if TOOLS.contains(&other) => match body["id"].as_str() {
                Some(id) => Self::Other { id: id.to_owned(), kind, body },
                None => Self::Unknown(kind),
            },
            _ => Self::Unknown(kind),
        }
    }
}

/// Notifications that say nothing to us, by their beginning.
const OF_NO_USE: [&str; 39] = [
    "account/",
    "app/",
    "autoApprovalReview/",
    "command/",
    "deprecationNotice",
    "externalAgentConfig/",
    "fs/",
    "fuzzyFileSearch/",
    "hook/",
    "item/autoApprovalReview/",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/mcpToolCall/progress",
    "mcpServer/",
    "model/",
    "modelProvider/",
    "process/",
    "project/",
    "rawResponse",
    "remoteControl/",
    "skills/",
    "thread/archived",
    "thread/attachment/",
    "thread/closed",
    "thread/compacted",
    "thread/deleted",
    "thread/environment/",
    "thread/goal/",
    "thread/name/",
    "thread/prediction/",
    "thread/project/",
    "thread/queue/",
    "thread/readState/",
    "thread/reverted",
    "thread/section/",
    "thread/settings/",
    "thread/started",
    "thread/status/",
    "turn/",
];

/// The part of `params` under its own name; the rest of the frame is read by [`place`].
fn part<T: DeserializeOwned>(params: &RawValue, name: &str) -> Option<T> {
    let mut fields: serde_json::Map<String, Value> = serde_json::from_str(params.get()).ok()?;
    serde_json::from_value(fields.remove(name)?).ok()
}

fn whole<T: DeserializeOwned>(params: &RawValue) -> Option<T> {
    serde_json::from_str(params.get()).ok()
}

/// Reads a notification, and where it belongs.
pub(super) fn read(method: &str, params: &RawValue) -> (Place, Note) {
    let kind = match method {
        "item/agentMessage/delta" => Note::Text,
        "item/reasoning/summaryTextDelta" => Note::Summary,
        "item/reasoning/textDelta" => Note::ReasoningContent,
        "item/commandExecution/outputDelta" => Note::CommandOutput,
        "item/plan/delta" => Note::PlanText,
        _ => return (whole(params).unwrap_or_default(), note(method, params)),
    };
    match whole::<Delta>(params) {
        Some(mut delta) => {
            let place = Place { thread_id: delta.thread_id.take(), turn_id: delta.turn_id.take() };
            (place, kind(delta))
        }
        None => (Place::default(), Note::Unknown),
    }
}

fn note(method: &str, params: &RawValue) -> Note {
    let item = || part(params, "item").map(Item::read);
    let read = match method {
        "item/reasoning/summaryPartAdded" => whole(params).map(Note::SummaryPart),
        "item/started" => item().map(Note::ItemStarted),
        "item/completed" => item().map(Note::ItemCompleted),
        "item/fileChange/patchUpdated" => whole(params).map(Note::FilesUpdated),
        "turn/plan/updated" => whole(params).map(Note::Plan),
        "turn/started" => part(params, "turn").map(Note::TurnStarted),
        "turn/completed" => part(params, "turn").map(Note::TurnCompleted),
        "thread/tokenUsage/updated" => part(params, "tokenUsage").map(Note::Usage),
        "error" => whole(params).map(Note::Error),
        "serverRequest/resolved" => part(params, "requestId").map(Note::Resolved),
        "account/rateLimits/updated" => part(params, "rateLimits").map(Note::RateLimits),
        "model/rerouted" => {
            part(params, "toModel").map(|to| Note::Rerouted { to, why: part(params, "reason").unwrap_or_default() })
        }
        "warning" | "guardianWarning" => part(params, "message").map(Note::Warning),
        "configWarning" => whole::<Value>(params).map(|body| {
            let words = [&body["summary"], &body["details"]].into_iter().filter_map(Value::as_str);
            Note::Warning(words.collect::<Vec<_>>().join(" "))
        }),
        "mcpServer/startupStatus/updated" => whole::<Value>(params).map(|body| match body["status"].as_str() {
            Some("failed") => Note::McpFailed {
                name: body["name"].as_str().unwrap_or_default().to_owned(),
                error: body["error"].as_str().unwrap_or("it did not start").to_owned(),
            },
            _ => Note::Nothing,
        }),
        known if OF_NO_USE.iter().any(|beginning| known.starts_with(beginning)) => Some(Note::Nothing),
        _ => None,
    };
    read.unwrap_or(Note::Unknown)
}
