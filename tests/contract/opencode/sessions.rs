//! Sessions across servers: resumed, brought back, copied, gone; and what their history keeps (T5, T9, F2).

use changeover_core::event::{Ended, Kept, RuntimeEvent};
use changeover_core::failure::FailureKind;
use changeover_core::provider::ApprovalMode;
use changeover_runtime::session::{AgentRuntime, SessionSpec};
use changeover_tests::app::kill_pid;
use serde_json::json;

use super::bench::{Bench, Open};
use crate::drive::said;

#[tokio::test]
#[ignore = "open fault: the first request to a server that has just replaced another may not get through"]
async fn a_session_goes_on_in_another_server_and_brought_back_holds_exactly_what_came_before() {
    let bench = Bench::new().await;
    // A repository: there OpenCode would take the files back with the messages.
    let git = std::process::Command::new("git").args(["init", "-q"]).current_dir(bench.home.work()).status();
    assert!(git.expect("git runs").success());
    let edits = |spec: SessionSpec| SessionSpec { mode: ApprovalMode::Edits, ..spec };
    let mut open = bench.open(edits(bench.asking())).await;
    let id = open.id().await;
    let first = open.answered("one").await;
    let file = bench.home.work().join("made.txt");
    let write = format!("[[call:write:{}]][[say:two]]", json!({"filePath": file, "content": "kept"}));
    let second = open.answered(&write).await;
    open.answered("three").await;
    open.close().await;
    bench.runtime.close().await;

    let mut open = bench.open(edits(bench.resuming(&id, Some(&second)))).await;
    assert_eq!(open.id().await, id);
    open.answered("four").await;
    let before = [("user", "one"), ("assistant", "echo: one"), ("user", write.as_str())];
    assert_eq!(bench.told()[..3], said(&before));
    let texts: Vec<_> = bench.told().into_iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect();
    assert_eq!(texts, ["one", write.as_str(), "three", "four"]);
    open.close().await;

    // T9: brought back, and for good: also when its server dies before the next prompt.
    let open = bench.open(edits(bench.rewinding(&id, Some(&first)))).await;
    kill_pid(bench.servers()[0]);
    drop(open);
    let mut open = bench.open(edits(bench.resuming(&id, Some(&first)))).await;
    assert_eq!(open.id().await, id, "in place: the id stays");
    let fourth = open.answered("and now").await;
    assert_eq!(bench.told(), said(&[("user", "one"), ("assistant", "echo: one"), ("user", "and now")]));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "kept", "the user's files are not touched");
    open.close().await;
    // Nothing stands after this one: it is as it was.
    let mut open = bench.open(bench.rewinding(&id, Some(&fourth))).await;
    open.answered("last").await;
    let kept = [("user", "one"), ("assistant", "echo: one"), ("user", "and now"), ("assistant", "echo: and now")];
    assert_eq!(bench.told(), said(&[&kept[..], &[("user", "last")]].concat()));
    open.close().await;

    // T5, T10: what it does not know, and a history without the message that we count on.
    let unknown = "ses_dd3fb197affeuxB0BKLjLkVfTI";
    for spec in [
        bench.resuming(unknown, None),
        bench.rewinding(unknown, Some(&first)),
        bench.forking(unknown, Some(&first)),
        bench.resuming("no-session", None),
        bench.resuming("../ses", None),
        bench.resuming(&id, Some(&second)),
        bench.resuming(&id, Some("msg_nowhere")),
        bench.resuming(&id, Some("nonsense")),
        bench.rewinding(&id, Some(&second)),
        bench.rewinding(&id, None),
        bench.forking(&id, Some(&second)),
    ] {
        let resume = spec.resume.clone();
        let failure = bench.try_open(spec).await.err().expect("refused");
        assert_eq!(failure.kind, FailureKind::SessionGone, "{resume:?}: {failure:?}");
    }
    // A provider in trouble is none of that.
    let mut open = bench.open(bench.resuming(&id, None)).await;
    assert_eq!(open.failed("[[error:400]]").await.kind, FailureKind::Rejected);
    open.close().await;
    bench.end().await;
}

#[tokio::test]
async fn f2_a_copy_holds_what_came_up_to_its_anchor_and_the_session_is_left_as_it_is() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.asking()).await;
    let id = open.id().await;
    let first = open.answered("one").await;
    let last = open.answered("two").await;
    // Also of one that is open and works.
    open.send("[[gate:parent]]three").await;
    open.until(|event| matches!(event, RuntimeEvent::Text { .. })).await;
    let mut ids = vec![id.clone()];
    for (anchor, kept) in [(&first, 1), (&last, 2)] {
        let mut copy = bench.open(bench.forking(&id, Some(anchor))).await;
        let own = copy.id().await;
        assert!(!ids.contains(&own));
        ids.push(own.clone());
        let place = copy.until(|event| matches!(event, RuntimeEvent::Anchor { .. })).await;
        let RuntimeEvent::Anchor { anchor: place } = place else { unreachable!() };
        copy.answered("in the copy").await;
        let all = [("user", "one"), ("assistant", "echo: one"), ("user", "two"), ("assistant", "echo: two")];
        assert_eq!(bench.told(), said(&[&all[..kept * 2], &[("user", "in the copy")]].concat()));
        // What it asks for is asked for as everywhere.
        copy.send("[[tool:bash:true]]").await;
        copy.asked().await;
        copy.close().await;
        // Its end has a name of its own, to bring it back to.
        let mut copy = bench.open(bench.rewinding(&own, Some(&place))).await;
        copy.answered("again").await;
        assert_eq!(bench.told(), said(&[&all[..kept * 2], &[("user", "again")]].concat()));
        copy.close().await;
    }
    bench.api.open_gate("parent");
    assert_eq!(open.ended().await, Ended::Completed);
    open.answered("four").await;
    let told: Vec<_> = bench.told().into_iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect();
    assert_eq!(told, ["one", "two", "[[gate:parent]]three", "four"]);
    open.close().await;
    bench.end().await;
}

/// How a turn goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    FailedUnanswered,
    FailedAnswered,
    InterruptedUnanswered,
    InterruptedAnswered,
    KilledAnswered,
}

const HALF: &str = "[[say:half a reply]]";

async fn go_wrong(bench: &Bench, open: &mut Open, how: Wrong) -> String {
    let begun = |event: &RuntimeEvent| matches!(event, RuntimeEvent::Text { .. });
    match how {
        Wrong::FailedUnanswered => {
            let prompt = "bad[[error:400]]".to_owned();
            open.failed(&prompt).await;
            prompt
        }
        Wrong::FailedAnswered => {
            let prompt = format!("bad{HALF}[[error:drop]]");
            open.failed(&prompt).await;
            prompt
        }
        Wrong::InterruptedUnanswered => {
            let prompt = "bad[[gate_before:never]]".to_owned();
            open.send(&prompt).await;
            bench.api.wait_gate("never").await;
            open.session.interrupt().await.expect("interrupted");
            assert_eq!(open.ended().await, Ended::Interrupted);
            prompt
        }
        Wrong::InterruptedAnswered | Wrong::KilledAnswered => {
            let prompt = format!("bad{HALF}[[hang]]");
            open.send(&prompt).await;
            open.until(begun).await;
            if how == Wrong::InterruptedAnswered {
                open.session.interrupt().await.expect("interrupted");
                assert_eq!(open.ended().await, Ended::Interrupted);
            } else {
                kill_pid(bench.servers()[0]);
                open.until(|event| matches!(event, RuntimeEvent::Exited { .. })).await;
            }
            prompt
        }
    }
}

/// T9: what the adapter declares is what the next request holds; and a rewind takes all of it out.
#[tokio::test]
async fn keeps_what_it_declares_after_every_way_to_go_wrong() {
    let bench = Bench::new().await;
    let keeps = bench.runtime.capabilities().keeps;
    assert!(keeps.rewinds);
    for (how, declared) in [
        (Wrong::FailedUnanswered, keeps.failed_unanswered),
        (Wrong::FailedAnswered, keeps.failed_answered),
        (Wrong::InterruptedUnanswered, keeps.interrupted_unanswered),
        (Wrong::InterruptedAnswered, keeps.interrupted_answered),
        // No adapter declares it: after a kill the session goes back, whatever it holds (T10).
        (Wrong::KilledAnswered, Kept::Unknown),
    ] {
        let mut open = bench.open(bench.asking()).await;
        let id = open.id().await;
        let anchor = open.answered("one").await;
        let prompt = go_wrong(&bench, &mut open, how).await;
        open.session.close().await;
        let mut open = bench.open(bench.resuming(&id, None)).await;
        open.answered("two").await;
        let told = bench.told();
        let between = &told[3..told.len() - 1];
        println!("{how:?}: {between:?}");
        assert_eq!(
            told[..3],
            said(&[("user", "one"), ("assistant", "echo: one"), ("user", prompt.as_str())]),
            "{how:?}"
        );
        match declared {
            Kept::PromptOnly => assert_eq!(between, [], "{how:?}"),
            Kept::Everything => assert_eq!(between.len(), 1, "{how:?}"),
            // Pieces of the reply, as many as tries: neither all of it nor none.
            Kept::Unknown => {}
            Kept::Nothing => panic!("{how:?}"),
        }
        open.close().await;
        let mut open = bench.open(bench.rewinding(&id, Some(&anchor))).await;
        open.answered("three").await;
        let expected = said(&[("user", "one"), ("assistant", "echo: one"), ("user", "three")]);
        assert_eq!(bench.told(), expected, "{how:?}");
        open.close().await;
    }
    bench.end().await;
}
