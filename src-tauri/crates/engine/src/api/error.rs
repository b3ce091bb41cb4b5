//! Errors on the wire: a code only where someone branches on it, words for people (house rule 6).

use serde::{Deserialize, Serialize};

/// What kind of error, for code. Nobody matches on text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum ErrorCode {
    /// The request itself is wrong: unknown method, bad or missing parameter.
    BadRequest,
    /// What was named does not exist (any more).
    NotFound,
    /// It cannot be done now; the message says why and what to do.
    Refused,
    /// Its agent works: it is asked again with leave to stop that first (S4).
    Running,
    /// This engine is ending and has not done it: whoever has the data folder next is to be asked (U9).
    Closing,
    /// Too much at once: try again shortly.
    Overloaded,
    /// The disk is full or cannot be written.
    Storage,
    /// A fault of ours.
    Internal,
}

/// An error as it crosses the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct ApiError {
    /// For code.
    pub code: ErrorCode,
    /// What happened, in one sentence.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
    /// Whether the same request may work later.
    pub retryable: bool,
}

impl ApiError {
    /// An error of this code; retryable only when overloaded, out of room or closing.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let retryable = matches!(code, ErrorCode::Overloaded | ErrorCode::Storage | ErrorCode::Closing);
        Self { code, message: message.into(), hint: None, retryable }
    }
    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// What was named does not exist.
    pub fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("This {what} does not exist any more."))
    }
}
