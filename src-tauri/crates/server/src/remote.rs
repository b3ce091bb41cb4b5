//! Speaking to an engine of another process over its loopback address (U9).

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use changeover_engine::{
    api::{
        error::{ApiError, ErrorCode},
        types::Event,
    },
    lock::Address,
};
use futures::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _, http::HeaderValue};

use crate::http::Asked;

/// Frames that may wait to be sent, and batches of events that may wait to be taken.
const BOUND: usize = 256;

type Answers = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Value, ApiError>>>>>;

/// One connection to another process's engine.
#[derive(Clone)]
pub(crate) struct Remote {
    next: Arc<AtomicU64>,
    outgoing: mpsc::Sender<Asked>,
    answers: Answers,
}

#[derive(Deserialize)]
struct Frame {
    id: Option<u64>,
    result: Option<Value>,
    error: Option<ApiError>,
    #[serde(default)]
    events: Vec<Event>,
}

pub(crate) fn gone() -> ApiError {
    ApiError::new(ErrorCode::Closing, "The Changeover that was running has ended.").hint("Run the command again.")
}

impl Remote {
    /// Connects; the receiver brings events and ends with the connection.
    pub(crate) async fn connect(address: &Address) -> anyhow::Result<(Self, mpsc::Receiver<Vec<Event>>)> {
        let mut request = format!("{}/rpc", address.url.replacen("http://", "ws://", 1)).into_client_request()?;
        let bearer = HeaderValue::from_str(&format!("Bearer {}", address.token))?;
        request.headers_mut().insert("authorization", bearer);
        let (socket, _) = tokio_tungstenite::connect_async(request).await?;
        let (mut sink, mut stream) = socket.split();
        let (outgoing, mut waiting) = mpsc::channel::<Asked>(BOUND);
        let (sender, events) = mpsc::channel(BOUND);
        let answers: Answers = Answers::default();
        let open = Arc::clone(&answers);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    asked = waiting.recv() => {
                        let Some(text) = asked.and_then(|a| serde_json::to_string(&a).ok()) else { break };
                        if sink.send(Message::Text(text.into())).await.is_err() {
                            break;
                        }
                    }
                    message = stream.next() => {
                        let Some(Ok(message)) = message else { break };
                        let Message::Text(text) = message else { continue };
                        let Ok(frame) = serde_json::from_str::<Frame>(&text) else { continue };
                        if !frame.events.is_empty() && sender.send(frame.events).await.is_err() {
                            break;
                        }
                        let waiting = frame.id.and_then(|id| take(&open, id));
                        if let Some(waiting) = waiting {
                            let answer = frame.error.map_or_else(|| Ok(frame.result.unwrap_or_default()), Err);
                            let _ = waiting.send(answer);
                        }
                    }
                }
            }
            open.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
        Ok((Self { next: Arc::new(AtomicU64::new(1)), outgoing, answers }, events))
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Result<Value, ApiError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let asked = Asked { id, method: method.to_owned(), params };
        if self.outgoing.send(asked).await.is_err() {
            return Err(gone());
        }
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

fn take(answers: &Answers, id: u64) -> Option<oneshot::Sender<Result<Value, ApiError>>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
}
