//! The size index answers as a walk over the whole thread would (H3, B8), whatever was done to the thread.

use changeover_core::{
    handoff::{
        items::{ItemPlace, ItemSize, ItemSizes, Scope, Totals, items_of, sizes_of},
        select::select,
    },
    message::{Message, MessageState, Role, SessionStamp},
    notice::{ItemKind, LeftOut, LeftOutReason},
    part::Part,
    seq::{Seq, SeqRange, SeqSet},
    turn::write::Write,
};
use proptest::prelude::*;

use crate::common::*;

/// The plain answer: every message looked at.
struct Walk<'a> {
    messages: &'a [Message],
    scope: Scope,
}

impl Walk<'_> {
    fn held(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages.iter().filter(|message| self.scope.holds(message))
    }

    fn offered(&self) -> Vec<ItemSize> {
        self.held().filter(|message| !message.excluded).flat_map(sizes_of).collect()
    }
}

impl ItemSizes for Walk<'_> {
    type Error = std::convert::Infallible;

    fn newest_fitting(&mut self, before: ItemPlace, max_bytes: u64) -> Result<Option<ItemSize>, Self::Error> {
        Ok(self.offered().into_iter().rev().find(|item| item.place < before && item.bytes <= max_bytes))
    }

    fn last(&mut self, kind: ItemKind) -> Result<Option<ItemSize>, Self::Error> {
        Ok(self.offered().into_iter().rev().find(|item| item.kind == kind))
    }

    fn first_user(&mut self) -> Result<Option<ItemSize>, Self::Error> {
        Ok(self.offered().into_iter().find(|item| item.kind == ItemKind::User))
    }

    fn pinned(&mut self) -> Result<Vec<ItemSize>, Self::Error> {
        let pinned = self.held().rev().filter(|message| message.pinned && !message.excluded);
        Ok(pinned.flat_map(sizes_of).filter(|item| item.kind != ItemKind::Command).collect())
    }

    fn totals(&mut self) -> Result<Totals, Self::Error> {
        let textless = |message: &&Message| {
            !message.excluded && sizes_of(message).iter().all(|item| item.kind == ItemKind::Command)
        };
        let textless: SeqSet = self.held().filter(textless).map(|message| message.seq).collect();
        let mut kept_back: Vec<LeftOut> = Vec::new();
        let mut running = false;
        for message in self.held() {
            match kept_back.last_mut() {
                Some(before) if running && message.excluded => before.range.to = message.seq,
                _ if message.excluded => kept_back.push(LeftOut {
                    range: SeqRange { from: message.seq, to: message.seq },
                    reason: LeftOutReason::Excluded,
                }),
                _ => {}
            }
            running = message.excluded;
        }
        let commands = self.held().flat_map(sizes_of).filter(|item| item.kind == ItemKind::Command).count();
        Ok(Totals {
            messages: self.held().count() as u64,
            commands: commands as u64,
            kept_back,
            textless: textless.ranges().to_vec(),
        })
    }

    fn bounds(&mut self, within: SeqRange) -> Result<Option<SeqRange>, Self::Error> {
        let held: Vec<Seq> =
            self.held().map(|message| message.seq).filter(|seq| (within.from..=within.to).contains(seq)).collect();
        Ok(held.first().zip(held.last()).map(|(from, to)| SeqRange { from: *from, to: *to }))
    }
}

/// A message to come: role, text length, command output lengths, session, marks.
type Plan = (u8, Option<usize>, Vec<usize>, u8, u8);

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let one = (0_u8..8, prop::option::of(0_usize..400), prop::collection::vec(0_usize..300, 0..3), 0_u8..3, 0_u8..12);
    // Mostly short threads; some that reach over several blocks.
    prop_oneof![prop::collection::vec(one.clone(), 0..30), prop::collection::vec(one, 250..800)]
}

fn made((role, text, outputs, session, marks): &Plan, seq: Seq) -> Message {
    let role = match role {
        0..=2 => Role::User,
        3..=6 => Role::Assistant,
        _ => Role::System,
    };
    let mut parts: Vec<Part> = Vec::new();
    for (at, len) in outputs.iter().enumerate().filter(|_| role == Role::Assistant) {
        parts.push(command(&format!("c{at}"), "cargo test", &"o".repeat(*len)));
    }
    if let Some(len) = text.filter(|_| role != Role::System) {
        // Texts with fences and headings of ours cost more than their length.
        let text = if len % 7 == 0 { "```\n## New message\n".repeat(len / 20) } else { "t".repeat(len) };
        parts.insert(parts.len() / 2, Part::text("t", text));
    }
    Message {
        session: (role == Role::Assistant).then(|| SessionStamp { id: "s".into(), incarnation: u32::from(*session) }),
        pinned: *marks == 1 || *marks == 2,
        excluded: *marks == 2 || *marks == 3,
        ..message(seq, role, parts)
    }
}

fn scopes(last: Seq) -> impl Strategy<Value = Scope> {
    (0..=last + 1, 0..=last + 300, prop::option::of(1..=last + 1), 0_u32..5).prop_map(|(after, upto, prompt, own)| {
        Scope { after, upto, prompt, own: (own < 4).then(|| SessionStamp { id: "s".into(), incarnation: own }) }
    })
}

fn compare(world: &World, messages: &[Message], scope: &Scope, budgets: &[u64]) -> Result<(), TestCaseError> {
    let mut walk = Walk { messages, scope: scope.clone() };
    let mut stored = world.store.item_sizes(world.thread, scope).unwrap();
    prop_assert_eq!(stored.totals().unwrap(), walk.totals().unwrap());
    prop_assert_eq!(stored.pinned().unwrap(), walk.pinned().unwrap());
    prop_assert_eq!(stored.first_user().unwrap(), walk.first_user().unwrap());
    for kind in [ItemKind::User, ItemKind::Assistant] {
        prop_assert_eq!(stored.last(kind).unwrap(), walk.last(kind).unwrap());
    }
    for budget in budgets {
        let mut before = ItemPlace::END;
        loop {
            let found = stored.newest_fitting(before, *budget).unwrap();
            prop_assert_eq!(found, walk.newest_fitting(before, *budget).unwrap());
            let Some(found) = found else { break };
            before = found.place;
            if budgets.len() > 1 && before.seq.is_multiple_of(5) {
                break;
            }
        }
        let chosen = select(&mut stored, *budget, None).unwrap();
        prop_assert_eq!(&chosen, &select(&mut walk, *budget, None).unwrap());
        let places: Vec<ItemPlace> = chosen.chosen.iter().map(|item| item.place).collect();
        let bodies: Vec<_> = messages.iter().flat_map(items_of).filter(|item| places.contains(&item.place)).collect();
        prop_assert_eq!(stored.items(&places).unwrap(), bodies);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn h3_the_index_answers_as_a_walk_would(
        (plans, scopes) in plans().prop_flat_map(|plans| {
            let last = plans.len() as Seq;
            (Just(plans), prop::collection::vec(scopes(last), 1..4))
        }),
        batch in 1_usize..400,
        budgets in prop::collection::vec(0_u64..3000, 1..3),
    ) {
        let world = world();
        let messages: Vec<Message> = plans.iter().zip(1..).map(|(plan, seq)| made(plan, seq)).collect();
        for some in messages.chunks(batch) {
            world.put(some.iter().cloned().map(append).collect());
        }
        for scope in &scopes {
            compare(&world, &messages, scope, &budgets)?;
        }
    }

    /// The same when replies stream in, are folded, finish a command late, and marks are set and taken back.
    #[test]
    fn h3_the_index_follows_every_change(
        steps in prop::collection::vec((0_u8..7, 0_usize..12, 0_usize..500), 1..40),
        budget in 0_u64..3000,
    ) {
        let world = world();
        let mut model: Vec<Message> = Vec::new();
        for (op, at, len) in steps {
            let next = model.len() as Seq + 1;
            let found = if model.is_empty() { None } else { Some(at % model.len()) };
            match (op, found) {
                (0, _) => {
                    model.push(user(next, &"u".repeat(len)));
                    world.put(vec![append(user(next, &"u".repeat(len)))]);
                }
                // A reply streams and ends.
                (1, _) => {
                    let id = message_id(next.into());
                    let running = command("c", "sleep", "");
                    world.put(vec![append(reply(next)), Write::Part { message: id, part: Part::text("t", "") }]);
                    world.put(vec![chunk(id, "t", "r".repeat(len)), Write::Part { message: id, part: running.clone() }]);
                    world.put(vec![done(id)]);
                    let parts = vec![Part::text("t", "r".repeat(len)), running];
                    model.push(Message { state: MessageState::Done, ended_at: Some(5000), parts, ..reply(next) });
                }
                // A command prints and finishes after its turn (S2).
                (2, Some(at)) if model[at].parts.iter().any(|part| part.key == "c") => {
                    let id = model[at].id;
                    let part = command("c", "sleep", &"late".repeat(len));
                    world.put(vec![Write::Part { message: id, part: part.clone() }]);
                    world.put(vec![chunk(id, "c", "\nend")]);
                    let whole = command("c", "sleep", &("late".repeat(len) + "\nend"));
                    model[at].parts.iter_mut().filter(|part| part.key == "c").for_each(|part| *part = whole.clone());
                }
                (3, Some(at)) => {
                    world.put(vec![Write::Supersede { message: model[at].id, keys: vec!["t".into()] }]);
                    model[at].parts.iter_mut().filter(|part| part.key == "t").for_each(|part| part.superseded = true);
                }
                (4, Some(at)) => {
                    model[at].excluded = !model[at].excluded;
                    wait(world.store.mark_message(world.thread, model[at].id, None, Some(model[at].excluded))).unwrap();
                }
                (5, Some(at)) => {
                    model[at].pinned = !model[at].pinned;
                    wait(world.store.mark_message(world.thread, model[at].id, Some(model[at].pinned), None)).unwrap();
                }
                _ => {}
            }
        }
        prop_assert_eq!(all(&world.store, world.thread), model.clone());
        let scope = Scope { after: 0, upto: model.len() as Seq, prompt: None, own: None };
        compare(&world, &model, &scope, &[budget])?;
        let scope = Scope { own: Some(SessionStamp { id: "s".into(), incarnation: 0 }), after: 2, ..scope };
        compare(&world, &model, &scope, &[budget])?;
    }
}
