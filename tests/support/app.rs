//! The real app: `changeover serve` on a data folder of its own, spoken to over its WebSocket like any other client (U9).
//!
//! ```no_run
//! # async fn demo() {
//! use changeover_core::provider::ProviderId;
//! use changeover_tests::{agents::AgentHome, app::App, fake_api::FakeApi};
//! let api = FakeApi::start().await;
//! let home = AgentHome::new(&api);
//! let app = App::start(&home).await;
//! let thread = app.new_thread(&home.work()).await;
//! app.turn(thread, &ProviderId::claude(), "hello").await; // sent, and seen to its end
//! for message in app.messages(thread).await {
//!     println!("#{} {:?} {}", message.seq, message.state, message.text());
//! }
//! app.kill().await; // as kill -9; App::start on the same home finds everything again
//! # }
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use changeover_core::{
    id::{MessageId, ThreadId},
    message::{Message, Role},
    provider::{ApprovalMode, ProviderId, Target},
    session::SessionRecord,
};
use changeover_engine::{
    api::{
        error::ApiError,
        types::{
            Event, EventBody, EventWatchParams, HandoffPreviewParams, HandoffPreviewResponse, HandoffTextResponse,
            MessageParams, Nothing, PageAt, ProjectOpenParams, ProjectOpenResponse, ProviderListParams,
            ProviderListResponse, ProviderState, ProviderView, ThreadParams, ThreadReadParams, ThreadReadResponse,
            ThreadResponse, ThreadSessionsResponse, ThreadStartParams, TurnAgainParams, TurnStartParams,
            TurnStartResponse,
        },
    },
    lock::Address,
};
use futures::{SinkExt as _, StreamExt as _};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tokio_tungstenite::tungstenite::{Message as Frame, client::IntoClientRequest as _, http::HeaderValue};

use crate::{
    agents::{Agent, AgentHome},
    fake_api::PATIENCE,
};

type Answer = Result<Value, ApiError>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a task of the harness panicked")
}

/// The program under test: `CHANGEOVER_BIN`, else `changeover` in the folder that this test was built into.
///
/// # Panics
/// When it is not there: a test of the app is never skipped in silence.
pub fn binary() -> PathBuf {
    let path = match std::env::var_os("CHANGEOVER_BIN") {
        Some(given) => PathBuf::from(given),
        None => {
            let own = std::env::current_exe().expect("this test's own path");
            own.parent().and_then(Path::parent).expect("target/debug/deps").join("changeover")
        }
    };
    assert!(
        path.is_file(),
        "{} is missing: build it (`cargo build -p changeover-server`) or set CHANGEOVER_BIN",
        path.display()
    );
    path
}

/// How to start the app.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The data folder; else `data` in the home's own folder, the same at every start.
    pub data: Option<PathBuf>,
    /// Attempts of a turn (G16); else the rule's.
    pub max_attempts: Option<u32>,
    /// Further variables, over the home's.
    pub env: BTreeMap<String, String>,
}

/// A running app and a connection to it. Dropped, it is killed.
pub struct App {
    child: Child,
    /// The data folder.
    pub data: PathBuf,
    address: Address,
    client: Client,
    log: PathBuf,
}

/// One connection to an app.
#[derive(Clone)]
pub struct Client {
    next: Arc<AtomicU64>,
    outgoing: mpsc::UnboundedSender<String>,
    answers: Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>,
    events: Arc<Mutex<Vec<(Instant, Event)>>>,
    arrivals: watch::Receiver<usize>,
}

impl App {
    /// Starts the app in this home and connects; its data folder is `data` in the home's folder.
    pub async fn start(home: &AgentHome) -> Self {
        Self::start_with(home, Start::default()).await
    }

    /// Starts the app in this way.
    pub async fn start_with(home: &AgentHome, start: Start) -> Self {
        let data = start.data.unwrap_or_else(|| home.root().join("data"));
        let log = home.root().join("app.log");
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log");
        let mut command = Command::new(binary());
        command.arg("serve").arg("--data").arg(&data);
        if let Some(max) = start.max_attempts {
            command.arg("--max-attempts").arg(max.to_string());
        }
        let mut child = command
            .current_dir(home.home())
            .env_clear()
            .envs(home.env())
            .env("CHANGEOVER_NO_SHELL", "1")
            .envs(&start.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .expect("the app starts");
        // It prints its address once everything is up.
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let printed =
            timeout(PATIENCE, lines.next_line()).await.expect("the app says its address").expect("its stdout");
        let read_log = || std::fs::read_to_string(&log).unwrap_or_default();
        assert!(printed.is_some(), "the app ended at its start:\n{}", read_log());
        let text = std::fs::read_to_string(data.join("engine.json")).expect("engine.json");
        let address: Address = serde_json::from_str(&text).expect("an address");
        let client = Client::connect(&address).await;
        Self { child, data, address, client, log }
    }

    /// A connection to whatever engine has this data folder.
    pub async fn find(data: &Path) -> Client {
        let text = std::fs::read_to_string(data.join("engine.json")).expect("engine.json");
        Client::connect(&serde_json::from_str(&text).expect("an address")).await
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Where it can be reached.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A further connection, as a second window is.
    pub async fn connect(&self) -> Client {
        Client::connect(&self.address).await
    }

    /// Closes its connection and makes another, as when the window is closed and opened again.
    pub async fn reconnect(&mut self) {
        let (outgoing, _) = mpsc::unbounded_channel();
        // The last sender goes, and with it the connection.
        drop(std::mem::replace(&mut self.client.outgoing, outgoing));
        let mut arrivals = self.client.arrivals.clone();
        while arrivals.changed().await.is_ok() {}
        self.client = Client::connect(&self.address).await;
    }

    /// Its connection, which outlives it with all that was heard.
    pub fn connection(&self) -> Client {
        self.client.clone()
    }

    /// What it wrote to stderr so far, over all starts in this home.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// SIGKILL, as a crash.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it is killed");
    }

    /// Waits until it ends by itself (a fault point), whatever its status.
    pub async fn ended(mut self) {
        timeout(PATIENCE, self.child.wait()).await.expect("the app ends").expect("a status");
    }

    /// SIGTERM, and waits for its end in good order.
    pub async fn stop(mut self) {
        signal(self.pid(), rustix::process::Signal::TERM);
        let status = timeout(PATIENCE, self.child.wait()).await.expect("the app ends").expect("a status");
        assert!(status.success(), "the app ended with {status}:\n{}", self.log());
    }

    /// The database, opened to read only.
    pub fn database(&self) -> rusqlite::Connection {
        database(&self.data)
    }

    /// The app's children that run this CLI in this folder: its sessions, not the short-lived looks at version and login.
    pub fn agent_pids(&self, agent: Agent, folder: &Path) -> Vec<u32> {
        let (binary, app) = (agent.binary(), self.pid());
        let mut pids = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let link = |name: &str| std::fs::read_link(entry.path().join(name)).ok();
            let own = parent_of(pid) == Some(app);
            if own && link("exe").as_deref() == Some(&binary) && link("cwd").as_deref() == Some(folder) {
                pids.push(pid);
            }
        }
        pids
    }
}

impl std::ops::Deref for App {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A data folder's database, opened to read only; the app may run or not.
pub fn database(data: &Path) -> rusqlite::Connection {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    rusqlite::Connection::open_with_flags(data.join("changeover.db"), flags).expect("the database")
}

/// The live session records of a thread as the database has them, by provider.
pub fn session_records(database: &rusqlite::Connection, thread: ThreadId) -> BTreeMap<ProviderId, SessionRecord> {
    let mut statement = database
        .prepare(
            "SELECT record FROM provider_session WHERE live = 1 AND thread = (SELECT key FROM thread WHERE id = ?1)",
        )
        .expect("a statement");
    let records = statement.query_map([thread.0.as_bytes().as_slice()], |row| row.get::<_, String>(0)).expect("rows");
    records
        .map(|text| serde_json::from_str::<SessionRecord>(&text.expect("a row")).expect("a record"))
        .map(|record| (record.provider.clone(), record))
        .collect()
}

/// Overwrites a live session's record, as no app would: only while none runs on this data folder.
pub fn put_session(data: &Path, thread: ThreadId, record: &SessionRecord) {
    let database = rusqlite::Connection::open(data.join("changeover.db")).expect("the database");
    let text = serde_json::to_string(record).expect("a record");
    let sql = "UPDATE provider_session SET record = ?1, session_id = ?2
               WHERE live = 1 AND provider = ?3 AND thread = (SELECT key FROM thread WHERE id = ?4)";
    let thread = thread.0.as_bytes().as_slice();
    let changed = database.execute(sql, (text, &record.session_id, record.provider.as_str(), thread));
    assert_eq!(changed.expect("an update"), 1);
}

/// The parent of a process, while it lives.
pub fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// SIGKILL to one process, by its id.
pub fn kill_pid(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

/// SIGSTOP to one process, by its id: it lives, and takes nothing any more.
pub fn stop_pid(pid: u32) {
    signal(pid, rustix::process::Signal::STOP);
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("it runs");
}

impl Client {
    async fn connect(address: &Address) -> Self {
        let url = format!("{}/rpc", address.url.replacen("http://", "ws://", 1));
        let mut request = url.into_client_request().expect("an address");
        let bearer = HeaderValue::from_str(&format!("Bearer {}", address.token)).expect("a token");
        request.headers_mut().insert("authorization", bearer);
        let (socket, _) = tokio_tungstenite::connect_async(request).await.expect("the app takes connections");
        let (mut sink, mut stream) = socket.split();
        let (outgoing, mut waiting) = mpsc::unbounded_channel::<String>();
        let answers: Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>> = Arc::default();
        let events: Arc<Mutex<Vec<(Instant, Event)>>> = Arc::default();
        let (arrived, arrivals) = watch::channel(0);
        let (open, seen) = (Arc::clone(&answers), Arc::clone(&events));
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    text = waiting.recv() => {
                        let Some(text) = text else { break };
                        if sink.send(Frame::Text(text.into())).await.is_err() {
                            break;
                        }
                    }
                    frame = stream.next() => {
                        let Some(Ok(frame)) = frame else { break };
                        let Frame::Text(text) = frame else { continue };
                        let mut frame: Value = serde_json::from_str(&text).expect("a frame is JSON");
                        if let Some(batch) = frame.get_mut("events").map(Value::take) {
                            let batch: Vec<Event> = serde_json::from_value(batch).expect("events are typed");
                            let mut seen = lock(&seen);
                            let now = Instant::now();
                            seen.extend(batch.into_iter().map(|event| (now, event)));
                            arrived.send_replace(seen.len());
                            continue;
                        }
                        let asked = frame["id"].as_u64().and_then(|id| lock(&open).remove(&id));
                        if let Some(asked) = asked {
                            let answer = match frame.get_mut("error").map(Value::take) {
                                Some(error) => Err(serde_json::from_value(error).expect("an error is typed")),
                                None => Ok(frame["result"].take()),
                            };
                            let _ = asked.send(answer);
                        }
                    }
                }
            }
            lock(&open).clear();
        });
        Self { next: Arc::new(AtomicU64::new(1)), outgoing, answers, events, arrivals }
    }

    /// Asks, and gives what the API answers. `None`: the connection ended first (the app is gone).
    pub async fn try_ask<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Option<Result<R, ApiError>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        lock(&self.answers).insert(id, sender);
        let asked = json!({"id": id, "method": method, "params": params});
        self.outgoing.send(asked.to_string()).ok()?;
        let answer = timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("no answer to {method}")).ok()?;
        Some(
            answer.map(|result| {
                serde_json::from_value(result).unwrap_or_else(|why| panic!("the answer to {method}: {why}"))
            }),
        )
    }

    /// Asks, and gives what the API answers.
    ///
    /// # Errors
    /// The API's own.
    pub async fn ask<R: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> Result<R, ApiError> {
        self.try_ask(method, params).await.unwrap_or_else(|| panic!("the app ended before it answered {method}"))
    }

    /// Asks for what must work.
    pub async fn get<R: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> R {
        self.ask(method, params).await.unwrap_or_else(|error| panic!("{method}: {error:?}"))
    }

    /// How many events have come: where [`Client::event_from`] begins to look.
    pub fn mark(&self) -> usize {
        lock(&self.events).len()
    }

    /// All events from a mark on.
    pub fn events_from(&self, mark: usize) -> Vec<Event> {
        lock(&self.events)[mark..].iter().map(|(_, event)| event.clone()).collect()
    }

    /// The same, each with the moment at which it came.
    pub fn heard_from(&self, mark: usize) -> Vec<(Instant, Event)> {
        lock(&self.events)[mark..].to_vec()
    }

    /// The first event from a mark on (there already or still to come) that `wanted` accepts.
    pub async fn event_from(&self, mark: usize, wanted: impl Fn(&Event) -> bool) -> Event {
        let event = self.try_event_from(mark, wanted).await;
        event.expect("the app ended before the event that was waited for")
    }

    /// The same; `None`: the connection ended first.
    pub async fn try_event_from(&self, mark: usize, wanted: impl Fn(&Event) -> bool) -> Option<Event> {
        let mut arrivals = self.arrivals.clone();
        let found = async {
            let mut at = mark;
            loop {
                arrivals.borrow_and_update();
                {
                    let events = lock(&self.events);
                    if let Some((_, event)) = events[at..].iter().find(|(_, event)| wanted(event)) {
                        return Some(event.clone());
                    }
                    at = events.len();
                }
                if arrivals.changed().await.is_err() {
                    return None;
                }
            }
        };
        match timeout(PATIENCE * 2, found).await {
            Ok(event) => event,
            Err(_) => {
                let tail = self.events_from(mark);
                let tail = &tail[tail.len().saturating_sub(20)..];
                panic!("the event did not come; the last ones: {tail:#?}")
            }
        }
    }

    /// Waits until this provider is not being looked for any more; how it then stands.
    pub async fn provider(&self, provider: &ProviderId) -> ProviderView {
        let of = |list: &[ProviderView]| {
            list.iter().find(|p| p.id == *provider && p.state != ProviderState::Looking).cloned()
        };
        let mark = self.mark();
        let list: ProviderListResponse = self.get("provider/list", &ProviderListParams { refresh: false }).await;
        if let Some(view) = of(&list.providers) {
            return view;
        }
        let event = self
            .event_from(mark, |e| matches!(&e.body, EventBody::Providers { providers } if of(providers).is_some()))
            .await;
        match event.body {
            EventBody::Providers { providers } => of(&providers).expect("it was there"),
            _ => unreachable!("only such an event was wanted"),
        }
    }

    /// Opens this folder and starts an empty thread in it, watched by this connection.
    pub async fn new_thread(&self, folder: &Path) -> ThreadId {
        let path = folder.to_str().expect("a plain path").to_owned();
        let opened: ProjectOpenResponse = self.get("project/open", &ProjectOpenParams { path }).await;
        let params = ThreadStartParams { project_id: opened.project.id, target: None };
        let started: ThreadResponse = self.get("thread/start", &params).await;
        self.watch(&[started.thread.id]).await;
        started.thread.id
    }

    /// Hears what streams in these threads, and in no others.
    pub async fn watch(&self, threads: &[ThreadId]) {
        let _: Nothing = self.get("event/watch", &EventWatchParams { thread_ids: threads.to_vec() }).await;
    }

    /// Sends a message and gives the message's id once its turn has begun.
    pub async fn send(&self, thread: ThreadId, target: Target, text: &str) -> MessageId {
        started(self.get("turn/start", &message(thread, Some(target), text)).await)
    }

    /// Sends a message to a provider and waits until its turn has ended, in whatever way.
    pub async fn turn(&self, thread: ThreadId, provider: &ProviderId, text: &str) -> MessageId {
        let mark = self.mark();
        let sent = self.send(thread, target(provider), text).await;
        self.turn_ended(mark, thread).await;
        sent
    }

    /// Sends a refused or failed message again and waits until its turn has ended.
    pub async fn again(&self, thread: ThreadId, provider: &ProviderId, message: MessageId) {
        let mark = self.mark();
        self.begin_again(thread, provider, message).await;
        self.turn_ended(mark, thread).await;
    }

    /// Sends a refused or failed message again, on top of its preview: the turn tells exactly that (H1).
    pub async fn begin_again(&self, thread: ThreadId, provider: &ProviderId, message: MessageId) {
        let seen = self.preview_of(thread, provider, Some(message)).await;
        let params = TurnAgainParams {
            thread_id: thread,
            client_turn_id: uuid::Uuid::new_v4().to_string(),
            message_id: message,
            target: Some(target(provider)),
            preview_hash: Some(seen.hash),
        };
        let again = started(self.get("turn/again", &params).await);
        assert_eq!(again, message, "T8: it is sent as itself");
    }

    /// Waits for the first end of a turn after a mark.
    pub async fn turn_ended(&self, mark: usize, thread: ThreadId) {
        self.event_from(mark, |e| e.thread_id == Some(thread) && matches!(e.body, EventBody::Turn { turn: None }))
            .await;
    }

    /// Stops the open turn.
    pub async fn interrupt(&self, thread: ThreadId) {
        let _: Nothing = self.get("turn/interrupt", &ThreadParams { thread_id: thread }).await;
    }

    /// The newest page of a thread and what is live in it.
    pub async fn page(&self, thread: ThreadId) -> ThreadReadResponse {
        self.get("thread/read", &ThreadReadParams { thread_id: thread, at: PageAt::Newest, limit: None }).await
    }

    /// All messages of a thread, notices included, oldest first.
    pub async fn messages(&self, thread: ThreadId) -> Vec<Message> {
        let mut all: Vec<Message> = Vec::new();
        loop {
            let at = PageAt::After { seq: all.last().map_or(0, |m| m.seq) };
            let params = ThreadReadParams { thread_id: thread, at, limit: Some(200) };
            let page: ThreadReadResponse = self.get("thread/read", &params).await;
            assert!(page.cuts.is_empty(), "a text was given in short");
            all.extend(page.messages);
            if !page.has_after {
                return all;
            }
        }
    }

    /// The newest reply of a thread.
    pub async fn last_reply(&self, thread: ThreadId) -> Message {
        let messages = self.messages(thread).await;
        messages.into_iter().rev().find(|m| m.role == Role::Assistant).expect("a reply")
    }

    /// T6's sets of the thread's live sessions.
    pub async fn sessions(&self, thread: ThreadId) -> ThreadSessionsResponse {
        self.get("thread/sessions", &ThreadParams { thread_id: thread }).await
    }

    /// What the next turn will be, with the exact text (H1).
    pub async fn preview(&self, thread: ThreadId, provider: &ProviderId) -> HandoffPreviewResponse {
        self.preview_of(thread, provider, None).await
    }

    /// The same for a message that would be sent again (T8).
    pub async fn preview_of(
        &self,
        thread: ThreadId,
        provider: &ProviderId,
        message_id: Option<MessageId>,
    ) -> HandoffPreviewResponse {
        let target = Some(target(provider));
        let params = HandoffPreviewParams { thread_id: thread, target, message_id, with_text: true };
        self.get("handoff/preview", &params).await
    }

    /// The exact text of a handover's notice (X1).
    pub async fn handover_text(&self, thread: ThreadId, notice: MessageId) -> String {
        let params = MessageParams { thread_id: thread, message_id: notice };
        let text: HandoffTextResponse = self.get("handoff/text", &params).await;
        text.text
    }
}

/// A provider's default model; the agent may do everything without asking.
pub fn target(provider: &ProviderId) -> Target {
    Target { provider: provider.clone(), model: None, effort: None, mode: ApprovalMode::All }
}

/// The parameters for a message that was not previewed.
pub fn message(thread: ThreadId, target: Option<Target>, text: &str) -> TurnStartParams {
    TurnStartParams {
        thread_id: thread,
        client_turn_id: uuid::Uuid::new_v4().to_string(),
        text: text.to_owned(),
        target,
        preview_hash: None,
    }
}

/// The message of a turn that has begun.
pub fn started(response: TurnStartResponse) -> MessageId {
    match response {
        TurnStartResponse::Started { message_id, .. } => message_id,
        other => panic!("the turn did not begin: {other:?}"),
    }
}
