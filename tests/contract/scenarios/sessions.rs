//! Sessions that go on, are gone, or are copied (T5, T10, F2).

use changeover_core::{failure::FailureKind, power::Power};
use changeover_tests::scenarios::Cell;
use uuid::Uuid;

use super::stand::Stand;
use crate::talk::reply;

/// After a clean end and after a kill a new process goes on with the same session, and its model sees all that was said, once.
pub async fn resume_after_restart(stand: &Stand) -> Cell {
    let lines = [1, 2, 3].map(|n| stand.line(n));
    let mut talk = stand.open(stand.spec()).await;
    talk.completed(&lines[0].prompt).await;
    let (id, anchor) = (talk.id(), talk.last_anchor());
    talk.over().await;
    if let Some(words) = stand.cannot(Power::Resume) {
        let failure = stand.try_open(stand.resuming(&id, anchor)).await.err().expect("it cannot");
        assert_eq!(failure.kind, FailureKind::SessionGone);
        return Cell::Cannot(words);
    }
    let mut talk = stand.open(stand.resuming(&id, anchor.clone())).await;
    assert_eq!(reply(&talk.completed(&lines[1].prompt).await), lines[1].reply);
    assert_eq!(talk.id(), id);
    let anchor = talk.last_anchor().or(anchor);
    talk.session.kill().await;
    let mut talk = stand.open(stand.resuming(&id, anchor)).await;
    assert_eq!(reply(&talk.completed(&lines[2].prompt).await), lines[2].reply);
    stand.heard(&mut talk, &lines.each_ref()).await;
    if stand.has_model() {
        assert_eq!(stand.requests(), 3);
    }
    talk.over().await;
    Cell::Works
}

/// An id that nobody has given out, and one whose files are gone: said so, with nothing sent and nothing left running.
pub async fn session_gone(stand: &Stand) -> Cell {
    let gone = async |id: &str, anchor: Option<String>| {
        let failure = stand.try_open(stand.resuming(id, anchor)).await.err().expect("it is gone");
        assert_eq!(failure.kind, FailureKind::SessionGone, "{failure:?}");
        assert!(!failure.message.is_empty());
    };
    let mut talk = stand.open(stand.spec()).await;
    talk.completed(&stand.line(1).prompt).await;
    let (id, anchor) = (talk.id(), talk.last_anchor());
    talk.over().await;
    let requests = stand.requests();
    gone(&unknown(&id), None).await;
    stand.forget_sessions().await;
    gone(&id, anchor).await;
    gone(&id, None).await;
    assert_eq!(stand.requests(), requests);
    Cell::Works
}

/// An id of the same form.
fn unknown(id: &str) -> String {
    match id.split_once('_') {
        None => Uuid::new_v4().to_string(),
        Some((kind, number)) => format!("{kind}_{}", number.chars().rev().collect::<String>()),
    }
}

/// A copy up to an earlier place goes its own way; the session that it was taken from knows nothing of it.
pub async fn fork(stand: &Stand) -> Cell {
    let lines = [1, 2, 3, 4].map(|n| stand.line(n));
    let mut parent = stand.open(stand.spec()).await;
    parent.completed(&lines[0].prompt).await;
    let anchor = parent.last_anchor();
    parent.completed(&lines[1].prompt).await;
    let id = parent.id();
    let forked = stand.try_open(stand.forking(&id, anchor)).await;
    if let Some(words) = stand.cannot(Power::Fork) {
        assert!(!stand.runtime.capabilities().fork);
        assert_eq!(forked.err().map(|failure| failure.kind), Some(FailureKind::Rejected), "it says that it cannot");
        parent.over().await;
        return Cell::Cannot(words);
    }
    assert!(stand.runtime.capabilities().fork);
    let mut branch = forked.unwrap_or_else(|failure| panic!("{failure:?}"));
    assert_eq!(reply(&branch.completed(&lines[2].prompt).await), lines[2].reply);
    assert_ne!(branch.id(), id);
    stand.heard(&mut branch, &[&lines[0], &lines[2]]).await;
    // Bound to its anchor; and the parent goes on as it was, now and after a restart.
    parent.completed(&lines[3].prompt).await;
    stand.heard(&mut parent, &[&lines[0], &lines[1], &lines[3]]).await;
    let (branch_id, anchor) = (branch.id(), branch.last_anchor());
    parent.over().await;
    branch.session.kill().await;
    let mut branch = stand.open(stand.resuming(&branch_id, anchor)).await;
    branch.completed(&lines[1].prompt).await;
    stand.heard(&mut branch, &[&lines[0], &lines[2], &lines[1]]).await;
    branch.over().await;
    Cell::Works
}
