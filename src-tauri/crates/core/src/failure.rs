//! What can go wrong with a turn: a kind that code branches on, and words that people read.

use serde::{Deserialize, Serialize};

/// The kind of a failure. Adapters decide it in one place each; nobody else matches on text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// No login, or credentials that the provider refuses (401, 403).
    NotLoggedIn,
    /// The program is not installed, or gone.
    NotInstalled,
    /// The workspace folder does not exist (R9).
    FolderGone,
    /// 429, a quota or a plan's limit (X6).
    RateLimited,
    /// 5xx, 529, a dropped connection, a cut stream.
    Unavailable,
    /// The prompt does not fit (G8).
    Overflow,
    /// The model is unknown or not allowed.
    BadModel,
    /// The provider refused the request for another reason (400, 404).
    Rejected,
    /// The session is unknown to the CLI (T5).
    SessionGone,
    /// The agent's process ended in the middle.
    Exited,
    /// Nothing happened for too long (R10).
    NoProgress,
    /// The protocol was broken.
    Protocol,
}

impl FailureKind {
    /// Whether trying the same again can help by itself (G16).
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Unavailable | Self::NoProgress)
    }
}

/// What went wrong, for people and for code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// What happened, in one sentence; the provider's own words where it has some.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// When a limit ends, if the provider said so (X6).
    #[ts(type = "number | null")]
    pub retry_at: Option<crate::Millis>,
}

impl Failure {
    /// A failure without hint.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, retry_at: None }
    }
    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
