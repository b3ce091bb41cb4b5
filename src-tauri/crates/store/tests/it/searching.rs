//! Search (S3): what is written is found, at once and after it was indexed; damage to the index costs no transcript (R171).

use changeover_core::{
    message::{Message, Role},
    part::Part,
    turn::write::Write,
};
use changeover_store::Found;

use crate::common::*;

fn find(world: &World, words: &str) -> Vec<u64> {
    let found = world.store.search(words, None, 50).unwrap();
    assert_eq!(found.not_searched, None);
    found.hits.iter().map(|hit| hit.seq).collect()
}

fn fill(world: &World) {
    let reply = Message {
        parts: vec![
            Part { superseded: true, ..Part::text("old", "a first try about zebras") },
            Part::text("t", "Die Größe der ÜBERRASCHUNG, \"quoted\" 100%"),
            command("c", "cargo nextest run", "output is not searched"),
        ],
        ..message(2, Role::Assistant, vec![])
    };
    world.put(vec![
        append(user(1, "How large is the surprise? 日本語のテキスト")),
        append(reply),
        append(user(3, "surprise again, and quite large")),
        append(user(4, "ab cd")),
    ]);
}

#[test]
fn s3_words_phrases_and_short_words() {
    let world = world();
    fill(&world);
    for indexed in [false, true] {
        if indexed {
            wait(world.store.flush_search()).unwrap();
        }
        assert_eq!(find(&world, "surprise"), [3, 1], "newest first");
        assert_eq!(find(&world, "SURPRISE large"), [3, 1], "all words, in any case and order");
        assert_eq!(find(&world, "\"the surprise\""), [1]);
        assert_eq!(find(&world, "überraschung"), [2]);
        assert_eq!(find(&world, "本語の"), [1]);
        assert_eq!(find(&world, "\"\"quoted\" 100%"), [2], "quotes and signs are text like any other");
        assert_eq!(find(&world, "nextest"), [2], "lines of commands");
        assert_eq!(find(&world, "output"), [] as [u64; 0]);
        assert_eq!(find(&world, "zebras"), [] as [u64; 0], "folded away");
        assert_eq!(find(&world, "ab"), [4]);
        assert_eq!(find(&world, "surprise ho"), [1], "a short word beside a long one");
        assert_eq!(find(&world, "nowhere"), [] as [u64; 0]);
        assert_eq!(find(&world, "  \"\" "), [] as [u64; 0]);
    }
    let hit = &world.store.search("quite", None, 1).unwrap().hits[0];
    assert_eq!((hit.thread, hit.seq, hit.message, hit.at), (world.thread, 3, message_id(3), 1003));
    assert_eq!(hit.excerpt, "surprise again, and quite large");
}

#[test]
fn s3_changes_deletions_and_scopes_are_followed() {
    let world = world();
    fill(&world);
    wait(world.store.flush_search()).unwrap();
    world.put(vec![Write::Part { message: message_id(2), part: Part::text("t", "now about walruses") }]);
    for indexed in [false, true] {
        if indexed {
            wait(world.store.flush_search()).unwrap();
        }
        assert_eq!(find(&world, "walruses"), [2]);
        assert_eq!(find(&world, "überraschung"), [] as [u64; 0]);
    }
    let other = thread_id(8);
    add_thread(&world.store, other);
    let theirs = Message { id: message_id(90), ..user(1, "a surprise elsewhere") };
    world.store.commit_blocking(other, vec![append(theirs)]).unwrap();
    assert_eq!(find(&world, "surprise"), [1, 3, 1]);
    let scoped = world.store.search("surprise", Some(&[other]), 50).unwrap();
    assert_eq!(scoped.hits.iter().map(|hit| (hit.thread, hit.seq)).collect::<Vec<_>>(), [(other, 1)]);
    wait(async {
        world.store.flush_search().await.unwrap();
        world.store.delete(world.thread, Some(5)).await.unwrap();
    });
    assert_eq!(find(&world, "surprise"), [1]);
    wait(async {
        world.store.purge(6).await.unwrap();
        world.store.flush_search().await.unwrap();
    });
    assert_eq!(find(&world, "surprise"), [1]);
    assert_eq!(world.store.search("surprise", None, 0).unwrap(), Found::default());
}

#[test]
fn s3_what_a_short_word_was_not_looked_for_in_is_said() {
    let world = world();
    let text = "x".repeat(100_000);
    world.put((1..=100).map(|n| append(user(n, if n == 1 { "zz" } else { &text }))).collect());
    let found = world.store.search("zz", None, 50).unwrap();
    assert!(found.hits.is_empty());
    assert!(found.not_searched.unwrap().contains("newest"));
}

#[test]
fn r171_a_damaged_index_is_made_anew() {
    let world = world();
    fill(&world);
    wait(world.store.flush_search()).unwrap();
    let index = world.path().with_extension("search.db");
    let path = world.path();
    let (thread, folder) = (world.thread, world.folder);
    drop(world.store);
    let mut bytes = std::fs::read(&index).unwrap();
    let len = bytes.len();
    bytes[4096..].fill(0xa5);
    std::fs::write(&index, &bytes).unwrap();
    assert!(len > 8192);
    let store = changeover_store::Store::open(&path, &changeover_store::OpenOptions::default()).unwrap();
    assert_eq!(store.threads(None).unwrap().len(), 1, "never shown as no threads");
    assert_eq!(all(&store, thread).len(), 4);
    let found = store.search("surprise", None, 50).unwrap();
    assert!(found.not_searched.unwrap().contains("made anew"));
    wait(store.flush_search()).unwrap();
    let found = store.search("surprise", None, 50).unwrap();
    assert_eq!((found.hits.len(), found.not_searched), (2, None));
    drop(store);

    // Gone altogether, or something else in its place.
    std::fs::write(&index, "not a database at all".repeat(200)).unwrap();
    let store = changeover_store::Store::open(&path, &changeover_store::OpenOptions::default()).unwrap();
    wait(store.flush_search()).unwrap();
    assert_eq!(store.search("surprise", None, 50).unwrap().hits.len(), 2);
    drop(store);
    std::fs::remove_file(&index).unwrap();
    let store = changeover_store::Store::open(&path, &changeover_store::OpenOptions::default()).unwrap();
    wait(store.flush_search()).unwrap();
    assert_eq!(store.search("surprise", None, 50).unwrap().hits.len(), 2);
    drop(folder);
}
