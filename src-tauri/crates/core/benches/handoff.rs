//! A handoff text out of a long thread (FC11): selection and rendering over sizes in memory, with a minimum per block as
//! the store keeps it. `tests/bench/handoff.mjs` does the same plainly in Node: same mixes, same figures to be chosen.
//!
//! `cargo bench -p changeover-core --features naive --bench handoff`

use std::{hint::black_box, time::Instant};

use changeover_core::{
    handoff::{
        budget,
        items::{Item, ItemPlace, ItemSize},
        plain::{PlainSizes, Row},
        render::{Frame, prompt, render},
        select::{Selection, select},
    },
    message::{MessageState, Role},
    notice::ItemKind,
    provider::ProviderId,
    transition::TransitionKind,
};

#[path = "../../../../tests/bench/rows.rs"]
mod rows;

/// Bytes of message `seq` of `messages`.
type Size = fn(seq: u64, messages: u64) -> u64;

const MIXES: [(&str, Size); 3] = [
    ("equal", |_, _| 700),
    ("nine in ten tiny", |seq, _| if seq % 10 == 3 { 6_000 } else { 12 }),
    ("nothing fits what is left", |seq, messages| if seq + 10 > messages { 1_500 } else { 2_900 }),
];

const RUNS: usize = 201;

fn sizes(messages: u64, size: Size) -> PlainSizes {
    let mut sizes = PlainSizes::default();
    for seq in 1..=messages {
        let kind = if seq % 2 == 1 { ItemKind::User } else { ItemKind::Assistant };
        let item = ItemSize { place: ItemPlace { seq, index: 0 }, kind, bytes: size(seq, messages) };
        sizes.push(Row { seq, pinned: false, excluded: false, items: vec![item] });
    }
    sizes
}

/// The chosen bodies, as a store would read them.
fn bodies(selection: &Selection) -> Vec<Item> {
    let body = |item: &ItemSize| Item {
        place: item.place,
        kind: item.kind,
        role: if item.kind == ItemKind::User { Role::User } else { Role::Assistant },
        provider: Some(ProviderId::codex()),
        model: Some("gpt-5.5".into()),
        state: MessageState::Done,
        body: "x".repeat(usize::try_from(item.bytes).unwrap_or(usize::MAX)),
    };
    selection.chosen.iter().map(body).collect()
}

fn main() {
    for (name, size) in MIXES {
        let mut thousand = 0.0;
        for messages in [1_000, 1_000_000] {
            let mut sizes = sizes(messages, size);
            let frame = Frame { kind: TransitionKind::Handoff, thread_read: None };
            let mut times = Vec::with_capacity(RUNS);
            let mut last = (0, 0);
            for _ in 0..RUNS {
                let begun = Instant::now();
                let Ok(selection) = select(&mut sizes, budget::DEFAULT, None);
                let text = render(&frame, &selection, None, &bodies(&selection));
                black_box(prompt(Some(&text), "go on"));
                times.push(begun.elapsed());
                last = (selection.chosen.len(), selection.used);
            }
            times.sort_unstable();
            let ms = times.first().map_or(0.0, |time| time.as_secs_f64() * 1e3);
            let (items, used) = last;
            let what = format!("handoff text, in memory, {name}: of {messages}");
            if messages == 1_000 {
                thousand = ms;
                rows::row(&what, &format!("{ms:.3} ms ({items} items, {used} bytes)"), "", None);
                continue;
            }
            let ratio = ms / thousand;
            let (held_to, met) = if name.starts_with("nothing") {
                ("150 ms", ms <= 150.0)
            } else {
                ("10 ms, 2x", ms <= 10.0 && ratio <= 2.0)
            };
            let number = format!("{ms:.3} ms, {ratio:.2}x ({items} items, {used} bytes)");
            rows::row(&what, &number, held_to, Some(met));
        }
    }
}
