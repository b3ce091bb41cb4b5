//! One request: read, recorded, answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::listener::Cut;
use super::record::session_of;
use super::request::Asked;
use super::script::{Failure, Plan};
use super::stream::{Events, request_id};
use super::{Kind, Recorded, Shared, Wire, anthropic, lock, request, responses, script};

/// No CLI's request comes near this; it only keeps a runaway from filling memory.
const LARGEST_BODY: usize = 64 << 20;

pub(super) async fn handle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    incoming: Request,
) -> Response {
    let (parts, body) = incoming.into_parts();
    let raw = match to_bytes(body, LARGEST_BODY).await {
        Ok(raw) => raw,
        Err(_) => {
            return answer(StatusCode::PAYLOAD_TOO_LARGE, 0, &json!({"error": "fake api: body too large or cut"}));
        }
    };
    let body: Value = serde_json::from_slice(&raw).unwrap_or(Value::Null);
    let headers: BTreeMap<String, String> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    // Only a path of our own counts: through the proxy variables any URL in the world may be asked for.
    let path = match parts.uri.authority() {
        Some(_) => parts.uri.to_string(),
        None => parts.uri.path().to_owned(),
    };
    let (mut kind, wire) = place(&parts.method, &path);
    let asked = match wire {
        Some(Wire::Anthropic) => request::anthropic(&body),
        Some(Wire::Responses) => request::responses(&body),
        None => Asked::default(),
    };
    if kind == Kind::Turn && asked.tools.is_empty() {
        kind = Kind::Side;
    }
    let recorded = Recorded {
        n: 0,
        kind,
        wire,
        method: parts.method.to_string(),
        path,
        auth: headers.get("authorization").or_else(|| headers.get("x-api-key")).cloned(),
        session: session_of(&headers, &body),
        headers,
        body,
        bytes: raw.len(),
        user_text: asked.text.clone(),
    };
    let recorded = record(&shared, recorded);
    let n = recorded.n;
    let Some(wire) = wire.filter(|_| matches!(kind, Kind::Turn | Kind::Side)) else {
        return match kind {
            Kind::Count => answer(StatusCode::OK, n, &json!({"input_tokens": recorded.bytes / 4})),
            Kind::Models => answer(StatusCode::OK, n, &models()),
            Kind::Probe if recorded.method == "HEAD" => Response::new(Body::empty()),
            _ => answer(
                StatusCode::NOT_FOUND,
                n,
                &json!({"type": "error", "error": {"type": "not_found_error", "message": "fake api: no such path"}}),
            ),
        };
    };
    // As the vendors do: who is not logged in gets nothing.
    if recorded.auth.is_none() {
        return failure(wire, 401, n, &Plan::default());
    }
    let plan = match script::plan(&asked, &recorded.path, recorded.bytes, &shared) {
        Ok(plan) => plan,
        Err(why) => {
            let message = format!("fake api: wrong directive: {why}");
            return answer(StatusCode::BAD_REQUEST, n, &wire_error(wire, 400, "invalid_request_error", &message));
        }
    };
    if let Some(gate) = &plan.gate_before {
        shared.gates.pass(gate).await;
    }
    match plan.error {
        Some(Failure::Refuse) => {
            cut.now();
            return Response::new(Body::empty());
        }
        Some(Failure::Status(code)) => return failure(wire, code, n, &plan),
        // OpenAI's wire tells this one in-band.
        Some(Failure::TooLong) if wire == Wire::Anthropic => {
            let body = wire_error(wire, 400, "invalid_request_error", anthropic::TOO_LONG);
            return answer(StatusCode::BAD_REQUEST, n, &body);
        }
        _ => {}
    }
    if wire == Wire::Anthropic && recorded.body["stream"] != true {
        // What cuts a stream is no better without one: Claude Code asks that way after a cut.
        match plan.error {
            Some(Failure::Drop) => {
                cut.now();
                return Response::new(Body::empty());
            }
            Some(Failure::Midstream) => return failure(wire, 529, n, &plan),
            _ => {}
        }
        return answer(StatusCode::OK, n, &anthropic::whole(&recorded, &plan));
    }
    let (events, response) = Events::open(n);
    tokio::spawn(async move {
        // Ended early: the client left or the script cut the line; the recorded request is all a test needs.
        let _ = match wire {
            Wire::Anthropic => anthropic::stream(&events, &recorded, &plan, &shared).await,
            Wire::Responses => responses::stream(&events, &recorded, &plan, &shared).await,
        };
    });
    response
}

/// What a method and path are for. A proxy's CONNECT or absolute URL has no place here: it is a stray.
fn place(method: &Method, path: &str) -> (Kind, Option<Wire>) {
    match (method.as_str(), path) {
        ("POST", "/v1/messages") => (Kind::Turn, Some(Wire::Anthropic)),
        ("POST", "/v1/messages/count_tokens") => (Kind::Count, Some(Wire::Anthropic)),
        ("POST", "/v1/responses") => (Kind::Turn, Some(Wire::Responses)),
        ("GET", "/v1/models") => (Kind::Models, None),
        ("HEAD", "/") | ("GET", "/v1/responses") => (Kind::Probe, None),
        _ => (Kind::Stray, None),
    }
}

fn record(shared: &Shared, mut recorded: Recorded) -> Arc<Recorded> {
    let mut log = lock(&shared.log);
    recorded.n = log.len() + 1;
    let recorded = Arc::new(recorded);
    log.push(Arc::clone(&recorded));
    drop(log);
    shared.arrivals.send_modify(|count| *count += 1);
    recorded
}

fn answer(code: StatusCode, n: usize, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("request-id", request_id(n));
    headers.insert("x-request-id", request_id(n));
    response
}

fn failure(wire: Wire, code: u16, n: usize, plan: &Plan) -> Response {
    let (kind, message) = match code {
        401 => ("authentication_error", "invalid x-api-key"),
        403 => ("permission_error", "fake forbidden"),
        404 => ("not_found_error", "model: fake-missing"),
        413 => ("request_too_large", "Request exceeds the maximum size"),
        429 => ("rate_limit_error", "This request would exceed your rate limit"),
        500 => ("api_error", "Internal server error"),
        503 => ("api_error", "Service unavailable"),
        529 => ("overloaded_error", "Overloaded"),
        _ => ("invalid_request_error", "fake bad request"),
    };
    let status = StatusCode::from_u16(code).expect("a status");
    let mut response = answer(status, n, &wire_error(wire, code, kind, message));
    if let Some(seconds) = plan.retry_after {
        response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
    }
    response
}

fn wire_error(wire: Wire, code: u16, kind: &str, message: &str) -> Value {
    match wire {
        Wire::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Wire::Responses => {
            let name = if code == 401 { json!("invalid_api_key") } else { Value::Null };
            json!({"error": {"message": message, "type": kind, "param": null, "code": name}})
        }
    }
}

fn models() -> Value {
    let ids = ["claude-opus-5-5", "claude-sonnet-4-5", "gpt-5-codex"];
    let data: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "object": "model", "type": "model", "display_name": id, "owned_by": "fake", "created": 1, "created_at": "2026-01-01T00:00:00Z"}))
        .collect();
    json!({"object": "list", "has_more": false, "first_id": ids[0], "last_id": ids[2], "data": data})
}
