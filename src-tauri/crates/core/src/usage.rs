//! Context and usage figures (G3).

use serde::{Deserialize, Serialize};

/// What the main thread's last request saw, in tokens: input + cache read + cache write + output (G3).
/// Never a sum over rounds, never a sub-agent's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct ContextFigure {
    /// Tokens in the context after the last request.
    #[ts(type = "number")]
    pub used: u64,
    /// The model's window in tokens, once known.
    #[ts(type = "number | null")]
    pub window: Option<u64>,
}

/// The token counts of one model request, as providers name them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestUsage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Tokens read from a prompt cache.
    pub cache_read: u64,
    /// Tokens written to a prompt cache.
    pub cache_write: u64,
    /// Tokens the model made.
    pub output: u64,
}

impl RequestUsage {
    /// The context this request stands for (G3).
    pub fn context(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write).saturating_add(self.output)
    }
}
