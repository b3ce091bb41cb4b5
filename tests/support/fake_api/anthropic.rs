//! Anthropic Messages: the events of a reply, and a reply as one piece of JSON.

use serde_json::{Value, json};

use super::script::{Plan, pieces};
use super::stream::{AfterFirst, Ended, Events};
use super::{Recorded, Shared};

/// The API's words for a prompt above the window, sent with status 400.
pub(super) const TOO_LONG: &str = "prompt is too long: 210000 tokens > 200000 maximum";

fn usage(plan: &Plan, output: u64) -> Value {
    json!({
        "input_tokens": plan.usage.0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": output, "service_tier": "standard",
    })
}

fn message(request: &Recorded, content: Value, stop: Value, usage: Value) -> Value {
    json!({
        "id": format!("msg_fake{:04}", request.n), "type": "message", "role": "assistant", "model": request.body["model"],
        "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage,
    })
}

fn call_id(n: usize, index: usize) -> String {
    format!("toolu_fake{n:04}_{index}")
}

fn stop_reason(plan: &Plan) -> &'static str {
    if plan.calls.is_empty() { "end_turn" } else { "tool_use" }
}

/// A reply without streaming.
pub(super) fn whole(request: &Recorded, plan: &Plan) -> Value {
    let mut content: Vec<Value> =
        plan.think.iter().map(|text| json!({"type": "thinking", "thinking": text, "signature": "ZmFrZQ=="})).collect();
    let preface = plan.preface.as_ref().filter(|_| !plan.calls.is_empty());
    content.extend(preface.map(|text| json!({"type": "text", "text": text})));
    for (index, call) in plan.calls.iter().enumerate() {
        content.push(
            json!({"type": "tool_use", "id": call_id(request.n, index), "name": call.name, "input": call.arguments}),
        );
    }
    if plan.calls.is_empty() {
        content.push(json!({"type": "text", "text": plan.text}));
    }
    message(request, json!(content), json!(stop_reason(plan)), usage(plan, plan.usage.1))
}

/// A streamed reply.
pub(super) async fn stream(events: &Events, request: &Recorded, plan: &Plan, shared: &Shared) -> Result<(), Ended> {
    let start = message(request, json!([]), Value::Null, usage(plan, 1));
    events.send(json!({"type": "message_start", "message": start})).await?;
    events.send(json!({"type": "ping"})).await?;
    let mut block = Block { events, index: 0 };
    if let Some(text) = &plan.think {
        block.start(json!({"type": "thinking", "thinking": "", "signature": ""})).await?;
        for piece in pieces(text, 3) {
            block.delta(json!({"type": "thinking_delta", "thinking": piece})).await?;
        }
        block.delta(json!({"type": "signature_delta", "signature": "ZmFrZQ=="})).await?;
        block.stop().await?;
    }
    if let Some(text) = plan.preface.as_ref().filter(|_| !plan.calls.is_empty()) {
        block.start(json!({"type": "text", "text": ""})).await?;
        block.delta(json!({"type": "text_delta", "text": text})).await?;
        block.stop().await?;
    }
    for (index, call) in plan.calls.iter().enumerate() {
        let id = call_id(request.n, index);
        block.start(json!({"type": "tool_use", "id": id, "name": call.name, "input": {}})).await?;
        for piece in pieces(&call.arguments.to_string(), 3) {
            block.delta(json!({"type": "input_json_delta", "partial_json": piece})).await?;
        }
        block.stop().await?;
    }
    if plan.calls.is_empty() {
        block.start(json!({"type": "text", "text": ""})).await?;
        let (count, pause) = plan.pace.unwrap_or_default();
        for (k, piece) in pieces(&plan.text, if count == 0 { 3 } else { count }).into_iter().enumerate() {
            block.delta(json!({"type": "text_delta", "text": piece})).await?;
            if k == 0 && matches!(events.after_first(shared, plan).await?, AfterFirst::Midstream) {
                let error = json!({"type": "overloaded_error", "message": "Overloaded"});
                return events.send(json!({"type": "error", "error": error})).await;
            }
            tokio::time::sleep(pause).await;
        }
        block.stop().await?;
    }
    let delta = json!({"stop_reason": stop_reason(plan), "stop_sequence": null});
    events.send(json!({"type": "message_delta", "delta": delta, "usage": usage(plan, plan.usage.1)})).await?;
    events.send(json!({"type": "message_stop"})).await
}

/// The content block being written.
struct Block<'a> {
    events: &'a Events,
    index: usize,
}

impl Block<'_> {
    async fn start(&self, block: Value) -> Result<(), Ended> {
        self.events.send(json!({"type": "content_block_start", "index": self.index, "content_block": block})).await
    }

    async fn delta(&self, delta: Value) -> Result<(), Ended> {
        self.events.send(json!({"type": "content_block_delta", "index": self.index, "delta": delta})).await
    }

    async fn stop(&mut self) -> Result<(), Ended> {
        self.events.send(json!({"type": "content_block_stop", "index": self.index})).await?;
        self.index += 1;
        Ok(())
    }
}
