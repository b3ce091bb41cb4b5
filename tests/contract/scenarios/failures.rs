//! What goes wrong at the model's API, and with the folder (G16, S2, R9, R10, X6).

use changeover_core::{
    event::{Ended, RuntimeEvent as E},
    failure::FailureKind,
    power::Power,
};
use changeover_runtime::session::SessionSpec;
use changeover_tests::scenarios::Cell;

use super::stand::{Fault, Stand, refused};
use crate::talk::{failed, reply};

/// It has its kind, is never an answer, and leaves a session that goes on.
async fn fails(stand: &Stand, fault: Fault, kind: FailureKind) -> Cell {
    let mut talk = stand.open(stand.spec()).await;
    let (events, ended) = talk.turn(&stand.fault(fault)).await;
    let failure = refused(&events, ended);
    assert_eq!(failure.kind, kind, "{failure:?}");
    assert!(!failure.message.is_empty());
    // Where the CLI does not say that it has taken a prompt, its end says it.
    assert!(events.iter().filter(|e| **e == E::Taken).count() <= 1, "{events:#?}");
    let line = stand.line(1);
    assert_eq!(reply(&talk.completed(&line.prompt).await), line.reply);
    talk.over().await;
    Cell::Works
}

pub async fn api_401(stand: &Stand) -> Cell {
    fails(stand, Fault::Unauthorized, FailureKind::NotLoggedIn).await
}

pub async fn api_429(stand: &Stand) -> Cell {
    fails(stand, Fault::Limited, FailureKind::RateLimited).await
}

pub async fn api_529(stand: &Stand) -> Cell {
    if !stand.retries_for_ever() {
        return fails(stand, Fault::Overloaded, FailureKind::Unavailable).await;
    }
    // R10: each retry is shown; the engine stops it when that has gone on for too long, and the session goes on.
    let mut talk = stand.open(stand.spec()).await;
    talk.send(&stand.fault(Fault::Overloaded)).await;
    for attempt in 1..=2 {
        let retry =
            |e: &E| matches!(e, E::Retrying { attempt: at, message, .. } if *at == attempt && !message.is_empty());
        talk.until("a retry", retry).await;
    }
    talk.session.interrupt().await.expect("asked");
    assert_eq!(talk.ended().await, Ended::Interrupted);
    assert_eq!(reply(&talk.seen), "");
    let line = stand.line(1);
    assert_eq!(reply(&talk.completed(&line.prompt).await), line.reply);
    talk.over().await;
    Cell::Works
}

/// Half a reply is never taken for a whole one, nor told twice: it starts over, or the turn has failed.
pub async fn cut_stream(stand: &Stand) -> Cell {
    let mut talk = stand.open(stand.spec()).await;
    if !stand.has_model() {
        let (events, ended) = talk.turn("fail: cut").await;
        assert_eq!(failed(ended).kind, FailureKind::Unavailable);
        assert!(!reply(&events).is_empty());
        talk.over().await;
        return Cell::Works;
    }
    let whole = "the whole answer from its beginning to its end";
    let events = talk.completed(&format!("once [[error:drop:1]] [[say:{whole}]]")).await;
    assert_eq!(reply(&events), whole, "{events:#?}");
    let (events, ended) = talk.turn(&format!("always [[error:drop]] [[say:{whole}]]")).await;
    let cell = match stand.cannot(Power::CutReply) {
        // Claude Code asks once more without streaming, and that is answered.
        None if ended == Ended::Completed => {
            assert_eq!(reply(&events), whole, "{events:#?}");
            Cell::Works
        }
        None => {
            let failure = failed(ended);
            let kinds = [FailureKind::Unavailable, FailureKind::NoProgress];
            assert!(kinds.contains(&failure.kind), "{failure:?}");
            Cell::Works
        }
        Some(words) => {
            assert_eq!(ended, Ended::Completed, "it says so: {events:#?}");
            assert_ne!(reply(&events), whole, "{events:#?}");
            Cell::Cannot(words)
        }
    };
    talk.over().await;
    cell
}

/// R9: a folder that is not there is told, and nothing runs anywhere else instead.
pub async fn folder_gone(stand: &Stand) -> Cell {
    let folder = stand.home.root().join("nowhere");
    let failure = stand.try_open(SessionSpec { folder: folder.clone(), ..stand.spec() }).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::FolderGone, "{failure:?}");
    assert!(failure.message.contains("nowhere"), "{failure:?}");
    assert!(!folder.exists());
    // One that went away between two turns.
    let mut talk = stand.open(stand.spec()).await;
    talk.completed(&stand.line(1).prompt).await;
    let (id, anchor) = (talk.id(), talk.last_anchor());
    talk.over().await;
    std::fs::remove_dir_all(stand.home.work()).expect("the folder");
    let requests = stand.requests();
    let failure = stand.try_open(stand.resuming(&id, anchor)).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::FolderGone, "{failure:?}");
    assert_eq!(stand.requests(), requests);
    assert!(!stand.home.work().exists());
    Cell::Works
}
