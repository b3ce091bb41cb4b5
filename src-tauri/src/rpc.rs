//! The page's line to the engine: one command for every method of the API list, one channel for all events.

use std::sync::{Mutex, PoisonError};

use changeover_engine::{
    Engine,
    api::{
        Caller,
        error::{ApiError, ErrorCode},
        types::Event,
    },
};
use serde_json::Value;
use tauri::{
    State, Webview,
    async_runtime::JoinHandle,
    ipc::{Channel, JavaScriptChannelId},
};

/// The engine, and the one stream of events that the page listens to.
pub struct Line {
    engine: Engine,
    stream: Mutex<Option<Stream>>,
}

/// A running stream of events into the page.
struct Stream {
    subscriber: u64,
    pump: JoinHandle<()>,
}

impl Line {
    /// A line on which nobody listens yet.
    pub fn new(engine: Engine) -> Self {
        Self { engine, stream: Mutex::default() }
    }

    fn stream(&self) -> std::sync::MutexGuard<'_, Option<Stream>> {
        // Only ever replaced whole, so what a panic left is whole too.
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends events into this channel from now on, and no more into the one before: a page that was loaded anew brings its own.
    /// `null` on the channel says that the page was too slow and missed some: it opens another and reads again.
    fn listen(&self, channel: Channel<Option<Vec<Event>>>) {
        let mut subscription = self.engine.hub().subscribe();
        let subscriber = subscription.id();
        let pump = tauri::async_runtime::spawn(async move {
            loop {
                let batch = subscription.next().await;
                let ended = batch.is_none();
                if channel.send(batch).is_err() || ended {
                    break;
                }
            }
        });
        if let Some(before) = self.stream().replace(Stream { subscriber, pump }) {
            before.pump.abort();
        }
    }

    fn caller(&self) -> Caller {
        Caller { subscriber: self.stream().as_ref().map(|stream| stream.subscriber) }
    }
}

/// Calls one method of the API list. With a channel, usually on `event/watch`, it first becomes the one that events go to.
///
/// # Errors
/// The method's own, as they cross every wire.
#[tauri::command]
pub async fn rpc(
    line: State<'_, Line>,
    webview: Webview,
    method: String,
    params: Option<Value>,
    channel: Option<JavaScriptChannelId>,
) -> Result<Value, ApiError> {
    if let Some(channel) = channel {
        line.listen(channel.channel_on(webview));
    }
    let (engine, caller) = (line.engine.clone(), line.caller());
    // A task of its own: a page that goes away does not stop what it asked for half-way.
    tauri::async_runtime::spawn(async move { engine.dispatch(&method, params.unwrap_or(Value::Null), &caller).await })
        .await
        .unwrap_or_else(|error| Err(ApiError::new(ErrorCode::Internal, format!("The request was cut short: {error}"))))
}
