//! OpenAI Responses: the events of a reply, as Codex reads them.

use serde_json::{Value, json};

use super::request::blocks;
use super::script::{Call, Failure, Plan, pieces};
use super::stream::{AfterFirst, Ended, Events};
use super::{Recorded, Shared};

/// The API's words for a prompt above the window; it comes in-band, after a 200.
const TOO_LONG: &str = "Your input exceeds the context window of this model. Please adjust your input and try again.";

/// A response object in this state, holding `more`.
fn response(request: &Recorded, status: &str, more: &[(&str, Value)]) -> Value {
    let mut out = json!({
        "id": format!("resp_fake{:04}", request.n), "object": "response", "created_at": 1, "model": request.body["model"],
        "status": status, "output": [],
    });
    for (key, value) in more {
        out[*key] = value.clone();
    }
    out
}

async fn fail(events: &Events, request: &Recorded, code: &str, message: &str) -> Result<(), Ended> {
    let error = json!({"code": code, "message": message});
    events.send(json!({"type": "response.failed", "response": response(request, "failed", &[("error", error)])})).await
}

/// A streamed reply.
pub(super) async fn stream(events: &Events, request: &Recorded, plan: &Plan, shared: &Shared) -> Result<(), Ended> {
    events.send(json!({"type": "response.created", "response": response(request, "in_progress", &[])})).await?;
    if plan.error == Some(Failure::TooLong) {
        return fail(events, request, "context_length_exceeded", TOO_LONG).await;
    }
    let mut output = Vec::new();
    if let Some(text) = &plan.think {
        output.push(reasoning(events, request, text).await?);
    }
    if let Some(text) = plan.preface.as_ref().filter(|_| !plan.calls.is_empty()) {
        output.push(preface(events, request, text, output.len()).await?);
    }
    for (index, call) in plan.calls.iter().enumerate() {
        let item = call_item(request, index, call);
        let at = output.len();
        events.send(json!({"type": "response.output_item.added", "output_index": at, "item": item})).await?;
        events.send(json!({"type": "response.output_item.done", "output_index": at, "item": item})).await?;
        output.push(item);
    }
    if plan.calls.is_empty() {
        match text(events, request, plan, shared, output.len()).await? {
            Some(item) => output.push(item),
            None => return fail(events, request, "server_error", "fake midstream failure").await,
        }
    }
    let (input, out) = plan.usage;
    let usage = json!({
        "input_tokens": input, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + out,
    });
    let done = response(request, "completed", &[("output", json!(output)), ("usage", usage)]);
    events.send(json!({"type": "response.completed", "response": done})).await
}

/// The reasoning item; it is always the first.
async fn reasoning(events: &Events, request: &Recorded, text: &str) -> Result<Value, Ended> {
    let id = format!("rs_{:04}", request.n);
    let item =
        |summary: Value| json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": "ZmFrZQ=="});
    events.send(json!({"type": "response.output_item.added", "output_index": 0, "item": item(json!([]))})).await?;
    let part = json!({"type": "summary_text", "text": ""});
    let place = json!({"item_id": id, "output_index": 0, "summary_index": 0});
    events.send(with(&place, json!({"type": "response.reasoning_summary_part.added", "part": part}))).await?;
    for piece in pieces(text, 3) {
        events.send(with(&place, json!({"type": "response.reasoning_summary_text.delta", "delta": piece}))).await?;
    }
    let item = item(json!([{"type": "summary_text", "text": text}]));
    events.send(json!({"type": "response.output_item.done", "output_index": 0, "item": item})).await?;
    Ok(item)
}

/// A message item before the calls, whole.
async fn preface(events: &Events, request: &Recorded, text: &str, at: usize) -> Result<Value, Ended> {
    let id = format!("msg_pre{:04}", request.n);
    let item = |status: &str, content: Value| json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": content});
    let begun = item("in_progress", json!([]));
    events.send(json!({"type": "response.output_item.added", "output_index": at, "item": begun})).await?;
    let place = json!({"item_id": id, "output_index": at, "content_index": 0});
    events.send(with(&place, json!({"type": "response.output_text.delta", "delta": text}))).await?;
    let item = item("completed", json!([{"type": "output_text", "text": text, "annotations": []}]));
    events.send(json!({"type": "response.output_item.done", "output_index": at, "item": item})).await?;
    Ok(item)
}

/// The message item; none if the script lets it fail midway.
async fn text(
    events: &Events,
    request: &Recorded,
    plan: &Plan,
    shared: &Shared,
    at: usize,
) -> Result<Option<Value>, Ended> {
    let id = format!("msg_{:04}", request.n);
    let item = |status: &str, content: Value| json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": content});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    events
        .send(json!({"type": "response.output_item.added", "output_index": at, "item": item("in_progress", json!([]))}))
        .await?;
    let place = json!({"item_id": id, "output_index": at, "content_index": 0});
    events.send(with(&place, json!({"type": "response.content_part.added", "part": part("")}))).await?;
    let (count, pause) = plan.pace.unwrap_or_default();
    for (k, piece) in pieces(&plan.text, if count == 0 { 3 } else { count }).into_iter().enumerate() {
        events.send(with(&place, json!({"type": "response.output_text.delta", "delta": piece}))).await?;
        if k == 0 && matches!(events.after_first(shared, plan).await?, AfterFirst::Midstream) {
            return Ok(None);
        }
        tokio::time::sleep(pause).await;
    }
    events.send(with(&place, json!({"type": "response.output_text.done", "text": plan.text}))).await?;
    let item = item("completed", json!([part(&plan.text)]));
    events.send(json!({"type": "response.output_item.done", "output_index": at, "item": item})).await?;
    Ok(Some(item))
}

fn call_item(request: &Recorded, index: usize, call: &Call) -> Value {
    let id = format!("call_fake{:04}_{index}", request.n);
    let custom = blocks(&request.body["tools"])
        .iter()
        .any(|tool| tool["type"] == "custom" && tool["name"] == call.name.as_str());
    if custom {
        let input = call.arguments["input"].as_str().map_or_else(|| call.arguments.to_string(), str::to_owned);
        return json!({"type": "custom_tool_call", "id": format!("ctc_{id}"), "call_id": id, "name": call.name, "input": input});
    }
    if call.name == "local_shell" {
        let action = json!({"type": "exec", "command": ["bash", "-lc", call.arguments["command"]]});
        return json!({"type": "local_shell_call", "id": format!("lsh_{id}"), "call_id": id, "status": "completed", "action": action});
    }
    let (namespace, name) = match call.name.split_once("::") {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, call.name.as_str()),
    };
    let mut item = json!({
        "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
        "arguments": call.arguments.to_string(), "status": "completed",
    });
    if let Some(namespace) = namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

/// An event with the fields that say where it belongs.
fn with(place: &Value, mut event: Value) -> Value {
    for (key, value) in place.as_object().into_iter().flatten() {
        event[key] = value.clone();
    }
    event
}
