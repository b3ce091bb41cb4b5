//! A reply that was cut off: continued where the CLI's history holds it, else asked again (T9, G16, R10); and a history that
//! the CLI has compacted (G2, T3, T10).

#![allow(clippy::expect_used, clippy::panic)]

mod turn_support;

use changeover_core::{
    event::{Ended, Keeps, Kept, RuntimeEvent},
    failure::FailureKind,
    id::MessageId,
    message::{MessageState, SessionStamp},
    notice::Notice,
    part::{Part, WorkStatus},
    session::SessionRecord,
    transition::TransitionKind,
    turn::{
        GO_ON,
        record::TurnPhase,
        state::{Change, Effect, Input, ResumeAt, Retry},
        write::Write,
    },
};
use turn_support::*;

/// The reply that `stands_in` begins.
const REPLY: u128 = 8;

fn cut(keeps: Keeps) -> (Thread, Vec<Effect>) {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps, true);
    thread.anchored("a2");
    let effects = thread.fails(FailureKind::Unavailable);
    (thread, effects)
}

fn prompt_of(effects: &[Effect]) -> String {
    let found = effects.iter().find_map(|effect| match effect {
        Effect::Write { text, .. } => Some(text.clone()),
        _ => None,
    });
    found.expect("a prompt is written")
}

fn folded(effects: &[Effect]) -> Vec<String> {
    let writes = commits(effects).concat().into_iter();
    writes.flat_map(|w| if let Write::Supersede { keys, .. } = w { keys } else { Vec::new() }).collect()
}

/// T9: where its history holds the half reply, the same session is asked to go on, by a fixed prompt that is no message; what
/// it says then is of the same reply, under names of its own, and the session has seen it once.
#[test]
fn t9_a_cut_reply_is_continued() {
    let (mut thread, effects) = cut(keeps(Kept::Everything, true));
    assert_eq!((thread.phase(), thread.record().attempt), (TurnPhase::Preparing, 2));
    assert_eq!(folded(&effects), [""; 0], "nothing of it is void");
    let transition = thread.state.turn.as_ref().expect("open").transition;
    assert_eq!(transition.kind, TransitionKind::Reuse);
    let opens = thread.prepared(Ok(None));
    let resume = Some(ResumeAt { session_id: "s1".into(), anchor: Some("a2".into()), rewind: false });
    assert_eq!(opens, [Effect::Open { turn: thread.record().id, attempt: 2, target: target(claude()), resume }]);
    let sent = thread.opened(Ok(()));
    assert_eq!(prompt_of(&sent), GO_ON);
    thread.taken();
    thread.says("tial");
    let reply = thread.record().reply.expect("a reply");
    let part = Part::text("2:t", "tial");
    assert_eq!(thread.state.pending.writes, [Write::Part { message: reply.id, part }]);
    thread.anchored("a3");
    let effects = thread.ends(Ended::Completed);
    assert_eq!(states_in(&effects), [(MessageId(id(REPLY)), MessageState::Done)]);
    let row = thread.session(&claude()).expect("a session");
    assert_eq!((row.known_upto_seq, row.incarnation, row.anchor.as_deref()), (4, 0, Some("a3")));
    assert_eq!(row.turns, [told(2, 1, 0, vec![], None), told(6, 3, 2, vec![], Some("a1"))], "told once");
    assert_eq!(thread.state.next_seq, 5, "no message was made of it");
}

/// T9: where its history does not hold it, the session goes back to before the turn, or is dropped, and the message is asked
/// again; what was said is folded away (S2), and the reply is the same message.
#[test]
fn t9_a_cut_reply_that_is_not_held_is_asked_for_again() {
    for kept in [Kept::PromptOnly, Kept::Unknown, Kept::Nothing] {
        for rewinds in [true, false] {
            let (mut thread, effects) = cut(keeps(kept, rewinds));
            assert_eq!((thread.phase(), thread.record().attempt), (TurnPhase::Preparing, 2), "{kept:?} {rewinds}");
            assert_eq!(folded(&effects), ["t"]);
            assert_eq!(commits(&effects).len(), 1);
            let before = session(claude(), "s1", 2, vec![told(2, 1, 0, vec![], None)], Some("a1"));
            let expected = match kept {
                Kept::Nothing => Some(SessionRecord { incarnation: 1, ..before }),
                _ if rewinds => Some(SessionRecord { incarnation: 1, rewind: true, ..before }),
                _ => None,
            };
            assert_eq!(thread.session(&claude()), expected.as_ref());
            let kind = if expected.is_some() { TransitionKind::Reuse } else { TransitionKind::Handoff };
            let turn = thread.state.turn.as_ref().expect("open");
            assert_eq!(turn.transition.kind, kind, "its own reply is no history of it");
            thread.goes();
            thread.knows("s2");
            let effects = thread.says("anew");
            let stamp = SessionStamp { id: "s2".into(), incarnation: u32::from(expected.is_some()) };
            let message = MessageId(id(REPLY));
            assert!(commits(&effects).concat().contains(&Write::MessageSession { message, session: Some(stamp) }));
            thread.anchored("a3");
            let effects = thread.ends(Ended::Completed);
            assert_eq!(states_in(&effects), [(message, MessageState::Done)]);
            let row = thread.session(&claude()).expect("a session");
            assert_eq!(row.turns.iter().filter(|told| told.message_seq == 3).count(), 1, "told once");
            assert_eq!(row.known_upto_seq, 4);
        }
    }
}

/// S2, T9: of a reply whose every part the cut has made void its history holds the prompt alone: nothing goes on top of that.
#[test]
fn t9_nothing_whole_is_nothing_to_go_on_from() {
    let void = RuntimeEvent::Superseded { items: vec!["t".into()] };
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.event(void.clone());
    thread.fails(FailureKind::Unavailable);
    let row = thread.session(&claude()).expect("a session").clone();
    assert_eq!((row.rewind, row.known_upto_seq, row.turns.len()), (true, 2, 1));
    assert!(!thread.record().go_on);

    // Also where no attempt is left, and where none would help.
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.event(void);
    let effects = thread.fails(FailureKind::RateLimited);
    assert_eq!(turn_in(&effects).phase, TurnPhase::Failed);
    assert_eq!(thread.session(&claude()), Some(&row));
}

/// What the agent has done is never asked for twice by itself: a turn that cannot be continued has failed with it.
#[test]
fn t9_what_was_done_is_not_done_twice() {
    for kept in [Kept::PromptOnly, Kept::Unknown, Kept::Nothing] {
        let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(kept, true), true);
        thread.event(command("c", WorkStatus::Completed, Some(0)));
        let effects = thread.fails(FailureKind::Unavailable);
        assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Failed, Some(FailureKind::Unavailable)));
        assert_eq!(folded(&effects), [""; 0]);
    }
    // Continued, then its session is gone: the same.
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.event(command("c", WorkStatus::Completed, Some(0)));
    thread.fails(FailureKind::Unavailable);
    thread.prepared(Ok(None));
    let effects = thread.opened(Err(failed(FailureKind::SessionGone)));
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Failed, Some(FailureKind::SessionGone)));
    assert_eq!(thread.session(&claude()), None);
}

/// T5: a session that is gone when it is to go on: what it had said is folded away, and the message handed over anew.
#[test]
fn t5_gone_when_it_is_to_go_on() {
    let (mut thread, _) = cut(keeps(Kept::Everything, true));
    thread.prepared(Ok(None));
    let effects = thread.opened(Err(failed(FailureKind::SessionGone)));
    assert_eq!((thread.phase(), thread.record().go_on), (TurnPhase::Preparing, false));
    assert_eq!(folded(&effects), ["t"]);
    assert_eq!(thread.state.turn.as_ref().map(|t| t.transition.kind), Some(TransitionKind::Handoff));
    let prompt = {
        let transition = thread.state.turn.as_ref().expect("open").transition;
        let handed = (handover(claude(), transition.kind, vec![]), "history".into());
        thread.prepared(Ok(Some(handed)));
        prompt_of(&thread.opened(Ok(())))
    };
    assert!(prompt.starts_with("history") && prompt.ends_with("one"), "{prompt}");
}

/// G16: three attempts in all, whatever became of each; then the reply has failed as it stands.
#[test]
fn g16_a_reply_is_not_continued_for_ever() {
    let (mut thread, _) = cut(keeps(Kept::Everything, true));
    thread.goes();
    // The prompt that goes on is not answered: it is taken back, not the reply.
    thread.taken();
    thread.fails(FailureKind::Unavailable);
    assert_eq!(thread.record().attempt, 3);
    let row = thread.session(&claude()).expect("a session");
    assert_eq!((row.known_upto_seq, row.anchor.as_deref(), row.rewind, row.turns.len()), (4, Some("a2"), true, 2));
    let resume = Some(ResumeAt { session_id: "s1".into(), anchor: Some("a2".into()), rewind: true });
    let opens = thread.prepared(Ok(None));
    assert_eq!(opens, [Effect::Open { turn: thread.record().id, attempt: 3, target: target(claude()), resume }]);
    thread.opened(Ok(()));
    thread.knows("s2");
    thread.says("tial");
    let effects = thread.fails(FailureKind::Unavailable);
    assert_eq!((turn_in(&effects).phase, error_in(&effects)), (TurnPhase::Failed, Some(FailureKind::Unavailable)));
    assert_eq!(states_in(&effects), [(MessageId(id(REPLY)), MessageState::Failed)]);
}

/// R10: that it tries again, and why, is shown until something moves.
#[test]
fn r10_the_retry_is_shown_while_it_lasts() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    let failure = failed(FailureKind::Unavailable);
    let shown = |effects: &[Effect]| {
        let turns = effects.iter().rev().find_map(|effect| match effect {
            Effect::Show(Change::Turn(turn)) => Some(turn.as_ref().and_then(|(_, retry)| retry.clone())),
            _ => None,
        });
        turns.expect("the turn is shown")
    };
    let event = RuntimeEvent::Ended(Ended::Failed(failure.clone()));
    let effects = thread.step(Input::Event { provider: claude(), event });
    let retry = Retry { attempt: 2, max: Some(3), message: failure.message };
    assert_eq!(shown(&effects), Some(retry.clone()));
    thread.goes();
    assert_eq!(thread.state.turn.as_ref().and_then(|t| t.retry.clone()), Some(retry));
    let event = RuntimeEvent::Text { item: "t".into(), delta: "x".into() };
    let effects = thread.step(Input::Event { provider: claude(), event });
    assert_eq!(shown(&effects), None);
}

/// After a crash a reply that was begun stands as it was cut off, whatever the next attempt was about to do; the session goes
/// back to before the whole turn.
#[test]
fn a_crash_between_attempts_leaves_the_reply_interrupted() {
    for sent in [false, true] {
        let (mut thread, _) = cut(keeps(Kept::Everything, true));
        if sent {
            thread.goes();
        }
        let effects = thread.does(Input::Recover);
        assert_eq!(turn_in(&effects).phase, TurnPhase::Interrupted);
        assert_eq!(states_in(&effects), [(MessageId(id(REPLY)), MessageState::Interrupted)]);
        let row = thread.session(&claude()).expect("a session");
        assert_eq!((row.known_upto_seq, row.anchor.as_deref(), row.rewind, row.turns.len()), (2, Some("a1"), true, 1));
    }
}

/// S2: a command that outlived its attempt may still finish, under its own name.
#[test]
fn s2_a_command_outlives_its_attempt() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.runs("c");
    thread.fails(FailureKind::Unavailable);
    thread.goes();
    thread.event(command("c", WorkStatus::Completed, Some(0)));
    thread.runs("c");
    thread.ends(Ended::Completed);
    let late: Vec<_> = thread.state.late.iter().map(|((_, item), late)| (item.as_str(), late.key.as_str())).collect();
    assert_eq!(late, [("c", "2:c")]);
}

fn compacted(effects: &[Effect]) -> usize {
    let writes = commits(effects).concat().into_iter();
    let notices = writes.filter(
        |w| matches!(w, Write::Append { message, .. } if matches!(message.notice, Some(Notice::Compacted { .. }))),
    );
    notices.count()
}

/// T3, T10, G2: what a compaction has left in a history nobody knows: a notice, and with the turn's end the session is let go,
/// however it ends.
#[test]
fn g2_a_compacted_session_is_let_go() {
    for end in [Ended::Completed, Ended::Interrupted, Ended::Failed(failed(FailureKind::RateLimited))] {
        for kept in [Kept::Everything, Kept::Unknown] {
            let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(kept, true), true);
            let effects = thread.event(RuntimeEvent::Compacted);
            assert_eq!(compacted(&effects), 1);
            assert!(turn_in(&effects).compacted, "a crash remembers it");
            assert_eq!(compacted(&thread.event(RuntimeEvent::Compacted)), 0, "said once");
            assert!(thread.session(&claude()).is_some(), "its turn goes on");
            thread.anchored("a2");
            let effects = thread.ends(end.clone());
            assert_eq!(thread.session(&claude()), None, "{end:?} {kept:?}");
            assert!(commits(&effects).concat().contains(&Write::DropSession { provider: claude(), at: NOW }));
            thread.send("two", claude());
            assert_eq!(thread.state.turn.as_ref().map(|t| t.transition.kind), Some(TransitionKind::Handoff));
        }
    }
    let mut thread = Thread::stands_in(TurnPhase::Taken, keeps(Kept::PromptOnly, true), true);
    thread.event(RuntimeEvent::Compacted);
    thread.fails(FailureKind::RateLimited);
    assert_eq!(thread.session(&claude()), None, "nor is it brought back to a place that is not there");

    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.event(RuntimeEvent::Compacted);
    thread.does(Input::Recover);
    assert_eq!(thread.session(&claude()), None);
}

/// The same between turns, and while one is prepared: that is prepared anew.
#[test]
fn g2_compacted_out_of_turn() {
    let mut thread = Thread::keeping(keeps(Kept::Everything, true));
    thread.talks("one", claude(), "s1", Some("a1"));
    let effects = thread.does(Input::Event { provider: claude(), event: RuntimeEvent::Compacted });
    assert_eq!((compacted(&effects), thread.session(&claude())), (1, None));
    let effects = thread.does(Input::Event { provider: claude(), event: RuntimeEvent::Compacted });
    assert_eq!(compacted(&effects), 0, "there is nothing to let go");

    let mut thread = Thread::stands_in(TurnPhase::Preparing, keeps(Kept::Everything, true), true);
    let effects = thread.event(RuntimeEvent::Compacted);
    assert_eq!(compacted(&effects), 1);
    let turn = thread.state.turn.as_ref().expect("open");
    assert_eq!((turn.record.attempt, turn.transition.kind), (2, TransitionKind::Handoff));
}
