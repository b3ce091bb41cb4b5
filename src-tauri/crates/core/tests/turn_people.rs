//! What people do beside a turn: approvals (R4), the queue (R8), the choice of who answers next (T7), and commands that
//! outlive their turn (S2).

#![allow(clippy::expect_used, clippy::panic)]

mod turn_support;

use changeover_core::{
    approval::ApprovalDecision,
    event::{Ended, Keeps, Kept, RuntimeEvent},
    failure::FailureKind,
    id::{ApprovalId, MessageId, QueuedId, TurnId},
    part::{Part, PartBody, WorkStatus},
    provider::{ApprovalMode, Target},
    turn::{
        record::{Approval, ApprovalState, Queued, TurnPhase},
        state::{Change, Effect, FLUSH_MS, Input, Late, QUEUE_BOUND, Refusal, Response},
        write::Write,
    },
};
use turn_support::*;

fn streaming() -> Thread {
    let mut thread = Thread::stands_in(TurnPhase::Streaming, keeps(Kept::Everything, true), false);
    thread.does(Input::Flush);
    thread
}

fn asked(thread: &mut Thread, key: &str, command: &str) -> ApprovalId {
    thread.event(wanted(key, command));
    thread.state.turn.as_ref().and_then(|t| t.approvals.last()).expect("an approval").id
}

fn approval(thread: &Thread, id: ApprovalId, request_: (&str, &str), state: ApprovalState) -> Approval {
    let settled_at = (state != ApprovalState::Open).then_some(NOW);
    let turn = thread.record().id;
    Approval { id, turn, request: request(request_.0, request_.1), state, asked_at: NOW, settled_at }
}

fn stands(thread: &Thread) -> Vec<ApprovalState> {
    thread.state.turn.iter().flat_map(|t| t.approvals.iter().map(|a| a.state)).collect()
}

/// R4: asked, written, answered once.
#[test]
fn r4_once() {
    let mut thread = streaming();
    let effects = thread.event(wanted("k", "make"));
    let id = ApprovalId(turn_support::id(thread.ids));
    let mut turn = thread.record().clone();
    assert_eq!(turn.phase, TurnPhase::Waiting);
    let open = approval(&thread, id, ("k", "make"), ApprovalState::Open);
    assert_eq!(effects, [Effect::Commit(vec![Write::Approval(open), put(turn.clone(), None)])]);

    turn.phase = TurnPhase::Streaming;
    let once = approval(&thread, id, ("k", "make"), ApprovalState::Once);
    assert_eq!(
        thread.does(Input::Answer { id, decision: ApprovalDecision::Once }),
        [
            Effect::Commit(vec![Write::Approval(once), put(turn, None)]),
            Effect::Answer { provider: claude(), key: "k".into(), allow: true },
            Effect::Respond(Response::Done),
        ]
    );
    let again = thread.does(Input::Answer { id, decision: ApprovalDecision::Deny });
    assert_eq!(again, [Effect::Respond(Response::Refused(Refusal::Settled))]);
    asked(&mut thread, "k2", "make");
    assert_eq!(thread.phase(), TurnPhase::Waiting, "once is once");
}

/// R4: denied is told to the agent, which goes on.
#[test]
fn r4_deny() {
    let mut thread = streaming();
    let id = asked(&mut thread, "k", "make");
    let effects = thread.does(Input::Answer { id, decision: ApprovalDecision::Deny });
    assert!(effects.contains(&Effect::Answer { provider: claude(), key: "k".into(), allow: false }));
    assert_eq!((stands(&thread), thread.phase()), (vec![ApprovalState::Denied], TurnPhase::Streaming));
}

/// R4: this command in this thread: kept by us, answers what is open of it and what comes, in later turns and for others too.
#[test]
fn r4_in_this_thread() {
    let mut thread = streaming();
    let first = asked(&mut thread, "k1", "make");
    asked(&mut thread, "k2", "make");
    asked(&mut thread, "k3", "rm");
    let effects = thread.does(Input::Answer { id: first, decision: ApprovalDecision::Thread });
    let answers: Vec<_> = effects.iter().filter(|e| matches!(e, Effect::Answer { .. })).cloned().collect();
    let yes = |key: &str| Effect::Answer { provider: claude(), key: key.into(), allow: true };
    assert_eq!(answers, [yes("k1"), yes("k2")]);
    let rule = "command::make".to_owned();
    assert!(commits(&effects)[0].contains(&Write::Rule(rule.clone())));
    assert_eq!(stands(&thread), [ApprovalState::Thread, ApprovalState::Rule, ApprovalState::Open]);
    assert_eq!(thread.phase(), TurnPhase::Waiting);
    assert!(thread.state.rules.contains(&rule));

    thread.ends(Ended::Completed);
    thread.send("two", codex());
    thread.goes();
    let effects = thread.event(wanted("x", "make"));
    assert_eq!(effects.last(), Some(&Effect::Answer { provider: codex(), key: "x".into(), allow: true }));
    assert_eq!((stands(&thread), thread.phase()), (vec![ApprovalState::Rule], TurnPhase::Streaming));
    thread.event(wanted("y", "make clean"));
    assert_eq!(thread.phase(), TurnPhase::Waiting, "the exact command, no other");
}

/// R4: in the mode `All` the app answers yes itself.
#[test]
fn r4_all() {
    let mut thread = Thread::new();
    let all = Target { mode: ApprovalMode::All, ..target(claude()) };
    thread.does(Input::Send { client_id: "c".into(), text: "one".into(), target: all });
    thread.goes();
    thread.knows("s1");
    let effects = thread.event(wanted("k", "make"));
    assert_eq!(effects.last(), Some(&Effect::Answer { provider: claude(), key: "k".into(), allow: true }));
    assert_eq!((stands(&thread), thread.phase()), (vec![ApprovalState::Rule], TurnPhase::Streaming));
}

/// R4: withdrawn, never answered: by the agent, by a stop, by the end of its process or turn; asked while it stops, too.
#[test]
fn r4_withdrawn() {
    let mut thread = streaming();
    let id = asked(&mut thread, "k", "make");
    assert_eq!(thread.event(RuntimeEvent::ApprovalWithdrawn { key: "other".into() }), []);
    let effects = thread.event(RuntimeEvent::ApprovalWithdrawn { key: "k".into() });
    let mut turn = thread.record().clone();
    turn.phase = TurnPhase::Streaming;
    let withdrawn = approval(&thread, id, ("k", "make"), ApprovalState::Withdrawn);
    assert_eq!(effects, [Effect::Commit(vec![Write::Approval(withdrawn), put(turn, None)])]);
    let late = thread.does(Input::Answer { id, decision: ApprovalDecision::Once });
    assert_eq!(late, [Effect::Respond(Response::Refused(Refusal::Settled))]);

    let mut thread = streaming();
    let id = asked(&mut thread, "k", "make");
    let withdrawn = Write::Approval(approval(&thread, id, ("k", "make"), ApprovalState::Withdrawn));
    let effects = thread.does(Input::Interrupt);
    assert_eq!(commits(&effects)[0][0], withdrawn);
    let effects = thread.event(wanted("k2", "make"));
    assert_eq!(stands(&thread), [ApprovalState::Withdrawn, ApprovalState::Withdrawn]);
    assert!(!effects.iter().any(|e| matches!(e, Effect::Answer { .. })));
    assert_eq!(thread.phase(), TurnPhase::Interrupting);

    for exits in [true, false] {
        let mut thread = streaming();
        let id = asked(&mut thread, "k", "make");
        let withdrawn = Write::Approval(approval(&thread, id, ("k", "make"), ApprovalState::Withdrawn));
        let effects = if exits { thread.exits(claude()) } else { thread.ends(Ended::Completed) };
        assert!(commits(&effects).concat().contains(&withdrawn));
        assert!(!effects.iter().any(|e| matches!(e, Effect::Answer { .. })));
    }
}

/// R4: asked when no turn runs: not denied by itself; the screen says so.
#[test]
fn r4_asked_after_the_turn() {
    let mut thread = Thread::new();
    thread.talks("one", claude(), "s1", None);
    let effects = thread.step(Input::Event { provider: claude(), event: wanted("k", "make") });
    assert!(matches!(&effects[..], [Effect::Show(Change::Warning(words))] if words.contains("make")), "{effects:?}");
}

/// R8: a message waits on disk, is sent after the turn's end, and the one after it after that.
#[test]
fn r8_the_queue_goes_on() {
    let mut thread = streaming();
    let effects = thread.send("two", codex());
    let queued = |n: u128, text: &str| Queued {
        id: QueuedId(id(n)),
        client_id: format!("client {text}"),
        text: text.into(),
        target: target(codex()),
        at: NOW,
    };
    let first = queued(thread.ids, "two");
    assert_eq!(
        effects,
        [
            Effect::Commit(vec![Write::Queue(vec![first.clone()]), Write::Target(target(codex()))]),
            Effect::Respond(Response::Queued(first.id)),
        ]
    );
    thread.send("three", codex());
    let second = queued(thread.ids, "three");
    thread.does(Input::Target(target(claude())));

    let effects = thread.ends(Ended::Completed);
    let (turn, message) = (thread.record().id, thread.record().message);
    let batches = commits(&effects);
    assert_eq!(batches.len(), 2, "the end, and the next begun");
    assert_eq!(
        batches[1],
        [
            Write::Queue(vec![second.clone()]),
            append(user(message.0.as_u128(), 3, "two", codex()), None),
            put(begun(turn.0.as_u128(), "client two", message.0.as_u128(), 3, codex()), None),
        ]
    );
    assert_eq!(thread.state.queue, [second]);
    assert_eq!(thread.state.target, target(claude()), "what was chosen meanwhile stays chosen (T7)");
    thread.goes();
    thread.knows("x1");
    thread.says("x");
    thread.ends(Ended::Completed);
    assert_eq!((thread.record().client_id.as_str(), thread.state.queue.len()), ("client three", 0));
}

/// R8: after a stop, a failure or a refusal the queue is held; it goes on by hand, or with the next message, in order.
#[test]
fn r8_a_held_queue() {
    for how in ["stop", "stop, but it was quicker", "failure", "exit"] {
        let mut thread = streaming();
        thread.send("two", claude());
        match how {
            "stop" => {
                thread.does(Input::Interrupt);
                thread.ends(Ended::Interrupted);
            }
            "stop, but it was quicker" => {
                thread.does(Input::Interrupt);
                thread.ends(Ended::Completed);
            }
            "failure" => {
                thread.fails(FailureKind::RateLimited);
            }
            _ => {
                thread.exits(claude());
            }
        }
        assert!(thread.state.turn.is_none(), "{how}");
        assert_eq!(thread.state.queue.len(), 1, "{how}");
        let mut other = Thread { state: thread.state.clone(), now: thread.now, ids: thread.ids };

        let effects = thread.does(Input::QueueGo);
        assert_eq!(effects.last(), Some(&Effect::Respond(Response::Done)));
        assert_eq!(thread.record().client_id, "client two");
        assert_eq!(thread.does(Input::QueueGo), [Effect::Respond(Response::Refused(Refusal::Busy))]);

        let effects = other.send("three", claude());
        let place = other.state.queue[0].id;
        assert!(effects.contains(&Effect::Respond(Response::Queued(place))));
        assert_eq!((other.record().client_id.as_str(), other.state.queue.len()), ("client two", 1));
    }
    let mut idle = Thread::new();
    assert_eq!(idle.does(Input::QueueGo), [Effect::Respond(Response::Refused(Refusal::NotQueued))]);
}

/// R8: what waits can be changed and taken back; the queue has a bound.
#[test]
fn r8_edited_taken_back_and_bounded() {
    let mut thread = streaming();
    thread.send("two", codex());
    let queued_id = thread.state.queue[0].id;
    let effects = thread.does(Input::QueueEdit { id: queued_id, text: Some("deux".into()) });
    let mut changed = thread.state.queue[0].clone();
    changed.text = "deux".into();
    assert_eq!(effects, [Effect::Commit(vec![Write::Queue(vec![changed])]), Effect::Respond(Response::Done)]);
    let effects = thread.does(Input::QueueEdit { id: queued_id, text: None });
    assert_eq!(effects, [Effect::Commit(vec![Write::Queue(vec![])]), Effect::Respond(Response::Done)]);
    let gone = thread.does(Input::QueueEdit { id: queued_id, text: None });
    assert_eq!(gone, [Effect::Respond(Response::Refused(Refusal::NotQueued))]);

    for n in 0..QUEUE_BOUND {
        thread.send(&format!("m{n}"), codex());
    }
    let full = thread.send("one too many", codex());
    assert_eq!(full, [Effect::Respond(Response::Refused(Refusal::QueueFull))]);
    assert_eq!(thread.state.queue.len(), QUEUE_BOUND);
}

/// T7: what is chosen while a turn runs counts for the next message.
#[test]
fn t7_chosen_while_a_turn_runs() {
    let mut thread = streaming();
    let effects = thread.does(Input::Target(target(codex())));
    assert_eq!(effects, [Effect::Commit(vec![Write::Target(target(codex()))]), Effect::Respond(Response::Done)]);
    assert_eq!(thread.record().target, target(claude()));
}

/// S1: what is shown is written with the next commit, at the latest 250 ms later; neighbours are one chunk.
#[test]
fn s1_what_is_shown_is_soon_on_disk() {
    let mut thread = streaming();
    let message = thread.record().reply.expect("a reply").id;
    let shown = thread
        .step(Input::Event { provider: claude(), event: RuntimeEvent::Text { item: "t".into(), delta: "ti".into() } });
    assert_eq!(shown, [Effect::Show(Change::Text { message, key: "t".into(), text: "ti".into() })]);
    thread.now += 100;
    thread.says("al");
    assert_eq!(thread.state.wake_at(), Some(NOW + FLUSH_MS), "from the first on");
    thread.now = NOW + FLUSH_MS - 1;
    assert_eq!(thread.does(Input::Tick), []);
    thread.now += 1;
    let chunk = Write::Chunk { message, key: "t".into(), text: "tial".into() };
    assert_eq!(thread.does(Input::Tick), [Effect::Commit(vec![chunk])]);
    assert_eq!(thread.does(Input::Flush), []);
    thread.says("x");
    assert_eq!(commits(&thread.does(Input::Flush)).len(), 1);
}

/// S2: a cut stream starts over: the old part is folded away, the new one is its own.
#[test]
fn s2_superseded() {
    let mut thread = streaming();
    let message = thread.record().reply.expect("a reply").id;
    assert_eq!(thread.event(RuntimeEvent::Superseded { items: vec!["unknown".into()] }), []);
    thread.event(RuntimeEvent::Superseded { items: vec!["t".into(), "unknown".into()] });
    thread.event(RuntimeEvent::Text { item: "t2".into(), delta: "anew".into() });
    assert_eq!(
        thread.state.pending.writes,
        [Write::Supersede { message, keys: vec!["t".into()] }, Write::Part { message, part: Part::text("t2", "anew") },]
    );
}

fn with_late() -> (Thread, MessageId) {
    let mut thread = streaming();
    let message = thread.record().reply.expect("a reply").id;
    thread.runs("c");
    thread.ends(Ended::Completed);
    let late = Late { message, key: "c".into(), command: "make".into() };
    assert_eq!(thread.state.late, [((claude(), "c".to_owned()), late)].into());
    (thread, message)
}

fn status(message: MessageId, status: WorkStatus, exit_code: Option<i32>) -> Write {
    Write::PartStatus { message, key: "c".into(), status, exit_code }
}

/// S2: a command may finish after its turn, also while another turn runs.
#[test]
fn s2_late_commands() {
    let (mut thread, message) = with_late();
    let event = RuntimeEvent::CommandOutput { item: "c".into(), delta: "out".into() };
    thread.does(Input::Event { provider: claude(), event });
    thread.send("two", codex());
    let body = PartBody::Command {
        command: "make".into(),
        status: WorkStatus::Failed,
        exit_code: Some(3),
        output: "all of it".into(),
    };
    let event = RuntimeEvent::Command {
        item: "c".into(),
        command: String::new(),
        status: WorkStatus::Failed,
        exit_code: Some(3),
        output: Some("all of it".into()),
    };
    thread.does(Input::Event { provider: claude(), event: event.clone() });
    let part = Part { key: "c".into(), superseded: false, body };
    assert_eq!(thread.state.pending.writes, [Write::Part { message, part }]);
    assert!(thread.state.late.is_empty());
    thread.does(Input::Flush);
    assert_eq!(thread.does(Input::Event { provider: claude(), event }), [], "ended once");
    assert_eq!(thread.phase(), TurnPhase::Preparing);
}

/// S2: it ends with its process: killed, closed for a rewind or dropped.
#[test]
fn s2_late_commands_end_with_their_process() {
    let (mut thread, message) = with_late();
    let effects = thread.exits(claude());
    assert_eq!(effects, [Effect::Commit(vec![status(message, WorkStatus::Interrupted, None)])]);
    assert!(thread.state.late.is_empty());

    for rewinds in [true, false] {
        let (mut thread, message) = with_late();
        thread.state.keeps.insert(claude(), keeps(Kept::PromptOnly, rewinds));
        thread.send("two", claude());
        thread.goes();
        let effects = thread.fails(FailureKind::RateLimited);
        assert!(effects.contains(&Effect::Close { provider: claude() }));
        assert!(commits(&effects).concat().contains(&status(message, WorkStatus::Interrupted, None)));
        assert!(thread.state.late.is_empty());
    }

    let (mut thread, _) = with_late();
    assert_eq!(thread.exits(codex()), [], "another's process is not its own");
    assert_eq!(thread.state.late.len(), 1);
}

/// S2: tools and file changes may finish after their turn too; what never does ends with its process, and a start after a
/// crash finds all of it.
#[test]
fn s2_late_tools_and_file_changes() {
    let tool = |status, output: Option<&str>| RuntimeEvent::Tool {
        item: "t1".into(),
        name: "Agent".into(),
        input: "{}".into(),
        output: output.map(str::to_owned),
        status,
    };
    let change = |status| RuntimeEvent::FileChange { item: "f1".into(), files: Vec::new(), status };
    let mut thread = streaming();
    let message = thread.record().reply.expect("a reply").id;
    thread.event(tool(WorkStatus::Running, None));
    thread.event(change(WorkStatus::Running));
    thread.ends(Ended::Completed);
    assert_eq!(thread.state.late.len(), 2);
    let event = tool(WorkStatus::Completed, Some("done"));
    thread.does(Input::Event { provider: claude(), event });
    let body = PartBody::Tool {
        name: "Agent".into(),
        input: "{}".into(),
        output: Some("done".into()),
        status: WorkStatus::Completed,
    };
    let part = Part { key: "t1".into(), superseded: false, body };
    assert_eq!(thread.state.pending.writes, [Write::Part { message, part }]);
    let effects = thread.exits(claude());
    let ended = Write::PartStatus { message, key: "f1".into(), status: WorkStatus::Interrupted, exit_code: None };
    assert_eq!(commits(&effects).concat().last(), Some(&ended));
    assert!(thread.state.late.is_empty());

    let late = |body: &PartBody| {
        let part = Part { key: "p".into(), superseded: false, body: body.clone() };
        Late::of(message, &part).map(|late| (late.key, late.command))
    };
    let running = WorkStatus::Running;
    let tool = |status| PartBody::Tool { name: "Agent".into(), input: "{}".into(), output: None, status };
    let command = |status| PartBody::Command { command: "make".into(), status, exit_code: None, output: "".into() };
    assert_eq!(late(&command(running)), Some(("p".into(), "make".into())));
    assert_eq!(late(&tool(running)), Some(("p".into(), "".into())));
    assert_eq!(late(&PartBody::FileChange { files: Vec::new(), status: running }), Some(("p".into(), "".into())));
    assert_eq!((late(&command(WorkStatus::Failed)), late(&tool(WorkStatus::Completed))), (None, None));
}

/// Events of a session whose turn is over, or that is another's, change nothing.
#[test]
fn events_out_of_turn_are_let_go() {
    let mut thread = Thread::stands_in(TurnPhase::Preparing, Keeps::UNKNOWN, true);
    for event in [
        RuntimeEvent::Taken,
        RuntimeEvent::Text { item: "t".into(), delta: "x".into() },
        RuntimeEvent::Ended(Ended::Completed),
        RuntimeEvent::Anchor { anchor: "a9".into() },
    ] {
        assert_eq!(thread.event(event.clone()), [], "{event:?}");
        assert_eq!(thread.does(Input::Event { provider: codex(), event }), []);
    }
    assert_eq!(
        (thread.phase(), thread.state.turn.as_ref().and_then(|t| t.anchor.clone())),
        (TurnPhase::Preparing, None)
    );
    assert_eq!(thread.record().id, TurnId(id(6)));
}
