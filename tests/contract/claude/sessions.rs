//! Sessions that go on, go back, or are gone (T5, T9).

use changeover_core::failure::FailureKind;
use changeover_runtime::{
    claude::Claude,
    session::{AgentRuntime, McpAccess, SessionSpec},
};
use changeover_tests::{
    agents::AgentHome,
    fake_api::{Failure as ApiFailure, FakeApi, Rule},
};
use uuid::Uuid;

use super::bench::{failed, fork, open, open_with, resume};
use crate::drive::{said, told};

#[tokio::test]
async fn a_session_goes_on_in_a_new_process_and_back_to_an_anchor_for_good() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.completed("one [[tool:bash:ls]] [[say:r1]]").await;
    let (id, first) = (talk.id(), talk.anchor());
    talk.session.close().await;
    let mut talk = open_with(resume(&home, &id, Some(&first), false)).await;
    let (_, ended) = talk.turn("two [[error:400]]").await;
    assert_eq!(failed(ended).kind, FailureKind::Rejected);
    assert_eq!(talk.id(), id);
    talk.session.kill().await;
    let mut talk = open_with(resume(&home, &id, Some(&first), true)).await;
    talk.completed("three [[say:r3]]").await;
    let (branch, third) = (talk.id(), talk.anchor());
    assert_ne!(branch, id);
    // Even killed, it does not fall back to the branch with the failed prompt.
    talk.session.kill().await;
    let mut talk = open_with(resume(&home, &branch, Some(&third), false)).await;
    talk.completed("four [[say:r4]]").await;
    let spoken: Vec<(String, String)> =
        told(&api).into_iter().filter(|(role, _)| role == "user" || role == "assistant").collect();
    let wanted = said(&[
        ("user", "one [[tool:bash:ls]] [[say:r1]]"),
        ("assistant", "r1"),
        ("user", "three [[say:r3]]"),
        ("assistant", "r3"),
        ("user", "four [[say:r4]]"),
    ]);
    assert_eq!(spoken, wanted);
}

#[tokio::test]
async fn f2_a_copy_holds_what_came_up_to_its_anchor_and_the_session_is_left_as_it_is() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.completed("one [[say:r1]]").await;
    let (id, first) = (talk.id(), talk.anchor());
    talk.completed("two [[say:r2]]").await;
    let last = talk.anchor();
    let all = [("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", "two [[say:r2]]"), ("assistant", "r2")];
    let mut ids = vec![id.clone()];
    for (anchor, kept) in [(Some(&first), 2), (Some(&last), 4), (None, 4)] {
        // The session it is taken from is open, and idle.
        let mut copy = open_with(fork(&home, &id, anchor.map(String::as_str))).await;
        copy.completed("copy [[say:rc]]").await;
        assert_eq!(told(&api), said(&[&all[..kept], &[("user", "copy [[say:rc]]")]].concat()));
        assert!(!ids.contains(&copy.id()));
        ids.push(copy.id());
        copy.session.close().await;
    }
    talk.completed("three [[say:r3]]").await;
    assert_eq!(told(&api), said(&[&all[..], &[("user", "three [[say:r3]]")]].concat()));
    assert_eq!(talk.id(), id);
}

#[tokio::test]
async fn only_a_session_that_is_not_there_is_gone() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let claude = Claude::default();
    let kind = async |spec: SessionSpec| match claude.open(spec).await {
        Ok(_) => None,
        Err(failure) => Some(failure.kind),
    };
    let unknown = Uuid::new_v4().to_string();
    assert_eq!(kind(resume(&home, &unknown, None, false)).await, Some(FailureKind::SessionGone));
    assert_eq!(kind(resume(&home, "no-such-title", None, false)).await, Some(FailureKind::SessionGone));
    let mut talk = open(&home).await;
    talk.completed("one [[say:r1]]").await;
    let (id, anchor) = (talk.id(), talk.anchor());
    talk.session.close().await;
    for rewind in [false, true] {
        assert_eq!(kind(resume(&home, &id, Some(&unknown), rewind)).await, Some(FailureKind::SessionGone));
    }
    // Lookalikes: it cannot open, or not answer, and the session is as it was.
    let mcp = Some(McpAccess { url: "not a url".into(), token: "t".into() });
    assert_ne!(kind(SessionSpec { mcp, ..resume(&home, &id, None, false) }).await, Some(FailureKind::SessionGone));
    let spec_of = resume(&home, &id, Some(&anchor), false);
    let effort = Some("no-such-effort".into());
    assert_ne!(kind(SessionSpec { effort, ..spec_of.clone() }).await, Some(FailureKind::SessionGone));
    let mut talk = open_with(spec_of.clone()).await;
    api.rule(Rule { error: ApiFailure::Status(500), count: 2, ..Rule::default() });
    let (_, ended) = talk.turn("No conversation found with session ID").await;
    assert_eq!(failed(ended).kind, FailureKind::Unavailable);
    api.clear_rules();
    talk.session.close().await;
    assert_eq!(kind(spec_of.clone()).await, None);
    // Its files are gone.
    std::fs::remove_dir_all(home.claude_home().join("projects")).expect("its sessions");
    assert_eq!(kind(spec_of).await, Some(FailureKind::SessionGone));
}
