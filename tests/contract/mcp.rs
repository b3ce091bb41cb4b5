//! An MCP server with our three tools' names on loopback, as small as the CLIs take it: for what an adapter does with it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

struct Shared {
    token: String,
    calls: Mutex<Vec<String>>,
}

/// The server; gone when dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Serves whoever brings the token.
    pub async fn start(token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { token: token.to_owned(), calls: Mutex::default() });
        let router = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { address, shared, serving }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The calls so far: `NAME {arguments}`.
    pub fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().expect("calls").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, Json(request): Json<Value>) -> Response {
    let bearer = format!("Bearer {}", shared.token);
    if headers.get("authorization").and_then(|value| value.to_str().ok()) != Some(bearer.as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Some(id) = request.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match request["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "changeover", "version": "0"},
        }),
        Some("tools/list") => {
            let tool = |name: &str| json!({"name": name, "description": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
            let tools = ["thread_read", "thread_search", "thread_list"].map(tool);
            json!({"tools": tools})
        }
        Some("tools/call") => {
            let name = request["params"]["name"].as_str().unwrap_or_default();
            shared.calls.lock().expect("calls").push(format!("{name} {}", request["params"]["arguments"]));
            json!({"content": [{"type": "text", "text": format!("page of {name}")}]})
        }
        other => {
            let error = json!({"code": -32601, "message": format!("no method {other:?}")});
            return Json(json!({"jsonrpc": "2.0", "id": id, "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}
