//! Ids: UUID newtypes, so that one kind cannot be passed for another. Made by the driver, never here.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ts_rs::TS)]
        #[serde(transparent)]
        #[ts(type = "string")]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )+};
}

ids! {
    /// A folder that the user opened.
    ProjectId,
    /// One conversation.
    ThreadId,
    /// A message's own identity; it survives a fork, its `seq` belongs to a thread.
    MessageId,
    /// One user message and all that one provider does about it.
    TurnId,
    /// One thing an agent asked leave for.
    ApprovalId,
    /// A message that waits for the running turn to end.
    QueuedId,
    /// One prompt as written to a runtime: written once (DESIGN 2b), never reused.
    PromptId,
}
