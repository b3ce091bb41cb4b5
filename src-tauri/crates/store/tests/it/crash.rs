//! kill -9 in the middle of writing (S1): the database is sound, and at most the batch under way is missing.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use changeover_core::{message::MessageState, part::Part, turn::write::Write};
use changeover_store::{OpenOptions, Store};

use crate::common::*;

const FOLDER: &str = "CHANGEOVER_TEST_CRASH_FOLDER";

fn piece(n: usize) -> String {
    format!("[{n}] {}\n", "streamed ".repeat(n % 700))
}

/// Not a test: the process that is killed. It says on stdout what is on disk.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(&PathBuf::from(folder).join("changeover.db"), &OpenOptions::default()).unwrap();
    let last = store.load(thread_id(7)).unwrap().last_seq;
    let (first, second) = (last + 1, last + 2);
    let message = message_id(second.into());
    let part = Part::text("t", "");
    store
        .commit_blocking(
            thread_id(7),
            vec![append(user(first, "q")), append(reply(second)), Write::Part { message, part }],
        )
        .unwrap();
    for n in 0.. {
        store.commit_blocking(thread_id(7), vec![chunk(message, "t", piece(n))]).unwrap();
        println!("on disk {n}");
    }
}

#[test]
fn s1_a_kill_in_the_middle_of_writing() {
    let world = world();
    let (folder, thread) = (world.folder, world.thread);
    drop(world.store);
    for round in 1..=6_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child", "--ignored", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Killed once it has said so many, in whatever it does then.
        let said = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .filter(|line| line.starts_with("on disk"))
            .take(usize::try_from(round).unwrap() * 23)
            .count();
        child.kill().unwrap();
        child.wait().unwrap();

        let store = Store::open(&folder.path().join("changeover.db"), &OpenOptions::default()).unwrap();
        assert!(!store.ended_cleanly());
        store.check_integrity().unwrap();
        let seq = round * 2;
        assert_eq!(store.load(thread).unwrap().last_seq, seq);
        let id = message_id(seq.into());
        let found = store.read_message(thread, id).unwrap();
        assert_eq!(found.state, MessageState::Open);
        let expected: String = (0..).map(piece).take(said).collect();
        let text = found.text();
        assert!(text.starts_with(&expected), "what was said to be on disk is there");
        let rest: String = (said..)
            .map(piece)
            .scan(0, |sum, piece| {
                *sum += piece.len();
                (*sum <= text.len() - expected.len()).then_some(piece)
            })
            .collect();
        assert_eq!(text, expected + &rest, "and after it whole batches only");
        // What a start does: marks it, which joins its small chunks.
        let interrupted =
            Write::MessageState { message: id, state: MessageState::Interrupted, ended_at: Some(9), provider: None };
        store.commit_blocking(thread, vec![interrupted]).unwrap();
        assert_eq!(store.read_message(thread, id).unwrap().text(), text);
        store.check_integrity().unwrap();
    }
    let store = Store::open(&folder.path().join("changeover.db"), &OpenOptions::default()).unwrap();
    assert!(store.ended_cleanly());
}
