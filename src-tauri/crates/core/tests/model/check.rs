//! What must hold after every step: DESIGN 2b's invariants, T6's partition by the record, and the record against what the
//! simulated CLIs really hold.

use std::collections::{BTreeMap, BTreeSet};

use changeover_core::{
    handoff::render,
    id::TurnId,
    message::{Message, MessageState, Role},
    notice::Notice,
    part::PartBody,
    provider::ProviderId,
    seq::Seq,
    session::SessionRecord,
    turn::{
        self,
        record::{ApprovalState, TurnPhase},
        state::{FLUSH_MS, Late},
        write::Write,
    },
};

use super::{
    sim::{Entry, Kind},
    world::{World, sessions_in},
};

/// What is remembered over time.
#[derive(Debug, Default)]
pub struct Watch {
    /// The highest mark of each incarnation of a session.
    known: BTreeMap<(String, u32), Seq>,
    /// Messages that a person has sent again.
    resent: BTreeSet<Seq>,
    /// How often a session was found gone in a turn (T5).
    gone: BTreeMap<TurnId, u32>,
    /// Turns that a person has stopped.
    stopped: BTreeSet<TurnId>,
}

pub fn committed(world: &mut World, writes: &[Write]) {
    for record in sessions_in(writes) {
        let root = world.sims[&record.provider].roots[&record.session_id].clone();
        let mark = world.watch.known.entry((root, record.incarnation)).or_default();
        assert!(
            record.known_upto_seq >= *mark,
            "within an incarnation the mark never falls (T3): {record:?}, was {mark}"
        );
        *mark = record.known_upto_seq;
    }
    for write in writes {
        if let Write::Turn { turn, .. } = write {
            let stops = turn.phase.is_terminal() || turn.phase == TurnPhase::Interrupting;
            assert!(stops || !world.watch.stopped.contains(&turn.id), "a stop is the last word (R5): {turn:?}");
        }
        if let Write::Append { message, .. } = write
            && let Some(Notice::SessionGone { .. }) = &message.notice
        {
            let turn = world.state.turn.as_ref().expect("a session is gone in a turn").record.id;
            let times = world.watch.gone.entry(turn).or_default();
            *times += 1;
            assert_eq!(*times, 1, "at most once a turn (T5)");
        }
    }
}

pub fn sent_again(world: &mut World, seq: Seq) {
    world.watch.resent.insert(seq);
}

/// A person's stop was taken.
pub fn stopped(world: &mut World) {
    if let Some(turn) = &world.state.turn {
        world.watch.stopped.insert(turn.record.id);
    }
}

/// The prompt as it leaves: the handover of this turn, and the message once.
pub fn prompt(world: &World, text: &str) {
    let turn = world.state.turn.as_ref().expect("a prompt belongs to a turn");
    assert_eq!(turn.handover_text.is_some(), turn.record.handover.is_some());
    if turn.record.go_on {
        assert_eq!((text, &turn.handover_text), (turn::GO_ON, &None), "what goes on tells nothing");
        let session = &world.state.sessions[&turn.record.target.provider];
        assert!(session.turns.iter().any(|told| told.turn == turn.record.id), "it goes on where it was asked");
    } else {
        assert_eq!(text, render::prompt(turn.handover_text.as_deref(), &turn.message_text));
        let mark = marks_of(&turn.message_text).next().expect("a message has its mark").to_owned();
        assert_eq!(text.matches(&mark).count(), 1, "the message stands once in its own prompt");
    }
    let on_disk = world.store.open_turn().expect("the intent is on disk");
    assert_eq!((on_disk.0.phase, on_disk.0.prompt), (TurnPhase::Sent, turn.record.prompt));
    assert_eq!(on_disk.1, turn.handover_text);
}

pub fn holds(world: &World) {
    let (state, store) = (&world.state, &world.store);
    assert_eq!(state.next_seq, store.messages.len() as u64 + 1);
    assert_eq!(state.queue, store.queue);
    let content: Vec<Seq> = store.messages.iter().filter(|m| m.is_content()).map(|m| m.seq).rev().take(2).collect();
    assert_eq!(state.content.into_iter().flatten().collect::<Vec<_>>(), content);
    let open = store.open_turn().map(|(turn, _)| turn);
    assert_eq!(state.turn.as_ref().map(|t| (t.record.id, t.record.phase)), open.map(|t| (t.id, t.phase)));
    assert!(state.turn.as_ref().is_none_or(|t| t.record.attempt <= state.max_attempts + 1), "attempts are bounded");

    // S1: what was shown is on disk, or will be in time.
    if state.pending.writes.is_empty() {
        assert_eq!(world.screen, store.messages, "what was shown is on disk");
        assert_eq!(state.sessions, store.sessions);
    } else {
        assert!(state.pending.due.is_some_and(|due| due <= world.now + FLUSH_MS), "what was shown has a time");
    }

    // R4: an open approval is asked by a turn that runs; its process lives, or its end is not yet known.
    let asked = store.approvals.values().filter(|a| a.state == ApprovalState::Open).count();
    assert_eq!(asked > 0, open.is_some_and(|t| t.phase == TurnPhase::Waiting), "open approvals are of a waiting turn");
    for message in &store.messages {
        if message.state == MessageState::Open {
            let of_turn = open.is_some_and(|t| t.message == message.id || t.reply.is_some_and(|r| r.id == message.id));
            assert!(of_turn, "only the open turn's messages are open: {message:?}");
        }
        for part in message.parts.iter().filter(|p| !p.superseded) {
            if Late::of(message.id, part).is_some()
                && message.state != MessageState::Open
                && state.pending.writes.is_empty()
            {
                let known = state.late.values().any(|late| late.message == message.id && late.key == part.key);
                assert!(known, "what is said to run still can end: {part:?}");
            }
        }
    }
    for (provider, _) in state.late.keys() {
        assert!(world.lives(provider), "a command runs in a process");
    }
}

/// What is known of every live session.
pub fn sessions(world: &World) {
    let (state, store) = (&world.state, &world.store);
    for session in state.sessions.values() {
        assert!(!store.retired.contains(&session.session_id), "a live session is not a retired one");
        partition(world, session);
    }
}

/// T6 for one session, by the record and by the truth.
fn partition(world: &World, session: &SessionRecord) {
    let Some(history) = history(world, session) else { return };
    let open = world.state.turn.as_ref().filter(|t| t.record.target.provider == session.provider);
    // Compacted in this turn, heard or not yet: with its end, or after a crash, the session is let go.
    let compacted = world.sims[&session.provider].compacted_in;
    if open.is_some_and(|t| t.record.compacted || (compacted.is_some() && t.record.prompt == compacted)) {
        return;
    }
    // The turn that goes on is judged when it has ended: until then its prompt and reply are on their way. One that goes on
    // with a reply that was cut off stands on what it has told before.
    let asked = open.filter(|t| !t.record.go_on).and_then(|turn| match session.turns.split_last() {
        Some((last, before)) if last.turn == turn.record.id => Some((turn.record.known_before, before)),
        _ => None,
    });
    let (known, turns) = asked.unwrap_or((session.known_upto_seq, &session.turns[..]));
    let growing = open.and_then(|t| t.record.reply).map(|reply| reply.id);
    let held = marks(&history);
    let count = |mark: &str| held.get(mark).copied().unwrap_or(0);
    for message in world.store.messages.iter().filter(|m| m.is_content() && Some(m.id) != growing) {
        let seq = message.seq;
        let holds = |r: &changeover_core::seq::SeqRange| (r.from..=r.to).contains(&seq);
        let as_history = turns.iter().flat_map(|t| &t.told).filter(|r| holds(r)).count();
        let as_prompt = turns.iter().filter(|t| t.message_seq == seq).count();
        let left_out = turns.iter().flat_map(|t| &t.left_out).filter(|l| holds(&l.range)).count();
        let own = own(world, session, message);
        let resent = world.watch.resent.contains(&seq);
        let place = || format!("#{seq} of {session:#?}\nin {history:#?}");

        assert!(as_history <= 1, "told in one turn: {}", place());
        assert!(as_prompt <= 1, "asked once: {}", place());
        let expected = if seq > known {
            assert_eq!(as_history + as_prompt, 0, "what is above the mark is not told: {}", place());
            0
        } else if as_history + as_prompt > 0 {
            assert!(as_history + as_prompt == 1 || resent, "told once: {}", place());
            assert!(left_out == 0 || resent, "told or left out, not both: {}", place());
            as_history + as_prompt
        } else if left_out > 0 {
            assert_eq!(left_out, 1, "left out in one notice: {}", place());
            0
        } else {
            assert!(own, "own, told, left out or above: {}", place());
            1
        };
        for mark in marks_of(&message.text()) {
            assert_eq!(count(mark), expected, "the CLI holds what the record says: {}", place());
        }
        for part in &message.parts {
            if let PartBody::Command { command, .. } = &part.body {
                assert!(count(command.trim_start_matches("run ")) <= 1, "a command is told once: {}", place());
            }
        }
    }
}

fn own(world: &World, session: &SessionRecord, message: &Message) -> bool {
    let roots = &world.sims[&session.provider].roots;
    message.role == Role::Assistant
        && message.session.as_ref().is_some_and(|s| roots.get(&s.id) == roots.get(&session.session_id))
}

/// What the session holds as far as we count on it, without the turn that goes on; `None` where the CLI has lost it.
fn history(world: &World, session: &SessionRecord) -> Option<Vec<Entry>> {
    let sim = &world.sims[&session.provider];
    let mut history = sim.sessions.get(&session.session_id)?.clone();
    if session.rewind {
        let anchor = session.anchor.as_ref().expect("a rewind has a place to go to");
        // A place that is not there any more says so when it is opened, and the session is gone (T5).
        let at = history.iter().rposition(|e| e.anchor.as_ref() == Some(anchor))?;
        history.truncate(at + 1);
    }
    let open = world.state.turn.as_ref().filter(|t| t.record.target.provider == session.provider);
    if let Some(prompt) = open.and_then(|t| t.record.prompt)
        && let Some(at) = history.iter().position(|e| matches!(e.kind, Kind::Prompt { id, .. } if id == prompt))
    {
        history.truncate(at);
    }
    Some(history)
}

/// The marks by which a text is found again: the first words of its lines.
fn marks_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.trim_start_matches("Command: run ").split(' ').next())
        .filter(|word| word.starts_with("zq") && word.ends_with("qz"))
}

/// Every mark of messages and commands in a history, and how often it stands there.
fn marks(history: &[Entry]) -> BTreeMap<&str, usize> {
    let mut marks = BTreeMap::new();
    for mark in history.iter().flat_map(|entry| marks_of(&entry.text)) {
        *marks.entry(mark).or_default() += 1;
    }
    marks
}

/// The last word of a conversation: it goes on with everybody, and everything asked comes to its end.
pub fn settles(world: &mut World, providers: &[ProviderId]) {
    let idle = |world: &mut World| {
        for _ in 0..2_000 {
            if !world.go_well() {
                break;
            }
        }
        assert!(world.state.turn.is_none(), "the turn comes to an end (R154)");
    };
    world.calm();
    idle(world);
    for provider in providers {
        let waiting = world.state.queue.len();
        world.send(provider.clone(), 4, changeover_core::provider::ApprovalMode::Ask);
        idle(world);
        assert!(world.state.queue.is_empty(), "{waiting} waited, and the queue goes on");
        let last = world.store.messages.iter().rev().find(|m| m.is_content()).expect("a reply");
        assert_eq!((last.role, last.state), (Role::Assistant, MessageState::Done), "the user meets no dead end");
        assert_eq!(last.provider.as_ref(), Some(provider));
    }
}
