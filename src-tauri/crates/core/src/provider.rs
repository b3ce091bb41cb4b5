//! Providers: what answers a turn (U8's ids).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A provider's id as people and scripts write it: `claude`, `codex`, `opencode`, `acp:<name>`, `practice`,
/// `anthropic`, `openai`, `google`, `openai-compatible:<name>` (U8).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(try_from = "String", into = "String")]
#[ts(type = "string")]
pub struct ProviderId(String);

/// The text is no provider id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no provider: use claude, codex, opencode, practice, acp:NAME, anthropic, openai, google or openai-compatible:NAME"
)]
pub struct UnknownProvider(pub String);

impl ProviderId {
    /// Claude Code.
    pub fn claude() -> Self {
        Self("claude".into())
    }
    /// Codex.
    pub fn codex() -> Self {
        Self("codex".into())
    }
    /// OpenCode.
    pub fn opencode() -> Self {
        Self("opencode".into())
    }
    /// The practice agent that ships in the app (R1).
    pub fn practice() -> Self {
        Self("practice".into())
    }
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The name that people read: "Claude Code", "Codex", …
    pub fn display_name(&self) -> &str {
        match self.0.as_str() {
            "claude" => "Claude Code",
            "codex" => "Codex",
            "opencode" => "OpenCode",
            "practice" => "Practice agent",
            "anthropic" => "Anthropic",
            "openai" => "OpenAI",
            "google" => "Google",
            "acp:gemini" => "Gemini CLI",
            "acp:qwen" => "Qwen Code",
            "acp:goose" => "Goose",
            "acp:copilot" => "GitHub Copilot CLI",
            "acp:kimi" => "Kimi CLI",
            "acp:claude-agent-acp" => "Claude Code (ACP)",
            "acp:codex-acp" => "Codex (ACP)",
            "acp:opencode" => "OpenCode (ACP)",
            other => other.split_once(':').map_or(other, |(_, name)| name),
        }
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ProviderId {
    type Err = UnknownProvider;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |name: &str| {
            !name.is_empty()
                && name.len() <= 64
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        let known = match text.split_once(':') {
            None => matches!(text, "claude" | "codex" | "opencode" | "practice" | "anthropic" | "openai" | "google"),
            Some(("acp" | "openai-compatible", name)) => named(name),
            Some(_) => false,
        };
        if known { Ok(Self(text.to_owned())) } else { Err(UnknownProvider(text.to_owned())) }
    }
}

impl TryFrom<String> for ProviderId {
    type Error = UnknownProvider;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ProviderId> for String {
    fn from(id: ProviderId) -> Self {
        id.0
    }
}

/// What an agent may do without asking (R4). The app never uses a bypass flag: in `All` it answers yes itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalMode {
    /// Ask before every edit and command (default); what a CLI itself takes for a harmless read goes through (R4: Claude `manual`).
    #[default]
    Ask,
    /// Edits in the workspace go through, commands ask.
    Edits,
    /// The app answers yes to everything.
    All,
}

/// Provider and model for a turn (T7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Who answers.
    pub provider: ProviderId,
    /// The model by the provider's own name; absent: the provider's default.
    #[serde(default)]
    pub model: Option<String>,
    /// Reasoning effort by the provider's own name; absent: its default.
    #[serde(default)]
    pub effort: Option<String>,
    /// What it may do without asking.
    #[serde(default)]
    pub mode: ApprovalMode,
}
