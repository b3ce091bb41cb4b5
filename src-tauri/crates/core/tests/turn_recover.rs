//! The app died and starts again: what becomes of the turn in every phase (DESIGN 2b, T10, R5).

#![allow(clippy::expect_used, clippy::panic)]

mod turn_support;

use changeover_core::{
    event::{Ended, Keeps, Kept},
    failure::FailureKind,
    id::MessageId,
    message::MessageState,
    notice::Notice,
    part::WorkStatus,
    session::SessionRecord,
    transition::TransitionKind,
    turn::{
        record::{ApprovalState, TurnPhase},
        state::{Effect, Input, Late, OpenTurn, Pending},
        write::Write,
    },
};
use turn_support::*;

/// The thread as it is read from disk: what was pending and what the runtime had said is lost.
fn reread(thread: &Thread) -> Thread {
    let mut state = thread.state.clone();
    state.pending = Pending::default();
    state.turn = state.turn.map(|old| {
        let mut turn = OpenTurn::new(old.record, old.message_text, thread.now);
        turn.handover_text = old.handover_text;
        turn.approvals = old.approvals;
        turn
    });
    Thread { state, now: thread.now, ids: thread.ids }
}

fn before() -> SessionRecord {
    session(claude(), "s1", 2, vec![told(2, 1, 0, vec![], None)], Some("a1"))
}

fn brought_back() -> SessionRecord {
    SessionRecord { incarnation: 1, rewind: true, ..before() }
}

fn recovered(phase: TurnPhase, keeps: Keeps) -> (Thread, Vec<Effect>) {
    let mut thread = reread(&Thread::stands_in(phase, keeps, true));
    let effects = thread.does(Input::Recover);
    (thread, effects)
}

#[test]
fn idle_stays_idle() {
    let mut thread = Thread::new();
    thread.talks("one", claude(), "s1", None);
    assert_eq!(reread(&thread).does(Input::Recover), []);
}

/// Preparing: nothing was written; the same turn is prepared again.
#[test]
fn preparing_is_prepared_again() {
    let (thread, effects) = recovered(TurnPhase::Preparing, keeps(Kept::PromptOnly, true));
    assert!(matches!(&effects[..], [Effect::Prepare { attempt: 1, .. }]), "{effects:?}");
    assert_eq!(thread.session(&claude()), Some(&before()));
}

/// Sent: taken or not, nobody knows: the session goes back to before it, or is dropped, and the turn is prepared again.
#[test]
fn sent_is_prepared_again_where_it_is_certain() {
    for kept in [Kept::Nothing, Kept::PromptOnly, Kept::Everything, Kept::Unknown] {
        for rewinds in [true, false] {
            let (thread, effects) = recovered(TurnPhase::Sent, keeps(kept, rewinds));
            let expected = rewinds.then(brought_back);
            assert_eq!(thread.session(&claude()), expected.as_ref());
            assert_eq!(
                (thread.phase(), thread.record().attempt, thread.record().prompt),
                (TurnPhase::Preparing, 2, None)
            );
            assert_eq!(commits(&effects).len(), 1);
            let kind = if rewinds { TransitionKind::Reuse } else { TransitionKind::Handoff };
            assert_eq!(thread.state.turn.as_ref().map(|t| t.transition.kind), Some(kind));
        }
    }
}

/// A prompt that brings the app down each time is not sent for ever.
#[test]
fn sent_has_a_bound() {
    let mut thread = Thread::stands_in(TurnPhase::Sent, keeps(Kept::PromptOnly, true), true);
    for _ in 0..2 {
        thread = reread(&thread);
        thread.does(Input::Recover);
        thread.goes();
    }
    thread = reread(&thread);
    let effects = thread.does(Input::Recover);
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Refused, Some(FailureKind::Exited)));
    assert_eq!(states_in(&effects), [(MessageId(id(5)), MessageState::NotAnswered)]);
}

/// Taken: brought back or dropped, and refused: the person sends it again.
#[test]
fn taken_is_refused() {
    for rewinds in [true, false] {
        let (thread, effects) = recovered(TurnPhase::Taken, keeps(Kept::Everything, rewinds));
        let expected = rewinds.then(brought_back);
        assert_eq!(thread.session(&claude()), expected.as_ref());
        assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Refused, Some(FailureKind::Exited)));
        assert!(thread.state.turn.is_none());
    }
}

/// Streaming and waiting: interrupted; the session is brought back or dropped, since its turn may have ended
/// unheard.
#[test]
fn answered_is_interrupted() {
    for phase in [TurnPhase::Streaming, TurnPhase::Waiting] {
        for kept in [Kept::Nothing, Kept::PromptOnly, Kept::Everything, Kept::Unknown] {
            for rewinds in [true, false] {
                let (thread, effects) = recovered(phase, keeps(kept, rewinds));
                let expected = rewinds.then(brought_back);
                assert_eq!(thread.session(&claude()), expected.as_ref(), "{phase:?} {kept:?} {rewinds}");
                assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Interrupted, None));
                assert_eq!(states_in(&effects), [(MessageId(id(8)), MessageState::Interrupted)]);
            }
        }
    }
}

/// Waiting: the question is withdrawn, not answered.
#[test]
fn waiting_is_withdrawn() {
    let (_, effects) = recovered(TurnPhase::Waiting, keeps(Kept::Everything, true));
    let approvals: Vec<_> = commits(&effects)
        .concat()
        .into_iter()
        .filter_map(|w| match w {
            Write::Approval(a) => Some(a.state),
            _ => None,
        })
        .collect();
    assert_eq!(approvals, [ApprovalState::Withdrawn]);
    assert!(!effects.iter().any(|e| matches!(e, Effect::Answer { .. })));
}

/// Interrupting, before and after the first word.
#[test]
fn interrupting_is_interrupted() {
    let (thread, effects) = recovered(TurnPhase::Interrupting, keeps(Kept::Nothing, true));
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Interrupted, None));
    assert_eq!(thread.session(&claude()), Some(&brought_back()));

    let mut thread = Thread::stands_in(TurnPhase::Interrupting, keeps(Kept::Everything, true), true);
    thread.says("just");
    let mut thread = reread(&thread);
    let effects = thread.does(Input::Recover);
    assert_eq!(turn_in(&effects).phase, TurnPhase::Interrupted);
    assert_eq!(thread.session(&claude()), Some(&brought_back()));
}

/// Commands that were said to run ended with the app; the queue waits for its person.
#[test]
fn what_ran_ends_and_what_waits_waits() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.runs("c");
    thread.does(Input::Flush);
    thread.send("two", codex());
    let message = thread.record().reply.expect("a reply").id;
    let mut thread = reread(&thread);
    thread.state.late.insert((claude(), "c".into()), Late { message, key: "c".into(), command: "make".into() });
    let effects = thread.does(Input::Recover);
    let ended = Write::PartStatus { message, key: "c".into(), status: WorkStatus::Interrupted, exit_code: None };
    assert!(commits(&effects).concat().contains(&ended));
    assert_eq!(commits(&effects).len(), 1);
    assert!(thread.state.late.is_empty());
    assert_eq!((thread.state.queue.len(), thread.state.turn.is_none()), (1, true));
}

/// T5's "once" outlives the app.
#[test]
fn gone_is_remembered() {
    let mut thread = Thread::stands_in(TurnPhase::Preparing, keeps(Kept::PromptOnly, true), true);
    thread.prepared(Ok(None));
    let effects = thread.opened(Err(failed(FailureKind::SessionGone)));
    assert!(turn_in(&effects).gone, "on disk with the notice");
    let mut thread = reread(&thread);
    thread.does(Input::Recover);
    thread.prepared(Ok(None));
    let effects = thread.opened(Err(failed(FailureKind::SessionGone)));
    assert_eq!(turn_in(&effects).phase, TurnPhase::Refused);
    let notices = commits(&effects).concat();
    assert!(!notices.iter().any(
        |w| matches!(w, Write::Append { message, .. } if matches!(message.notice, Some(Notice::SessionGone { .. })))
    ));
}

/// The turn after it works.
#[test]
fn the_next_turn_works() {
    for phase in [TurnPhase::Taken, TurnPhase::Streaming, TurnPhase::Waiting, TurnPhase::Interrupting] {
        for keeps in [keeps(Kept::PromptOnly, true), Keeps::UNKNOWN] {
            let (mut thread, _) = recovered(phase, keeps);
            thread.send("two", claude());
            thread.goes();
            thread.knows("s2");
            thread.says("x");
            let effects = thread.ends(Ended::Completed);
            assert_eq!(turn_in(&effects).phase, TurnPhase::Completed);
        }
    }
}
