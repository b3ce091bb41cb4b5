//! What an agent cannot do, in words that people read: shown where it is chosen, not failed at (R2).

use serde::{Deserialize, Serialize};

/// Something that most agents can do, and a person would miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum Power {
    /// An earlier session is opened again.
    Resume,
    /// A session is copied, up to a place in it (F2).
    Fork,
    /// It says how full its context is (G3).
    Usage,
    /// It says how large its context window is (G1).
    Window,
    /// It takes our MCP server (M1).
    Mcp,
    /// It says what a command printed, and its exit code (S2).
    CommandResult,
    /// Its own compaction is switched off (G2).
    CompactionOff,
    /// It says that a reply was cut off, or starts it over (S2).
    CutReply,
}

impl Power {
    /// What a person has to know where it is missing: one sentence.
    pub fn missing(self) -> &'static str {
        match self {
            Self::Resume => {
                "Its earlier sessions cannot be opened again: after a restart it is told the conversation anew."
            }
            Self::Fork => "Its sessions cannot be copied: a fork that goes on with it begins with a handoff.",
            Self::Usage => "It does not say how full its context is.",
            Self::Window => "It does not say how large its context window is.",
            Self::Mcp => {
                "It takes no tools of ours: it knows what it is told and cannot look into the rest of the conversation."
            }
            Self::CommandResult => "It does not say what its commands print, nor with which exit code they end.",
            Self::CompactionOff => {
                "It compacts its history by itself when its context is nearly full; this cannot be switched off."
            }
            Self::CutReply => {
                "When its model's answer is cut off it does not say so: half a reply looks like a whole one."
            }
        }
    }
}

/// One thing that an agent cannot do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Cannot {
    /// What.
    pub power: Power,
    /// The same in a sentence.
    pub message: String,
}

impl From<Power> for Cannot {
    fn from(power: Power) -> Self {
        Self { power, message: power.missing().to_owned() }
    }
}
