//! What goes wrong, by kind; and what a retry makes void.

use changeover_core::event::{Ended, RuntimeEvent};
use changeover_core::failure::FailureKind;
use changeover_runtime::session::SessionSpec;
use changeover_tests::agents::AgentHome;
use changeover_tests::fake_api::FakeApi;

use super::bench::Bench;

#[tokio::test]
async fn every_failure_of_the_api_has_its_kind() {
    let bench = Bench::new().await;
    for (error, kind) in [
        ("401", FailureKind::NotLoggedIn),
        ("403", FailureKind::NotLoggedIn),
        ("404", FailureKind::BadModel),
        ("400", FailureKind::Rejected),
        ("429", FailureKind::RateLimited),
        ("500", FailureKind::Unavailable),
        ("503", FailureKind::Unavailable),
        ("529", FailureKind::Unavailable),
        ("refuse", FailureKind::Unavailable),
        ("midstream", FailureKind::Unavailable),
        ("toolong", FailureKind::Overflow),
    ] {
        let mut open = bench.open(bench.spec()).await;
        let failure = open.failed(&format!("hello there[[error:{error}]]")).await;
        assert_eq!(failure.kind, kind, "{error}: {failure:?}");
        let taken = open.seen.iter().filter(|event| **event == RuntimeEvent::Taken).count();
        let ended = open.seen.iter().filter(|event| matches!(event, RuntimeEvent::Ended(_))).count();
        assert_eq!((taken, ended), (1, 1), "{error}");
        let figures = open.seen.iter().filter(|event| matches!(event, RuntimeEvent::Context(_))).count();
        assert_eq!(figures, 0, "{error}: nothing is known of the context");
        open.session.kill().await;
    }
}

#[tokio::test]
async fn a_cut_stream_starts_over_and_its_half_is_void() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    let events = open.turn("[[say:a whole reply]][[error:drop:1]]").await;
    let text =
        |number: usize, delta: &str| RuntimeEvent::Text { item: format!("msg_{number:04}"), delta: delta.into() };
    let first = events.iter().position(|event| *event == text(1, "a who")).expect("the first half");
    let void = RuntimeEvent::Superseded { items: vec!["msg_0001".into()] };
    let after = &events[first + 1..];
    assert_eq!(after[0], void);
    assert!(matches!(&after[1], RuntimeEvent::Retrying { attempt: 1, max: Some(1), .. }), "{after:#?}");
    assert_eq!(after[2], RuntimeEvent::Requested);
    assert_eq!(after[3], text(2, "a who"));
    assert!(after.contains(&RuntimeEvent::Whole {
        item: "msg_0002".into(),
        reasoning: false,
        text: "a whole reply".into()
    }));
    assert_eq!(after.last(), Some(&RuntimeEvent::Ended(Ended::Completed)));
    open.close().await;

    let mut open = bench.open(bench.spec()).await;
    let failure = open.failed("[[say:a whole reply]][[error:drop]]").await;
    assert_eq!(failure.kind, FailureKind::Unavailable);
    open.close().await;
}

#[tokio::test]
async fn without_a_login_nothing_is_sent() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api).logged_out();
    let bench = Bench::at(api, home);
    let failure = bench.try_open(bench.spec()).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::NotLoggedIn);
    assert!(failure.hint.is_some_and(|hint| hint.contains("codex login")));
    assert_eq!(bench.api.turns().len(), 0);
    assert_eq!(bench.servers(), [0; 0]);

    let mut bench = Bench::new().await;
    bench.home.unset("FAKE_API_KEY");
    let mut open = bench.open(bench.spec()).await;
    let failure = open.failed("hello").await;
    assert_eq!(failure.kind, FailureKind::NotLoggedIn);
    assert!(failure.message.contains("FAKE_API_KEY"), "{failure:?}");
    open.close().await;
}

#[tokio::test]
async fn a_broken_configuration_is_told_and_never_run_with_defaults() {
    let bench = Bench::new().await;
    bench.home.write_codex_config("model_provider = \"fake\"\nmodel = = 3\n");
    let failure = bench.try_open(bench.spec()).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.message.contains("config.toml:2"), "{failure:?}");
    assert_eq!(bench.api.requests().len(), 0);
    assert_eq!(bench.servers(), [0; 0]);
}

#[tokio::test]
async fn a_missing_program_is_told() {
    let bench = Bench::new().await;
    std::fs::remove_file(bench.home.bin().join("codex")).expect("no codex");
    let env = {
        let mut env = bench.env();
        env.insert("PATH".to_owned(), bench.home.bin().display().to_string());
        env
    };
    let failure = bench.try_open(SessionSpec { env, ..bench.spec() }).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::NotInstalled);
}
