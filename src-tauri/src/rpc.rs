//! The page's line to the engine: one command for every method of the API list, one channel for all events. The engine may be
//! this process's own or another's that has the data folder (U9); the page does not notice.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use changeover_engine::api::{
    error::{ApiError, ErrorCode},
    types::Event,
};
use changeover_server::door::{Connection, Door};
use serde_json::Value;
use tauri::{
    State, Webview,
    async_runtime::JoinHandle,
    ipc::{Channel, JavaScriptChannelId},
};
use tokio::sync::watch;

/// How long a request waits for the page to open its channel.
const CHANNEL_WAIT: Duration = Duration::from_secs(10);

/// The way to the engine, and the page's connection through it.
pub struct Line {
    door: Door,
    connection: watch::Sender<Option<Connection>>,
    pump: Mutex<Option<JoinHandle<()>>>,
}

impl Line {
    /// A line on which nobody listens yet.
    pub fn new(door: Door) -> Self {
        Self { door, connection: watch::Sender::new(None), pump: Mutex::default() }
    }

    /// Connects, and sends events into this channel from now on and no more into the one before: a page that was loaded anew
    /// brings its own. `null` on the channel says that the connection ended; the page then opens another and reads again.
    async fn listen(&self, channel: Channel<Option<Vec<Event>>>) -> Result<(), ApiError> {
        let (connection, mut events) = self.door.connect().await.map_err(|error| {
            let mut unreachable = ApiError::new(ErrorCode::Refused, format!("The engine cannot be reached: {error:#}."));
            unreachable.retryable = true;
            unreachable
        })?;
        let pump = tauri::async_runtime::spawn(async move {
            loop {
                let batch = events.recv().await;
                let ended = batch.is_none();
                if channel.send(batch).is_err() || ended {
                    break;
                }
            }
        });
        // Only ever replaced whole, so what a panic left is whole too.
        let before = self.pump.lock().unwrap_or_else(PoisonError::into_inner).replace(pump);
        if let Some(before) = before {
            before.abort();
        }
        self.connection.send_replace(Some(connection));
        Ok(())
    }

    /// The page's connection; requests that come before its channel wait for it.
    async fn connection(&self) -> Result<Connection, ApiError> {
        let mut connected = self.connection.subscribe();
        let found = tokio::time::timeout(CHANNEL_WAIT, connected.wait_for(Option::is_some)).await;
        match found {
            Ok(Ok(connection)) => connection.clone().ok_or_else(no_channel),
            _ => Err(no_channel()),
        }
    }
}

fn no_channel() -> ApiError {
    ApiError::new(ErrorCode::BadRequest, "The page has not opened its channel: `event/watch` comes with one first.")
}

/// Calls one method of the API list. With a channel, which comes on the page's first `event/watch`, it first becomes the one
/// that events go to.
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
        line.listen(channel.channel_on(webview)).await?;
    }
    let connection = line.connection().await?;
    // A task of its own: a page that goes away does not stop half-way what it asked for.
    tauri::async_runtime::spawn(async move { connection.call(&method, params.unwrap_or(Value::Null)).await })
        .await
        .unwrap_or_else(|error| Err(ApiError::new(ErrorCode::Internal, format!("The request was cut short: {error}."))))
}
