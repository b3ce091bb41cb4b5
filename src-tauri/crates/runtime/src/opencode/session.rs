//! An open OpenCode session: a conversation in the shared server, with an event stream of its own.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use changeover_core::{
    Millis,
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{
    failure,
    http::{CallError, EventLines, Http},
    normalize::{Act, Meaning, Normalizer, Phase},
    server::Lease,
};
use crate::session::{Answer, Prompt, Session};

/// How long a small request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long writing a prompt may take: the first one of a folder starts its plugins.
const WRITING: Duration = Duration::from_secs(60);
/// How long an interrupt waits for the turn to begin, and for its answer; R5's three seconds are the engine's.
const INTERRUPT: Duration = Duration::from_millis(1500);
/// How long a stopped turn has for its last words after the server says that nothing runs.
const LAST_WORDS: Duration = Duration::from_millis(700);
/// How long a turn that must end may take before the whole server is ended instead.
const FORCE: Duration = Duration::from_millis(1200);
/// What the model reads of a no: without words OpenCode would end the turn.
const DENIED: &str = "The user said no to this. Do not try it in another way: go on without it, or ask.";

/// What a session and its reader share.
pub(super) struct Shared {
    pub id: String,
    pub http: Http,
    pub lease: Lease,
    pub normalizer: Mutex<Normalizer>,
    pub phase: watch::Sender<Phase>,
    /// True from when it is to end.
    pub closed: watch::Sender<bool>,
    pub events: mpsc::Sender<RuntimeEvent>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Normalizer) -> T) -> T {
        let mut normalizer = lock(&self.normalizer);
        let result = act(&mut normalizer);
        let phase = normalizer.phase();
        self.phase.send_if_modified(|old| std::mem::replace(old, phase) != phase);
        result
    }

    async fn tell(&self, events: Vec<RuntimeEvent>) {
        for event in events {
            // Nobody listens: the session is being dropped.
            let _ = self.events.send(event).await;
        }
    }

    async fn abort(&self) -> Result<(), CallError> {
        self.http.post(&format!("/session/{}/abort", self.id), &json!({}), INTERRUPT).await.map(drop)
    }

    /// Whether anything runs in this session, as the server knows it.
    async fn busy(&self, patience: Duration) -> Result<bool, CallError> {
        let running = self.http.get("/session/status", patience).await?;
        Ok(running.get(&self.id).is_some())
    }

    /// Reads to the end of the session, which is the last event.
    pub async fn read(self: Arc<Self>, mut lines: EventLines) {
        let mut closed = self.closed.subscribe();
        let lost = loop {
            let event = tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => break false,
                event = lines.next() => event,
            };
            match event {
                Some(event) => self.event(&event).await,
                None => break true,
            }
        };
        let process = &self.lease.process;
        let failure = if lost && tokio::time::timeout(LAST_WORDS, process.exited()).await.is_ok() {
            // What it started does not outlive it (R5).
            process.kill().await;
            process.exit_failure().await
        } else if lost {
            // Whatever still ran is heard of no more.
            let _ = self.abort().await;
            Failure::new(FailureKind::Exited, "OpenCode's event stream ended")
        } else {
            Failure::new(FailureKind::Exited, "The session was closed")
        };
        self.phase.send_replace(Phase::Idle);
        let _ = self.events.send(RuntimeEvent::Exited { failure }).await;
    }

    async fn event(self: &Arc<Self>, event: &Value) {
        let now = now();
        let (Meaning { events, act }, count) = self.with(|n| (n.event(event, now), n.count()));
        self.tell(events).await;
        match act {
            None => {}
            Some(Act::Abort) => {
                if let Err(error) = self.abort().await {
                    tracing::warn!(%error, "OpenCode could not be stopped");
                }
            }
            Some(Act::Ask) => {
                let busy = self.busy(PATIENCE).await.unwrap_or(true);
                let events = self.with(|n| n.settled(count, busy));
                self.tell(events).await;
            }
            Some(Act::Wait) => {
                let waiting = Arc::clone(self);
                tokio::spawn(async move {
                    tokio::time::sleep(LAST_WORDS).await;
                    let events = waiting.with(|n| n.settled(count, false));
                    waiting.tell(events).await;
                });
            }
        }
    }
}

/// An open session.
pub(super) struct OpenCodeSession {
    pub shared: Arc<Shared>,
    /// `(provider, model)`.
    pub model: Option<(String, String)>,
    pub effort: Option<String>,
    /// Our MCP server's name in this session's folder.
    pub mcp: Option<String>,
    /// Its own things in the server have been ended: the next opening of the same session may have begun.
    pub left: AtomicBool,
}

impl Drop for OpenCodeSession {
    fn drop(&mut self) {
        self.shared.closed.send_replace(true);
        let (shared, mcp) = (Arc::clone(&self.shared), self.mcp.take());
        if !self.left.swap(true, Ordering::SeqCst)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { part(&shared, mcp.as_deref()).await });
        }
    }
}

/// Ends what is this session's own in the server.
async fn part(shared: &Shared, mcp: Option<&str>) {
    if shared.lease.process.exit().is_some() {
        return;
    }
    if *shared.phase.borrow() != Phase::Idle {
        let _ = shared.abort().await;
    }
    if let Some(name) = mcp {
        let _ = shared.http.post(&format!("/mcp/{name}/disconnect"), &json!({}), PATIENCE).await;
    }
}

impl OpenCodeSession {
    async fn prompt(&self, prompt: Prompt) -> Result<(), Failure> {
        let shared = &self.shared;
        let mut body = json!({"parts": [{"type": "text", "text": prompt.text}]});
        if let Some((provider, model)) = &self.model {
            body["model"] = json!({"providerID": provider, "modelID": model});
        }
        if let Some(effort) = &self.effort {
            body["variant"] = json!(effort);
        }
        // Written all the same, OpenCode would answer both in one turn (R8).
        if !shared.with(Normalizer::sent) {
            return Err(Failure::new(FailureKind::Protocol, "A prompt is still out: OpenCode takes one at a time."));
        }
        let sent = shared.http.post(&format!("/session/{}/prompt_async", shared.id), &body, WRITING).await;
        match sent {
            Ok(_) => Ok(()),
            // Some of it went out, and what comes of it are events.
            Err(error @ (CallError::Lost(_) | CallError::Late)) => {
                tracing::warn!(%error, "OpenCode did not answer a prompt");
                Ok(())
            }
            Err(error) => {
                shared.with(Normalizer::unsent);
                Err(self.failure(&error).await)
            }
        }
    }

    async fn failure(&self, error: &CallError) -> Failure {
        let process = &self.shared.lease.process;
        match error {
            CallError::Unsent if process.exit().is_some() => process.exit_failure().await,
            error => failure::of_call(error),
        }
    }

    async fn stop(&self) -> Result<(), Failure> {
        let shared = &self.shared;
        // Before the turn has begun an interrupt is lost.
        let mut phase = shared.phase.subscribe();
        let _ = tokio::time::timeout(INTERRUPT, phase.wait_for(|phase| *phase != Phase::Sent)).await;
        shared.with(Normalizer::interrupting);
        match shared.abort().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failure(&error).await),
        }
    }

    async fn reply(&self, key: &str, answer: Answer) -> Result<(), Failure> {
        if !self.shared.with(|n| n.answer(key)) {
            return Ok(());
        }
        let body = match answer {
            Answer::Allow => json!({"reply": "once"}),
            Answer::Deny => json!({"reply": "reject", "message": DENIED}),
        };
        match self.shared.http.post(&format!("/permission/{key}/reply"), &body, PATIENCE).await {
            // It is no longer open.
            Ok(_) | Err(CallError::Refused { .. }) => Ok(()),
            Err(error) => Err(self.failure(&error).await),
        }
    }

    async fn leave(&self) {
        if !self.left.swap(true, Ordering::SeqCst) {
            part(&self.shared, self.mcp.as_deref()).await;
        }
        self.shared.closed.send_replace(true);
    }

    /// Stops what runs here; a server that does not, ends, and with it what other threads run in it.
    async fn force(&self) {
        let shared = &self.shared;
        let stopped = async {
            shared.abort().await?;
            while shared.busy(FORCE).await? {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<_, CallError>(())
        };
        match tokio::time::timeout(FORCE, stopped).await {
            Ok(Ok(())) => self.leave().await,
            _ => {
                shared.lease.process.kill().await;
                shared.closed.send_replace(true);
            }
        }
    }
}

impl Session for OpenCodeSession {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<(), Failure>> {
        self.prompt(prompt).boxed()
    }

    fn answer(&self, key: String, answer: Answer) -> BoxFuture<'_, Result<(), Failure>> {
        async move { self.reply(&key, answer).await }.boxed()
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), Failure>> {
        self.stop().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.leave().boxed()
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        self.force().boxed()
    }
}
