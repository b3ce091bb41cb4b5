//! Every way a turn ends, and what its session then holds: T3, T9, T10, R5, R10, G16.

#![allow(clippy::expect_used, clippy::panic)]

mod turn_support;

use changeover_core::{
    Millis,
    event::{Ended, Keeps, Kept, RuntimeEvent},
    failure::FailureKind,
    message::MessageState,
    session::SessionRecord,
    transition::TransitionKind,
    turn::{
        record::TurnPhase,
        state::{Effect, INTERRUPT_MS, Input, NO_PROGRESS_MS, Refusal, Response, ResumeAt},
        write::Write,
    },
    usage::ContextFigure,
};
use turn_support::*;

const KEPT: [Kept; 4] = [Kept::Everything, Kept::PromptOnly, Kept::Nothing, Kept::Unknown];

/// The session as `stands_in(_, _, true)` leaves it before its second turn.
fn before() -> SessionRecord {
    session(claude(), "s1", 2, vec![told(2, 1, 0, vec![], None)], Some("a1"))
}

/// The same, to be brought back to there.
fn brought_back() -> SessionRecord {
    SessionRecord { incarnation: 1, rewind: true, ..before() }
}

/// The session with the second turn told.
fn asked() -> SessionRecord {
    let turns = vec![told(2, 1, 0, vec![], None), told(6, 3, 2, vec![], Some("a1"))];
    session(claude(), "s1", 3, turns, Some("a1"))
}

/// Completed: the reply is whole, the session has seen it, its place is kept; all in one transaction.
#[test]
fn t3_completed() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, Keeps::UNKNOWN, true);
    thread.does(Input::Flush);
    thread.anchored("a2");
    let mut turn = thread.record().clone();
    let effects = thread.ends(Ended::Completed);
    turn.phase = TurnPhase::Completed;
    turn.ended_at = Some(NOW);
    let row = SessionRecord { known_upto_seq: 4, anchor: Some("a2".into()), ..asked() };
    assert_eq!(
        effects,
        [Effect::Commit(vec![
            Write::Session(row.clone()),
            state(8, MessageState::Done, Some(NOW), claude()),
            put(turn, None),
        ])]
    );
    assert_eq!(thread.session(&claude()), Some(&row));
    assert!(thread.state.turn.is_none());
    assert_eq!(thread.state.wake_at(), None);
}

/// T9 before the model answered: each declaration, with and without a way back.
#[test]
fn t9_unanswered() {
    for kept in KEPT {
        for rewinds in [true, false] {
            let expected = match kept {
                Kept::Nothing => Some(before()),
                Kept::Everything | Kept::PromptOnly if rewinds => Some(brought_back()),
                _ => None,
            };
            for phase in [TurnPhase::Sent, TurnPhase::Taken] {
                let mut thread = Thread::stands_in(phase, keeps(kept, rewinds), true);
                let effects = thread.fails(FailureKind::RateLimited);
                assert_eq!(thread.session(&claude()), expected.as_ref(), "{kept:?} {rewinds} {phase:?}");
                assert_eq!(turn_in(&effects).phase, TurnPhase::Refused);
                assert_eq!(error_in(&effects), Some(FailureKind::RateLimited));
                assert_eq!(states_in(&effects), [(thread_message(), MessageState::NotAnswered)]);
                assert_eq!(commits(&effects).len(), 1);

                let mut thread = Thread::stands_in(phase, keeps(kept, rewinds), true);
                let effects = thread.ends(Ended::Interrupted);
                assert_eq!(thread.session(&claude()), expected.as_ref(), "{kept:?} {rewinds} {phase:?}");
                assert_eq!(turn_in(&effects).phase, TurnPhase::Interrupted);
                assert_eq!(error_in(&effects), None);
            }
        }
        // The first turn has no place to go back to.
        let mut thread = Thread::stands_in(TurnPhase::Taken, keeps(kept, true), false);
        thread.fails(FailureKind::RateLimited);
        assert_eq!(thread.session(&claude()), None);
    }
}

fn thread_message() -> changeover_core::id::MessageId {
    changeover_core::id::MessageId(id(5))
}

/// A session without a known place cannot be brought back.
#[test]
fn t9_without_an_anchor_the_session_is_dropped() {
    let mut thread = Thread::keeping(keeps(Kept::PromptOnly, true));
    thread.talks("before", claude(), "s1", None);
    thread.send("one", claude());
    thread.goes();
    thread.taken();
    let effects = thread.fails(FailureKind::RateLimited);
    assert_eq!(thread.session(&claude()), None);
    assert_eq!(effects[0], Effect::Close { provider: claude() });
    assert_eq!(commits(&effects)[0][0], Write::DropSession { provider: claude(), at: NOW });
}

/// T9 after the model answered.
#[test]
fn t9_answered() {
    for kept in KEPT {
        for rewinds in [true, false] {
            let expected = match kept {
                Kept::Everything => Some(SessionRecord { known_upto_seq: 4, anchor: Some("a2".into()), ..asked() }),
                Kept::PromptOnly => Some(SessionRecord { incarnation: 1, anchor: Some("a2".into()), ..asked() }),
                Kept::Nothing => Some(SessionRecord { incarnation: 1, ..before() }),
                Kept::Unknown if rewinds => Some(brought_back()),
                Kept::Unknown => None,
            };
            for ended in [Ended::Failed(failed(FailureKind::RateLimited)), Ended::Interrupted] {
                let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(kept, rewinds), true);
                thread.anchored("a2");
                let effects = thread.ends(ended.clone());
                assert_eq!(thread.session(&claude()), expected.as_ref(), "{kept:?} {rewinds} {ended:?}");
                let (phase, state, error) = match ended {
                    Ended::Interrupted => (TurnPhase::Interrupted, MessageState::Interrupted, None),
                    _ => (TurnPhase::Failed, MessageState::Failed, Some(FailureKind::RateLimited)),
                };
                assert_eq!(turn_in(&effects).phase, phase);
                assert_eq!(states_in(&effects), [(changeover_core::id::MessageId(id(8)), state)]);
                assert_eq!(error_in(&effects), error);
                let closes = effects.contains(&Effect::Close { provider: claude() });
                assert_eq!(closes, kept == Kept::Unknown, "only what is not gone on with is closed");
            }
        }
    }
}

/// T9: an anchor that text came after is not the end of what the session holds.
#[test]
fn t9_an_anchor_with_text_behind_it_is_no_place() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.anchored("a2");
    thread.says("tial");
    thread.fails(FailureKind::RateLimited);
    assert_eq!(thread.session(&claude()).map(|s| (s.known_upto_seq, s.anchor.clone())), Some((4, None)));

    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.anchored("a2");
    thread.event(RuntimeEvent::Whole { item: "t".into(), reasoning: false, text: "par".into() });
    thread.fails(FailureKind::RateLimited);
    assert_eq!(thread.session(&claude()).and_then(|s| s.anchor.as_deref()), Some("a2"), "nothing new was said");
}

/// T9: a session stays to be brought back until its next prompt is answered; a fork whose prompt fails too is let go.
#[test]
fn t9_brought_back_until_it_is_answered() {
    let mut thread = Thread::stands_in(TurnPhase::Taken, keeps(Kept::PromptOnly, true), true);
    thread.fails(FailureKind::RateLimited);
    let resume = Some(ResumeAt { session_id: "s1".into(), anchor: Some("a1".into()), rewind: true });
    thread
        .state
        .keeps
        .insert(claude(), Keeps { interrupted_unanswered: Kept::Nothing, ..keeps(Kept::PromptOnly, true) });

    thread.send("two", claude());
    let transition = thread.state.turn.as_ref().expect("open").transition;
    let handed = thread.handover(TransitionKind::Delta, transition);
    let opens = thread.prepared(Ok(Some(handed)));
    assert_eq!(
        opens,
        [Effect::Open { turn: thread.record().id, attempt: 1, target: target(claude()), resume: resume.clone() }]
    );
    thread.knows("fork");
    thread.opened(Ok(()));
    thread.knows("fork");
    thread.taken();
    thread.ends(Ended::Interrupted);
    assert_eq!(thread.session(&claude()), Some(&brought_back()));

    thread.send("three", claude());
    let transition = thread.state.turn.as_ref().expect("open").transition;
    let handed = thread.handover(TransitionKind::Delta, transition);
    let opens = thread.prepared(Ok(Some(handed)));
    assert_eq!(opens, [Effect::Open { turn: thread.record().id, attempt: 1, target: target(claude()), resume }]);
    thread.opened(Ok(()));
    thread.knows("fork 2");
    thread.says("x");
    let row = thread.session(&claude()).expect("a session");
    assert_eq!((row.session_id.as_str(), row.rewind, row.incarnation), ("fork 2", false, 1));
}

/// T10: a process that is gone: the session is brought back or dropped, answered or not, whatever was declared: its turn may
/// have ended unheard.
#[test]
fn t10_the_process_exits() {
    for (phase, answered) in
        [(TurnPhase::Sent, false), (TurnPhase::Taken, false), (TurnPhase::Streaming, true), (TurnPhase::Waiting, true)]
    {
        for kept in KEPT {
            for rewinds in [true, false] {
                let mut thread = Thread::stands_in(phase, keeps(kept, rewinds), true);
                thread.anchored("a2");
                let effects = thread.exits(claude());
                let expected = rewinds.then(brought_back);
                assert_eq!(thread.session(&claude()), expected.as_ref(), "{phase:?} {kept:?} {rewinds}");
                let end = if answered { TurnPhase::Failed } else { TurnPhase::Refused };
                assert_eq!((turn_in(&effects).phase, error_in(&effects)), (end, Some(FailureKind::Exited)));
            }
        }
    }
}

#[test]
fn an_exit_while_preparing_or_of_another_ends_nothing() {
    let mut thread = Thread::stands_in(TurnPhase::Preparing, Keeps::UNKNOWN, true);
    assert_eq!(thread.exits(claude()), []);
    let mut thread = Thread::stands_in(TurnPhase::Streaming, Keeps::UNKNOWN, true);
    thread.does(Input::Flush);
    assert_eq!(thread.exits(codex()), []);
    assert_eq!(thread.phase(), TurnPhase::Streaming);
}

/// R058: brought back, and it exits without a word again: dropped, so that the next turn is a handoff and not the same again.
#[test]
fn r058_an_exit_without_a_word_is_not_repeated_for_ever() {
    let mut thread = Thread::stands_in(TurnPhase::Sent, keeps(Kept::PromptOnly, true), true);
    thread.exits(claude());
    assert_eq!(thread.session(&claude()), Some(&brought_back()));
    thread.again("c2", 3, 5, claude());
    thread.goes();
    thread.exits(claude());
    assert_eq!(thread.session(&claude()), None);
}

/// R058: ended by itself without a word: once afresh, as a handoff.
#[test]
fn r058_an_empty_turn_goes_on_afresh_once() {
    let mut thread = Thread::stands_in(TurnPhase::Taken, keeps(Kept::Everything, true), true);
    let effects = thread.ends(Ended::Completed);
    assert_eq!(thread.phase(), TurnPhase::Preparing);
    assert_eq!(thread.session(&claude()), None);
    assert_eq!(thread.state.turn.as_ref().map(|t| t.transition.kind), Some(TransitionKind::Handoff));
    assert!(commits(&effects)[0].contains(&Write::DropSession { provider: claude(), at: NOW }));
    thread.goes();
    let effects = thread.ends(Ended::Completed);
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Refused, Some(FailureKind::Protocol)));

    let mut thread = Thread::stands_in(TurnPhase::Taken, keeps(Kept::Everything, true), false);
    let effects = thread.ends(Ended::Completed);
    assert_eq!(turn_in(&effects).phase, TurnPhase::Refused, "a fresh session is as fresh as it gets");
}

/// G16: three attempts by retryable errors, T9 between them; then refused.
#[test]
fn g16_attempts_are_counted() {
    let mut thread = Thread::stands_in(TurnPhase::Taken, keeps(Kept::PromptOnly, true), true);
    for attempt in [2, 3] {
        let effects = thread.fails(FailureKind::Unavailable);
        assert_eq!((thread.phase(), thread.record().attempt), (TurnPhase::Preparing, attempt));
        assert_eq!(commits(&effects).len(), 1, "brought back and begun again in one transaction");
        let session = thread.session(&claude()).expect("kept").clone();
        assert_eq!((session.rewind, session.known_upto_seq), (true, 2));
        let old = thread.record().prompt;
        let new = thread.goes();
        assert_eq!(old, None);
        assert_ne!(Some(new), old);
    }
    let effects = thread.fails(FailureKind::Unavailable);
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Refused, Some(FailureKind::Unavailable)));

    let mut thread = Thread::stands_in(TurnPhase::Taken, keeps(Kept::PromptOnly, true), true);
    let effects = thread.fails(FailureKind::NotLoggedIn);
    assert_eq!(turn_in(&effects).phase, TurnPhase::Refused, "what cannot help is not tried");
}

/// R5: stop in every phase.
#[test]
fn r5_stop_at_any_time() {
    let mut idle = Thread::new();
    assert_eq!(idle.does(Input::Interrupt), [Effect::Respond(Response::Refused(Refusal::Idle))]);

    let mut thread = Thread::stands_in(TurnPhase::Preparing, keeps(Kept::PromptOnly, true), true);
    let mut turn = thread.record().clone();
    turn.phase = TurnPhase::Interrupted;
    turn.ended_at = Some(NOW);
    assert_eq!(
        thread.does(Input::Interrupt),
        [
            Effect::Commit(vec![state(5, MessageState::NotAnswered, None, claude()), put(turn, None)]),
            Effect::Respond(Response::Done),
        ]
    );
    assert_eq!(thread.session(&claude()), Some(&before()), "nothing was written");

    for phase in [TurnPhase::Sent, TurnPhase::Taken, TurnPhase::Streaming, TurnPhase::Waiting] {
        let mut thread = Thread::stands_in(phase, keeps(Kept::PromptOnly, true), true);
        let effects = thread.does(Input::Interrupt);
        assert_eq!(turn_in(&effects).phase, TurnPhase::Interrupting);
        assert_eq!(
            effects[1..],
            [Effect::Interrupt { provider: claude() }, Effect::Respond(Response::Done)],
            "written first, then asked"
        );
        assert_eq!(thread.state.wake_at(), Some(NOW + INTERRUPT_MS));
        assert_eq!(thread.does(Input::Interrupt), [Effect::Respond(Response::Done)], "again is the same");
    }
}

/// R5: the CLI does not stop in time: its tree is killed, once, and its exit ends the turn as the stop that it was.
#[test]
fn r5_the_deadline_kills() {
    let mut thread = Thread::stands_in(TurnPhase::Interrupting, keeps(Kept::PromptOnly, true), true);
    thread.now = NOW + INTERRUPT_MS - 1;
    assert_eq!(thread.does(Input::Tick), []);
    thread.now += 1;
    assert_eq!(thread.does(Input::Tick), [Effect::Kill { provider: claude() }]);
    assert_eq!(thread.does(Input::Tick), []);
    assert_eq!(thread.state.wake_at(), None);
    let effects = thread.exits(claude());
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Interrupted, None));
    assert_eq!(thread.session(&claude()), Some(&brought_back()));
}

/// R5: the stop is the last word, however the CLI then ends.
#[test]
fn r5_a_stop_is_the_last_word() {
    let ends = [
        Ended::Interrupted,
        Ended::Completed,
        Ended::Failed(failed(FailureKind::Unavailable)),
        Ended::Failed(failed(FailureKind::SessionGone)),
    ];
    for ended in ends {
        let mut thread = Thread::stands_in(TurnPhase::Interrupting, keeps(Kept::PromptOnly, true), true);
        let effects = thread.ends(ended.clone());
        assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Interrupted, None), "{ended:?}");
        assert_eq!(thread.session(&claude()), Some(&brought_back()), "{ended:?}");
        assert!(thread.state.turn.is_none());

        let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::PromptOnly, true), true);
        thread.does(Input::Interrupt);
        let effects = thread.ends(ended.clone());
        // It may just have finished: then the reply is whole, and the session holds it.
        let whole = ended == Ended::Completed;
        let (phase, known) = if whole { (TurnPhase::Completed, 4) } else { (TurnPhase::Interrupted, 3) };
        assert_eq!((turn_in(&effects).phase, error_in(&effects)), (phase, None), "{ended:?}");
        assert_eq!(thread.session(&claude()).map(|s| s.known_upto_seq), Some(known));
    }
}

/// The model's first word crosses the stop: it is answered, and interrupted.
#[test]
fn r5_answered_while_it_stops() {
    let mut thread = Thread::stands_in(TurnPhase::Interrupting, keeps(Kept::Everything, true), true);
    thread.says("just");
    assert_eq!(thread.phase(), TurnPhase::Interrupting);
    let effects = thread.ends(Ended::Interrupted);
    assert_eq!(turn_in(&effects).phase, TurnPhase::Interrupted);
    assert_eq!(thread.session(&claude()).map(|s| s.known_upto_seq), Some(4));
}

/// R10: 5 minutes, 10 retries, 20 requests.
#[test]
fn r10_no_progress_stops_the_turn() {
    fn stopped(thread: &Thread) -> bool {
        thread.state.turn.as_ref().and_then(|t| t.abort.as_ref()).map(|f| f.kind) == Some(FailureKind::NoProgress)
            && thread.phase() == TurnPhase::Interrupting
    }
    for phase in [TurnPhase::Sent, TurnPhase::Taken, TurnPhase::Streaming] {
        let mut thread = Thread::stands_in(phase, Keeps::UNKNOWN, false);
        thread.does(Input::Flush);
        assert_eq!(thread.state.wake_at(), Some(NOW + NO_PROGRESS_MS));
        thread.now = NOW + NO_PROGRESS_MS - 1;
        assert_eq!(thread.does(Input::Tick), []);
        thread.now += 1;
        let effects = thread.does(Input::Tick);
        assert_eq!(effects.last(), Some(&Effect::Interrupt { provider: claude() }));
        assert!(stopped(&thread));
    }
    let retry = RuntimeEvent::Retrying { attempt: 1, max: None, message: "busy".into() };
    let mut thread = Thread::stands_in(TurnPhase::Taken, Keeps::UNKNOWN, false);
    for _ in 0..10 {
        thread.event(retry.clone());
    }
    assert!(!stopped(&thread));
    thread.event(retry.clone());
    assert!(stopped(&thread), "after ten retries");

    let mut thread = Thread::stands_in(TurnPhase::Streaming, Keeps::UNKNOWN, false);
    for n in 0..19 {
        thread.event(RuntimeEvent::Requested);
        thread.event(RuntimeEvent::Context(ContextFigure { used: n, window: None }));
    }
    assert!(!stopped(&thread));
    thread.event(RuntimeEvent::Requested);
    assert!(stopped(&thread), "twenty requests; what a context holds is no progress");

    let mut thread = Thread::stands_in(TurnPhase::Streaming, Keeps::UNKNOWN, false);
    for _ in 0..40 {
        thread.event(RuntimeEvent::Requested);
        thread.event(retry.clone());
        thread.says("x");
    }
    assert!(!stopped(&thread), "a part that grows is progress");
}

/// R10: a running command and an open approval stop the clock.
#[test]
fn r10_work_and_questions_stop_the_clock() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, Keeps::UNKNOWN, false);
    thread.runs("c");
    thread.does(Input::Flush);
    assert_eq!(thread.state.wake_at(), None);
    thread.now += NO_PROGRESS_MS;
    assert_eq!(thread.does(Input::Tick), []);
    thread.event(command("c", WORKED, Some(0)));
    thread.does(Input::Flush);
    assert_eq!(thread.state.wake_at(), Some(thread.now + NO_PROGRESS_MS), "from its end on");

    let mut thread = Thread::stands_in(TurnPhase::Waiting, Keeps::UNKNOWN, false);
    thread.does(Input::Flush);
    assert_eq!(thread.state.wake_at(), None);
    thread.now += NO_PROGRESS_MS;
    thread.event(RuntimeEvent::ApprovalWithdrawn { key: "k".into() });
    thread.does(Input::Flush);
    assert_ne!(thread.does(Input::Tick), [], "its clock went on");
}

const WORKED: changeover_core::part::WorkStatus = changeover_core::part::WorkStatus::Completed;

/// R10, G16: aborted is a failed attempt. Kept is what the CLI's end says.
#[test]
fn r10_what_becomes_of_an_aborted_turn() {
    fn aborted(phase: TurnPhase, keeps: Keeps) -> Thread {
        let mut thread = Thread::stands_in(phase, keeps, true);
        let at: Millis = NOW + NO_PROGRESS_MS;
        thread.now = at;
        thread.does(Input::Tick);
        thread
    }
    let mut thread = aborted(TurnPhase::Taken, keeps(Kept::PromptOnly, true));
    thread.ends(Ended::Interrupted);
    assert_eq!((thread.phase(), thread.record().attempt), (TurnPhase::Preparing, 2));
    assert_eq!(thread.session(&claude()), Some(&brought_back()));

    let mut thread = aborted(TurnPhase::Taken, keeps(Kept::PromptOnly, true));
    thread.now += INTERRUPT_MS;
    assert_eq!(thread.does(Input::Tick), [Effect::Kill { provider: claude() }]);
    thread.exits(claude());
    assert_eq!((thread.phase(), thread.record().attempt), (TurnPhase::Preparing, 2));

    let mut thread = aborted(TurnPhase::Streaming, keeps(Kept::PromptOnly, true));
    thread.ends(Ended::Interrupted);
    assert_eq!((thread.phase(), thread.record().attempt), (TurnPhase::Preparing, 2));
    assert_eq!(thread.session(&claude()), Some(&brought_back()));

    let mut thread = aborted(TurnPhase::Streaming, keeps(Kept::PromptOnly, true));
    let effects = thread.ends(Ended::Completed);
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Completed, None), "it was quicker");
    assert_eq!(thread.session(&claude()).map(|s| s.known_upto_seq), Some(4), "else its reply would be told back to it");

    // The person's stop outlives ours: nothing is tried again.
    let mut thread = aborted(TurnPhase::Taken, keeps(Kept::PromptOnly, true));
    assert_eq!(thread.does(Input::Interrupt), [Effect::Respond(Response::Done)]);
    let effects = thread.ends(Ended::Interrupted);
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Interrupted, None));
}

/// What still ran in a turn that did not end well was cut off with it.
#[test]
fn work_that_ran_is_interrupted_with_its_turn() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.runs("c");
    thread.event(command("done", WORKED, Some(0)));
    thread.does(Input::Flush);
    let effects = thread.ends(Ended::Interrupted);
    let statuses: Vec<_> = commits(&effects)
        .concat()
        .into_iter()
        .filter_map(|w| match w {
            Write::PartStatus { key, status, .. } => Some((key, status)),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, [("c".to_owned(), changeover_core::part::WorkStatus::Interrupted)]);
    assert!(thread.state.late.is_empty());
}
