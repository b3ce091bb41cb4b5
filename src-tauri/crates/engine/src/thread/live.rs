//! Open sessions of a thread: at most one a provider, kept between turns so that a background command can finish and the next
//! turn need not start a process.

use std::{collections::HashMap, pin::Pin, sync::Arc};

use changeover_core::{
    Millis,
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
    provider::{ApprovalMode, ProviderId, Target},
    turn::state::ResumeAt,
};
use changeover_runtime::session::{Opened, Session};
use futures::{FutureExt, Stream, StreamExt, stream};
use tokio::task::JoinHandle;
use tokio_stream::{StreamMap, wrappers::ReceiverStream};

/// How long an idle session stays open, in milliseconds.
pub(super) const IDLE_MS: Millis = 10 * 60_000;

/// How many events are joined at most before the actor looks at its commands again.
const JOINED: usize = 256;

type Events = Pin<Box<dyn Stream<Item = RuntimeEvent> + Send>>;

/// A thread's open sessions and their events.
#[derive(Default)]
pub(super) struct Lives {
    sessions: HashMap<ProviderId, Live>,
    events: StreamMap<ProviderId, Events>,
    closing: HashMap<ProviderId, JoinHandle<()>>,
    /// Came while text was joined, and is next.
    held: Option<(ProviderId, RuntimeEvent)>,
}

/// One open session.
pub(super) struct Live {
    pub(super) session: Arc<dyn Session>,
    pub(super) session_id: Option<String>,
    pub(super) used_at: Millis,
    pub(super) token: Option<String>,
    opened_for: OpenedFor,
}

/// What a session was opened with and cannot change while it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenedFor {
    model: Option<String>,
    effort: Option<String>,
    mode: ApprovalMode,
}

impl OpenedFor {
    pub(super) fn of(target: &Target) -> Self {
        // In `All` the app answers yes itself (R4): for the CLI it is `Ask`.
        let mode = if target.mode == ApprovalMode::All { ApprovalMode::Ask } else { target.mode };
        Self { model: target.model.clone(), effort: target.effort.clone(), mode }
    }
}

impl Lives {
    /// The open session that can take this turn as it is.
    pub(super) fn usable(&self, target: &Target, resume: Option<&ResumeAt>) -> bool {
        let Some(live) = self.sessions.get(&target.provider) else { return false };
        // Brought back to an anchor, or new: what a process has in memory is not that.
        let Some(resume) = resume.filter(|r| !r.rewind) else { return false };
        live.session_id.as_ref() == Some(&resume.session_id) && live.opened_for == OpenedFor::of(target)
    }

    pub(super) fn add(
        &mut self,
        target: &Target,
        opened: Opened,
        session_id: Option<String>,
        token: Option<String>,
        now: Millis,
    ) {
        let provider = target.provider.clone();
        let last = RuntimeEvent::Exited {
            failure: Failure::new(FailureKind::Exited, format!("{} ended without a word.", provider.display_name())),
        };
        let events: Events = Box::pin(ReceiverStream::new(opened.events).chain(stream::iter([last])));
        self.held = self.held.take().filter(|(whose, _)| *whose != provider);
        self.events.insert(provider.clone(), events);
        let live = Live { session: opened.session, session_id, used_at: now, token, opened_for: OpenedFor::of(target) };
        self.sessions.insert(provider, live);
    }

    pub(super) fn get(&self, provider: &ProviderId) -> Option<&Live> {
        self.sessions.get(provider)
    }

    pub(super) fn get_mut(&mut self, provider: &ProviderId) -> Option<&mut Live> {
        self.sessions.get_mut(provider)
    }

    /// Takes a session out; its later events are nobody's.
    pub(super) fn take(&mut self, provider: &ProviderId) -> Option<Live> {
        self.held = self.held.take().filter(|(whose, _)| whose != provider);
        self.events.remove(provider);
        self.sessions.remove(provider)
    }

    /// Ends a session in the background; the next one of the same provider waits for it.
    pub(super) fn close(&mut self, provider: &ProviderId) -> Option<Live> {
        let live = self.take(provider)?;
        let session = Arc::clone(&live.session);
        let before = self.closing.remove(provider);
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            session.close().await;
        });
        self.closing.insert(provider.clone(), task);
        Some(live)
    }

    /// What must end before the provider's next session opens.
    pub(super) fn closing(&mut self, provider: &ProviderId) -> Option<JoinHandle<()>> {
        self.closing.remove(provider)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(super) fn providers(&self) -> Vec<ProviderId> {
        self.sessions.keys().cloned().collect()
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = (&ProviderId, &Live)> {
        self.sessions.iter()
    }

    /// The next event of any session, text that came together as one; never, while there is none. Cancel-safe.
    pub(super) async fn next(&mut self) -> (ProviderId, RuntimeEvent) {
        let first = match self.held.take() {
            Some(held) => Some(held),
            None => self.events.next().await,
        };
        let Some((provider, mut event)) = first else { return std::future::pending().await };
        if event.appends() {
            for _ in 0..JOINED {
                let Some(Some((whose, next))) = self.events.next().now_or_never() else { break };
                let apart = if whose == provider { event.join(next) } else { Some(next) };
                if let Some(apart) = apart {
                    self.held = Some((whose, apart));
                    break;
                }
            }
        }
        (provider, event)
    }

    /// Ends all sessions and waits for it.
    pub(super) async fn close_all(&mut self) {
        for provider in self.providers() {
            self.close(&provider);
        }
        for (_, task) in self.closing.drain() {
            let _ = task.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use changeover_runtime::session::{Answer, Prompt};
    use futures::future::BoxFuture;
    use tokio::sync::mpsc;

    use super::*;

    struct Still;

    impl Session for Still {
        fn send(&self, _: Prompt) -> BoxFuture<'_, Result<(), Failure>> {
            Box::pin(async { Ok(()) })
        }
        fn answer(&self, _: String, _: Answer) -> BoxFuture<'_, Result<(), Failure>> {
            Box::pin(async { Ok(()) })
        }
        fn interrupt(&self) -> BoxFuture<'_, Result<(), Failure>> {
            Box::pin(async { Ok(()) })
        }
        fn close(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
        fn kill(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    fn open(lives: &mut Lives, provider: ProviderId) -> mpsc::Sender<RuntimeEvent> {
        let (sender, events) = mpsc::channel(16);
        let target = Target { provider, model: None, effort: None, mode: ApprovalMode::Ask };
        lives.add(&target, Opened { session: Arc::new(Still), events }, None, None, 0);
        sender
    }

    fn text(item: &str, delta: &str) -> RuntimeEvent {
        RuntimeEvent::Text { item: item.into(), delta: delta.into() }
    }

    #[tokio::test]
    async fn text_that_came_together_is_one_event_and_all_else_keeps_its_place() {
        let mut lives = Lives::default();
        let sender = open(&mut lives, ProviderId::claude());
        for event in [text("a", "1"), text("a", "2"), text("b", "3"), RuntimeEvent::Taken, text("b", "4")] {
            sender.send(event).await.unwrap();
        }
        for expected in [text("a", "12"), text("b", "3"), RuntimeEvent::Taken, text("b", "4")] {
            assert_eq!(lives.next().await, (ProviderId::claude(), expected));
        }
        drop(sender);
        assert!(matches!(lives.next().await, (_, RuntimeEvent::Exited { .. })));
    }

    #[tokio::test]
    async fn what_a_session_said_is_nobodys_once_it_is_taken_out() {
        let mut lives = Lives::default();
        let sender = open(&mut lives, ProviderId::claude());
        for event in [text("a", "1"), RuntimeEvent::Taken] {
            sender.send(event).await.unwrap();
        }
        assert_eq!(lives.next().await, (ProviderId::claude(), text("a", "1")));
        lives.take(&ProviderId::claude());
        assert_eq!(lives.next().now_or_never(), None);
        let sender = open(&mut lives, ProviderId::claude());
        sender.send(text("a", "2")).await.unwrap();
        assert_eq!(lives.next().await, (ProviderId::claude(), text("a", "2")));
    }
}
