//! What a session must be told before its next turn (T1).

use serde::{Deserialize, Serialize};

use crate::seq::Seq;

/// The four transitions of a session, and a native provider's replay (T1, T1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum TransitionKind {
    /// No session, nothing said before.
    Fresh,
    /// The session has seen everything.
    Reuse,
    /// No session, but history.
    Handoff,
    /// A session that missed some messages.
    Delta,
    /// A native provider: the transcript itself goes.
    Replay,
}

/// What one turn needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// Which of the four.
    pub kind: TransitionKind,
    /// Messages up to here are known to the session already (0 without a session).
    pub after_seq: Seq,
}

/// Decides the transition (T1). `known_upto` is the session's mark, `None` without a session; `earlier_content` is the
/// highest content seq that came before the prompt is written, less the prompt's own message, or `None` when there is none.
///
/// A message that is sent again (T8) may have content after it: that, too, is history of the prompt, so callers pass the
/// highest content seq of the thread other than the message's own, not merely the one below it.
pub fn decide(known_upto: Option<Seq>, earlier_content: Option<Seq>) -> Transition {
    match (known_upto, earlier_content) {
        (None, None) => Transition { kind: TransitionKind::Fresh, after_seq: 0 },
        (None, Some(_)) => Transition { kind: TransitionKind::Handoff, after_seq: 0 },
        (Some(known), Some(seq)) if seq > known => Transition { kind: TransitionKind::Delta, after_seq: known },
        (Some(known), _) => Transition { kind: TransitionKind::Reuse, after_seq: known },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_every_row() {
        let kind = |known, earlier| decide(known, earlier).kind;
        assert_eq!(kind(None, None), TransitionKind::Fresh);
        assert_eq!(kind(None, Some(3)), TransitionKind::Handoff);
        assert_eq!(kind(Some(4), Some(4)), TransitionKind::Reuse);
        assert_eq!(kind(Some(4), None), TransitionKind::Reuse);
        assert_eq!(decide(Some(4), Some(6)), Transition { kind: TransitionKind::Delta, after_seq: 4 });
    }
}
