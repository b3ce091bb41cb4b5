//! Places where a reply waits until the test says go, so that no test needs a sleep.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::watch;

#[derive(Clone, Copy, Default)]
struct Gate {
    arrived: usize,
    open: bool,
}

/// All gates by name; one that is only asked for exists, closed and with nobody waiting.
#[derive(Default)]
pub(super) struct Gates(Mutex<HashMap<String, watch::Sender<Gate>>>);

impl Gates {
    fn gate(&self, name: &str) -> watch::Sender<Gate> {
        super::lock(&self.0).entry(name.to_owned()).or_default().clone()
    }

    /// A reply comes to the gate and waits until it is open.
    pub(super) async fn pass(&self, name: &str) {
        let gate = self.gate(name);
        gate.send_modify(|state| state.arrived += 1);
        // The sender is held here, so the wait can only end by the gate being open.
        let _ = gate.subscribe().wait_for(|state| state.open).await;
    }

    /// Waits until `times` replies have come.
    pub(super) async fn arrived(&self, name: &str, times: usize) {
        let gate = self.gate(name);
        let _ = gate.subscribe().wait_for(|state| state.arrived >= times).await;
    }

    pub(super) fn open(&self, name: &str) {
        self.gate(name).send_modify(|state| state.open = true);
    }
}
