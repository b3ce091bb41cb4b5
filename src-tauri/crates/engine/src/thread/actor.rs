//! A thread's actor: one task, commands before the driver's answers before events, so that Stop is never overloaded.

use std::{sync::Arc, time::Duration};

use changeover_core::{
    Millis,
    event::RuntimeEvent,
    id::{MessageId, ThreadId},
    notice::Handover,
    provider::{ProviderId, Target},
    seq::Seq,
    transition::Transition,
    turn::{
        self,
        record::Queued,
        state::{Input, OpenTurn, Outlook, Response, ThreadState},
    },
};
use tokio::sync::{mpsc, oneshot};

use super::{
    drive::Report,
    live::{IDLE_MS, Lives},
    prepare, show,
};
use crate::{
    api::{
        error::{ApiError, ErrorCode},
        types::{SessionView, TurnView},
    },
    clock,
    engine::Inner,
};

/// Commands that may wait for one thread.
const REQUESTS_BOUND: usize = 64;
/// Reports of the driver that may wait; each is answered to one effect, so there are never many.
const REPORTS_BOUND: usize = 64;
/// An actor with nothing to do ends after this long.
const UNLOAD: Duration = Duration::from_secs(300);

/// What can be asked of a thread's actor.
pub(crate) enum Request {
    /// An input for `step`, answered by its `Respond`.
    Input(Input, oneshot::Sender<Response>),
    /// `turn/start`: sends if what would be told is what was previewed.
    Start(Start, oneshot::Sender<Result<Started, ApiError>>),
    /// What the next turn would be, or that of a message that is sent again.
    Preview(Target, Option<Seq>, oneshot::Sender<Result<Preview, ApiError>>),
    /// What is live, after all that was shown is on disk.
    Snapshot(oneshot::Sender<Snapshot>),
    /// Ends the provider's session, unless a turn is open on it; says whether none is.
    Retire(ProviderId, oneshot::Sender<bool>),
    /// Ends all sessions; the actor ends too.
    Close(oneshot::Sender<()>),
}

/// A message to send.
pub(crate) struct Start {
    pub(crate) client_id: String,
    pub(crate) text: String,
    pub(crate) target: Option<Target>,
    pub(crate) preview_hash: Option<String>,
    /// An earlier message to send again (T8), with its number.
    pub(crate) again: Option<(MessageId, Seq)>,
}

/// What became of it.
pub(crate) enum Started {
    Response(Response),
    Changed(Box<Preview>),
}

/// What the next turn would be.
pub(crate) struct Preview {
    pub(crate) target: Target,
    pub(crate) transition: Transition,
    pub(crate) handover: Option<(Handover, String)>,
    pub(crate) hash: String,
}

/// What is live in a thread.
pub(crate) struct Snapshot {
    pub(crate) turn: Option<TurnView>,
    pub(crate) queue: Vec<Queued>,
    pub(crate) approvals: Vec<changeover_core::turn::record::Approval>,
    pub(crate) sessions: Vec<SessionView>,
    pub(crate) event: u64,
}

/// A thread's actor as seen from outside.
#[derive(Clone)]
pub(crate) struct Handle {
    requests: mpsc::Sender<Request>,
}

impl Handle {
    /// Asks; full is `overloaded`, gone is `None` (it has just been unloaded: ask the engine for a new one).
    pub(crate) async fn ask(&self, request: Request) -> Option<Result<(), ApiError>> {
        match self.requests.send_timeout(request, Duration::from_secs(5)).await {
            Ok(()) => Some(Ok(())),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => Some(Err(ApiError::new(
                ErrorCode::Overloaded,
                "This thread is busy with too many requests at once. Try again in a moment.",
            ))),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => None,
        }
    }

    /// Whether its task still runs.
    pub(crate) fn lives(&self) -> bool {
        !self.requests.is_closed()
    }
}

/// The actor itself; its effects are carried out in `drive`.
pub(super) struct Actor {
    pub(super) inner: Arc<Inner>,
    pub(super) thread: ThreadId,
    pub(super) state: ThreadState,
    pub(super) lives: Lives,
    pub(super) reports: mpsc::Sender<Report>,
    pub(super) response: Option<Response>,
    /// The store refused what `step` wanted: this actor ends and the thread is read afresh.
    pub(super) broken: bool,
    /// Whether an open turn was told.
    pub(super) working: bool,
}

/// Starts a thread's actor on what is on disk.
pub(crate) fn start(inner: Arc<Inner>, state: ThreadState) -> Handle {
    let (requests, mailbox) = mpsc::channel(REQUESTS_BOUND);
    let (reports, answers) = mpsc::channel(REPORTS_BOUND);
    let thread = state.thread;
    let actor =
        Actor { inner, thread, state, lives: Lives::default(), reports, response: None, broken: false, working: false };
    tokio::spawn(actor.run(mailbox, answers));
    Handle { requests }
}

impl Actor {
    async fn run(mut self, mut mailbox: mpsc::Receiver<Request>, mut answers: mpsc::Receiver<Report>) {
        self.input(Input::Recover).await;
        loop {
            if self.broken {
                self.inner.work.set(self.thread, false);
                self.lives.close_all().await;
                return;
            }
            // What is due comes before what is ready: an agent that never pauses would keep the clock from being heard, and
            // what was shown from the disk (S1).
            if self.state.wake_at().is_some_and(|at| at <= clock::now()) {
                self.input(Input::Tick).await;
                if self.broken {
                    continue;
                }
            }
            let sleep = self.sleep(clock::now());
            tokio::select! {
                biased;
                request = mailbox.recv() => {
                    let Some(request) = request else { return self.lives.close_all().await };
                    if self.request(request).await {
                        return;
                    }
                }
                Some(report) = answers.recv() => self.report(report).await,
                () = tokio::time::sleep(sleep) => {
                    if self.idle_out(clock::now()) {
                        // Nobody asked for five minutes. What is still in the mailbox is answered first.
                        mailbox.close();
                        while let Ok(request) = mailbox.try_recv() {
                            self.request(request).await;
                        }
                        return self.lives.close_all().await;
                    }
                    self.input(Input::Tick).await;
                }
                (provider, event) = self.lives.next() => self.event(provider, event).await,
            }
        }
    }

    /// How long until time alone has something to do.
    fn sleep(&self, now: Millis) -> Duration {
        let idle = self.lives.sessions().map(|(_, live)| live.used_at + IDLE_MS).min();
        match self.state.wake_at().into_iter().chain(idle).min() {
            Some(at) => Duration::from_millis(u64::try_from((at - now).max(1)).unwrap_or(1)),
            None => UNLOAD,
        }
    }

    /// Closes sessions that nobody has used for long; true when the actor itself has nothing left to do.
    fn idle_out(&mut self, now: Millis) -> bool {
        if self.state.turn.is_some() || self.state.wake_at().is_some() {
            return false;
        }
        if self.lives.is_empty() {
            return true;
        }
        let stale: Vec<ProviderId> = self
            .lives
            .sessions()
            .filter(|(provider, live)| {
                let works = self.state.late.keys().any(|(whose, _)| whose == *provider);
                !works && live.used_at + IDLE_MS <= now
            })
            .map(|(provider, _)| provider.clone())
            .collect();
        for provider in self.lives.providers() {
            if let Some(live) = self.lives.get_mut(&provider).filter(|live| live.used_at + IDLE_MS <= now) {
                live.used_at = now;
            }
        }
        for provider in stale {
            if let Some(live) = self.lives.close(&provider) {
                self.inner.revoke(live.token.as_deref());
            }
        }
        false
    }

    /// Lets `step` decide on an input and carries out what it says.
    pub(super) async fn input(&mut self, input: Input) {
        let effects = turn::step(&mut self.state, input, clock::now(), &mut clock::id);
        self.carry_out(effects).await;
        let working = self.state.turn.is_some();
        if std::mem::replace(&mut self.working, working) != working {
            self.inner.work.set(self.thread, working);
        }
    }

    async fn event(&mut self, provider: ProviderId, event: RuntimeEvent) {
        if let Some(live) = self.lives.get_mut(&provider) {
            live.used_at = clock::now();
            match &event {
                RuntimeEvent::SessionKnown { session_id, .. } => live.session_id = Some(session_id.clone()),
                RuntimeEvent::Context(figure) => self.inner.learn_window(&self.state.target, &provider, *figure),
                RuntimeEvent::Raw { kind } => {
                    tracing::debug!(%provider, kind, "unknown frame");
                    self.inner.trouble.unknown(&provider, kind);
                }
                RuntimeEvent::Exited { failure } => {
                    tracing::info!(%provider, reason = %failure.message, "agent ended");
                    if let Some(gone) = self.lives.take(&provider) {
                        self.inner.revoke(gone.token.as_deref());
                    }
                }
                _ => {}
            }
        }
        self.input(Input::Event { provider, event }).await;
    }

    /// Answers a request; true when the actor is to end.
    async fn request(&mut self, request: Request) -> bool {
        match request {
            Request::Input(input, reply) => {
                self.input(input).await;
                let _ = reply.send(self.response.take().unwrap_or(Response::Done));
            }
            Request::Start(start, reply) => {
                let started = self.start_turn(start).await;
                let _ = reply.send(started);
            }
            Request::Preview(target, again, reply) => {
                let preview = self.preview(target, again).await;
                let _ = reply.send(preview);
            }
            Request::Snapshot(reply) => {
                self.input(Input::Flush).await;
                let _ = reply.send(self.snapshot());
            }
            Request::Retire(provider, reply) => {
                let idle = self.state.turn.as_ref().is_none_or(|turn| turn.record.target.provider != provider);
                if idle && let Some(live) = self.lives.close(&provider) {
                    self.inner.revoke(live.token.as_deref());
                    self.input(super::drive::gone(provider)).await;
                }
                let _ = reply.send(idle);
            }
            Request::Close(reply) => {
                self.input(Input::Flush).await;
                self.lives.close_all().await;
                let _ = reply.send(());
                return true;
            }
        }
        false
    }

    async fn start_turn(&mut self, start: Start) -> Result<Started, ApiError> {
        let target = start.target.unwrap_or_else(|| self.state.target.clone());
        if let Some(seen) = start.preview_hash
            && self.state.turn.is_none()
            && self.state.queue.is_empty()
        {
            let preview = self.preview(target.clone(), start.again.map(|(_, seq)| seq)).await?;
            if preview.hash != seen {
                return Ok(Started::Changed(Box::new(preview)));
            }
        }
        let input = match start.again {
            None => Input::Send { client_id: start.client_id, text: start.text, target },
            Some((message, seq)) => Input::Again { client_id: start.client_id, message, seq, text: start.text, target },
        };
        self.input(input).await;
        Ok(Started::Response(self.response.take().unwrap_or(Response::Done)))
    }

    /// What the next turn would be, by the same functions as the turn itself; `again`: that of a message that is sent again.
    async fn preview(&mut self, target: Target, again: Option<Seq>) -> Result<Preview, ApiError> {
        let Outlook { transition, scope, from } = match again {
            None => self.state.outlook(&target.provider, self.state.next_seq),
            Some(message) => self.state.outlook_again(&target.provider, message),
        };
        let handover = prepare::handover(&self.inner, self.thread, &target, transition, scope, from)
            .await
            .map_err(|failure| ApiError::new(ErrorCode::Internal, failure.message))?;
        let hash = prepare::preview_hash(&target, transition.kind, handover.as_ref().map(|(h, _)| h));
        Ok(Preview { target, transition, handover, hash })
    }

    fn snapshot(&self) -> Snapshot {
        let turn = self.state.turn.as_ref();
        Snapshot {
            turn: turn.map(|t: &OpenTurn| show::turn_view(&t.record, t.retry.as_ref())),
            queue: self.state.queue.clone(),
            approvals: turn.map(|t| t.approvals.clone()).unwrap_or_default(),
            sessions: self.state.sessions.values().map(show::session_view).collect(),
            event: self.inner.hub.number(self.thread),
        }
    }
}
