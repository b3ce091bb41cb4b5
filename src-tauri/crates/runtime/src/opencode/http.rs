//! Requests to one OpenCode server on loopback.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

/// The user name of its HTTP Basic login.
pub(super) const USER: &str = "opencode";

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// It answered with an error; text that is no JSON is a string.
    #[error("HTTP {status}: {body}")]
    Refused { status: StatusCode, body: Value },
    /// Nobody took the request: none of it was sent.
    #[error("the server cannot be reached")]
    Unsent,
    /// The connection broke after the request had gone out, or part of it.
    #[error("{0}")]
    Lost(String),
    /// No answer in time.
    #[error("no answer in time")]
    Late,
}

impl From<reqwest::Error> for CallError {
    fn from(error: reqwest::Error) -> Self {
        match error {
            error if error.is_connect() => Self::Unsent,
            error if error.is_timeout() => Self::Late,
            error => Self::Lost(error.without_url().to_string()),
        }
    }
}

/// A server, and the folder that the requests are about.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
    base: String,
    password: String,
    /// The folder, as it stands in an address.
    folder: String,
}

impl Http {
    /// For the server at `base` (`http://127.0.0.1:PORT`).
    pub fn new(base: String, password: String, folder: &str) -> Result<Self, CallError> {
        // Never through a proxy: the password is for this machine alone.
        let client = Client::builder().no_proxy().build()?;
        Ok(Self { client, base, password, folder: escaped(folder) })
    }

    /// The same server, another folder.
    pub fn about(&self, folder: &str) -> Self {
        Self { folder: escaped(folder), ..self.clone() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let more = if path.contains('?') { '&' } else { '?' };
        let url = format!("{}{path}{more}directory={}", self.base, self.folder);
        self.client.request(method, url).basic_auth(USER, Some(&self.password))
    }

    async fn sent(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        patience: Duration,
    ) -> Result<Value, CallError> {
        let mut request = self.request(method, path).timeout(patience);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let status = answer.status();
        let body = value(answer.text().await?);
        if status.is_success() { Ok(body) } else { Err(CallError::Refused { status, body }) }
    }

    /// Reads.
    pub async fn get(&self, path: &str, patience: Duration) -> Result<Value, CallError> {
        self.sent(Method::GET, path, None, patience).await
    }

    /// Asks for something to be done.
    pub async fn post(&self, path: &str, body: &Value, patience: Duration) -> Result<Value, CallError> {
        self.sent(Method::POST, path, Some(body), patience).await
    }

    /// Changes something.
    pub async fn patch(&self, path: &str, body: &Value, patience: Duration) -> Result<Value, CallError> {
        self.sent(Method::PATCH, path, Some(body), patience).await
    }

    /// The folder's event stream, from now on.
    pub async fn events(&self, patience: Duration) -> Result<Response, CallError> {
        let opened = tokio::time::timeout(patience, self.request(Method::GET, "/event").send()).await;
        let answer = opened.map_err(|_| CallError::Late)??;
        match answer.status() {
            StatusCode::OK => Ok(answer),
            status => Err(CallError::Refused { status, body: value(answer.text().await.unwrap_or_default()) }),
        }
    }
}

fn value(text: String) -> Value {
    if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

/// As a part of an address: everything but plain characters by its bytes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The events of a stream: `data:` lines, each one JSON.
pub(super) struct EventLines {
    answer: Response,
    buffer: Vec<u8>,
    /// How far the buffer has been looked through for the end of a line.
    looked: usize,
}

/// The largest event that is taken, in bytes. A tool's whole output stands in one.
const EVENT_BOUND: usize = 64 * 1024 * 1024;

impl EventLines {
    pub fn new(answer: Response) -> Self {
        Self { answer, buffer: Vec::new(), looked: 0 }
    }

    /// The next event; `None` when the stream has ended or broken. Cancel-safe.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some(at) = self.buffer[self.looked..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.looked + at).collect();
                self.looked = 0;
                if let Some(event) = line.strip_prefix(b"data:").and_then(|data| serde_json::from_slice(data).ok()) {
                    return Some(event);
                }
            }
            self.looked = self.buffer.len();
            if self.buffer.len() > EVENT_BOUND {
                tracing::warn!("an event of OpenCode is larger than {EVENT_BOUND} bytes");
                return None;
            }
            match self.answer.chunk().await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) => return None,
                Err(error) => {
                    tracing::debug!(%error, "OpenCode's event stream broke");
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_folder_of_any_name_stands_whole_in_an_address() {
        assert_eq!(escaped("/a b/ü&c=d#%?+~x-1_2.3"), "/a%20b/%C3%BC%26c%3Dd%23%25%3F%2B~x-1_2.3");
    }
}
