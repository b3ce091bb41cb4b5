//! How turns fail, and that they end at all (R10, G8, X6).

use changeover_core::event::{Ended, RuntimeEvent};
use changeover_core::failure::FailureKind;
use changeover_runtime::session::{AgentRuntime, SessionSpec};

use super::bench::Bench;

#[tokio::test]
async fn every_failure_has_its_kind_and_a_retry_is_shown() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.asking()).await;
    for (error, kind) in [
        ("400", FailureKind::Rejected),
        ("401", FailureKind::NotLoggedIn),
        ("403", FailureKind::NotLoggedIn),
        ("404", FailureKind::BadModel),
        ("toolong", FailureKind::Overflow),
    ] {
        let failure = open.failed(&format!("[[error:{error}]]")).await;
        assert_eq!(failure.kind, kind, "{error}: {failure:?}");
    }
    // OpenCode's own retries, for ever if need be: each is told, and the turn goes on when one of them is answered.
    let events = open.turn("again [[error:529:1]]").await;
    let retry = |event: &RuntimeEvent| matches!(event, RuntimeEvent::Retrying { attempt: 1, max: None, .. });
    assert!(events.iter().any(retry), "{events:#?}");
    assert_eq!(events.last(), Some(&RuntimeEvent::Ended(Ended::Completed)));
    // A limit that ends far ahead is a failure now, with its end (X6).
    let failure = open.failed("limit [[error:429]][[retry_after:3600]]").await;
    assert_eq!(failure.kind, FailureKind::RateLimited);
    assert!(failure.retry_at.is_some());
    // What had streamed before a retry is void (S2).
    let events = open.turn("half [[say:half a reply]][[error:midstream:1]]").await;
    let begun: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RuntimeEvent::Text { item, .. } | RuntimeEvent::Whole { item, .. } => Some(item.clone()),
            _ => None,
        })
        .collect();
    let void = events.iter().find_map(|event| match event {
        RuntimeEvent::Superseded { items } => Some(items.clone()),
        _ => None,
    });
    assert_eq!(void.as_deref(), begun.first().cloned().as_slice().first().map(std::slice::from_ref), "{events:#?}");
    assert!(begun.last() != begun.first(), "{events:#?}");
    // While it waits for its next try it can be stopped, and the session goes on.
    open.send("stop [[error:529]]").await;
    open.until(|event| matches!(event, RuntimeEvent::Retrying { .. })).await;
    open.session.interrupt().await.expect("interrupted");
    assert_eq!(open.ended().await, Ended::Interrupted);
    open.answered("next").await;
    assert_eq!(open.failed("cut [[say:half a reply]][[error:drop]]").await.kind, FailureKind::Unavailable);
    open.close().await;
    let mut open = bench.open(SessionSpec { model: Some("anthropic/no-such-model".into()), ..bench.asking() }).await;
    assert_eq!(open.failed("hello").await.kind, FailureKind::BadModel);
    open.close().await;
    bench.end().await;
}

/// R10: OpenCode asks a model whose stream breaks off anew at once, for ever. Ten times, and it is stopped.
#[tokio::test]
async fn r10_a_stream_that_breaks_off_again_and_again_ends_the_turn() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.asking()).await;
    open.answered("one").await;
    let before = bench.api.turns().len();
    let from = open.seen.len();
    let failure = open.failed("cut [[say:half a reply]][[error:end]]").await;
    assert_eq!(failure.kind, FailureKind::NoProgress, "{failure:?}");
    let events = &open.seen[from..];
    let asked = bench.api.turns().len() - before;
    assert!((10..=12).contains(&asked), "{asked} requests");
    let retries = events.iter().filter(|event| matches!(event, RuntimeEvent::Retrying { .. })).count();
    let void = events.iter().filter(|event| matches!(event, RuntimeEvent::Superseded { .. })).count();
    assert!(retries >= 9 && void >= 9, "{retries} retries, {void} void: {events:#?}");
    // One that breaks off twice and then does not is a reply.
    let events = open.turn("better [[say:a reply]][[error:end:2]]").await;
    assert_eq!(events.last(), Some(&RuntimeEvent::Ended(Ended::Completed)), "{events:#?}");
    open.close().await;
    bench.runtime.close().await;
}
