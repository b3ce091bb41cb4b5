//! The event hub: numbers a thread's events, joins text that streams (about 30 ms), fans out. A subscriber that cannot keep
//! up is let go: its connection ends, and on the way back it reads what it missed (DESIGN hop 8, 9).

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use changeover_core::id::ThreadId;
use tokio::sync::{Notify, mpsc};

use crate::api::types::{Event, EventBody};

/// How long text waits for more of it.
const JOIN: Duration = Duration::from_millis(30);
/// Batches that may wait for one subscriber.
const SUBSCRIBER_BOUND: usize = 1024;

/// Fans events out to windows, browsers and terminals.
#[derive(Clone)]
pub struct Hub(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    numbers: HashMap<ThreadId, u64>,
    waiting: Vec<Event>,
    subscribers: HashMap<u64, Subscriber>,
    next_subscriber: u64,
    watched: HashMap<ThreadId, usize>,
}

struct Subscriber {
    batches: mpsc::Sender<Vec<Event>>,
    watches: HashSet<ThreadId>,
}

/// One subscription; dropped, it ends.
pub struct Subscription {
    hub: Hub,
    id: u64,
    batches: mpsc::Receiver<Vec<Event>>,
}

impl Hub {
    /// A hub with its flusher running on the current runtime.
    pub fn start() -> Self {
        let hub = Self(Arc::new(Shared { state: Mutex::default(), wake: Notify::new() }));
        let shared = Arc::downgrade(&hub.0);
        tokio::spawn(async move {
            // Ends with the hub: the notifier is gone then.
            while let Some(alive) = shared.upgrade() {
                let woken = alive.wake.notified();
                tokio::pin!(woken);
                woken.as_mut().enable();
                if tokio::time::timeout(Duration::from_secs(60), woken).await.is_ok() {
                    tokio::time::sleep(JOIN).await;
                    Hub(alive).flush();
                }
            }
        });
        hub
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an event of a thread.
    pub fn publish(&self, thread: ThreadId, body: EventBody) {
        let mut state = self.lock();
        if let EventBody::Text { message_id, key, text } = &body
            && let Some(Event { thread_id: Some(t), body: EventBody::Text { message_id: m, key: k, text: joined }, .. }) =
                state.waiting.last_mut()
            && *t == thread
            && m == message_id
            && k == key
        {
            joined.push_str(text);
            return;
        }
        let n = state.numbers.entry(thread).or_default();
        *n += 1;
        let n = *n;
        let streams = matches!(body, EventBody::Text { .. });
        if !state.watched.contains_key(&thread) {
            return;
        }
        state.waiting.push(Event { thread_id: Some(thread), n, body });
        if streams {
            drop(state);
            self.0.wake.notify_one();
        } else {
            state.flush();
        }
    }

    /// Publishes something for everybody: a thread's summary, a project, the providers, the disk.
    pub fn announce(&self, thread: Option<ThreadId>, body: EventBody) {
        let mut state = self.lock();
        state.waiting.push(Event { thread_id: thread, n: 0, body });
        state.flush();
    }

    /// The number of the thread's last event; what streamed before is sent out first, so that nothing is shown twice.
    pub fn number(&self, thread: ThreadId) -> u64 {
        let mut state = self.lock();
        state.flush();
        state.numbers.get(&thread).copied().unwrap_or(0)
    }

    fn flush(&self) {
        self.lock().flush();
    }

    /// A new subscriber that watches no thread yet.
    pub fn subscribe(&self) -> Subscription {
        let (sender, batches) = mpsc::channel(SUBSCRIBER_BOUND);
        let mut state = self.lock();
        let id = state.next_subscriber;
        state.next_subscriber += 1;
        state.subscribers.insert(id, Subscriber { batches: sender, watches: HashSet::new() });
        drop(state);
        Subscription { hub: self.clone(), id, batches }
    }

    /// Sets the threads whose streams a subscriber wants.
    pub fn watch(&self, subscriber: u64, threads: HashSet<ThreadId>) {
        let mut state = self.lock();
        state.flush();
        if let Some(found) = state.subscribers.get_mut(&subscriber) {
            found.watches = threads;
        }
        state.count_watched();
    }
}

impl State {
    fn count_watched(&mut self) {
        self.watched.clear();
        for thread in self.subscribers.values().flat_map(|s| &s.watches) {
            *self.watched.entry(*thread).or_default() += 1;
        }
    }

    fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let events = std::mem::take(&mut self.waiting);
        let mut slow = Vec::new();
        for (id, subscriber) in &self.subscribers {
            let batch: Vec<Event> = events
                .iter()
                .filter(|e| e.n == 0 || e.thread_id.is_none_or(|t| subscriber.watches.contains(&t)))
                .cloned()
                .collect();
            if !batch.is_empty() && subscriber.batches.try_send(batch).is_err() {
                slow.push(*id);
            }
        }
        if !slow.is_empty() {
            self.subscribers.retain(|id, _| !slow.contains(id));
            self.count_watched();
        }
    }
}

impl Subscription {
    /// Its id, for [`Hub::watch`].
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The next events; `None` when the subscriber was too slow and has to come back.
    pub async fn next(&mut self) -> Option<Vec<Event>> {
        self.batches.recv().await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        state.subscribers.remove(&self.id);
        state.count_watched();
    }
}

#[cfg(test)]
mod tests {
    use changeover_core::id::MessageId;
    use uuid::Uuid;

    use super::*;

    fn text(message: MessageId, text: &str) -> EventBody {
        EventBody::Text { message_id: message, key: "a".into(), text: text.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn joins_text_and_numbers_without_gaps() {
        let (thread, other, message) =
            (ThreadId(Uuid::from_u128(1)), ThreadId(Uuid::from_u128(2)), MessageId(Uuid::from_u128(3)));
        let hub = Hub::start();
        let mut subscription = hub.subscribe();
        hub.watch(subscription.id(), HashSet::from([thread]));
        hub.publish(thread, text(message, "a"));
        hub.publish(thread, text(message, "b"));
        hub.publish(other, text(message, "not watched"));
        hub.publish(thread, EventBody::Warning { message: "w".into() });
        let events = subscription.next().await.unwrap();
        assert_eq!(
            events,
            vec![
                Event { thread_id: Some(thread), n: 1, body: text(message, "ab") },
                Event { thread_id: Some(thread), n: 2, body: EventBody::Warning { message: "w".into() } },
            ]
        );
        hub.publish(thread, text(message, "c"));
        let events = subscription.next().await.unwrap();
        assert_eq!(events, vec![Event { thread_id: Some(thread), n: 3, body: text(message, "c") }]);
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_let_go() {
        let hub = Hub::start();
        let mut subscription = hub.subscribe();
        for _ in 0..=SUBSCRIBER_BOUND {
            hub.announce(None, EventBody::Storage { problem: None });
        }
        let mut got = 0;
        while subscription.next().await.is_some() {
            got += 1;
        }
        assert_eq!(got, SUBSCRIBER_BOUND);
    }
}
