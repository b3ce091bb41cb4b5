//! Which threads have an open turn right now: for whoever is to know before it ends the engine (U9).

use std::collections::HashSet;

use changeover_core::id::ThreadId;
use tokio::sync::watch;

/// The threads with an open turn, to be looked at and waited on.
pub(crate) struct Work(watch::Sender<HashSet<ThreadId>>);

impl Default for Work {
    fn default() -> Self {
        Self(watch::Sender::new(HashSet::new()))
    }
}

impl Work {
    /// A thread's turn has begun or ended. What is told is on disk.
    pub(crate) fn set(&self, thread: ThreadId, open: bool) {
        self.0.send_if_modified(|threads| if open { threads.insert(thread) } else { threads.remove(&thread) });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<HashSet<ThreadId>> {
        self.0.subscribe()
    }
}
