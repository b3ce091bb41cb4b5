//! Selection against B3 as the reference has it: sort everything, walk everything (FC12).

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{
    handoff::{
        items::{ITEM_OVERHEAD, ItemPlace, ItemSize, ItemSizes as _, items_of, sizes_of},
        plain::{PlainSizes, Row},
        select::{Selection, SummarySizes, select},
    },
    notice::{ItemKind, LeftOutReason},
    seq::SeqRange,
};

fn selected(messages: &[Message], scope: &Scope, budget: u64, summary: Option<&SummarySizes>) -> Selection {
    select(&mut PlainSizes::new(messages, scope), budget, summary).unwrap()
}

/// An item as the naive rule sees it, and whether its message is pinned.
type Known = (ItemSize, bool);

fn known(messages: &[Message], scope: &Scope) -> Vec<Known> {
    let offered = messages.iter().filter(|m| scope.holds(m) && !m.excluded);
    offered.flat_map(|m| sizes_of(m).into_iter().map(|item| (item, m.pinned))).collect()
}

/// B3 word for word: an order of all items, then each in turn if it fits.
fn naive(all: &[Known], budget: u64, summary: Option<&SummarySizes>) -> (Vec<ItemPlace>, u64, Option<usize>) {
    let last_of = |kind| all.iter().rev().find(|(item, _)| item.kind == kind);
    let mut order = Vec::new();
    order.extend(all.iter().rev().filter(|(item, pinned)| *pinned && item.kind != ItemKind::Command));
    order.extend(last_of(ItemKind::User));
    order.extend(last_of(ItemKind::Assistant));
    order.extend(all.iter().find(|(item, _)| item.kind == ItemKind::User));
    order.extend(all.iter().rev());
    let mut used = 0;
    let mut form = None;
    for (n, bytes) in summary.iter().flat_map(|s| &s.forms).enumerate() {
        if used + bytes + 64 <= budget {
            used += bytes + 64;
            form = Some(n);
            break;
        }
    }
    let (mut seen, mut picked) = (BTreeSet::new(), BTreeSet::new());
    for (item, _) in order {
        if !seen.insert(item.place) {
            continue;
        }
        let size = item.bytes + 64;
        if used + size > budget {
            continue;
        }
        picked.insert(item.place);
        used += size;
    }
    (picked.into_iter().collect(), used, form)
}

fn flat(ranges: impl IntoIterator<Item = SeqRange>) -> Vec<u64> {
    ranges.into_iter().flat_map(|r| r.from..=r.to).collect()
}

fn summaries() -> impl Strategy<Value = Option<SummarySizes>> {
    prop::option::of(
        (0_u64..60, prop::collection::vec(0_u64..3_000, 0..4)).prop_map(|(upto, forms)| SummarySizes { upto, forms }),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn b3_is_the_naive_rule(
        messages in thread(),
        scope in scope(),
        budget in prop_oneof![Just(0_u64), 0_u64..400, 0_u64..4_000, 0_u64..70_000],
        summary in summaries(),
    ) {
        let selection = selected(&messages, &scope, budget, summary.as_ref());
        let (picked, used, form) = naive(&known(&messages, &scope), budget, summary.as_ref());
        prop_assert_eq!(selection.chosen.iter().map(|i| i.place).collect::<Vec<_>>(), picked);
        prop_assert_eq!(selection.used, used);
        prop_assert_eq!(selection.summary.map(|s| s.form), form);
        prop_assert_eq!(selection.summary_missed, summary.is_some() && form.is_none());
        prop_assert!(selection.used <= budget);
    }

    /// T6 within one handoff: every message of the scope is told or left out with the right reason, and nothing else is.
    #[test]
    fn t6_every_message_is_told_or_left_out(messages in thread(), scope in scope(), budget in 0_u64..6_000) {
        let selection = selected(&messages, &scope, budget, None);
        let in_scope: Vec<&Message> = messages.iter().filter(|m| scope.holds(m)).collect();
        let seqs: BTreeSet<u64> = in_scope.iter().map(|m| m.seq).collect();
        let told = flat(selection.told.iter().copied());
        for m in &in_scope {
            let text_went = selection.chosen.iter().any(|i| i.place.seq == m.seq && i.kind != ItemKind::Command);
            let has_text = !m.text().is_empty();
            prop_assert_eq!(told.contains(&m.seq), !m.excluded && (text_went || !has_text), "#{}", m.seq);
            let reasons: Vec<LeftOutReason> = selection
                .left_out.iter().filter(|l| (l.range.from..=l.range.to).contains(&m.seq)).map(|l| l.reason).collect();
            let expected = if m.excluded { vec![LeftOutReason::Excluded] } else if told.contains(&m.seq) { vec![] } else { vec![LeftOutReason::Budget] };
            prop_assert_eq!(reasons, expected, "#{}", m.seq);
        }
        prop_assert!(told.iter().all(|seq| seqs.contains(seq)));
        for left in &selection.left_out {
            prop_assert!(seqs.contains(&left.range.from) && seqs.contains(&left.range.to), "{:?} of {:?}", left, seqs);
        }
        prop_assert_eq!(selection.messages_told, told.len() as u64);
        prop_assert_eq!(selection.messages_total, seqs.len() as u64);
        let commands = in_scope.iter().flat_map(|m| items_of(m)).filter(|i| i.kind == ItemKind::Command).count();
        prop_assert_eq!(selection.commands_total, commands as u64);
        let pins: Vec<u64> = in_scope.iter().rev()
            .filter(|m| m.pinned && !m.excluded && !m.text().is_empty() && !told.contains(&m.seq)).map(|m| m.seq).collect();
        prop_assert_eq!(&selection.pins_missed, &pins, "B9");
        prop_assert_eq!(selection.marks().iter().map(|m| m.bytes).sum::<u64>(), selection.used);
    }
}

/// The three mixes of FC11 in numbers that span many blocks.
#[test]
fn b3_is_the_naive_rule_on_long_threads() {
    type Size = fn(u64) -> usize;
    let mixes: [(&str, Size); 3] = [
        ("equal", |_| 700),
        ("nine in ten tiny", |n| if n % 10 == 3 { 6_000 } else { 12 }),
        ("nothing fits what is left", |n| if n > 1_190 { 1_500 } else { 2_900 }),
    ];
    for (name, size) in mixes {
        let messages: Vec<Message> = (1..=1_200)
            .map(|n| {
                let role = if n % 2 == 1 { Role::User } else { Role::Assistant };
                message(n, role, vec![Part::text("t", "x".repeat(size(n)))])
            })
            .collect();
        let known = known(&messages, &EVERYTHING);
        let mut sizes = PlainSizes::new(&messages, &EVERYTHING);
        for budget in [0, 63, 64, 1_000, 16_000, 65_536] {
            let selection = select(&mut sizes, budget, None).unwrap();
            let (picked, used, _) = naive(&known, budget, None);
            assert_eq!(selection.chosen.iter().map(|i| i.place).collect::<Vec<_>>(), picked, "{name} {budget}");
            assert_eq!(selection.used, used, "{name} {budget}");
        }
    }
}

/// H3: what is looked at goes with the budget; a thread a hundred times as long adds only its blocks.
#[test]
fn h3_looks_at_blocks_not_at_items() {
    let looked_at = |messages: u64| {
        let mut sizes = PlainSizes::default();
        for seq in 1..=messages {
            let bytes = if seq + 20 > messages { 700 } else { 9_000 };
            let kind = if seq % 2 == 1 { ItemKind::User } else { ItemKind::Assistant };
            let items = vec![ItemSize { place: ItemPlace { seq, index: 0 }, kind, bytes }];
            sizes.push(Row { seq, pinned: false, excluded: false, items });
        }
        select(&mut sizes, 16_000, None).unwrap();
        sizes.looked_at
    };
    let (short, long) = (looked_at(1_000), looked_at(100_000));
    assert!(long <= short + 99_000 / 256 + 256, "{short} items and blocks of 1,000, {long} of 100,000");
}

fn says(seq: u64, text: &str) -> Message {
    let role = if seq % 2 == 1 { Role::User } else { Role::Assistant };
    message(seq, role, vec![Part::text("t", text)])
}

fn command(output: &str) -> Part {
    let body = PartBody::Command {
        command: "make".into(),
        status: WorkStatus::Failed,
        exit_code: Some(2),
        output: output.into(),
    };
    Part { key: "c".into(), superseded: false, body }
}

/// The order of choice, seen by what the budget leaves room for.
#[test]
fn b3_order_of_choice() {
    let text = "x".repeat(100);
    let mut messages: Vec<Message> = (1..=8).map(|seq| says(seq, &text)).collect();
    messages[7].parts.insert(0, command(&"y".repeat(100 - "Command: make\nExit code: 2\nOutput:\n".len())));
    messages[2].pinned = true;
    messages[3].pinned = true;
    let chosen = |items: u64| {
        let places = selected(&messages, &EVERYTHING, items * 164, None).chosen;
        places.iter().map(|i| (i.place.seq, i.kind)).collect::<Vec<_>>()
    };
    use ItemKind::{Assistant, Command, User};
    assert_eq!(chosen(0), []);
    assert_eq!(chosen(1), [(4, Assistant)], "the newest pin");
    assert_eq!(chosen(2), [(3, User), (4, Assistant)], "the other pin");
    assert_eq!(chosen(3), [(3, User), (4, Assistant), (7, User)], "the last user");
    assert_eq!(chosen(4), [(3, User), (4, Assistant), (7, User), (8, Assistant)], "the last assistant");
    assert_eq!(chosen(5), [(1, User), (3, User), (4, Assistant), (7, User), (8, Assistant)], "the first user");
    let six = [(1, User), (3, User), (4, Assistant), (7, User), (8, Command), (8, Assistant)];
    assert_eq!(chosen(6), six, "then the newest, in the order it happened");
    assert_eq!(chosen(7)[3..], [(6, Assistant), (7, User), (8, Command), (8, Assistant)]);
}

#[test]
fn b3_what_does_not_fit_is_skipped_whole_and_the_search_goes_on() {
    let messages = [says(1, "one"), says(2, "two"), says(3, &"l".repeat(17_000)), says(4, "four"), says(5, "five")];
    let selection = selected(&messages, &EVERYTHING, 16_000, None);
    assert_eq!(flat(selection.told.clone()), [1, 2, 4, 5]);
    assert_eq!(selection.left_out.len(), 1);
    assert_eq!((selection.messages_told, selection.messages_total), (4, 5));
}

/// 64 bytes are paid for each item: 15,936 bytes are the most that fit 16,000.
#[test]
fn b3_to_the_byte() {
    let fits = |len: usize| selected(&[says(1, &"x".repeat(len))], &EVERYTHING, 16_000, None).messages_told == 1;
    assert!(fits(16_000 - ITEM_OVERHEAD as usize));
    assert!(!fits(16_000 - ITEM_OVERHEAD as usize + 1));
    let two_bytes_each = |n: usize| selected(&[says(1, &"é".repeat(n))], &EVERYTHING, 16_000, None).messages_told == 1;
    assert!(two_bytes_each(7_968) && !two_bytes_each(7_969), "bytes are counted, not characters");
}

/// A gap between told messages that holds only notices or the session's own replies names nobody.
#[test]
fn t6_a_gap_of_notices_is_no_gap() {
    let mut messages =
        vec![says(1, "a"), says(2, "b"), message(3, Role::System, Vec::new()), says(4, "own"), says(5, "c")];
    messages[1].session = Some(stamp(7));
    messages[3].session = Some(stamp(1));
    let scope = Scope { own: Some(stamp(1)), ..EVERYTHING };
    let selection = selected(&messages, &scope, 16_000, None);
    assert_eq!(flat(selection.told), [1, 2, 5]);
    assert_eq!(selection.left_out, []);
}

#[test]
fn a_plain_list_answers_before_a_place_strictly() {
    let mut sizes = PlainSizes::new(&[says(1, "a"), says(2, "b")], &EVERYTHING);
    let newest = sizes.newest_fitting(ItemPlace::END, 10).unwrap().unwrap();
    assert_eq!(newest.place, ItemPlace { seq: 2, index: 0 });
    assert_eq!(sizes.newest_fitting(newest.place, 10).unwrap().unwrap().place.seq, 1);
    assert_eq!(sizes.newest_fitting(newest.place, 0).unwrap(), None);
}
