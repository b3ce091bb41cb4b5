//! A model API on loopback that the real CLIs accept: Anthropic Messages and OpenAI Responses.
//!
//! What it answers is chosen by directives in the newest user message (see [`script`]), by rules that a test sets,
//! and by gates that a test opens. Everything that arrives is recorded, so that a test can say what a CLI was told.
//!
//! ```no_run
//! # async fn demo() {
//! use changeover_tests::fake_api::{Failure, FakeApi, Rule};
//! let api = FakeApi::start().await;
//! api.put_text("answer", "a text that stands in no prompt"); // "[[text:answer]]" replies with it
//! api.rule(Rule { error: Failure::Status(529), count: 2, ..Rule::default() });
//! // … a CLI is pointed at api.base_url() and asked "hello [[gate:mid]]" …
//! api.wait_gate("mid").await; // its request is here and the first delta is on its way
//! api.open_gate("mid");
//! for request in api.turns() {
//!     println!("{} {:?} {:?}", request.n, request.session, request.messages());
//! }
//! assert!(api.strays().is_empty());
//! # }
//! ```

mod anthropic;
mod gates;
mod handle;
mod listener;
mod record;
mod request;
mod responses;
mod script;
mod stream;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::handler::Handler;
use tokio::sync::{oneshot, watch};

pub use record::{Kind, NonceRow, NonceTable, Recorded, Wire, nonce_table};
pub use request::NEW_MESSAGE_HEADING;
pub use script::Failure;

use gates::Gates;
use listener::{Cut, Wired};

/// How long a wait for a CLI may last before the test is stopped; far above what any CLI needs, on a busy machine too.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A rule set by a test: the next `count` matching requests fail in this way, whatever their text says.
///
/// A rule only ever meets requests that offer tools (the turns), unless `side_calls` is set.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Part of the path that must match; empty matches all.
    pub path: String,
    /// Text that the newest user message must hold; empty matches all.
    pub contains: String,
    /// Only requests of at least so many bytes.
    pub min_bytes: usize,
    /// How the request fails.
    pub error: Failure,
    /// Seconds to send as `retry-after`.
    pub retry_after: Option<u32>,
    /// How many requests the rule is good for.
    pub count: usize,
    /// Also meets requests that offer no tools (titles, summaries).
    pub side_calls: bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            path: String::new(),
            contains: String::new(),
            min_bytes: 0,
            error: Failure::Status(500),
            retry_after: None,
            count: 1,
            side_calls: false,
        }
    }
}

/// What the server's tasks and the test share.
pub(crate) struct Shared {
    log: Mutex<Vec<Arc<Recorded>>>,
    arrivals: watch::Sender<usize>,
    rules: Mutex<VecDeque<Rule>>,
    texts: Mutex<HashMap<String, String>>,
    attempts: Mutex<HashMap<String, usize>>,
    gates: Gates,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a task of the fake API panicked")
}

/// The running server. It has a thread and a runtime of its own, so a test may block; dropped, it is gone with every connection.
pub struct FakeApi {
    /// Where it listens: 127.0.0.1 and a port the system chose.
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeApi {
    /// Starts on a free port of 127.0.0.1; ready when it returns.
    pub async fn start() -> Self {
        Self::spawn()
    }

    /// The same for a test without a runtime.
    pub fn spawn() -> Self {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        socket.set_nonblocking(true).expect("a non-blocking socket");
        let addr = socket.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            log: Mutex::default(),
            arrivals: watch::Sender::new(0),
            rules: Mutex::default(),
            texts: Mutex::default(),
            attempts: Mutex::default(),
            gates: Gates::default(),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let state = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("fake-api".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async move {
                    let listener = Wired(tokio::net::TcpListener::from_std(socket).expect("a listener"));
                    let service = handle::handle
                        .with_state(state)
                        .into_make_service_with_connect_info::<Cut>();
                    tokio::select! {
                        _ = stopped => {}
                        ended = axum::serve(listener, service).into_future() => panic!("the fake API ended by itself: {ended:?}"),
                    }
                });
                // Dropping the runtime here ends every connection and every reply still held open.
            })
            .expect("a thread");
        Self { addr, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// `http://127.0.0.1:PORT`, as `ANTHROPIC_BASE_URL` wants it; OpenAI clients add `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Adds a rule; rules are tried in the order they were set.
    pub fn rule(&self, rule: Rule) {
        lock(&self.shared.rules).push_back(rule);
    }

    /// Takes away every rule that is not used up.
    pub fn clear_rules(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Keeps `text` under `key` for `[[text:KEY]]`: a reply that stands in no prompt, so that its nonce can be counted.
    pub fn put_text(&self, key: &str, text: &str) {
        lock(&self.shared.texts).insert(key.to_owned(), text.to_owned());
    }

    /// Waits until a request stands at the gate: for `[[gate:NAME]]` its first delta is sent, for `[[gate_before:NAME]]` nothing is.
    pub async fn wait_gate(&self, name: &str) {
        self.wait_gate_times(name, 1).await;
    }

    /// Waits until `times` requests have come to the gate (a CLI that retries comes again).
    pub async fn wait_gate_times(&self, name: &str, times: usize) {
        if tokio::time::timeout(PATIENCE, self.shared.gates.arrived(name, times)).await.is_err() {
            panic!("no request came to gate {name:?}; {}", self.summary());
        }
    }

    /// Opens a gate for all who wait there and all who come later.
    pub fn open_gate(&self, name: &str) {
        self.shared.gates.open(name);
    }

    /// Everything that arrived so far, in order.
    pub fn requests(&self) -> Vec<Arc<Recorded>> {
        lock(&self.shared.log).clone()
    }

    /// The requests that ask the model for a step of a turn (those that offer tools).
    pub fn turns(&self) -> Vec<Arc<Recorded>> {
        self.requests().into_iter().filter(|request| request.kind == Kind::Turn).collect()
    }

    /// Requests to unknown places, as `METHOD path`. With the proxy variables of [`crate::agents`] a call to any other host ends here too.
    pub fn strays(&self) -> Vec<String> {
        self.requests()
            .iter()
            .filter(|request| request.kind == Kind::Stray)
            .map(|request| format!("{} {}", request.method, request.path))
            .collect()
    }

    /// Waits for the first request (already here or still to come) that `wanted` accepts.
    pub async fn wait_request(&self, wanted: impl Fn(&Recorded) -> bool) -> Arc<Recorded> {
        let mut arrivals = self.shared.arrivals.subscribe();
        let found = async {
            loop {
                arrivals.borrow_and_update();
                if let Some(request) = self.requests().into_iter().find(|request| wanted(request)) {
                    return request;
                }
                arrivals.changed().await.expect("the fake API is up");
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(request) => request,
            Err(_) => panic!("the request waited for did not come; {}", self.summary()),
        }
    }

    fn summary(&self) -> String {
        let lines: Vec<String> = self
            .requests()
            .iter()
            .map(|request| format!("  {} {} {} {:?}", request.n, request.method, request.path, request.user_text))
            .collect();
        format!("{} requests so far:\n{}", lines.len(), lines.join("\n"))
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if ended.is_err() && !std::thread::panicking() {
                panic!("the fake API's thread panicked");
            }
        }
    }
}
