//! What a runtime reports about a session, in one vocabulary for all of them.

use crate::{
    approval::ApprovalRequest,
    failure::Failure,
    part::{FileDelta, PlanEntry, WorkStatus},
    usage::ContextFigure,
};

/// One event of a session. `item` is the runtime's own id of a part, unique within the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// The session's id is known, or has changed (a rewind by fork).
    SessionKnown {
        /// The provider's own id.
        session_id: String,
        /// The model it really runs on, if it said so.
        model: Option<String>,
    },
    /// The prompt stands in the CLI's history (T2 "taken").
    Taken,
    /// The runtime has sent a request to its model (R10 counts them).
    Requested,
    /// Text of the reply; the first one is T2's "answered".
    Text {
        /// Item id.
        item: String,
        /// What is appended.
        delta: String,
    },
    /// Reasoning; the first one is "answered" too.
    Reasoning {
        /// Item id.
        item: String,
        /// What is appended.
        delta: String,
    },
    /// The whole text of a text or reasoning item as the runtime finally states it: replaces what was streamed if it differs.
    Whole {
        /// Item id.
        item: String,
        /// Reasoning, not text.
        reasoning: bool,
        /// The full text.
        text: String,
    },
    /// A command began or changed. May come after the turn ended (S2).
    Command {
        /// Item id.
        item: String,
        /// The command line.
        command: String,
        /// How it stands.
        status: WorkStatus,
        /// Exit code, once known.
        exit_code: Option<i32>,
        /// All its output so far, where the runtime gives it whole.
        output: Option<String>,
    },
    /// A running command printed something.
    CommandOutput {
        /// Item id.
        item: String,
        /// What is appended.
        delta: String,
    },
    /// A tool call began or changed.
    Tool {
        /// Item id.
        item: String,
        /// The tool's name.
        name: String,
        /// Input as JSON text.
        input: String,
        /// Output as text, once known.
        output: Option<String>,
        /// How it stands.
        status: WorkStatus,
    },
    /// Files were changed, or are about to be.
    FileChange {
        /// Item id.
        item: String,
        /// The changes.
        files: Vec<FileDelta>,
        /// How it stands.
        status: WorkStatus,
    },
    /// The plan as it now stands.
    Plan {
        /// Item id.
        item: String,
        /// Its entries.
        entries: Vec<PlanEntry>,
    },
    /// Items that a retry has made void (S2): folded away.
    Superseded {
        /// Item ids.
        items: Vec<String>,
    },
    /// The agent asks for leave.
    ApprovalWanted(ApprovalRequest),
    /// A question is no longer open, without an answer of ours.
    ApprovalWithdrawn {
        /// The runtime's key.
        key: String,
    },
    /// Context and window of the main thread.
    Context(ContextFigure),
    /// The CLI retries a failed request by itself.
    Retrying {
        /// Which try, from 1.
        attempt: u32,
        /// Of how many, if known.
        max: Option<u32>,
        /// Why.
        message: String,
    },
    /// Something the user should know that ends nothing (a broken config file, an MCP server that failed).
    Warning {
        /// What.
        message: String,
    },
    /// The place in the CLI's history after what has been done so far: where a rewind or fork goes (T9, F2).
    Anchor {
        /// Claude: last assistant uuid; Codex: turn id.
        anchor: String,
    },
    /// The CLI compacted its history (G2).
    Compacted,
    /// A frame this adapter does not know: counted, kept in the log, never fatal.
    Raw {
        /// Its type as far as readable.
        kind: String,
    },
    /// The turn is over. Exactly one per prompt that was written.
    Ended(Ended),
    /// The process is gone. After this nothing comes any more; an open turn has failed.
    Exited {
        /// What is known about why.
        failure: Failure,
    },
}

impl RuntimeEvent {
    /// Whether this appends to an item, so that what follows may be joined to it.
    pub fn appends(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::Reasoning { .. } | Self::CommandOutput { .. })
    }

    /// The same with every item under a name of its attempt, since a runtime's items are unique within one turn of its own.
    #[must_use]
    pub fn of_attempt(mut self, attempt: Option<u32>) -> Self {
        let Some(attempt) = attempt else { return self };
        let name = |item: &mut String| item.insert_str(0, &format!("{attempt}:"));
        match &mut self {
            Self::Text { item, .. }
            | Self::Reasoning { item, .. }
            | Self::Whole { item, .. }
            | Self::Command { item, .. }
            | Self::CommandOutput { item, .. }
            | Self::Tool { item, .. }
            | Self::FileChange { item, .. }
            | Self::Plan { item, .. } => name(item),
            Self::Superseded { items } => items.iter_mut().for_each(name),
            Self::ApprovalWanted(ApprovalRequest { item: Some(item), .. }) => name(item),
            _ => {}
        }
        self
    }

    /// Takes the next event in if both append to the same item: one event that says the same as the two. Else gives it back.
    pub fn join(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Text { item, delta }, Self::Text { item: same, delta: more })
            | (Self::Reasoning { item, delta }, Self::Reasoning { item: same, delta: more })
            | (Self::CommandOutput { item, delta }, Self::CommandOutput { item: same, delta: more })
                if *item == same =>
            {
                delta.push_str(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Completed,
    /// By our interrupt, or the agent's own.
    Interrupted,
    /// By an error.
    Failed(Failure),
}

/// What a CLI's history holds after something went wrong: declared by each adapter, proved on the real CLI (T9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Prompt and the partial reply.
    Everything,
    /// The prompt, but not the partial reply.
    PromptOnly,
    /// Neither.
    Nothing,
    /// Not proved: the session is dropped (T10).
    Unknown,
}

/// An adapter's declaration for T9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    /// After a failure before the model made anything.
    pub failed_unanswered: Kept,
    /// After a failure in the middle of a reply.
    pub failed_answered: Kept,
    /// After an interrupt before the model made anything.
    pub interrupted_unanswered: Kept,
    /// After an interrupt in the middle of a reply.
    pub interrupted_answered: Kept,
    /// Whether a session can be brought back to an anchor.
    pub rewinds: bool,
}

impl Keeps {
    /// Nothing is proved: every failure drops the session.
    pub const UNKNOWN: Self = Self {
        failed_unanswered: Kept::Unknown,
        failed_answered: Kept::Unknown,
        interrupted_unanswered: Kept::Unknown,
        interrupted_answered: Kept::Unknown,
        rewinds: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_appends_to_the_same_item_is_joined() {
        let text = |item: &str, delta: &str| RuntimeEvent::Text { item: item.into(), delta: delta.into() };
        let reasoning = |item: &str, delta: &str| RuntimeEvent::Reasoning { item: item.into(), delta: delta.into() };
        let output = |item: &str, delta: &str| RuntimeEvent::CommandOutput { item: item.into(), delta: delta.into() };
        for of in [text, reasoning, output] as [fn(&str, &str) -> RuntimeEvent; 3] {
            let mut event = of("a", "1");
            assert!(event.appends());
            assert_eq!(event.join(of("a", "2")), None);
            assert_eq!(event, of("a", "12"));
            for other in [of("b", "3"), RuntimeEvent::Taken, RuntimeEvent::Ended(Ended::Completed)] {
                assert_eq!(event.join(other.clone()), Some(other));
            }
            assert_eq!(event, of("a", "12"));
        }
        let mut event = text("a", "1");
        assert_eq!(event.join(reasoning("a", "2")), Some(reasoning("a", "2")));
        let whole = RuntimeEvent::Whole { item: "a".into(), reasoning: false, text: "2".into() };
        assert!(!whole.appends());
        assert_eq!(whole.clone().join(text("a", "1")), Some(text("a", "1")));
    }
}
