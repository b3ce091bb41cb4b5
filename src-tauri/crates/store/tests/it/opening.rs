//! Opening (S5): each way a database can be unusable has its own error, with the file's path and a way on, and is left as it
//! was; never an empty app as if nothing had been there (R014).

use std::{fs, path::Path, sync::Arc};

use changeover_store::{OpenOptions, PageAt, Store, StoreError, recovery};
use rusqlite::Connection;

use crate::common::*;

fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(path, &OpenOptions::default())
}

#[track_caller]
fn fails(path: &Path) -> StoreError {
    let before = fs::read(path).ok();
    let error = match open(path) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    };
    assert_eq!(fs::read(path).ok(), before, "the file is left as it was");
    assert_eq!(error.path(), Some(path));
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    assert!(error.hint().is_some());
    error
}

#[test]
fn r001_what_was_written_is_there_again() {
    let world = world();
    world.put((1..=3).map(|n| append(user(n, "a turn"))).collect());
    let world = world.reopen();
    assert!(world.store.ended_cleanly());
    assert_eq!(all(&world.store, world.thread), [user(1, "a turn"), user(2, "a turn"), user(3, "a turn")]);
    world.store.check_integrity().unwrap();
}

#[cfg(unix)]
#[test]
fn a_first_start_makes_its_folder_and_a_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/changeover.db");
    let store = open(&path).unwrap();
    add_thread(&store, thread_id(1));
    wait(store.flush_search()).unwrap();
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
    }
}

#[test]
fn s5_a_newer_version_wrote_it() {
    let world = world();
    let path = world.path();
    drop(world.store);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 999).unwrap();
    assert!(matches!(fails(&path), StoreError::NewerVersion { found: 999, known: 1, .. }));
}

#[test]
fn s5_a_newer_version_whose_number_is_still_in_the_log() {
    let world = world();
    let path = world.path();
    drop(world.store);
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 999).unwrap();
    assert!(matches!(fails(&path), StoreError::NewerVersion { found: 999, .. }));
}

#[test]
fn r172_a_text_file_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changeover.db");
    fs::write(&path, "just a note to myself, long enough to be a header ".repeat(40)).unwrap();
    assert!(matches!(fails(&path), StoreError::NotADatabase { .. }));
    fs::write(&path, b"SQLite format 3\0").unwrap();
    assert!(matches!(fails(&path), StoreError::Damaged { .. }));
}

#[test]
fn r014_what_cannot_be_read_is_no_first_start() {
    let folder = tempfile::tempdir().unwrap();
    // A folder in the file's place, a file in the folder's: what permissions would do, also for root.
    let path = folder.path().join("changeover.db");
    fs::create_dir(&path).unwrap();
    assert!(matches!(fails(&path), StoreError::Unreadable { .. }));
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(fails(&file.join("changeover.db")), StoreError::Unreadable { .. }));
}

#[test]
fn r014_a_database_that_is_gone_is_no_first_start() {
    let world = world();
    let path = world.path();
    let folder = world.folder;
    drop(world.store);
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(fails(&path), StoreError::Missing { .. }));
    fs::write(&path, "").unwrap();
    assert!(matches!(fails(&path), StoreError::Missing { .. }));
    // It comes back, and all is well.
    fs::write(&path, whole).unwrap();
    assert_eq!(open(&path).unwrap().threads(None).unwrap().len(), 1);
    // Only a person's own act makes a fresh one.
    fs::remove_file(&path).unwrap();
    recovery::set_aside(&path).unwrap();
    assert!(open(&path).unwrap().threads(None).unwrap().is_empty());
    drop(folder);
}

#[test]
fn r012_tables_without_a_number() {
    let world = world();
    let path = world.path();
    world.put(vec![append(user(1, "kept"))]);
    drop(world.store);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 0).unwrap();
    assert!(matches!(fails(&path), StoreError::Unnumbered { .. }));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 1).unwrap();
    assert_eq!(all(&open(&path).unwrap(), world.thread), [user(1, "kept")]);
}

#[test]
fn r015_what_is_not_ours_is_nobodys_business() {
    let world = world();
    let path = world.path();
    world.put(vec![append(user(1, "kept"))]);
    drop(world.store);
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE legacy (session_id TEXT, data BLOB); INSERT INTO legacy VALUES ('x', 'y');
             CREATE VIEW old_view AS SELECT x FROM nowhere;
             ALTER TABLE message ADD COLUMN legacy TEXT; ALTER TABLE thread ADD COLUMN project_path TEXT;",
        )
        .unwrap();
    let store = open(&path).unwrap();
    store.commit_blocking(world.thread, vec![append(user(2, "on"))]).unwrap();
    assert_eq!(all(&store, world.thread), [user(1, "kept"), user(2, "on")]);
}

#[test]
fn r169_a_damaged_page_is_said_and_a_backup_takes_its_place() {
    let world = world();
    let path = world.path();
    world.put((1..=400).map(|n| append(user(n, &format!("{n} {}", "x".repeat(3000))))).collect());
    let (thread, folder) = (world.thread, world.folder);
    drop(world.store);
    let backup = folder.path().join("backups/changeover.000000000000001.v1.db");
    fs::create_dir(backup.parent().unwrap()).unwrap();
    fs::copy(&path, &backup).unwrap();

    // In the middle, where only a check of everything finds it.
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2 / 4096 * 4096;
    bytes[at..at + 4096].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let store = open(&path).unwrap();
    assert!(!store.ended_cleanly(), "the file is not as it was closed");
    let error = store.check_integrity().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.hint().unwrap().contains(&backup.display().to_string()));
    let read = (0..400).map(|seq| store.read_page(thread, PageAt::After(seq), 1, 1 << 20));
    assert!(read.into_iter().any(|page| matches!(page, Err(StoreError::Damaged { .. }))));
    drop(store);

    // In the schema, where nothing opens.
    bytes[100..4096].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let _ = fs::remove_file(path.with_extension("db-wal"));
    assert!(matches!(fails(&path), StoreError::Damaged { .. }));

    let kept = recovery::restore(&path, &recovery::backups(&path)[0].path).unwrap().unwrap();
    assert_eq!(fs::read(kept).unwrap(), bytes, "the bad file is kept");
    let store = open(&path).unwrap();
    assert_eq!(all(&store, thread).len(), 400);
    store.check_integrity().unwrap();
}

#[test]
fn s5_a_schema_that_lost_a_table_is_damage() {
    let world = world();
    let path = world.path();
    drop(world.store);
    Connection::open(&path).unwrap().execute_batch("DROP TABLE chunk").unwrap();
    let error = fails(&path);
    assert!(matches!(&error, StoreError::Damaged { detail, .. } if detail.contains("chunk")), "{error}");
}

#[test]
fn r078_many_openers_at_once_all_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = Arc::new(folder.path().join("changeover.db"));
    let start = Arc::new(std::sync::Barrier::new(6));
    let openers: Vec<_> = (0..6_u128)
        .map(|n| {
            let (path, start) = (Arc::clone(&path), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                let store = open(&path).unwrap();
                add_thread(&store, thread_id(100 + n));
                for seq in 1..=20 {
                    let id = message_id(1000 * (n + 1) + u128::from(seq));
                    let message = changeover_core::message::Message { id, ..user(seq, "text") };
                    store.commit_blocking(thread_id(100 + n), vec![append(message)]).unwrap();
                }
            })
        })
        .collect();
    for opener in openers {
        opener.join().unwrap();
    }
    let store = open(&path).unwrap();
    assert_eq!(store.threads(None).unwrap().iter().map(|thread| thread.last_seq).collect::<Vec<_>>(), [20; 6]);
    assert_eq!(store.projects().unwrap().len(), 1);
    store.check_integrity().unwrap();
}

#[test]
fn s5_another_holds_the_lock_for_too_long() {
    let world = world();
    let holder = Connection::open(world.path()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let path = world.path();
    let options = OpenOptions { busy: std::time::Duration::from_millis(50), ..OpenOptions::default() };
    let impatient = Store::open(&path, &options).unwrap();
    let error = impatient.commit_blocking(world.thread, vec![append(user(1, "q"))]).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }) && error.is_retryable(), "{error}");
    holder.execute_batch("COMMIT").unwrap();
    impatient.commit_blocking(world.thread, vec![append(user(1, "q"))]).unwrap();
}

#[test]
fn s1_a_full_disk_is_said_and_it_goes_on_when_there_is_room() {
    let world = world();
    let path = world.path();
    let (thread, folder) = (world.thread, world.folder);
    drop(world.store);
    let pages = fs::metadata(&path).unwrap().len() / 4096 + 20;
    let small = OpenOptions { max_pages: Some(u32::try_from(pages).unwrap()), ..OpenOptions::default() };
    let store = Store::open(&path, &small).unwrap();
    store.commit_blocking(thread, vec![append(user(1, "q")), append(reply(2))]).unwrap();
    let part = changeover_core::part::Part::text("t", "");
    store
        .commit_blocking(thread, vec![changeover_core::turn::write::Write::Part { message: message_id(2), part }])
        .unwrap();
    let piece = "streamed ".repeat(1000);
    let mut written = String::new();
    let full = loop {
        let batch = vec![chunk(message_id(2), "t", piece.clone())];
        match store.commit_blocking(thread, batch) {
            Ok(_) => written.push_str(&piece),
            Err(error) => break error,
        }
        assert!(written.len() < 1 << 20, "it never filled up");
    };
    assert!(matches!(&full, StoreError::Full { .. }) && full.is_retryable(), "{full}");
    assert!(full.hint().is_some());
    // Reading goes on; a batch that does not fit leaves nothing behind.
    let text = |store: &Store| store.read_part(message_id(2), "t").unwrap().unwrap();
    assert_eq!(text(&store), changeover_core::part::Part::text("t", written.clone()));
    assert!(
        store.commit_blocking(thread, vec![append(user(3, "x")), chunk(message_id(2), "t", piece.clone())]).is_err()
    );
    assert_eq!(store.thread(thread).unwrap().last_seq, 2);
    drop(store);
    // Room again: the same batch goes through.
    let store = open(&path).unwrap();
    store.commit_blocking(thread, vec![chunk(message_id(2), "t", piece.clone()), done(message_id(2))]).unwrap();
    assert_eq!(text(&store), changeover_core::part::Part::text("t", written + &piece));
    store.check_integrity().unwrap();
    drop(folder);
}

/// An end that nobody vouched for leads to a check, also when the app ends before it was through: the mark of a clean end says
/// that the database is sound.
#[test]
fn s5_a_check_that_was_cut_off_is_made_by_the_next_start() {
    let world = world();
    let path = world.path();
    let long = "x".repeat(50_000);
    world.put((1..=400).map(|n| append(user(n, &format!("{n} {long}")))).collect());
    drop(world.store);
    let unclean = || fs::remove_file(path.with_file_name("changeover.db.closed")).unwrap();
    unclean();

    let store = open(&path).unwrap();
    assert!(!store.ended_cleanly());
    drop(store);
    let store = open(&path).unwrap();
    assert!(!store.ended_cleanly(), "nobody has checked it yet");
    // Cut off in the middle, before it began, or just through: closing neither waits for the rest nor lies about it.
    let checking = std::thread::spawn({
        let store = store.clone();
        move || store.check_integrity()
    });
    store.stop_checking();
    let checked = checking.join().unwrap();
    assert!(matches!(checked, Ok(()) | Err(StoreError::Closed)), "{checked:?}");
    drop(store);
    let store = open(&path).unwrap();
    assert_eq!(store.ended_cleanly(), checked.is_ok());
    drop(store);
    if checked.is_ok() {
        unclean();
    }

    let store = open(&path).unwrap();
    store.stop_checking();
    assert!(matches!(store.check_integrity(), Err(StoreError::Closed)), "none begins any more");
    drop(store);
    let store = open(&path).unwrap();
    assert!(!store.ended_cleanly());
    store.check_integrity().unwrap();
    drop(store);
    assert!(open(&path).unwrap().ended_cleanly());
}
