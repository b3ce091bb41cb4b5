//! Who is connected and has asked for a turn (U9): an engine that is only there for one command stays until these turns have
//! ended, and takes nothing more once it is ending, so that what it took it also did.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use changeover_core::id::ThreadId;
use changeover_engine::Engine;
use tokio::{sync::watch, time::Instant};

/// How long a client whose turn has ended may take to read how, before it has to find another engine for that.
const FAREWELL: Duration = Duration::from_secs(1);

/// What can be asked that has a turn as its consequence.
const TURNS: [&str; 3] = ["turn/start", "turn/again", "queue/go"];

/// All connections of an engine's server.
#[derive(Clone, Default)]
pub(crate) struct Clients(Arc<watch::Sender<State>>);

#[derive(Default)]
struct State {
    ending: bool,
    next: u64,
    connected: HashMap<u64, Client>,
}

#[derive(Default)]
struct Client {
    /// Requests under way.
    running: usize,
    /// Threads that it asked for turns in.
    asked: HashSet<ThreadId>,
}

/// One connection; dropped, it is gone.
pub(crate) struct Connected {
    clients: Clients,
    id: u64,
}

/// One request under way; dropped, it is answered.
pub(crate) struct Running(Arc<Connected>);

impl State {
    fn running(&self) -> bool {
        self.connected.values().any(|client| client.running > 0)
    }

    fn asked(&self) -> impl Iterator<Item = &ThreadId> {
        self.connected.values().flat_map(|client| &client.asked)
    }
}

impl Clients {
    /// Somebody connects; `None` when the engine is ending.
    pub(crate) fn enter(&self) -> Option<Arc<Connected>> {
        let mut id = None;
        self.0.send_if_modified(|state| {
            if !state.ending {
                state.next += 1;
                state.connected.insert(state.next, Client::default());
                id = Some(state.next);
            }
            false
        });
        id.map(|id| Arc::new(Connected { clients: self.clone(), id }))
    }

    /// Whether the engine is ending.
    pub(crate) fn ending(&self) -> bool {
        self.0.borrow().ending
    }

    /// From now on nothing more is taken.
    pub(crate) fn end(&self) {
        self.0.send_modify(|state| state.ending = true);
    }

    /// The open turns that connected clients have asked for.
    pub(crate) fn turns(&self, engine: &Engine) -> Vec<ThreadId> {
        let open = engine.open_turns();
        let open = open.borrow();
        let asked: HashSet<ThreadId> =
            self.0.borrow().asked().copied().filter(|thread| open.contains(thread)).collect();
        asked.into_iter().collect()
    }

    /// Waits until no client has a request or a turn under way, then takes nothing more. `waits` hears how many turns are
    /// waited for, each time.
    pub(crate) async fn settle(&self, engine: &Engine, mut waits: impl FnMut(usize)) {
        let mut open = engine.open_turns();
        let mut state = self.0.subscribe();
        let mut farewell: Option<Instant> = None;
        loop {
            open.borrow_and_update();
            state.borrow_and_update();
            let turns = self.turns(engine).len();
            let (running, listens) = {
                let state = state.borrow();
                (state.running(), state.asked().next().is_some())
            };
            if turns > 0 || running {
                farewell = None;
                waits(turns);
            } else {
                let until = *farewell.get_or_insert_with(|| Instant::now() + FAREWELL);
                if !listens || until <= Instant::now() {
                    let ends = self.0.send_if_modified(|state| {
                        // A request may have come in this moment: then its turn is waited for as well.
                        state.ending = !state.running();
                        state.ending
                    });
                    if ends {
                        return;
                    }
                }
            }
            let pause = farewell.map_or(Duration::from_secs(60), |until| until - Instant::now());
            tokio::select! {
                _ = open.changed() => {}
                _ = state.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

impl Connected {
    /// A request is begun; `None` when the engine is ending and does not take it.
    pub(crate) fn begin(self: &Arc<Self>, method: &str, params: &serde_json::Value) -> Option<Running> {
        let thread = TURNS.contains(&method).then(|| params.get("threadId").cloned()).flatten();
        let thread: Option<ThreadId> = thread.and_then(|id| serde_json::from_value(id).ok());
        let mut taken = false;
        self.clients.0.send_if_modified(|state| {
            taken = !state.ending;
            if let Some(client) = state.connected.get_mut(&self.id).filter(|_| taken) {
                client.running += 1;
                client.asked.extend(thread);
            }
            false
        });
        taken.then(|| Running(Arc::clone(self)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.clients.0.send_modify(|state| {
            if let Some(client) = state.connected.get_mut(&self.0.id) {
                client.running = client.running.saturating_sub(1);
            }
        });
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.clients.0.send_modify(|state| {
            state.connected.remove(&self.id);
        });
    }
}
