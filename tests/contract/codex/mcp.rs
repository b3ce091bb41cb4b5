//! Our MCP server as Codex uses it (M1).

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use changeover_core::event::RuntimeEvent;
use changeover_core::part::WorkStatus;
use changeover_runtime::session::{McpAccess, SessionSpec};
use serde_json::{Value, json};

use super::bench::{Bench, running};

const TOKEN: &str = "token-for-this-session-only";

/// The calls that came with the token, as (method, tool).
type Calls = Arc<Mutex<Vec<(String, String)>>>;

async fn speak(State(calls): State<Calls>, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    if headers.get("authorization").is_none_or(|given| given != &format!("Bearer {TOKEN}")) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let tool = message["params"]["name"].as_str().unwrap_or_default().to_owned();
    calls.lock().expect("calls").push((method.clone(), tool));
    let result = match method.as_str() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "changeover", "version": "0"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "thread_read", "description": "Reads a thread.",
            "inputSchema": {"type": "object", "properties": {"thread_id": {"type": "string"}}},
        }]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "what was said"}]}),
        _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        _ => json!({}),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn serve(calls: &Calls) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let app = Router::new().route("/mcp", post(speak)).with_state(Arc::clone(calls));
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn our_tools_are_offered_and_called_without_asking_and_the_token_stays_secret() {
    let bench = Bench::new().await;
    let calls = Calls::default();
    let mcp = Some(McpAccess { url: serve(&calls).await, token: TOKEN.into() });
    let mut open = bench.open(SessionSpec { mcp, ..bench.asking() }).await;
    let events = open.turn(r#"[[call:thread_read:{"thread_id":"t1"}]][[say:done]]"#).await;
    let offered = bench.api.turns()[0].body["tools"].to_string();
    assert!(offered.contains("mcp__changeover") && offered.contains("thread_read"), "{offered}");
    assert!(!events.iter().any(|event| matches!(event, RuntimeEvent::ApprovalWanted(_))), "{events:#?}");
    let tool = RuntimeEvent::Tool {
        item: "call_fake0001_0".into(),
        name: "mcp__changeover__thread_read".into(),
        input: r#"{"thread_id":"t1"}"#.into(),
        output: Some("what was said".into()),
        status: WorkStatus::Completed,
    };
    assert!(events.contains(&tool), "{events:#?}");
    assert!(calls.lock().expect("calls").contains(&("tools/call".into(), "thread_read".into())));
    assert_eq!(running(|_, command| command.contains(TOKEN)), [0; 0], "in no argv");
    open.close().await;
    let written =
        std::process::Command::new("grep").args(["-rl", TOKEN]).arg(bench.home.root()).output().expect("grep runs");
    assert_eq!(String::from_utf8_lossy(&written.stdout), "", "in no file");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_a_warning_and_the_turn_runs() {
    let bench = Bench::new().await;
    let calls = Calls::default();
    let mcp = Some(McpAccess { url: serve(&calls).await, token: "wrong".into() });
    let mut open = bench.open(SessionSpec { mcp, ..bench.spec() }).await;
    open.answered("hello").await;
    let warned =
        |event: &RuntimeEvent| matches!(event, RuntimeEvent::Warning { message } if message.contains("changeover"));
    assert!(open.seen.iter().any(warned), "{:#?}", open.seen);
    assert_eq!(*calls.lock().expect("calls"), []);
    open.close().await;
}
