//! Sessions across processes: resumed, brought back, gone; and what their history keeps (T5, T9).

use std::path::Path;

use changeover_core::event::{Ended, Kept, RuntimeEvent};
use changeover_core::failure::FailureKind;
use changeover_runtime::session::{AgentRuntime, Resume, SessionSpec};
use rustix::process::{Pid, Signal, kill_process};

use super::bench::{Bench, Open};
use crate::drive::said;

/// A session id that no Codex has given out.
const UNKNOWN: &str = "01a22b4a-05b7-7881-8f71-f4720d39472e";

const ABORTED: &str = "<turn_aborted>";

/// What was said, the note of an interrupt shortened to its first word.
fn told(bench: &Bench) -> Vec<(String, String)> {
    let mut told = bench.told();
    for (_, text) in &mut told {
        if text.starts_with(ABORTED) {
            text.truncate(ABORTED.len());
        }
    }
    told
}

#[tokio::test]
async fn a_session_goes_on_in_a_new_process_with_its_context_figure() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    let id = open.id().await;
    open.answered("one[[usage:4000:40]]").await;
    open.close().await;
    let mut open = bench.open(bench.resuming(&id, None)).await;
    assert_eq!(open.id().await, id);
    let figure = open.until(|event| matches!(event, RuntimeEvent::Context(_))).await;
    assert!(matches!(figure, RuntimeEvent::Context(figure) if (figure.used, figure.window) == (4040, Some(258_400))));
    let again = open.turn("two").await;
    assert_eq!(again.iter().filter(|event| **event == RuntimeEvent::Requested).count(), 1);
    let expected = said(&[("user", "one[[usage:4000:40]]"), ("assistant", "echo: one"), ("user", "two")]);
    assert_eq!(told(&bench), expected);
    open.close().await;
}

#[tokio::test]
async fn a_session_brought_back_holds_exactly_what_came_before() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    let id = open.id().await;
    let first = open.answered("one").await;
    let second = open.answered("two").await;
    open.answered("three").await;
    open.close().await;
    let mut open = bench.open(bench.resuming(&id, Some(&first))).await;
    assert_eq!(open.id().await, id, "in place: the id stays");
    open.answered("four").await;
    let expected = said(&[("user", "one"), ("assistant", "echo: one"), ("user", "four")]);
    assert_eq!(told(&bench), expected);
    let fourth = open.turn("five").await;
    let Some(RuntimeEvent::Anchor { anchor }) = fourth.iter().rev().nth(1).cloned() else { panic!("{fourth:#?}") };
    // It holds when the process dies, and an anchor with nothing after it changes nothing.
    open.session.kill().await;
    let mut open = bench.open(bench.resuming(&id, Some(&anchor))).await;
    open.answered("six").await;
    let kept = [("user", "one"), ("assistant", "echo: one"), ("user", "four"), ("assistant", "echo: four")];
    let more = [("user", "five"), ("assistant", "echo: five"), ("user", "six")];
    assert_eq!(told(&bench), said(&[&kept[..], &more[..]].concat()));
    open.close().await;
    // A turn that was taken out is gone: no anchor any more.
    let failure = bench.try_open(bench.resuming(&id, Some(&second))).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::SessionGone);
    // Nor is a history without the turn that we count on what we think it is (T10): not even to be opened as it is.
    for (anchor, opens) in [(Some(&second), false), (Some(&anchor), true), (None, true)] {
        let resume = Resume { session_id: id.clone(), anchor: anchor.cloned(), ..Resume::default() };
        let opened = bench.try_open(SessionSpec { resume: Some(resume), ..bench.spec() }).await;
        match opened {
            Ok(open) => {
                assert!(opens, "{anchor:?}");
                open.close().await;
            }
            Err(failure) => assert!(!opens && failure.kind == FailureKind::SessionGone, "{anchor:?}: {failure:?}"),
        }
    }
    let resume = Resume { session_id: id, rewind: true, ..Resume::default() };
    let failure = bench.try_open(SessionSpec { resume: Some(resume), ..bench.spec() }).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::SessionGone);
}

#[tokio::test]
async fn f2_a_copy_holds_what_came_up_to_its_turn_and_the_session_is_left_as_it_is() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    let id = open.id().await;
    let first = open.answered("one").await;
    let last = open.answered("two").await;
    let all = [("user", "one"), ("assistant", "echo: one"), ("user", "two"), ("assistant", "echo: two")];
    let mut ids = vec![id.clone()];
    for (anchor, kept) in [(Some(&first), 2), (Some(&last), 4), (None, 4)] {
        // The session it is taken from is open, and idle.
        let resume = Resume { session_id: id.clone(), anchor: anchor.cloned(), rewind: false, fork: true };
        let mut copy = bench.open(SessionSpec { resume: Some(resume), ..bench.spec() }).await;
        let own = copy.id().await;
        assert!(!ids.contains(&own));
        ids.push(own);
        copy.answered("in the copy").await;
        assert_eq!(told(&bench), said(&[&all[..kept], &[("user", "in the copy")]].concat()));
        copy.close().await;
    }
    open.answered("three").await;
    assert_eq!(told(&bench), said(&[&all[..], &[("user", "three")]].concat()));
    open.close().await;
}

/// How a turn goes wrong.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    FailedUnanswered,
    FailedAnswered,
    InterruptedUnanswered,
    InterruptedAnswered,
    KilledAnswered,
}

async fn go_wrong(bench: &Bench, open: &mut Open, how: Wrong) -> &'static str {
    match how {
        Wrong::FailedUnanswered => {
            let prompt = "bad[[error:400]]";
            open.failed(prompt).await;
            prompt
        }
        Wrong::FailedAnswered => {
            let prompt = "bad[[say:half a reply]][[error:drop]]";
            open.failed(prompt).await;
            prompt
        }
        Wrong::InterruptedUnanswered => {
            let prompt = "bad[[gate_before:never]]";
            open.send(prompt).await;
            bench.api.wait_gate("never").await;
            open.session.interrupt().await.expect("interrupted");
            assert_eq!(open.ended().await, Ended::Interrupted);
            prompt
        }
        Wrong::InterruptedAnswered => {
            let prompt = "bad[[say:half a reply]][[hang]]";
            open.send(prompt).await;
            open.until(|event| matches!(event, RuntimeEvent::Text { .. })).await;
            open.session.interrupt().await.expect("interrupted");
            assert_eq!(open.ended().await, Ended::Interrupted);
            prompt
        }
        Wrong::KilledAnswered => {
            let prompt = "bad[[say:half a reply]][[hang]]";
            open.send(prompt).await;
            open.until(|event| matches!(event, RuntimeEvent::Text { .. })).await;
            for server in bench.servers() {
                let pid = Pid::from_raw(i32::try_from(server).expect("a pid")).expect("a pid");
                kill_process(pid, Signal::KILL).expect("killed");
            }
            open.until(|event| matches!(event, RuntimeEvent::Exited { .. })).await;
            prompt
        }
    }
}

/// T9: the prompt stays, the half reply does not, and a rewind takes both out.
async fn keeps_the_prompt_alone(how: Wrong) {
    let bench = Bench::new().await;
    assert!(bench.runtime.capabilities().keeps.rewinds);
    let mut open = bench.open(bench.spec()).await;
    let id = open.id().await;
    let anchor = open.answered("one").await;
    let prompt = go_wrong(&bench, &mut open, how).await;
    open.session.close().await;
    let mut open = bench.open(bench.resuming(&id, None)).await;
    open.answered("two").await;
    let mut kept = vec![("user", "one"), ("assistant", "echo: one"), ("user", prompt)];
    if matches!(how, Wrong::InterruptedUnanswered | Wrong::InterruptedAnswered) {
        kept.push(("user", ABORTED));
    }
    kept.push(("user", "two"));
    assert_eq!(told(&bench), said(&kept), "{how:?}");
    open.close().await;
    let mut open = bench.open(bench.resuming(&id, Some(&anchor))).await;
    open.answered("three").await;
    let expected = said(&[("user", "one"), ("assistant", "echo: one"), ("user", "three")]);
    assert_eq!(told(&bench), expected, "{how:?}");
    open.close().await;
}

#[tokio::test]
async fn keeps_failed_unanswered() {
    keeps_the_prompt_alone(Wrong::FailedUnanswered).await;
}

#[tokio::test]
async fn keeps_failed_answered() {
    keeps_the_prompt_alone(Wrong::FailedAnswered).await;
}

#[tokio::test]
async fn keeps_interrupted_unanswered() {
    keeps_the_prompt_alone(Wrong::InterruptedUnanswered).await;
}

#[tokio::test]
async fn keeps_interrupted_answered() {
    keeps_the_prompt_alone(Wrong::InterruptedAnswered).await;
}

#[tokio::test]
async fn keeps_killed_answered() {
    keeps_the_prompt_alone(Wrong::KilledAnswered).await;
}

/// T9: a text that was whole before a call stays, the half one after it does not. After a failure the half is told as void, so
/// what stays is the reply. After an interrupt it is not, and nothing is declared: the session is brought back to before the
/// turn.
#[tokio::test]
async fn keeps_the_whole_texts_of_half_a_reply() {
    let bench = Bench::new().await;
    let keeps = bench.runtime.capabilities().keeps;
    assert_eq!((keeps.failed_answered, keeps.interrupted_answered), (Kept::Everything, Kept::Unknown));
    for (end, note) in [("hang", Some(ABORTED)), ("error_after:1:drop", None)] {
        let mut open = bench.open(bench.spec()).await;
        let id = open.id().await;
        let prompt = format!("bad[[preface:first this]][[tool:bash:true]][[say:half a reply]][[{end}]]");
        open.send(&prompt).await;
        if note.is_some() {
            open.until(|event| matches!(event, RuntimeEvent::Text { delta, .. } if delta.contains("half"))).await;
            open.session.interrupt().await.expect("interrupted");
        }
        let ended = open.ended().await;
        assert_eq!(ended == Ended::Interrupted, note.is_some(), "{ended:?}");
        let half = open.seen.iter().rev().find_map(|event| match event {
            RuntimeEvent::Text { item, delta } if "half a reply".starts_with(delta.as_str()) => Some(item.clone()),
            _ => None,
        });
        let void = RuntimeEvent::Superseded { items: vec![half.expect("the half that streamed")] };
        assert_eq!(open.seen.contains(&void), note.is_none(), "{:#?}", open.seen);
        open.session.close().await;
        let mut open = bench.open(bench.resuming(&id, None)).await;
        open.answered("two").await;
        let mut kept = vec![("user", prompt.as_str()), ("assistant", "first this")];
        kept.extend(note.map(|note| ("user", note)));
        kept.push(("user", "two"));
        let texts: Vec<_> =
            told(&bench).into_iter().filter(|(role, _)| role == "user" || role == "assistant").collect();
        assert_eq!(texts, said(&kept), "{end}");
        open.close().await;
    }
}

/// Deletes the files of every session.
fn delete_rollouts(codex_home: &Path) {
    std::fs::remove_dir_all(codex_home.join("sessions")).expect("sessions");
}

#[tokio::test]
async fn a_session_is_gone_when_codex_does_not_know_it_and_only_then() {
    let bench = Bench::new().await;
    for id in [UNKNOWN, "no-uuid"] {
        let failure = bench.try_open(bench.resuming(id, None)).await.err().expect("refused");
        assert_eq!(failure.kind, FailureKind::SessionGone, "{failure:?}");
    }
    let mut open = bench.open(bench.spec()).await;
    let id = open.id().await;
    let anchor = open.answered("one").await;
    // Another process has it: that is not gone.
    let failure = bench.try_open(bench.resuming(&id, None)).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.message.contains("already has an active writer"), "{failure:?}");
    // A provider in trouble is not gone either.
    assert_eq!(open.failed("two[[error:500]]").await.kind, FailureKind::Unavailable);
    // An open session lives on without its file; the next one is told.
    delete_rollouts(&bench.home.codex_home());
    open.answered("three").await;
    open.close().await;
    for rewind_to in [None, Some(anchor.as_str())] {
        let failure = bench.try_open(bench.resuming(&id, rewind_to)).await.err().expect("refused");
        assert_eq!(failure.kind, FailureKind::SessionGone, "{failure:?}");
    }
    assert_eq!(bench.servers(), [0; 0], "a refused session leaves no process");
    // And the folder: nothing runs where none is (R9).
    let spec = SessionSpec { folder: bench.home.root().join("nowhere"), ..bench.spec() };
    let failure = bench.try_open(spec).await.err().expect("refused");
    assert_eq!(failure.kind, FailureKind::FolderGone);
}
