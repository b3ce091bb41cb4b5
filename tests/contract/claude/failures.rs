//! What the API's errors become (G2, G8, S2).

use changeover_core::{event::RuntimeEvent as E, failure::FailureKind};
use changeover_runtime::session::SessionSpec;
use changeover_tests::{agents::AgentHome, fake_api::FakeApi};

use super::bench::{commands, failed, open, open_with, reply, spec};

#[tokio::test]
async fn each_error_of_the_api_has_its_kind_and_is_never_an_answer() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    for (error, kind) in [
        ("401", FailureKind::NotLoggedIn),
        ("403", FailureKind::NotLoggedIn),
        ("404", FailureKind::BadModel),
        ("400", FailureKind::Rejected),
        ("429", FailureKind::RateLimited),
        ("500", FailureKind::Unavailable),
        ("529", FailureKind::Unavailable),
        ("refuse", FailureKind::Unavailable),
        ("toolong", FailureKind::Overflow),
    ] {
        let (events, ended) = talk.turn(&format!("x [[error:{error}]] [[retry_after:0]]")).await;
        let failure = failed(ended);
        assert_eq!(failure.kind, kind, "{error}: {failure:?}");
        assert!(events.contains(&E::Taken), "{error}");
        let made = |e: &E| matches!(e, E::Text { .. } | E::Reasoning { .. } | E::Whole { .. } | E::Tool { .. });
        assert!(!events.iter().any(made), "{error}: {events:#?}");
        let retried = events.iter().any(|e| matches!(e, E::Retrying { attempt: 1, max: Some(1), .. }));
        assert_eq!(retried, !matches!(error, "400" | "403" | "404" | "toolong"), "{error}: {events:#?}");
    }
    talk.completed("and now [[say:fine]]").await;
}

#[tokio::test]
async fn a_cut_stream_starts_over_and_what_was_told_of_it_is_void() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    for cut in ["drop", "midstream"] {
        let events = talk.completed(&format!("{cut} [[error:{cut}:1]] [[say:the whole answer]]")).await;
        assert_eq!(reply(&events), "the whole answer", "{events:#?}");
        let void: Vec<&E> = events.iter().filter(|e| matches!(e, E::Superseded { .. })).collect();
        match (cut, &void[..]) {
            (_, [E::Superseded { items }]) => assert_eq!(items.len(), 1),
            // A connection that is torn down may take what was sent last with it.
            ("drop", []) => {}
            _ => panic!("{events:#?}"),
        }
    }
    // It fails after a round that stands: what the history keeps is what the reply keeps.
    let prompt = "round [[tool:bash:ls]] [[error_after:1:529]]";
    let (events, ended) = talk.turn(prompt).await;
    assert_eq!(failed(ended).kind, FailureKind::Unavailable);
    assert_eq!(commands(&events).len(), 1);
    talk.completed("next [[say:r]]").await;
    let turns = api.turns();
    let last = turns.last().expect("a request");
    assert_eq!(last.texts("call").len(), 1, "the round of the failed turn: {:?}", last.messages());
}

#[tokio::test]
async fn the_wall_before_the_windows_end_is_lifted_and_nothing_is_compacted() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let model = Some("claude-sonnet-4-5".into());
    let mut talk = open_with(SessionSpec { model, ..spec(&home) }).await;
    let events = talk.completed("one [[say:r1]] [[usage:199000:50]]").await;
    let figure =
        events.iter().rev().find_map(|e| if let E::Context(f) = e { Some(*f) } else { None }).expect("a figure");
    assert_eq!((figure.used, figure.window), (199_050, Some(200_000)));
    let events = talk.completed("two [[say:r2]] [[usage:199500:50]]").await;
    assert!(!events.contains(&E::Compacted));
    let (_, ended) = talk.turn("three [[error:toolong]]").await;
    assert_eq!(failed(ended).kind, FailureKind::Overflow);
    assert!(api.turns().iter().all(|turn| turn.body["model"] == "claude-sonnet-4-5"));
    assert!(!api.requests().iter().any(|r| r.user_text.contains("summary")), "no summary was asked for");
}
