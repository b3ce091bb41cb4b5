//! Writes: what goes in comes out byte for byte (R022), what breaks a rule is refused whole.

use changeover_core::{
    approval::{ApprovalRequest, ApprovalSubject},
    failure::{Failure, FailureKind},
    handoff::items::{ItemSizes, Scope},
    id::{ApprovalId, QueuedId},
    message::{Message, MessageState, Role, SessionStamp},
    notice::{Handover, ItemKind, Notice},
    part::{FileDelta, Part, PartBody, PlanEntry, WorkStatus},
    provider::ProviderId,
    seq::SeqRange,
    session::SessionRecord,
    transition::TransitionKind,
    turn::{
        record::{Approval, ApprovalState, Queued, TurnPhase},
        write::Write,
    },
};
use changeover_store::StoreError;
use proptest::prelude::*;

use crate::common::*;

fn awkward() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        Just("a \u{2028} b\u{2029} \u{feff}👩‍👩‍👧‍👦 \r\n\t trailing   ".to_owned()),
        Just("\0 inside \0".to_owned()),
        "[a-z ]{0,40}",
        (1_usize..9000).prop_map(|n| "é".repeat(n)),
    ]
}

fn body() -> impl Strategy<Value = PartBody> {
    let status = || {
        prop_oneof![
            Just(WorkStatus::Running),
            Just(WorkStatus::Completed),
            Just(WorkStatus::Failed),
            Just(WorkStatus::Declined),
            Just(WorkStatus::Interrupted)
        ]
    };
    prop_oneof![
        awkward().prop_map(|text| PartBody::Text { text }),
        awkward().prop_map(|text| PartBody::Reasoning { text }),
        (awkward(), status(), any::<Option<i32>>(), awkward())
            .prop_map(|(command, status, exit_code, output)| PartBody::Command { command, status, exit_code, output }),
        (awkward(), awkward(), prop::option::of(awkward()), status())
            .prop_map(|(name, input, output, status)| PartBody::Tool { name, input, output, status }),
        (awkward(), awkward(), status())
            .prop_map(|(path, diff, status)| PartBody::FileChange { files: vec![FileDelta { path, diff }], status }),
        (awkward(), prop::option::of(status()))
            .prop_map(|(text, status)| PartBody::Plan { entries: vec![PlanEntry { text, status }] }),
        (awkward(), awkward(), awkward(), any::<u32>())
            .prop_map(|(name, kind, path, bytes)| { PartBody::Attachment { name, kind, path, bytes: bytes.into() } }),
    ]
}

fn appended(body: &mut PartBody, more: &str) {
    match body {
        PartBody::Text { text } | PartBody::Reasoning { text } => text.push_str(more),
        PartBody::Command { output, .. } => output.push_str(more),
        _ => {}
    }
}

#[derive(Debug, Clone)]
enum Op {
    Part(u8, PartBody),
    Chunk(u8, String),
    Supersede(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0_u8..4, body()).prop_map(|(key, body)| Op::Part(key, body)),
        (0_u8..4, awkward()).prop_map(|(key, text)| Op::Chunk(key, text)),
        (0_u8..4, awkward()).prop_map(|(key, text)| Op::Chunk(key, text)),
        (0_u8..4).prop_map(Op::Supersede),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// R022, S2: any parts, streamed in any batches and then ended, are what they would be in memory.
    #[test]
    fn r022_a_reply_comes_back_byte_for_byte(
        ops in prop::collection::vec(op(), 0..24),
        batch in 1_usize..6,
        late in prop::collection::vec(op(), 0..6),
    ) {
        let world = world();
        world.put(vec![append(user(1, "q")), append(reply(2))]);
        let mut model: Vec<Part> = Vec::new();
        let id = message_id(2);
        let mut writes = Vec::new();
        for (at, op) in ops.iter().chain(&late).enumerate() {
            if at == ops.len() {
                writes.push(done(id));
            }
            match op {
                Op::Part(key, body) => {
                    let part = Part { key: key.to_string(), superseded: false, body: body.clone() };
                    match model.iter_mut().find(|old| old.key == part.key) {
                        Some(old) => *old = part.clone(),
                        None => model.push(part.clone()),
                    }
                    writes.push(Write::Part { message: id, part });
                }
                Op::Chunk(key, text) => {
                    let Some(part) = model.iter_mut().find(|part| {
                        part.key == key.to_string()
                            && matches!(part.body, PartBody::Text { .. } | PartBody::Reasoning { .. } | PartBody::Command { .. })
                    }) else { continue };
                    appended(&mut part.body, text);
                    writes.push(chunk(id, &key.to_string(), text.clone()));
                }
                Op::Supersede(key) => {
                    for part in model.iter_mut().filter(|part| part.key == key.to_string()) {
                        part.superseded = true;
                    }
                    writes.push(Write::Supersede { message: id, keys: vec![key.to_string()] });
                }
            }
        }
        if late.is_empty() {
            writes.push(done(id));
        }
        for some in writes.chunks(batch) {
            world.put(some.to_vec());
        }
        let expected = Message { state: MessageState::Done, ended_at: Some(5000), parts: model, ..reply(2) };
        prop_assert_eq!(all(&world.store, world.thread), vec![user(1, "q"), expected.clone()]);
        for part in &expected.parts {
            prop_assert_eq!(world.store.read_part(id, &part.key).unwrap(), Some(part.clone()));
        }
        let world = world.reopen();
        prop_assert!(world.store.ended_cleanly());
        prop_assert_eq!(all(&world.store, world.thread), vec![user(1, "q"), expected]);
    }
}

fn handover() -> Handover {
    Handover {
        provider: ProviderId::codex(),
        model: None,
        from: Some(ProviderId::claude()),
        kind: TransitionKind::Handoff,
        told: vec![SeqRange { from: 1, to: 2 }],
        left_out: vec![],
        messages_told: 2,
        messages_total: 2,
        commands_told: 0,
        commands_total: 0,
        used: 100,
        budget: 16_000,
        bytes: 200,
        hash: "00".into(),
        items: vec![],
    }
}

#[test]
fn t4_a_notice_and_its_exact_text() {
    let world = world();
    let notice = Message { notice: Some(Notice::Handover(handover())), ..message(2, Role::System, vec![]) };
    let exact = "## This is history\n\u{2028}  trailing  \n";
    world
        .put(vec![append(user(1, "q")), Write::Append { message: Box::new(notice.clone()), text: Some(exact.into()) }]);
    assert_eq!(all(&world.store, world.thread), [user(1, "q"), notice]);
    assert_eq!(world.store.handover_text(message_id(2)).unwrap().as_deref(), Some(exact));
    assert_eq!(world.store.handover_text(message_id(1)).unwrap(), None);
    let loaded = world.store.load(world.thread).unwrap();
    assert_eq!((loaded.last_seq, loaded.last_content_seq), (2, 1));
}

fn session(id: &str) -> SessionRecord {
    SessionRecord {
        provider: ProviderId::claude(),
        session_id: id.into(),
        folder: "/work/p".into(),
        model: None,
        incarnation: 0,
        known_upto_seq: 1,
        turns: vec![],
        anchor: None,
        rewind: false,
        context: None,
    }
}

fn queued(n: u128) -> Queued {
    Queued { id: QueuedId(uuid(n)), client_id: format!("q{n}"), text: "later".into(), target: target(), at: 5 }
}

fn approval(state: ApprovalState) -> Approval {
    Approval {
        id: ApprovalId(uuid(40)),
        turn: turn(1, TurnPhase::Waiting).id,
        request: ApprovalRequest {
            key: "k".into(),
            item: None,
            subject: ApprovalSubject::Command { command: "ls".into(), cwd: None },
            reason: None,
        },
        state,
        asked_at: 7,
        settled_at: None,
    }
}

#[test]
fn a_thread_is_taken_up_as_it_was_left() {
    let world = world();
    let mut open = turn(1, TurnPhase::Waiting);
    open.handover = Some(handover());
    open.prompt = Some(prompt(1));
    let chosen = changeover_core::provider::Target { provider: ProviderId::codex(), ..target() };
    world.put(vec![
        append(user(1, "q")),
        Write::Turn { turn: Box::new(open.clone()), text: Some("exact".into()) },
        Write::Session(session("one")),
        Write::Queue(vec![queued(1), queued(2)]),
        Write::Approval(approval(ApprovalState::Open)),
        Write::Rule("command::ls".into()),
        Write::Rule("command::ls".into()),
        Write::Target(chosen.clone()),
        Write::Title("A title".into()),
    ]);
    let world = world.reopen();
    let loaded = world.store.load(world.thread).unwrap();
    let on_disk = loaded.turn.as_ref().unwrap();
    assert_eq!((&on_disk.turn, on_disk.text.as_deref()), (&open, Some("exact")));
    assert_eq!(loaded.sessions, [session("one")]);
    assert_eq!(loaded.queue, [queued(1), queued(2)]);
    assert_eq!(loaded.approvals, [approval(ApprovalState::Open)]);
    assert_eq!(loaded.rules, ["command::ls"]);
    assert_eq!(loaded.target, Some(chosen));
    assert_eq!(loaded.title, "A title");
    assert_eq!(world.store.open_turns().unwrap(), [world.thread]);
    assert_eq!(world.store.waiting_queues().unwrap(), [world.thread]);
    assert_eq!(world.store.open_approvals().unwrap(), [(world.thread, approval(ApprovalState::Open))]);
    assert_eq!(world.store.thread(world.thread).unwrap().phase, Some(TurnPhase::Waiting));

    // A change of phase without the text keeps it; the end takes it away.
    open.phase = TurnPhase::Interrupting;
    world.put(vec![put_turn(open.clone())]);
    let kept = world.store.load(world.thread).unwrap().turn.unwrap();
    assert_eq!((kept.turn, kept.text.as_deref()), (open.clone(), Some("exact")));
    open.phase = TurnPhase::Interrupted;
    world.put(vec![put_turn(open.clone()), Write::Approval(approval(ApprovalState::Withdrawn)), Write::Queue(vec![])]);
    let loaded = world.store.load(world.thread).unwrap();
    assert_eq!((loaded.turn, loaded.approvals, loaded.queue), (None, vec![], vec![]));
    assert!(world.store.open_turns().unwrap().is_empty());
    open.handover = None;
    assert_eq!(world.store.turn_by_client_id(world.thread, "client 1").unwrap(), Some(open));
    assert_eq!(world.store.turn_by_client_id(world.thread, "never").unwrap(), None);
    assert_eq!(world.store.approvals_of(turn(1, TurnPhase::Waiting).id).unwrap(), [approval(ApprovalState::Withdrawn)]);
}

#[track_caller]
fn refused(world: &World, writes: Vec<Write>) -> String {
    let before = all(&world.store, world.thread);
    match world.store.commit_blocking(world.thread, writes).unwrap_err() {
        StoreError::Invariant(text) => {
            assert_eq!(all(&world.store, world.thread), before, "nothing of a refused batch is written");
            text
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_next_number_and_no_other() {
    let world = world();
    world.put(vec![append(user(1, "q"))]);
    assert!(refused(&world, vec![append(user(2, "fits")), append(user(4, "gap"))]).contains("next number is 3"));
    assert!(refused(&world, vec![append(user(1, "again"))]).contains("next number is 2"));
    let same = Message { id: message_id(1), ..user(2, "same id") };
    assert!(refused(&world, vec![append(same)]).contains("is there already"));
    assert!(refused(&world, vec![chunk(message_id(1), "none", "x")]).contains("not there"));
}

#[test]
fn one_open_turn_a_thread_and_a_prompt_written_once() {
    let world = world();
    let mut first = turn(1, TurnPhase::Preparing);
    world.put(vec![append(user(1, "q")), put_turn(first.clone())]);
    assert!(refused(&world, vec![put_turn(turn(2, TurnPhase::Preparing))]).contains("open turn"));
    first.prompt = Some(prompt(1));
    first.phase = TurnPhase::Sent;
    world.put(vec![put_turn(first.clone())]);
    // The same prompt goes on through the phases; another attempt has another; none comes back.
    first.phase = TurnPhase::Taken;
    world.put(vec![put_turn(first.clone())]);
    first.prompt = Some(prompt(2));
    world.put(vec![put_turn(first.clone())]);
    first.prompt = Some(prompt(1));
    assert!(refused(&world, vec![put_turn(first.clone())]).contains("written before"));
    first.prompt = Some(prompt(2));
    first.phase = TurnPhase::Refused;
    first.failure = Some(Failure::new(FailureKind::Unavailable, "529"));
    let mut second = turn(2, TurnPhase::Preparing);
    second.prompt = Some(prompt(2));
    assert!(refused(&world, vec![put_turn(first.clone()), put_turn(second.clone())]).contains("written before"));
    second.prompt = None;
    second.client_id = first.client_id.clone();
    assert!(refused(&world, vec![put_turn(first.clone()), put_turn(second)]).contains("its turn already"));
    world.put(vec![put_turn(first), put_turn(turn(2, TurnPhase::Preparing))]);
    assert_eq!(world.store.load(world.thread).unwrap().turn.unwrap().turn, turn(2, TurnPhase::Preparing));
}

#[test]
fn t11_a_session_is_live_once() {
    let world = world();
    let other = thread_id(8);
    add_thread(&world.store, other);
    world.put(vec![Write::Session(session("one"))]);
    let error = world.store.commit_blocking(other, vec![Write::Session(session("one"))]).unwrap_err();
    assert!(matches!(&error, StoreError::Invariant(text) if text.contains("T11")), "{error}");
    // Another id retires the one before; the retired row stays.
    world.put(vec![Write::Session(session("two"))]);
    assert_eq!(world.store.load(world.thread).unwrap().sessions, [session("two")]);
    assert_eq!(world.store.retired_sessions(world.thread).unwrap(), [session("one")]);
    world.put(vec![Write::DropSession { provider: ProviderId::claude(), at: 9 }]);
    assert!(world.store.load(world.thread).unwrap().sessions.is_empty());
    // What is retired is no longer in the way.
    world.store.commit_blocking(other, vec![Write::Session(session("two"))]).unwrap();
    let codex = SessionRecord { provider: ProviderId::codex(), ..session("two") };
    world.put(vec![Write::Session(codex.clone())]);
    assert_eq!(world.store.load(world.thread).unwrap().sessions, [codex]);
}

#[test]
fn a_title_of_the_users_own_stays() {
    let world = world();
    world.put(vec![Write::Title("first words".into())]);
    wait(world.store.rename(world.thread, "Mine".into())).unwrap();
    world.put(vec![Write::Title("other".into())]);
    assert_eq!(world.store.thread(world.thread).unwrap().title, "Mine");
}

#[test]
fn t8_a_message_sent_again_is_the_same_message() {
    let world = world();
    world.put(vec![append(user(1, "q"))]);
    let again = Write::MessageState {
        message: message_id(1),
        state: MessageState::Open,
        ended_at: None,
        provider: Some(ProviderId::codex()),
    };
    world.put(vec![again]);
    let expected = Message { state: MessageState::Open, provider: Some(ProviderId::codex()), ..user(1, "q") };
    assert_eq!(all(&world.store, world.thread), [expected]);
}

#[test]
fn what_is_not_there_is_named() {
    let world = world();
    let error = world.store.commit_blocking(thread_id(99), vec![]).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchThread(id) if id == thread_id(99)));
    let error = world.store.commit_blocking(world.thread, vec![done(message_id(50))]).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchMessage(id) if id == message_id(50)));
    // A message of another thread is none of this one's.
    add_thread(&world.store, thread_id(8));
    world.put(vec![append(user(1, "q"))]);
    let error = world.store.commit_blocking(thread_id(8), vec![done(message_id(1))]).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchMessage(_)));
}

/// B8: a reply that another attempt went on with is of the session that it went to, in what is read and in what is told.
#[test]
fn a_reply_can_change_its_session_while_it_is_open() {
    let world = world();
    let stamp = |id: &str, incarnation| SessionStamp { id: id.into(), incarnation };
    let id = message_id(2);
    world.put(vec![append(user(1, "q")), append(Message { session: Some(stamp("s", 0)), ..reply(2) })]);
    world.put(vec![Write::Part { message: id, part: Part::text("t", "a") }]);
    world.put(vec![Write::MessageSession { message: id, session: Some(stamp("s", 1)) }, done(id)]);
    assert_eq!(world.store.read_message(world.thread, id).unwrap().session, Some(stamp("s", 1)));
    let told = |own| {
        let scope = Scope { after: 0, upto: 2, prompt: None, own };
        let mut sizes = world.store.item_sizes(world.thread, &scope).unwrap();
        sizes.last(ItemKind::Assistant).unwrap().map(|item| item.place.seq)
    };
    assert_eq!((told(Some(stamp("s", 1))), told(Some(stamp("s", 0))), told(None)), (None, Some(2), Some(2)));
    world.put(vec![Write::MessageSession { message: id, session: None }]);
    assert_eq!(
        (world.store.read_message(world.thread, id).unwrap().session, told(Some(stamp("s", 1)))),
        (None, Some(2))
    );
}
