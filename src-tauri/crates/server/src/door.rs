//! How the window and the command line speak to an engine, whether it is this process's own or another's (U9). Output, exit
//! codes and refusals are the same both ways, because both go through the same list.

use std::sync::Arc;

use changeover_engine::{
    Engine,
    api::{
        Caller,
        error::{ApiError, ErrorCode},
        types::Event,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{launch::Running, remote::Remote};

/// Batches of events that may wait.
const EVENTS: usize = 256;

/// A way to an engine.
pub enum Door {
    /// This process has the data folder.
    Own(Arc<Running>),
    /// Another process has it.
    Other(changeover_engine::lock::Address),
}

/// A connection through the door: calls, and events as they happen.
#[derive(Clone)]
pub struct Connection(Way);

#[derive(Clone)]
enum Way {
    Own(Engine, Caller),
    Other(Remote),
}

impl Door {
    /// Connects. The receiver brings batches of events; when it ends, the connection is to be made anew.
    ///
    /// # Errors
    /// The other process cannot be reached.
    pub async fn connect(&self) -> anyhow::Result<(Connection, mpsc::Receiver<Vec<Event>>)> {
        match self {
            Self::Own(running) => {
                let engine = running.engine().clone();
                let mut subscription = engine.hub().subscribe();
                let caller = Caller { subscriber: Some(subscription.id()), ..Caller::default() };
                let (sender, events) = mpsc::channel(EVENTS);
                tokio::spawn(async move {
                    while let Some(batch) = subscription.next().await {
                        if sender.send(batch).await.is_err() {
                            break;
                        }
                    }
                });
                Ok((Connection(Way::Own(engine, caller)), events))
            }
            Self::Other(address) => {
                let (remote, events) = Remote::connect(address).await?;
                Ok((Connection(Way::Other(remote)), events))
            }
        }
    }
}

impl Connection {
    /// Asks by name and JSON.
    ///
    /// # Errors
    /// What the API says.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, ApiError> {
        match &self.0 {
            Way::Own(engine, caller) => engine.dispatch(method, params, caller).await,
            Way::Other(remote) => remote.call(method, params).await,
        }
    }

    /// Asks with types.
    ///
    /// # Errors
    /// What the API says; `internal` if the two sides do not understand each other (two versions of the app).
    pub async fn ask<P: Serialize, R: DeserializeOwned>(&self, method: &str, params: &P) -> Result<R, ApiError> {
        let odd = |e: serde_json::Error| {
            ApiError::new(ErrorCode::Internal, format!("`{method}` was not understood: {e}."))
                .hint("Another version of Changeover may be running: end it and try again.")
        };
        let params = serde_json::to_value(params).map_err(odd)?;
        serde_json::from_value(self.call(method, params).await?).map_err(odd)
    }
}
