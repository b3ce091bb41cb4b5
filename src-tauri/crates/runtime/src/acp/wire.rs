//! JSON-RPC 2.0 as ACP uses it: one message a line, both sides ask.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use agent_client_protocol::v1::schema::SessionNotification;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::process::lines::JsonWriter;

/// The receiver does not know the method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters make no sense.
pub const INVALID_PARAMS: i64 = -32602;
/// ACP: authentication required.
pub const AUTH_REQUIRED: i64 = -32000;
/// ACP: no such session or file.
pub const RESOURCE_NOT_FOUND: i64 = -32002;

/// An error as it stands in a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// JSON-RPC's number, ACP's, or (Gemini) the HTTP status.
    pub code: i64,
    /// Words for people.
    #[serde(default)]
    pub message: String,
    /// Anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// One line, read.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// The other side asks and waits for an answer.
    Request {
        /// Its id, given back as it came.
        id: Value,
        /// Method.
        method: String,
        /// Parameters.
        params: Value,
    },
    /// The other side tells.
    Notification {
        /// Method.
        method: String,
        /// Parameters.
        params: Value,
    },
    /// The answer to a question of ours.
    Response {
        /// Our id.
        id: u64,
        /// What came of it.
        result: Result<Value, RpcError>,
    },
    /// No JSON-RPC message.
    Garbage,
}

/// Reads one line.
pub fn read(line: &str) -> Incoming {
    let Ok(Value::Object(mut message)) = serde_json::from_str(line) else { return Incoming::Garbage };
    let id = message.remove("id").filter(|id| !id.is_null());
    if let Some(Value::String(method)) = message.remove("method") {
        let params = message.remove("params").unwrap_or(Value::Null);
        return match id {
            Some(id) => Incoming::Request { id, method, params },
            None => Incoming::Notification { method, params },
        };
    }
    let Some(id) = id.as_ref().and_then(Value::as_u64) else { return Incoming::Garbage };
    if let Some(error) = message.remove("error") {
        let error = serde_json::from_value(error).unwrap_or_else(|_| RpcError::new(0, "an error without words"));
        return Incoming::Response { id, result: Err(error) };
    }
    match message.remove("result") {
        Some(result) => Incoming::Response { id, result: Ok(result) },
        None => Incoming::Garbage,
    }
}

/// An update, read in one go: they come by the thousand. `None`: it is something else, or holds something else than the
/// protocol's types; [`read`] tells.
pub fn update(line: &str) -> Option<SessionNotification> {
    #[derive(Deserialize)]
    struct Frame {
        id: Option<IgnoredAny>,
        #[serde(rename = "method")]
        _method: Method,
        params: SessionNotification,
    }
    #[derive(Deserialize)]
    enum Method {
        #[serde(rename = "session/update")]
        Update,
    }
    // A JSON array would be taken for the members in order.
    let frame: Frame = line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten()?;
    frame.id.is_none().then_some(frame.params)
}

/// Why a question of ours got no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The other side said no.
    #[error("{}", .0.message)]
    Refused(RpcError),
    /// The pipe is closed, or was before the answer came.
    #[error("the connection is closed")]
    Closed,
}

type Waiting = HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>;

/// Our side of the connection: asks, tells and answers. Who reads the lines hands the responses to [`Peer::settle`].
#[derive(Debug, Clone)]
pub struct Peer {
    writer: JsonWriter,
    next: Arc<AtomicU64>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Peer {
    /// Over a writer of lines.
    pub fn new(writer: JsonWriter) -> Self {
        Self { writer, next: Arc::new(AtomicU64::new(1)), waiting: Arc::default() }
    }

    /// An id for a request that the reader itself recognises.
    pub fn reserve(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes a request with a reserved id; `Ok` when its bytes left us.
    ///
    /// # Errors
    /// The pipe is closed.
    pub async fn ask(&self, id: u64, method: &str, params: &impl Serialize) -> io::Result<()> {
        self.writer.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    /// Asks and waits for the answer; has no limit of its own.
    ///
    /// # Errors
    /// The other side refused, or the pipe closed.
    pub async fn call(&self, method: &str, params: &impl Serialize) -> Result<Value, CallError> {
        let id = self.reserve();
        let (done, answer) = oneshot::channel();
        self.lock().insert(id, done);
        if self.ask(id, method, params).await.is_err() {
            self.lock().remove(&id);
            return Err(CallError::Closed);
        }
        answer.await.map_err(|_| CallError::Closed)?.map_err(CallError::Refused)
    }

    /// Tells.
    ///
    /// # Errors
    /// The pipe is closed.
    pub async fn tell(&self, method: &str, params: &impl Serialize) -> io::Result<()> {
        self.writer.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Answers a question of the other side.
    ///
    /// # Errors
    /// The pipe is closed.
    pub async fn answer(&self, id: &Value, result: Result<Value, RpcError>) -> io::Result<()> {
        let message = match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        self.writer.write(&message).await
    }

    /// Writes a line that is no message of the protocol: the practice agent's way to break it.
    pub(crate) async fn break_protocol(&self, line: &Value) -> io::Result<()> {
        self.writer.write(line).await
    }

    /// Hands a response to who waits for it; gives it back when nobody does.
    pub fn settle(&self, id: u64, result: Result<Value, RpcError>) -> Option<Result<Value, RpcError>> {
        match self.lock().remove(&id) {
            Some(done) => done.send(result).err(),
            None => Some(result),
        }
    }

    /// The other side is gone: everybody who waits is told.
    pub fn hang_up(&self) {
        self.lock().clear();
    }

    /// Closes the pipe after what was written before.
    pub async fn close(&self) {
        self.writer.close().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_by_their_members_alone() {
        let request = read(r#"{"id":0,"method":"a","params":{"x":1}}"#);
        assert_eq!(request, Incoming::Request { id: json!(0), method: "a".into(), params: json!({"x":1}) });
        let note = read(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#);
        assert_eq!(note, Incoming::Notification { method: "a".into(), params: Value::Null });
        assert_eq!(read(r#"{"id":7,"result":null}"#), Incoming::Response { id: 7, result: Ok(Value::Null) });
        let refused = read(r#"{"id":7,"error":{"code":-32000,"message":"no"}}"#);
        assert_eq!(refused, Incoming::Response { id: 7, result: Err(RpcError::new(-32000, "no")) });
        for garbage in ["", "hello", "[]", "{}", r#"{"id":7}"#, r#"{"id":"x","result":1}"#, "{\"id\":"] {
            assert_eq!(read(garbage), Incoming::Garbage, "{garbage}");
        }
    }

    #[test]
    fn an_update_is_read_in_one_go_and_nothing_else_is() {
        let params = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\u00df\n"}}}"#;
        let line = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
        let Incoming::Notification { params: read_whole, .. } = read(&line) else { panic!("{line}") };
        assert_eq!(update(&line), Some(serde_json::from_value(read_whole).unwrap()));
        assert_eq!(update(&line.replace("{\"jsonrpc\"", "{\"id\":null,\"jsonrpc\"")), update(&line));
        for other in [
            line.replace("{\"jsonrpc\"", "{\"id\":1,\"jsonrpc\""),
            line.replace("session/update", "session/other"),
            line.replace("agent_message_chunk", "of_a_later_protocol"),
            line.replace("params", "result"),
            format!(r#"[null,"session/update",{params}]"#),
            String::new(),
        ] {
            assert_eq!(update(&other), None, "{other}");
        }
    }
}
