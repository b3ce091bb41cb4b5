//! How a turn comes to be sent and answered: S1, T1, T2, T5, T8, R9.

#![allow(clippy::expect_used, clippy::panic)]

mod turn_support;

use changeover_core::{
    event::{Keeps, Kept, RuntimeEvent},
    failure::FailureKind,
    handoff::items::Scope,
    id::{MessageId, PromptId, TurnId},
    message::{MessageState, SessionStamp},
    notice::Notice,
    part::{PartBody, WorkStatus},
    seq::SeqRange,
    transition::{Transition, TransitionKind},
    turn::{
        record::TurnPhase,
        state::{Change, Effect, Input, Refusal, Response, ResumeAt},
        write::Write,
    },
    usage::ContextFigure,
};
use turn_support::*;

fn prepare(effects: &[Effect]) -> (Transition, Scope, u32) {
    let found = effects.iter().find_map(|effect| match effect {
        Effect::Prepare { transition, scope, attempt, .. } => Some((*transition, scope.clone(), *attempt)),
        _ => None,
    });
    found.expect("a transition is prepared")
}

/// S1: the message, its turn and the title are one transaction, and nothing is done before it.
#[test]
fn s1_the_message_is_durable_before_anything_starts() {
    let mut thread = Thread::new();
    let effects =
        thread.step(Input::Send { client_id: "c".into(), text: "# Hi\nthere".into(), target: target(codex()) });
    let message = user(1, 1, "# Hi\nthere", codex());
    let turn = begun(2, "c", 1, 1, codex());
    let target_ = Write::Target(target(codex()));
    assert_eq!(
        effects,
        [
            Effect::Commit(vec![
                target_.clone(),
                append(message.clone(), None),
                Write::Title("Hi".into()),
                put(turn.clone(), None),
            ]),
            Effect::Show(Change::Wrote(Box::new(target_))),
            Effect::Show(Change::Message(Box::new(message))),
            Effect::Show(Change::Wrote(Box::new(Write::Title("Hi".into())))),
            Effect::Show(Change::Turn(Some((Box::new(turn.clone()), None)))),
            Effect::Prepare {
                turn: turn.id,
                attempt: 1,
                target: target(codex()),
                transition: Transition { kind: TransitionKind::Fresh, after_seq: 0 },
                scope: Scope { after: 0, upto: 0, prompt: Some(1), own: None },
                from: None,
            },
            started(2, 1, 1),
        ]
    );
}

/// T1, as the turn meets it: fresh, reuse, handoff, delta.
#[test]
fn t1_each_transition() {
    let mut thread = Thread::new();
    thread.talks("one", claude(), "s1", None);
    let (transition, scope, _) = prepare(&thread.send("two", claude()));
    assert_eq!(transition, Transition { kind: TransitionKind::Reuse, after_seq: 2 });
    assert_eq!(scope.own, Some(SessionStamp { id: "s1".into(), incarnation: 0 }));
    thread.does(Input::Interrupt);

    let (transition, scope, _) = prepare(&thread.send("three", codex()));
    assert_eq!(transition, Transition { kind: TransitionKind::Handoff, after_seq: 0 });
    assert_eq!(scope, Scope { after: 0, upto: 3, prompt: Some(4), own: None });
    thread.does(Input::Interrupt);

    let (transition, scope, _) = prepare(&thread.send("four", claude()));
    assert_eq!(transition, Transition { kind: TransitionKind::Delta, after_seq: 2 });
    assert_eq!((scope.after, scope.upto, scope.prompt), (2, 4, Some(5)));
}

/// Preparing → sent: the intent is on disk, with the handover's exact text, before the bytes leave.
#[test]
fn prepared_opened_sent() {
    let mut thread = Thread::new();
    thread.talks("one", claude(), "s1", None);
    thread.send("two", codex());
    let handed = handover(codex(), TransitionKind::Handoff, vec![SeqRange { from: 1, to: 2 }]);
    let effects = thread.prepared(Ok(Some((handed.clone(), "history".into()))));
    let turn = TurnId(id(6));
    assert_eq!(effects, [Effect::Open { turn, attempt: 1, target: target(codex()), resume: None }]);

    let prompt = PromptId(id(7));
    let effects = thread.opened(Ok(()));
    let mut record = begun(6, "client two", 5, 3, codex());
    record.phase = TurnPhase::Sent;
    record.prompt = Some(prompt);
    record.handover = Some(handed);
    assert_eq!(
        effects,
        [
            Effect::Commit(vec![put(record, Some("history"))]),
            Effect::Write { turn, provider: codex(), prompt, text: "history\n\n## New message\n\ntwo".into() },
        ]
    );
    assert_eq!(thread.does(Input::Written { turn, prompt, result: Ok(()) }), []);
    assert_eq!(thread.phase(), TurnPhase::Sent);
}

/// An open session is gone on with where it stands.
#[test]
fn a_session_is_resumed_at_its_anchor() {
    let mut thread = Thread::new();
    thread.talks("one", claude(), "s1", Some("a1"));
    thread.send("two", claude());
    let effects = thread.prepared(Ok(None));
    let resume = Some(ResumeAt { session_id: "s1".into(), anchor: Some("a1".into()), rewind: false });
    assert_eq!(effects, [Effect::Open { turn: thread.record().id, attempt: 1, target: target(claude()), resume }]);
}

/// R9 and whatever else keeps a turn from starting: nothing was written, the message can be sent again, the session stays.
#[test]
fn r9_what_cannot_start_is_refused() {
    for opening in [false, true] {
        let mut thread = Thread::new();
        thread.talks("one", claude(), "s1", Some("a1"));
        thread.send("two", claude());
        let failure = failed(FailureKind::FolderGone);
        let effects = if opening {
            thread.prepared(Ok(None));
            thread.opened(Err(failure.clone()))
        } else {
            thread.prepared(Err(failure.clone()))
        };
        let mut turn = begun(6, "client two", 5, 3, claude());
        turn.phase = TurnPhase::Refused;
        turn.ended_at = Some(NOW);
        turn.session = Some("s1".into());
        turn.anchor_before = Some("a1".into());
        turn.known_before = 2;
        turn.failure = Some(failure.clone());
        let error = notice(7, 4, Notice::Error { provider: claude(), failure });
        assert_eq!(
            effects,
            [Effect::Commit(vec![
                state(5, MessageState::NotAnswered, None, claude()),
                put(turn, None),
                append(error, None),
            ])]
        );
        assert!(thread.state.turn.is_none());
        let before = session(claude(), "s1", 2, vec![told(2, 1, 0, vec![], None)], Some("a1"));
        assert_eq!(thread.session(&claude()), Some(&before));
    }
}

/// T5: gone, for the first time in a turn: dropped, noted and begun again as a handoff, in one transaction; the second refuses.
#[test]
fn t5_gone_goes_on_as_a_handoff_once() {
    let mut thread = Thread::new();
    thread.talks("one", claude(), "s1", Some("a1"));
    thread.send("two", claude());
    thread.prepared(Ok(None));
    let effects = thread.opened(Err(failed(FailureKind::SessionGone)));
    let mut turn = begun(6, "client two", 5, 3, claude());
    turn.attempt = 2;
    turn.gone = true;
    turn.session = Some("s1".into());
    turn.anchor_before = Some("a1".into());
    turn.known_before = 2;
    let gone = notice(7, 4, Notice::SessionGone { provider: claude(), reason: "so it said".into() });
    assert_eq!(
        effects,
        [
            Effect::Close { provider: claude() },
            Effect::Commit(vec![
                Write::DropSession { provider: claude(), at: NOW },
                append(gone, None),
                put(turn, None),
            ]),
            Effect::Prepare {
                turn: TurnId(id(6)),
                attempt: 2,
                target: target(claude()),
                transition: Transition { kind: TransitionKind::Handoff, after_seq: 0 },
                scope: Scope { after: 0, upto: 2, prompt: Some(3), own: None },
                from: Some(claude()),
            },
        ]
    );
    assert_eq!(thread.record().known_before, 0);

    thread.prepared(Ok(None));
    let effects = thread.opened(Err(failed(FailureKind::SessionGone)));
    assert_eq!(turn_in(&effects).phase, TurnPhase::Refused);
    assert_eq!(error_in(&effects), Some(FailureKind::SessionGone));
    assert!(thread.state.turn.is_none());
}

/// T5: a CLI that says so only after the prompt.
#[test]
fn t5_gone_after_the_prompt_was_written() {
    let mut thread = Thread::stands_in(TurnPhase::Sent, keeps(Kept::PromptOnly, true), true);
    let effects = thread.fails(FailureKind::SessionGone);
    assert_eq!(prepare(&effects).0.kind, TransitionKind::Handoff);
    assert_eq!(thread.session(&claude()), None);
    assert!(thread.record().gone && thread.record().prompt.is_none());
}

/// Answers of the driver that come too late change nothing.
#[test]
fn late_answers_of_the_driver_are_let_go() {
    let mut thread = Thread::new();
    thread.send("one", claude());
    let turn = thread.record().id;
    let other = TurnId(id(99));
    assert_eq!(thread.does(Input::Prepared { turn, attempt: 2, result: Ok(None) }), []);
    assert_eq!(thread.does(Input::Prepared { turn: other, attempt: 1, result: Ok(None) }), []);
    assert_eq!(thread.does(Input::Opened { turn: other, attempt: 1, result: Ok(()) }), []);
    let prompt = thread.goes();
    assert_eq!(thread.does(Input::Prepared { turn, attempt: 1, result: Ok(None) }), []);
    assert_eq!(thread.does(Input::Opened { turn, attempt: 1, result: Err(failed(FailureKind::SessionGone)) }), []);
    let wrong = Input::Written { turn, prompt: PromptId(id(98)), result: Err(failed(FailureKind::Exited)) };
    assert_eq!(thread.does(wrong), []);
    thread.taken();
    assert_eq!(thread.does(Input::Written { turn, prompt, result: Err(failed(FailureKind::Exited)) }), []);
    assert_eq!(thread.phase(), TurnPhase::Taken);
    thread.says("x");
    thread.ends(changeover_core::event::Ended::Completed);
    assert_eq!(thread.does(Input::Opened { turn, attempt: 1, result: Err(failed(FailureKind::SessionGone)) }), []);
    assert_eq!(thread.exits(codex()), []);
}

/// Bytes that did not leave: refused, and the session is brought to where it is certain.
#[test]
fn a_write_that_failed_is_refused() {
    let mut thread = Thread::stands_in(TurnPhase::Sent, keeps(Kept::Nothing, false), true);
    let (turn, prompt) = (thread.record().id, thread.record().prompt.expect("sent"));
    let effects = thread.does(Input::Written { turn, prompt, result: Err(failed(FailureKind::Exited)) });
    assert_eq!(turn_in(&effects).phase, TurnPhase::Refused);
    assert_eq!(error_in(&effects), Some(FailureKind::Exited));
}

/// T2 "taken" is a mark of its own, and moves nothing else.
#[test]
fn t2_taken() {
    let mut thread = Thread::new();
    thread.send("one", claude());
    let prompt = thread.goes();
    thread.knows("s1");
    let mut turn = begun(2, "client one", 1, 1, claude());
    turn.phase = TurnPhase::Taken;
    turn.prompt = Some(prompt);
    turn.session = Some("s1".into());
    assert_eq!(thread.taken(), [Effect::Commit(vec![put(turn, None)])]);
    assert_eq!(thread.taken(), [], "once");
    assert!(thread.state.sessions.is_empty());
}

/// T2: on acceptance one transaction holds the session, its mark, the notice with its exact text and the empty reply.
#[test]
fn t2_acceptance_is_one_transaction() {
    let mut thread = Thread::new();
    thread.talks("one", claude(), "s1", None);
    thread.send("two", codex());
    let prompt = thread.goes();
    thread.knows("x1");
    thread.event(RuntimeEvent::Context(ContextFigure { used: 9, window: Some(100) }));
    thread.taken();
    let handed = thread.record().handover.clone().expect("a handover");
    let effects = thread.says("Hel");

    let mut row = session(codex(), "x1", 3, vec![told(6, 3, 0, vec![SeqRange { from: 1, to: 2 }], None)], None);
    row.context = Some(ContextFigure { used: 9, window: Some(100) });
    let mut turn = begun(6, "client two", 5, 3, codex());
    turn.phase = TurnPhase::Streaming;
    turn.prompt = Some(prompt);
    turn.session = Some("x1".into());
    turn.handover = Some(handed.clone());
    turn.reply = reply_ref(9, 5);
    assert_eq!(
        effects,
        [Effect::Commit(vec![
            state(5, MessageState::Done, None, codex()),
            Write::Session(row.clone()),
            append(notice(8, 4, Notice::Handover(handed)), Some("history")),
            append(reply(9, 5, codex(), Some(("x1", 0))), None),
            put(turn, None),
        ])]
    );
    assert_eq!(thread.session(&codex()), Some(&row));
    assert_eq!(thread.state.answered_by, Some(codex()));
    let text = changeover_core::part::Part::text("t", "Hel");
    assert_eq!(thread.state.pending.writes, [Write::Part { message: MessageId(id(9)), part: text }]);
}

/// T2: only what the model made answers; everything that the CLI makes up does not.
#[test]
fn t2_what_answers_and_what_does_not() {
    let silent = [
        RuntimeEvent::SessionKnown { session_id: "s1".into(), model: Some("m".into()) },
        RuntimeEvent::Requested,
        RuntimeEvent::Retrying { attempt: 1, max: None, message: "busy".into() },
        RuntimeEvent::Context(ContextFigure { used: 1, window: None }),
        RuntimeEvent::Warning { message: "w".into() },
        RuntimeEvent::Anchor { anchor: "a".into() },
        RuntimeEvent::Compacted,
        RuntimeEvent::Raw { kind: "?".into() },
        RuntimeEvent::Text { item: "t".into(), delta: String::new() },
        RuntimeEvent::Whole { item: "t".into(), reasoning: false, text: String::new() },
        RuntimeEvent::CommandOutput { item: "c".into(), delta: "out".into() },
        RuntimeEvent::Superseded { items: vec!["t".into()] },
        RuntimeEvent::ApprovalWithdrawn { key: "k".into() },
    ];
    for event in silent {
        let mut thread = Thread::stands_in(TurnPhase::Taken, Keeps::UNKNOWN, false);
        thread.event(event.clone());
        assert_eq!((thread.phase(), thread.record().reply), (TurnPhase::Taken, None), "{event:?}");
    }
    let made = [
        RuntimeEvent::Text { item: "t".into(), delta: "x".into() },
        RuntimeEvent::Reasoning { item: "t".into(), delta: "x".into() },
        RuntimeEvent::Whole { item: "t".into(), reasoning: true, text: "x".into() },
        command("c", WorkStatus::Running, None),
        RuntimeEvent::Tool {
            item: "t".into(),
            name: "read".into(),
            input: "{}".into(),
            output: None,
            status: WorkStatus::Running,
        },
        RuntimeEvent::FileChange { item: "f".into(), files: vec![], status: WorkStatus::Running },
        RuntimeEvent::Plan { item: "p".into(), entries: vec![] },
        wanted("k", "make"),
    ];
    for event in made {
        for phase in [TurnPhase::Sent, TurnPhase::Taken] {
            let mut thread = Thread::stands_in(phase, Keeps::UNKNOWN, false);
            thread.event(event.clone());
            let now = if matches!(event, RuntimeEvent::ApprovalWanted(_)) {
                TurnPhase::Waiting
            } else {
                TurnPhase::Streaming
            };
            assert_eq!(thread.phase(), now, "{event:?}");
            assert_eq!(thread.session(&claude()).map(|s| s.known_upto_seq), Some(1));
        }
    }
}

/// A session id that nobody said is no session: the next turn is a handoff.
#[test]
fn without_an_id_there_is_no_session() {
    let mut thread = Thread::new();
    thread.send("one", claude());
    thread.goes();
    thread.says("x");
    assert_eq!(thread.session(&claude()), None);
    thread.ends(changeover_core::event::Ended::Completed);
    assert_eq!(prepare(&thread.send("two", claude())).0.kind, TransitionKind::Handoff);
}

/// What an earlier process said of itself is not the new one's id.
#[test]
fn an_id_said_before_the_session_was_opened_is_not_its_id() {
    let mut thread = Thread::new();
    thread.send("one", claude());
    thread.knows("of the process before");
    thread.goes();
    thread.knows("s1");
    thread.says("x");
    assert_eq!(thread.session(&claude()).map(|s| s.session_id.as_str()), Some("s1"));

    let mut thread = Thread::new();
    thread.send("one", claude());
    thread.knows("of the process before");
    thread.goes();
    thread.says("x");
    assert_eq!(thread.session(&claude()), None);
}

/// T8: as itself, to the same provider; also after two failures, and to another provider.
#[test]
fn t8_sent_again_as_itself() {
    let mut thread = Thread::keeping(keeps(Kept::PromptOnly, true));
    thread.send("one", claude());
    thread.prepared(Err(failed(FailureKind::NotLoggedIn)));
    let effects = thread.again("c2", 1, 1, claude());
    let turn = begun(4, "c2", 1, 1, claude());
    assert_eq!(
        effects,
        [
            Effect::Commit(vec![state(1, MessageState::Open, None, claude()), put(turn.clone(), None)]),
            Effect::Prepare {
                turn: turn.id,
                attempt: 1,
                target: target(claude()),
                transition: Transition { kind: TransitionKind::Fresh, after_seq: 0 },
                scope: Scope { after: 0, upto: 0, prompt: Some(1), own: None },
                from: None,
            },
            started(4, 1, 1),
        ]
    );
    thread.goes();
    thread.taken();
    thread.fails(FailureKind::RateLimited);

    let effects = thread.again("c3", 1, 1, codex());
    let first = Write::MessageState {
        message: MessageId(id(1)),
        state: MessageState::Open,
        ended_at: None,
        provider: Some(codex()),
    };
    assert_eq!(commits(&effects)[0][..2], [first, Write::Target(target(codex()))]);
    assert_eq!(prepare(&effects).0.kind, TransitionKind::Fresh, "it is no history of itself");
    thread.goes();
    thread.knows("x1");
    thread.says("at last");
    thread.ends(changeover_core::event::Ended::Completed);
    let messages: Vec<_> = thread.state.content.into_iter().flatten().collect();
    assert_eq!(messages, [4, 1], "one message, one reply; the notices in between are no content");
    assert_eq!(thread.session(&codex()).map(|s| s.known_upto_seq), Some(4));
}

/// T8: what came after the message is history of it.
#[test]
fn t8_sent_again_after_others() {
    let mut thread = Thread::new();
    thread.send("one", claude());
    thread.does(Input::Interrupt);
    thread.talks("two", codex(), "x1", None);
    let (transition, scope, _) = prepare(&thread.again("c2", 1, 1, claude()));
    assert_eq!(transition.kind, TransitionKind::Handoff);
    assert_eq!(scope, Scope { after: 0, upto: 4, prompt: Some(1), own: None });
    thread.goes();
    thread.knows("s1");
    thread.says("x");
    assert_eq!(thread.session(&claude()).map(|s| s.known_upto_seq), Some(4));
}

/// T8: a message that was answered in part stands in its session. Asked again, the session goes back to before it, or is
/// dropped, so that it stands there once; the half reply is told.
#[test]
fn t8_asked_again_where_it_was_asked() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.anchored("a2");
    thread.fails(FailureKind::RateLimited);
    assert_eq!(thread.session(&claude()).map(|s| s.known_upto_seq), Some(4));
    let foreseen = thread.state.outlook_again(&claude(), 3);
    let effects = thread.again("c2", 3, 5, claude());
    let mut row = session(claude(), "s1", 2, vec![told(2, 1, 0, vec![], None)], Some("a1"));
    row.incarnation = 1;
    row.rewind = true;
    assert_eq!(commits(&effects)[0][0], Write::Session(row));
    assert_eq!(effects[0], Effect::Close { provider: claude() });
    let (transition, scope, _) = prepare(&effects);
    assert_eq!(transition, Transition { kind: TransitionKind::Delta, after_seq: 2 });
    let own = Some(SessionStamp { id: "s1".into(), incarnation: 1 });
    assert_eq!((foreseen.transition, foreseen.scope), (transition, scope.clone()), "H1: its preview is the same");
    assert_eq!(scope, Scope { after: 2, upto: 4, prompt: Some(3), own });

    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, false), true);
    thread.fails(FailureKind::RateLimited);
    let foreseen = thread.state.outlook_again(&claude(), 3);
    let effects = thread.again("c2", 3, 5, claude());
    assert_eq!(commits(&effects)[0][0], Write::DropSession { provider: claude(), at: NOW });
    let (transition, scope, _) = prepare(&effects);
    assert_eq!(transition.kind, TransitionKind::Handoff);
    assert_eq!((foreseen.transition, foreseen.scope), (transition, scope));

    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), true);
    thread.fails(FailureKind::RateLimited);
    let before = thread.session(&claude()).cloned();
    thread.again("c2", 3, 5, codex());
    assert_eq!(thread.session(&claude()).cloned(), before, "asked elsewhere, it stays as it is");
}

#[test]
fn t8_not_while_a_turn_runs() {
    let mut thread = Thread::stands_in(TurnPhase::Taken, Keeps::UNKNOWN, false);
    assert_eq!(thread.again("c2", 1, 1, claude()), [Effect::Respond(Response::Refused(Refusal::Busy))]);
}

/// A request that is made twice is answered, not repeated (DESIGN hop 3).
#[test]
fn the_same_request_has_the_same_answer() {
    let mut thread = Thread::new();
    thread.send("one", claude());
    assert_eq!(thread.send("one", claude()), [started(2, 1, 1)]);
    assert_eq!(thread.again("client one", 1, 1, claude()), [started(2, 1, 1)]);
    let first = thread.send("two", claude());
    assert_eq!(thread.send("two", claude()), first[1..], "the same place in the queue");
    assert_eq!(thread.state.queue.len(), 1);
}

/// A model that the runtime says later is noted with the reply.
#[test]
fn the_model_is_noted_when_it_is_known() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, Keeps::UNKNOWN, false);
    let reply = thread.record().reply.expect("a reply").id;
    let known = RuntimeEvent::SessionKnown { session_id: "s1".into(), model: Some("opus".into()) };
    let writes = commits(&thread.event(known)).concat();
    assert_eq!(writes.last(), Some(&Write::MessageModel { message: reply, model: "opus".into() }));
}

/// A text that the runtime finally states otherwise than it streamed replaces it; the same text costs nothing.
#[test]
fn the_final_text_counts() {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, Keeps::UNKNOWN, false);
    thread.does(Input::Flush);
    let whole = |text: &str| RuntimeEvent::Whole { item: "t".into(), reasoning: false, text: text.into() };
    assert_eq!(thread.event(whole("par")), []);
    assert_eq!(thread.state.pending.writes, []);
    thread.event(whole("partial"));
    let bodies = thread.state.pending.writes.iter().map(|w| match w {
        Write::Part { part, .. } => part.body.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(bodies.collect::<Vec<_>>(), [PartBody::Text { text: "partial".into() }]);
}
