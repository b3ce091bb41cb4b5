//! One app server: requests and their answers, and the task that reads what it says.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use changeover_core::{
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    process::ChildStdout,
    sync::{mpsc, oneshot, watch},
};

use super::{
    failure,
    normalize::{Act, Meaning, Normalizer, Phase},
    wire::{Frame, RpcError},
};
use crate::process::{
    Process,
    lines::{JsonWriter, Line, LineReader},
};

/// How long the pipe of an ended process is still read: a grandchild may hold it for ever.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How many notifications are kept that come before the thread is known.
const HELD: usize = 256;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("{}", .0.message)]
    Refused(RpcError),
    #[error("the process is gone")]
    Gone,
    #[error("no answer in time")]
    Late,
}

enum Waiting {
    Call(oneshot::Sender<Result<Value, RpcError>>),
    /// The answer to a prompt: its error is the turn's end.
    Turn,
    /// Nobody waits.
    Nobody,
}

#[derive(Default)]
struct Requests {
    last: u64,
    waiting: HashMap<u64, Waiting>,
    gone: bool,
}

/// The thread's stream, and what came before the thread was known.
#[derive(Default)]
struct Stream {
    normalizer: Option<Normalizer>,
    held: Vec<(String, Box<RawValue>)>,
}

/// Talks to one app server.
pub(super) struct Client {
    writer: JsonWriter,
    requests: Mutex<Requests>,
    stream: Mutex<Stream>,
    phase: watch::Sender<Phase>,
    thread: Mutex<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Serialize)]
struct Request<'a> {
    id: u64,
    method: &'a str,
    params: Value,
}

impl Client {
    pub fn new(writer: JsonWriter) -> Self {
        let (phase, _) = watch::channel(Phase::Idle);
        Self { writer, requests: Mutex::default(), stream: Mutex::default(), phase, thread: Mutex::default() }
    }

    /// The open thread's id; empty before.
    pub fn thread(&self) -> String {
        lock(&self.thread).clone()
    }

    /// Where the outstanding prompt stands, and every change of it.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// From now on notifications are of this thread; what came before is returned. `stale`: the figures in it are of a
    /// history that has been cut since.
    pub fn opened(&self, thread: String, normalizer: Normalizer, stale: bool) -> Vec<RuntimeEvent> {
        *lock(&self.thread) = thread;
        let mut stream = lock(&self.stream);
        let held = std::mem::take(&mut stream.held);
        let normalizer = stream.normalizer.insert(normalizer);
        let said = held.into_iter().flat_map(|(method, params)| normalizer.note(&method, &params).events);
        said.filter(|event| !(stale && matches!(event, RuntimeEvent::Context(_)))).collect()
    }

    /// The thread's stream.
    pub fn with<T>(&self, act: impl FnOnce(&mut Normalizer) -> T) -> Option<T> {
        let mut stream = lock(&self.stream);
        let normalizer = stream.normalizer.as_mut()?;
        let result = act(normalizer);
        let phase = normalizer.phase();
        self.phase.send_if_modified(|old| std::mem::replace(old, phase.clone()) != phase);
        Some(result)
    }

    fn number(&self, waiting: Waiting) -> Option<u64> {
        let mut requests = lock(&self.requests);
        if requests.gone {
            return None;
        }
        requests.last += 1;
        let id = requests.last;
        requests.waiting.insert(id, waiting);
        Some(id)
    }

    async fn request(&self, waiting: Waiting, method: &str, params: Value) -> io::Result<()> {
        let id = self.number(waiting).ok_or(io::ErrorKind::BrokenPipe)?;
        let written = self.writer.write(&Request { id, method, params }).await;
        if written.is_err() {
            lock(&self.requests).waiting.remove(&id);
        }
        written
    }

    /// Asks and waits for the answer.
    pub async fn call(&self, method: &str, params: Value, patience: Duration) -> Result<Value, CallError> {
        let (answered, answer) = oneshot::channel();
        let work = async {
            self.request(Waiting::Call(answered), method, params).await.map_err(|_| CallError::Gone)?;
            answer.await.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)
        };
        tokio::time::timeout(patience, work).await.unwrap_or(Err(CallError::Late))
    }

    /// Says something that has no answer.
    pub async fn notify(&self, method: &str) -> io::Result<()> {
        self.writer.write(&json!({"method": method})).await
    }

    /// Writes a prompt: `Ok` when its bytes left us. What comes of it are events.
    pub async fn prompt(&self, params: Value) -> io::Result<()> {
        self.request(Waiting::Turn, "turn/start", params).await
    }

    /// Asks for something whose answer nobody waits for.
    async fn order(&self, method: &str, params: Value) {
        if let Err(error) = self.request(Waiting::Nobody, method, params).await {
            tracing::debug!(%error, method, "codex could not be asked");
        }
    }

    /// Answers a question of the app server's.
    pub async fn respond(&self, id: &Value, result: &Value) -> io::Result<()> {
        self.writer.write(&json!({"id": id, "result": result})).await
    }

    /// Closes its standard input: it ends by itself, and what it runs with it.
    pub async fn close(&self) {
        self.writer.close().await;
    }

    fn end(&self) {
        let mut requests = lock(&self.requests);
        requests.gone = true;
        requests.waiting.clear();
        drop(requests);
        self.phase.send_replace(Phase::Idle);
    }

    /// Commands that outlive their turn are the session's: end them all.
    pub async fn end_commands(&self) {
        self.order("thread/backgroundTerminals/clean", json!({"threadId": self.thread()})).await;
    }

    async fn frame(&self, frame: Frame) -> Vec<RuntimeEvent> {
        let Frame { id, method, params, result, error } = frame;
        match (id, method) {
            (Some(id), Some(method)) => self.question(id, &method, params).await,
            (None, Some(method)) => self.note(method, params).await,
            (Some(id), None) => {
                let answer = match error {
                    Some(error) => Err(error),
                    None => Ok(result.unwrap_or_default()),
                };
                self.answered(&id, answer)
            }
            (None, None) => vec![RuntimeEvent::Raw { kind: "a frame without id and method".into() }],
        }
    }

    fn answered(&self, id: &Value, answer: Result<Value, RpcError>) -> Vec<RuntimeEvent> {
        let waiting = id.as_u64().and_then(|id| lock(&self.requests).waiting.remove(&id));
        match waiting {
            Some(Waiting::Call(call)) => {
                // Nobody waits any more when the caller gave up.
                let _ = call.send(answer);
                Vec::new()
            }
            Some(Waiting::Turn) => {
                let meaning = self.with(|normalizer| normalizer.started(answer.as_ref()));
                meaning.map(|meaning| meaning.events).unwrap_or_default()
            }
            Some(Waiting::Nobody) => Vec::new(),
            None => vec![RuntimeEvent::Raw { kind: "an answer to nothing".into() }],
        }
    }

    async fn note(&self, method: String, params: Option<Box<RawValue>>) -> Vec<RuntimeEvent> {
        let Some(params) = params else { return vec![RuntimeEvent::Raw { kind: method }] };
        let Some(Meaning { events, act }) = self.with(|normalizer| normalizer.note(&method, &params)) else {
            let mut stream = lock(&self.stream);
            if stream.held.len() < HELD {
                stream.held.push((method, params));
            }
            return Vec::new();
        };
        match act {
            Some(Act::StopTurn(turn)) => {
                self.order("turn/interrupt", json!({"threadId": self.thread(), "turnId": turn})).await;
            }
            Some(Act::EndCommands) => self.end_commands().await,
            None => {}
        }
        events
    }

    async fn question(&self, id: Value, method: &str, params: Option<Box<RawValue>>) -> Vec<RuntimeEvent> {
        let params = params.unwrap_or_default();
        let asked = self.with(|normalizer| normalizer.question(id.clone(), method, &params));
        let (meaning, reply) = asked.unwrap_or_else(|| (Meaning::default(), Some(Err(()))));
        let written = match reply {
            Some(Ok(result)) => self.respond(&id, &result).await,
            Some(Err(())) => {
                let error = json!({"code": -32601, "message": format!("{method} is not offered by this client")});
                self.writer.write(&json!({"id": id, "error": error})).await
            }
            None => Ok(()),
        };
        if let Err(error) = written {
            tracing::debug!(%error, method, "codex's question could not be answered");
        }
        meaning.events
    }

    /// Reads to the end of the process, which is the last event.
    pub async fn read(self: Arc<Self>, stdout: ChildStdout, process: Arc<Process>, events: mpsc::Sender<RuntimeEvent>) {
        let mut lines = LineReader::new(stdout);
        let mut ended = false;
        loop {
            let next = if ended {
                tokio::time::timeout(LAST_WORDS, lines.next()).await.unwrap_or(Ok(None))
            } else {
                tokio::select! {
                    biased;
                    next = lines.next() => next,
                    _ = process.exited() => { ended = true; continue }
                }
            };
            let said = match next {
                Ok(Some(Line::Text(line))) if line.trim().is_empty() => continue,
                Ok(Some(Line::Text(line))) => match serde_json::from_str(&line) {
                    Ok(frame) => self.frame(frame).await,
                    Err(_) => vec![RuntimeEvent::Raw { kind: "a line that is no frame".into() }],
                },
                Ok(Some(Line::TooLong { bytes })) => {
                    vec![RuntimeEvent::Raw { kind: format!("a line of {bytes} bytes") }]
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "codex's output could not be read");
                    break;
                }
            };
            for event in said {
                // Nobody listens: the session is being dropped, and answers to its last requests are still wanted.
                let _ = events.send(event).await;
            }
        }
        self.end();
        // What it started does not outlive it (R5).
        process.kill().await;
        let failure = process.exit_failure().await;
        let _ = events.send(RuntimeEvent::Exited { failure }).await;
    }
}

/// What a request without a result means to a person.
pub(super) async fn failed(error: CallError, process: &Process) -> Failure {
    match error {
        CallError::Refused(error) => failure::of_rpc(&error),
        CallError::Gone => process.exit_failure().await,
        CallError::Late => Failure::new(FailureKind::Unavailable, "Codex does not answer"),
    }
}
