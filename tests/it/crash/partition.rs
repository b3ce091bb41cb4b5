//! T6: for each session every content message is exactly one of own, told, left out, above; and the session's history says so too.

use std::{collections::BTreeMap, fs, path::Path};

use changeover_core::{
    message::{Message, Role},
    part::PartBody,
    seq::{Seq, SeqRange},
};
use changeover_engine::api::types::SessionSets;
use changeover_tests::fake_api::{FakeApi, nonce_table};
use serde_json::Value;

/// A new nonce. It begins with `u` in a user's message and with `r` in a reply.
pub fn nonce(kind: char) -> String {
    format!("{kind}{}", &uuid::Uuid::new_v4().simple().to_string()[..16])
}

/// Where a message stands for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Own,
    Told,
    LeftOut,
    Above,
}

/// Each content message's place.
///
/// # Panics
/// When one has none or two, or something that is no content message has one.
fn places(messages: &[Message], sets: &SessionSets) -> BTreeMap<Seq, Place> {
    let mut places = BTreeMap::new();
    let left_out: Vec<SeqRange> = sets.left_out.iter().map(|left| left.range).collect();
    let all =
        [(Place::Own, &sets.own), (Place::Told, &sets.told), (Place::LeftOut, &left_out), (Place::Above, &sets.above)];
    for (place, ranges) in all {
        for seq in ranges.iter().flat_map(|range| range.from..=range.to) {
            let before = places.insert(seq, place);
            assert_eq!(before, None, "#{seq} is {place:?} as well, in {sets:#?}");
        }
    }
    let content: Vec<Seq> = messages.iter().filter(|m| m.is_content()).map(|m| m.seq).collect();
    assert_eq!(places.keys().copied().collect::<Vec<_>>(), content, "T6 of {sets:#?}");
    places
}

/// The nonces that a message itself brought: in the user's text, in the reply's text or its commands' output.
pub fn nonces(message: &Message) -> Vec<String> {
    let kind = if message.role == Role::User { 'u' } else { 'r' };
    let mut found = Vec::new();
    for part in message.parts.iter().filter(|part| !part.superseded) {
        let text = match &part.body {
            PartBody::Text { text } => text,
            PartBody::Command { output, .. } => output,
            _ => continue,
        };
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let own = |word: &&str| word.len() == 17 && word.starts_with(kind);
        found.extend(words.filter(own).map(str::to_owned));
    }
    found.sort();
    found.dedup();
    found
}

/// All prompts that a session of the practice agent has seen, from its own file.
pub fn practice_prompts(data: &Path, session: &str) -> Vec<String> {
    let text = fs::read_to_string(data.join("practice").join(format!("{session}.jsonl"))).expect("the session's file");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    lines.filter_map(|record| Some(record.get("user")?.as_str()?.to_owned())).collect()
}

/// What the practice agent says after each command.
const SENTENCE: &str = "bytes of output.";

/// Holds T6's sets of a session of the practice agent against what its prompts say. Returns how many nonces were compared.
pub fn check_practice(data: &Path, messages: &[Message], sets: &SessionSets) -> usize {
    let prompts = practice_prompts(data, &sets.session.session_id).concat();
    let compared = check(messages, sets, |_, nonce, place| {
        let count = prompts.matches(nonce).count();
        // A reply's nonce is a command's output, and commands are counted apart: of a reply that was told one may be left out,
        // and of one whose text did not fit one may have been told.
        let fits = match place {
            Place::Told | Place::LeftOut if nonce.starts_with('r') => count <= 1,
            Place::Told => count == 1,
            _ => count == 0,
        };
        assert!(fits, "{nonce} ({place:?}) stands {count} times in the prompts: {sets:#?}");
    });
    // The replies' own text has no nonce, but a sentence: it must be there once for each reply that was told.
    let places = places(messages, sets);
    let says = |m: &&Message| m.role == Role::Assistant && m.text().contains(SENTENCE);
    let told = messages.iter().filter(says).filter(|m| places[&m.seq] == Place::Told).count();
    assert_eq!(prompts.matches(SENTENCE).count(), told, "replies told: {sets:#?}");
    compared + told
}

/// The same for a CLI, against the last request of its session.
pub fn check_cli(api: &FakeApi, messages: &[Message], sets: &SessionSets) -> usize {
    let all: Vec<String> = messages.iter().flat_map(nonces).collect();
    let table = nonce_table(&api.requests(), &all);
    // Its newest reply came after its last request: that one stands in no request yet.
    let asked = sets.told.iter().map(|range| range.to).max().unwrap_or(0);
    check(messages, sets, |seq, nonce, place| {
        let count = table.row(nonce, &sets.session.session_id).map_or(0, |row| row.last);
        let wanted = usize::from(place == Place::Told || place == Place::Own && seq < asked);
        assert_eq!(count, wanted, "{nonce} ({place:?}) in\n{table}\n{sets:#?}");
    })
}

fn check(messages: &[Message], sets: &SessionSets, holds: impl Fn(Seq, &str, Place)) -> usize {
    let places = places(messages, sets);
    let mut compared = 0;
    for message in messages.iter().filter(|message| message.is_content()) {
        for nonce in nonces(message) {
            holds(message.seq, &nonce, places[&message.seq]);
            compared += 1;
        }
    }
    compared
}

/// Nothing was told twice to any session of the practice agent, dropped ones included.
pub fn never_twice(data: &Path, messages: &[Message]) {
    let Ok(files) = fs::read_dir(data.join("practice")) else { return };
    for file in files.flatten() {
        let name = file.file_name().into_string().expect("a plain name");
        let prompts = practice_prompts(data, name.trim_end_matches(".jsonl")).concat();
        for nonce in messages.iter().flat_map(nonces) {
            assert!(prompts.matches(&nonce).count() <= 1, "{nonce} stands twice in the prompts of {name}");
        }
    }
}
