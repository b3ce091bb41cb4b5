//! The loopback server: the UI's files, `/session` (a one-time code for a cookie), `/rpc` (WebSocket), and what else is
//! merged in (MCP). 127.0.0.1 only; Host and Origin are checked before anything else (M3).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{
        State, WebSocketUpgrade,
        ws::{Message, WebSocket},
    },
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use changeover_engine::{
    Engine,
    api::{
        Caller,
        error::{ApiError, ErrorCode},
    },
    secret,
};
use futures::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc},
};

use crate::{clients::Clients, guarded, launch, page};

/// A one-time code is good for this long.
const CODE_LIFE: Duration = Duration::from_secs(15 * 60);
/// Codes that may be open at once.
const CODES: usize = 16;
/// Browser sessions that may be open at once; the oldest goes.
const SESSIONS: usize = 64;
/// The largest frame of a client, in bytes (a message has at most 8 MiB, more as JSON).
const FRAME_BYTES: usize = 20 * 1024 * 1024;
/// Requests of one connection that run at once; further ones wait.
const REQUESTS: usize = 32;
/// Frames that may wait for a client to take them.
const OUTGOING: usize = 256;

/// What the routes share.
#[derive(Clone)]
pub struct Served(Arc<Inner>);

struct Inner {
    engine: Engine,
    token: String,
    port: u16,
    /// The name of the browser's cookie: of this data folder alone, since cookies are shared by all ports of a host.
    cookie: String,
    codes: Mutex<HashMap<String, Instant>>,
    sessions: Mutex<Vec<String>>,
    clients: Clients,
}

/// A running server.
pub struct Server {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    /// The bearer token of other processes of this user (U9).
    pub token: String,
    /// Who is connected.
    pub(crate) clients: Clients,
    served: Served,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Listens on a free port of 127.0.0.1 and serves `engine`, with further routes merged in.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn start(engine: Engine, more: Router) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let cookie = format!("changeover_{}", launch::name_of(engine.data_folder()));
        let token = secret::token();
        let clients = Clients::default();
        let (codes, sessions) = (Mutex::default(), Mutex::default());
        let inner = Inner { engine, token, port, cookie, codes, sessions, clients: clients.clone() };
        let served = Served(Arc::new(inner));
        let app = router(&served, more);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the loopback server ended");
            }
        });
        Ok(Self { url: format!("http://127.0.0.1:{port}"), token: served.0.token.clone(), clients, served, task })
    }

    /// An address for a browser, with a new one-time code in its fragment, which no server and no log ever sees (U7).
    pub fn browser_address(&self) -> String {
        self.served.browser_address()
    }
}

impl Served {
    fn browser_address(&self) -> String {
        let code = secret::token();
        let mut codes = self.0.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, made| made.elapsed() < CODE_LIFE);
        if codes.len() >= CODES
            && let Some(oldest) = codes.iter().min_by_key(|(_, made)| **made).map(|(code, _)| code.clone())
        {
            codes.remove(&oldest);
        }
        codes.insert(code.clone(), Instant::now());
        format!("http://127.0.0.1:{}/#code={code}", self.0.port)
    }

    /// Bearer token, or a browser's cookie.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let text = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
        if let Some(token) = text(header::AUTHORIZATION).and_then(|v| v.strip_prefix("Bearer ")) {
            return secret::same(token, &self.0.token);
        }
        let sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let cookies = text(header::COOKIE).unwrap_or_default();
        cookies
            .split(';')
            .filter_map(|c| c.trim().strip_prefix(self.0.cookie.as_str())?.strip_prefix('='))
            .any(|value| sessions.iter().any(|known| secret::same(known, value)))
    }
}

fn router(served: &Served, more: Router) -> Router {
    Router::new()
        .route("/session", post(session))
        .route("/rpc", get(rpc))
        .route("/code", post(code))
        .fallback(get(page::file))
        .with_state(served.clone())
        .merge(more)
        .layer(middleware::map_response(secure))
        .layer(middleware::from_fn_with_state(served.0.port, guarded::layer))
}

async fn secure(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, page::POLICY.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    ] {
        headers.entry(name).or_insert(value);
    }
    response
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

/// A one-time code for a strict cookie.
async fn session(State(served): State<Served>, Json(given): Json<Code>) -> Response {
    let good = {
        let mut codes = served.0.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.remove(&given.code).is_some_and(|made| made.elapsed() < CODE_LIFE)
    };
    if !good {
        let hint = "This address was used already, or is too old. Run `changeover serve` for a new one.";
        return (StatusCode::FORBIDDEN, hint).into_response();
    }
    let token = secret::token();
    {
        let mut sessions = served.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS {
            sessions.remove(0);
        }
        sessions.push(token.clone());
    }
    let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", served.0.cookie);
    ([(header::SET_COOKIE, cookie)], Json(json!({}))).into_response()
}

/// A new address for a browser; for a second `changeover serve` (U9).
async fn code(State(served): State<Served>, headers: HeaderMap) -> Response {
    if !served.knows(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    Json(json!({ "address": served.browser_address() })).into_response()
}

async fn rpc(State(served): State<Served>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    if !served.knows(&headers) {
        return (StatusCode::UNAUTHORIZED, "Run `changeover serve` for an address.").into_response();
    }
    if served.0.clients.ending() {
        // Whoever has the data folder next is to be asked.
        return (StatusCode::SERVICE_UNAVAILABLE, "This Changeover is ending.").into_response();
    }
    upgrade
        .max_message_size(FRAME_BYTES)
        .max_frame_size(FRAME_BYTES)
        .on_upgrade(move |socket| converse(served.0.engine.clone(), served.0.clients.clone(), socket))
}

/// A request frame.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) params: Value,
}

/// One connection: requests are answered by id as they finish, events come in batches.
async fn converse(engine: Engine, clients: Clients, socket: WebSocket) {
    let Some(client) = clients.enter() else { return };
    let (mut sink, mut stream) = socket.split();
    let (outgoing, mut waiting) = mpsc::channel::<Value>(OUTGOING);
    let mut events = engine.hub().subscribe();
    let caller = Caller { subscriber: Some(events.id()), ..Caller::default() };
    let writer = tokio::spawn(async move {
        loop {
            let frame = tokio::select! {
                frame = waiting.recv() => frame,
                batch = events.next() => batch.map(|batch| json!({ "events": batch })),
            };
            // No more requests, or too slow for the events: the client comes back and reads what it missed.
            let Some(frame) = frame else { break };
            if sink.send(Message::Text(frame.to_string().into())).await.is_err() {
                break;
            }
        }
        let _ = sink.close().await;
    });
    let running = Arc::new(Semaphore::new(REQUESTS));
    while let Some(Ok(message)) = stream.next().await {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => break,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => continue,
        };
        let asked: Asked = match serde_json::from_str(&text) {
            Ok(asked) => asked,
            Err(error) => {
                let error = ApiError::new(ErrorCode::BadRequest, format!("This is no request: {error}."));
                if outgoing.send(json!({ "id": null, "error": error })).await.is_err() {
                    break;
                }
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&running).acquire_owned().await else { break };
        let Some(running) = client.begin(&asked.method, &asked.params) else {
            let error = ApiError::new(ErrorCode::Closing, "This Changeover is ending.").hint("Run the command again.");
            if outgoing.send(json!({ "id": asked.id, "error": error })).await.is_err() {
                break;
            }
            continue;
        };
        let (engine, outgoing) = (engine.clone(), outgoing.clone());
        tokio::spawn(async move {
            let answer = match engine.dispatch(&asked.method, asked.params, &caller).await {
                Ok(result) => json!({ "id": asked.id, "result": result }),
                Err(error) => json!({ "id": asked.id, "error": error }),
            };
            let _ = outgoing.send(answer).await;
            drop((permit, running));
        });
        if writer.is_finished() {
            break;
        }
    }
    writer.abort();
}
