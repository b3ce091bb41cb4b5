//! MCP over streamable HTTP at `/mcp` (M1–M3): three tools that read, behind the token of one session.
//!
//! Every request stands for itself: no MCP session, no stream, an answer as JSON. Nothing is kept between requests, so
//! nothing grows, and an agent that comes back after a restart of the app goes on at once.

mod text;
mod tools;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use changeover_core::id::ThreadId;
use changeover_engine::Engine;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use tokio::sync::Semaphore;

use self::tools::Tools;

/// The largest request, in bytes. A call of ours takes some hundred.
const REQUEST_BYTES: usize = 256 * 1024;
/// Requests that are answered at once; further ones wait, up to [`ADMITTED`], then they are turned away.
const ANSWERED: usize = 8;
/// Requests that are answered or wait.
const ADMITTED: usize = 64;
/// How long a request may take, its arrival included.
const PATIENCE: Duration = Duration::from_secs(30);

/// The thread whose session asks: what its token may read is this thread's family (M1).
#[derive(Debug, Clone, Copy)]
struct Scope(ThreadId);

#[derive(Clone)]
struct Gate {
    engine: Engine,
    admitted: Arc<Semaphore>,
    answered: Arc<Semaphore>,
}

/// The route `/mcp`. Whoever merges it checks Host and Origin before it ([`crate::guarded`]).
pub fn router(engine: Engine) -> Router {
    let gate = Gate {
        engine: engine.clone(),
        admitted: Arc::new(Semaphore::new(ADMITTED)),
        answered: Arc::new(Semaphore::new(ANSWERED)),
    };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(REQUEST_BYTES);
    let tools = Tools::new(engine);
    let service =
        StreamableHttpService::new(move || Ok(tools.clone()), Arc::new(NeverSessionManager::default()), config);
    Router::new().route_service("/mcp", service).layer(middleware::from_fn_with_state(gate, admit))
}

/// Lets a session's token in, and no more at once than can be answered well.
async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let Some(thread) = bearer(request.headers()).and_then(|token| gate.engine.thread_of_token(token)) else {
        let challenge = (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"changeover\""));
        return (StatusCode::UNAUTHORIZED, [challenge], "This needs the token of a running session.\n").into_response();
    };
    let Ok(_admitted) = gate.admitted.try_acquire() else {
        let later = (header::RETRY_AFTER, HeaderValue::from_static("1"));
        return (StatusCode::SERVICE_UNAVAILABLE, [later], "Too many requests at once.\n").into_response();
    };
    // What comes behind may log requests; the token is for no log (M1).
    request.headers_mut().remove(header::AUTHORIZATION);
    request.extensions_mut().insert(Scope(thread));
    let answer = async {
        let _answered = gate.answered.acquire().await;
        next.run(request).await
    };
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "The request took too long.\n").into_response(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
