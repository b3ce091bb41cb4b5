//! The store's figures, beside what they are held against.
//!
//! - a handoff text out of a thread of 1,000,000 messages, on three mixes of sizes, beside one of 1,000
//! - the first page of a thread of 100,000 messages
//! - bytes written to disk while a reply streams, fast and slowly, in a thread of 10 and of 100,000 messages
//!
//! Threads are made once, see `tests/bench/data.rs`.

#![allow(clippy::expect_used)]

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use changeover_core::{
    handoff::{
        items::{ItemPlace, Scope},
        render::{Frame, render},
        select::select,
    },
    message::{Message, MessageState},
    part::Part,
    seq::Seq,
    transition::TransitionKind,
    turn::write::Write,
};
use changeover_store::{OpenOptions, PageAt, Store};

#[path = "../../../../tests/bench/data.rs"]
mod data;
#[path = "../../../../tests/bench/rows.rs"]
mod rows;

use data::{Mix, append, made, message, options, thread, wait};
use rows::row;

const BUDGET: u64 = 16_000;

fn main() {
    let data = data::folder();
    handoff(&data);
    first_page(&data);
    disk_bytes(&data);
    indexing_bytes(&data);
}

/// The whole of a handoff text: sizes, selection, bodies, rendering. Its bytes.
fn text(store: &Store, count: Seq, budget: u64) -> usize {
    let scope = Scope { after: 0, upto: count, prompt: None, own: None };
    let mut sizes = store.item_sizes(thread(), &scope).expect("sizes");
    let selection = select(&mut sizes, budget, None).expect("a selection");
    let places: Vec<ItemPlace> = selection.chosen.iter().map(|item| item.place).collect();
    let items = sizes.items(&places).expect("bodies");
    render(&Frame { kind: TransitionKind::Handoff, thread_read: None }, &selection, None, &items).len()
}

/// The fastest run of each, in turns: what else the machine does is not what is measured. Every run does the same work.
fn fastest<const N: usize>(mut runs: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut times = [Duration::MAX; N];
    for _ in 0..40 {
        for (run, time) in runs.iter_mut().zip(&mut times) {
            let started = Instant::now();
            run();
            *time = started.elapsed().min(*time);
        }
    }
    times
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn handoff(data: &Path) {
    for mix in [Mix::Equal, Mix::Tiny, Mix::Worst] {
        let stores = [1_000, 1_000_000].map(|count| opened(&made(data, mix, count)));
        assert!(stores.iter().zip([1_000, 1_000_000]).all(|(store, count)| text(store, count, BUDGET) > 4_000));
        let run = |store: &Store, count| {
            std::hint::black_box(text(store, count, BUDGET));
        };
        let [thousand, million] = &stores;
        let [small, large] = fastest([&mut || run(thousand, 1_000), &mut || run(million, 1_000_000)]);
        let ratio = large.as_secs_f64() / small.as_secs_f64();
        let (held_to, met) = match mix {
            Mix::Worst => ("150 ms".to_owned(), ms(large) <= 150.0),
            Mix::Equal | Mix::Tiny => ("10 ms, 2x".to_owned(), ms(large) <= 10.0 && ratio <= 2.0),
        };
        row(
            &format!("handoff text, from the store, {}: of 1,000", mix.name()),
            &format!("{:.2} ms", ms(small)),
            "",
            None,
        );
        row(
            &format!("handoff text, from the store, {}: of 1,000,000", mix.name()),
            &format!("{:.2} ms, {ratio:.2}x", ms(large)),
            &held_to,
            Some(met),
        );
    }
}

fn opened(folder: &Path) -> Store {
    Store::open(&folder.join("changeover.db"), &options()).expect("a store")
}

fn first_page(data: &Path) {
    let folder = made(data, Mix::Equal, 100_000);
    let [time] = fastest([&mut || {
        let page = opened(&folder).read_page(thread(), PageAt::Newest, 60, 1 << 20).expect("a page");
        assert_eq!(page.messages.len(), 60);
    }]);
    row("open the database and the last page of 100,000 messages", &format!("{:.1} ms", ms(time)), "", None);
}

/// Bytes that this process has had written to disk, if the system says.
fn written() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

fn disk_bytes(data: &Path) {
    if written().is_none() {
        println!("bytes written while streaming: this system does not say");
        return;
    }
    for count in [10, 100_000] {
        let folder_of_thread = made(data, Mix::Equal, count);
        // 1 MB in 10 s; then 1 kB a second for 60 s.
        for (name, commits, bytes) in [("fast", 40, 25_000), ("slow", 240, 250)] {
            let folder = data.join("streaming");
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).expect("the data folder");
            let path = folder.join("changeover.db");
            fs::copy(folder_of_thread.join("changeover.db"), &path).expect("a copy");
            fs::File::open(&path).and_then(|file| file.sync_all()).expect("a copy on disk");
            let store = Store::open(&path, &options()).expect("a store");
            let before = written().unwrap_or(0);
            let reply = Message { state: MessageState::Open, ..message(count + 2, 0) };
            let part = Part::text("t", "");
            let message_id = reply.id;
            store
                .commit_blocking(
                    thread(),
                    vec![
                        append(message(count + 1, 100)),
                        append(Message { parts: vec![], ..reply }),
                        Write::Part { message: message_id, part },
                    ],
                )
                .expect("a reply begins");
            for _ in 0..commits {
                let text = "streamed ".chars().cycle().take(bytes).collect();
                store
                    .commit_blocking(thread(), vec![Write::Chunk { message: message_id, key: "t".into(), text }])
                    .expect("a chunk");
            }
            let end = Write::MessageState {
                message: message_id,
                state: MessageState::Done,
                ended_at: Some(1),
                provider: None,
            };
            store.commit_blocking(thread(), vec![end]).expect("a reply ends");
            // Closing folds the log into the database: all that this reply will ever cost.
            drop(store);
            fs::File::open(&path).and_then(|file| file.sync_all()).expect("all on disk");
            let bytes_written = written().unwrap_or(0) - before;
            let n = commits * bytes;
            let times = bytes_written as f64 / n as f64;
            let rate = bytes_written as f64 / 1024.0 / (commits as f64 / 4.0);
            let (number, held_to, met) = match name {
                "fast" => (format!("{times:.2} n"), "4 n", times <= 4.0),
                _ => (format!("{rate:.1} KiB/s"), "100 KiB/s", rate <= 100.0),
            };
            row(&format!("disk bytes, {name}, in a thread of {count}, four commits/s"), &number, held_to, Some(met));
        }
    }
}

/// What the search index costs for a reply of a megabyte of words that hardly repeat.
fn indexing_bytes(data: &Path) {
    if written().is_none() {
        return;
    }
    let folder = data.join("streaming");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the data folder");
    let path = folder.join("changeover.db");
    fs::copy(made(data, Mix::Equal, 10).join("changeover.db"), &path).expect("a copy");
    let mut state = 1_u64;
    let mut text = String::new();
    while text.len() < 1_000_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:x} ", state >> 40));
    }
    let n = text.len();
    let reply = Message { parts: vec![Part::text("t", text)], ..message(12, 0) };
    let store = Store::open(&path, &options()).expect("a store");
    let batch = vec![append(message(11, 100)), append(reply)];
    store.commit_blocking(thread(), batch).expect("a reply");
    drop(store);
    fs::File::open(&path).and_then(|file| file.sync_all()).expect("all on disk");
    let before = written().unwrap_or(0);
    let started = Instant::now();
    let store = Store::open(&path, &OpenOptions::default()).expect("a store");
    wait(store.flush_search()).expect("the index");
    let took = started.elapsed();
    drop(store);
    let times = (written().unwrap_or(0) - before) as f64 / n as f64;
    row(
        "disk bytes of indexing a reply behind",
        &format!("{times:.2} n, {:.0} ms", ms(took)),
        "8 n",
        Some(times <= 8.0),
    );
}
