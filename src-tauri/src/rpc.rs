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
use changeover_server::{
    door::{Connection, Door},
    launch::{self, Options},
};
use serde_json::Value;
use tauri::{
    State, Webview,
    async_runtime::{self, JoinHandle},
    ipc::{Channel, JavaScriptChannelId},
};
use tokio::sync::{mpsc, watch};

/// How long a request waits for the page to open its channel.
const CHANNEL_WAIT: Duration = Duration::from_secs(15);

/// The way to the engine, and the page's connection through it.
pub struct Line {
    options: Options,
    door: tokio::sync::Mutex<Option<Door>>,
    connection: watch::Sender<Option<Connection>>,
    pump: Mutex<Option<JoinHandle<()>>>,
}

impl Line {
    /// A line on which nobody listens yet, to the engine of this data folder.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            door: tokio::sync::Mutex::default(),
            connection: watch::Sender::new(None),
            pump: Mutex::default(),
        }
    }

    /// Connects to the engine, starting one where none runs: at first, and again when another process's engine is gone.
    ///
    /// # Errors
    /// No engine could be started or reached; it says what to do.
    pub async fn reach(&self) -> anyhow::Result<(Connection, mpsc::Receiver<Vec<Event>>)> {
        let mut door = self.door.lock().await;
        if let Some(open) = door.as_ref() {
            match open.connect().await {
                Ok(connected) => return Ok(connected),
                Err(error) => tracing::info!(%error, "the engine that was used is gone"),
            }
        }
        let opened = launch::open(&self.options).await?;
        let connected = opened.connect().await?;
        *door = Some(opened);
        Ok(connected)
    }

    /// Ends the engine and all that it runs, if it is this process's own.
    pub async fn close(&self) {
        if let Some(Door::Own(running)) = self.door.lock().await.take() {
            running.close().await;
        }
    }

    /// Sends events into this channel from now on and no more into the one before: a page that was loaded anew brings its own.
    /// `null` on the channel says that the connection ended; the page then opens another and reads again.
    async fn listen(&self, channel: Channel<Option<Vec<Event>>>) -> Result<Connection, ApiError> {
        let (connection, mut events) = self.reach().await.map_err(|error| {
            let mut unreachable = ApiError::new(ErrorCode::Refused, format!("{error:#}."));
            unreachable.retryable = true;
            unreachable
        })?;
        let pump = async_runtime::spawn(async move {
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
        Ok(connection)
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
    ApiError::new(ErrorCode::Refused, "The page has no line to the engine yet.")
}

/// Calls one method of the API list. With a channel, which comes on the page's first `event/watch`, that channel becomes the
/// one that events go to, and requests that wait for it go after this one.
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
    let params = params.unwrap_or(Value::Null);
    if let Some(channel) = channel {
        let connection = line.listen(channel.channel_on(webview)).await?;
        let answer = connection.call(&method, params).await;
        line.connection.send_replace(Some(connection));
        return answer;
    }
    let connection = line.connection().await?;
    // A task of its own: a page that goes away does not stop half-way what it asked for.
    async_runtime::spawn(async move { connection.call(&method, params).await })
        .await
        .unwrap_or_else(|error| Err(ApiError::new(ErrorCode::Internal, format!("The request was cut short: {error}."))))
}
