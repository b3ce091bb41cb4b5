//! Old databases open in this version (DESIGN 8): for each schema there ever was one file `tests/old/<number>.sql`, a dump
//! of a database as that version wrote it, with the same thread in it. A new migration comes with the dump of the one before
//! it; nothing here changes.

use changeover_core::{
    message::Message,
    part::Part,
    turn::{record::TurnPhase, write::Write},
};
use changeover_store::{OpenOptions, Store, recovery};
use rusqlite::Connection;

use crate::common::*;

/// The thread in every dump.
fn thread() -> Vec<Message> {
    let streamed = Part::text("t", "streamed ".repeat(1500));
    let done = Message { ended_at: Some(5000), parts: vec![streamed, command("c", "ls", "a\nb\n")], ..reply(2) };
    vec![
        user(1, "a question 👩‍🚀\u{2028}  "),
        Message { state: changeover_core::message::MessageState::Done, ..done },
        Message { excluded: true, ..user(3, "kept back") },
    ]
}

fn write(world: &World) {
    let id = message_id(2);
    world.put(vec![append(user(1, "a question 👩‍🚀\u{2028}  ")), append(reply(2))]);
    world.put(vec![Write::Part { message: id, part: Part::text("t", "") }]);
    for _ in 0..3 {
        world.put(vec![chunk(id, "t", "streamed ".repeat(500))]);
    }
    world.put(vec![Write::Part { message: id, part: command("c", "ls", "a\nb\n") }, done(id)]);
    world.put(vec![append(Message { excluded: true, ..user(3, "kept back") })]);
    world.put(vec![put_turn(turn(1, TurnPhase::Preparing)), Write::Rule("edit".into())]);
}

fn numbers() -> Vec<u32> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old");
    let mut numbers: Vec<u32> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn s5_every_old_database_opens_with_all_that_is_in_it() {
    let world = world();
    write(&world);
    let newest: u32 =
        Connection::open(world.path()).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let expected = (all(&world.store, world.thread), world.store.load(world.thread).unwrap());
    assert_eq!(expected.0, thread());
    assert_eq!(numbers(), (1..=newest).collect::<Vec<_>>(), "a dump of every schema there ever was");
    for number in numbers() {
        let dump = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/old/{number:04}.sql"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("changeover.db");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(&std::fs::read_to_string(dump).unwrap()).unwrap();
        old.pragma_update(None, "user_version", number).unwrap();
        old.close().unwrap();
        let store = Store::open(&path, &OpenOptions::default()).unwrap();
        assert_eq!((all(&store, world.thread), store.load(world.thread).unwrap()), expected, "schema {number}");
        store.check_integrity().unwrap();
        wait(store.flush_search()).unwrap();
        assert_eq!(store.search("question", None, 10).unwrap().hits.len(), 1);
        assert_eq!(recovery::backups(&path).len(), usize::from(number < newest), "backed up before it was changed");
        store.commit_blocking(world.thread, vec![append(user(4, "on"))]).unwrap();
    }
}

/// Writes the dump of this version's schema; run by hand before the next migration is begun:
/// `DUMP=… cargo test -p changeover-store --test it -- --ignored --exact upgrade::dump`, then `sqlite3 $DUMP .dump`.
#[test]
#[ignore = "makes the file that the test above reads"]
fn dump() {
    let world = world();
    write(&world);
    wait(world.store.flush_search()).unwrap();
    let path = world.path();
    drop(world.store);
    std::fs::copy(path, std::env::var_os("DUMP").unwrap()).unwrap();
}
