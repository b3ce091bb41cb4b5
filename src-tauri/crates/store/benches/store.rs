//! The store's figures (SPEC 12), printed beside what they are held against; it fails where one is missed.
//!
//! - a handoff text out of a thread of 1,000,000 messages, on three mixes of sizes, beside one of 1,000
//! - the first page of a thread of 100,000 messages
//! - bytes written to disk while a reply streams, fast and slowly, in a thread of 10 and of 100,000 messages
//!
//! Threads are made once per schema in `CHANGEOVER_BENCH_DATA`, else in the build folder.

#![allow(clippy::expect_used)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use changeover_core::{
    handoff::{
        items::{ItemPlace, Scope},
        render::{Frame, render},
        select::select,
    },
    id::{MessageId, ProjectId, ThreadId},
    message::{Message, MessageState, Role, SessionStamp},
    part::Part,
    provider::{ApprovalMode, ProviderId, Target},
    seq::Seq,
    transition::TransitionKind,
    turn::write::Write,
};
use changeover_store::{NewThread, OpenOptions, PageAt, Project, Store};
use uuid::Uuid;

/// Counts up whenever the data made here changes.
const DATA: u32 = 2;
const BUDGET: u64 = 16_000;

#[derive(Clone, Copy)]
enum Mix {
    /// Every message the same.
    Equal,
    /// Nine in ten tiny, one large.
    Tiny,
    /// After the newest few nothing fits what is left: a tiny one among every 4,000 is all that ever does.
    Worst,
}

impl Mix {
    const ALL: [Self; 3] = [Self::Equal, Self::Tiny, Self::Worst];

    fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Tiny => "tiny",
            Self::Worst => "worst",
        }
    }

    /// Bytes of a message's text.
    fn bytes(self, seq: Seq, last: Seq) -> usize {
        match self {
            Self::Equal => 600,
            Self::Tiny if seq.is_multiple_of(10) => 6_000,
            Self::Tiny => 40,
            Self::Worst if last - seq < 20 => 700,
            Self::Worst if seq.is_multiple_of(4_000) => 10,
            Self::Worst => 800,
        }
    }
}

fn main() {
    let data = std::env::var_os("CHANGEOVER_BENCH_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from)
        .join(format!("store-{DATA}"));
    let mut missed = Vec::new();
    handoff(&data, &mut missed);
    first_page(&data, &mut missed);
    disk_bytes(&data, &mut missed);
    indexing_bytes(&data, &mut missed);
    if missed.is_empty() {
        println!("store: every figure is met");
    } else {
        for line in &missed {
            println!("MISSED: {line}");
        }
        std::process::exit(1);
    }
}

fn options() -> OpenOptions {
    OpenOptions { indexing: false, ..OpenOptions::default() }
}

fn thread() -> ThreadId {
    ThreadId(Uuid::from_u128(1))
}

fn id(seq: Seq) -> MessageId {
    MessageId(Uuid::from_u128(0x1_0000_0000 + u128::from(seq)))
}

fn message(seq: Seq, bytes: usize) -> Message {
    let role = if seq % 2 == 1 { Role::User } else { Role::Assistant };
    let text: String = format!("#{seq} ").chars().chain("lorem ipsum dolor ".chars().cycle()).take(bytes).collect();
    Message {
        id: id(seq),
        seq,
        role,
        state: MessageState::Done,
        provider: (role == Role::Assistant).then(ProviderId::claude),
        model: None,
        session: (role == Role::Assistant).then(|| SessionStamp { id: "s".into(), incarnation: 0 }),
        created_at: i64::try_from(seq).unwrap_or(0),
        ended_at: None,
        pinned: false,
        excluded: false,
        parts: vec![Part::text("t", text)],
        notice: None,
    }
}

fn append(message: Message) -> Write {
    Write::Append { message: Box::new(message), text: None }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// A thread of `count` messages, made once.
fn made(data: &Path, mix: Mix, count: Seq) -> Store {
    let folder = data.join(format!("{}-{count}", mix.name()));
    let path = folder.join("changeover.db");
    if !folder.exists() {
        let making = data.join("making");
        let _ = fs::remove_dir_all(&making);
        fs::create_dir_all(&making).expect("the data folder");
        let started = Instant::now();
        let store = Store::open(&making.join("changeover.db"), &options()).expect("a store");
        wait(async {
            let project = Project { id: ProjectId(Uuid::nil()), path: "/".into(), name: "bench".into(), created_at: 0 };
            let project = store.open_project(project).await.expect("a project").id;
            let target = Target { provider: ProviderId::codex(), model: None, effort: None, mode: ApprovalMode::Ask };
            let new = NewThread { id: thread(), project, title: "bench".into(), target, at: 0 };
            store.create_thread(new).await.expect("a thread");
        });
        let mut seq = 1;
        while seq <= count {
            let upto = (seq + 1_999).min(count);
            let batch = (seq..=upto).map(|seq| append(message(seq, mix.bytes(seq, count)))).collect();
            store.commit_blocking(thread(), batch).expect("a batch");
            seq = upto + 1;
        }
        drop(store);
        fs::rename(&making, &folder).expect("the data folder");
        println!("(made {count} messages, {}, in {:.0?})", mix.name(), started.elapsed());
    }
    Store::open(&path, &options()).expect("a store")
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

fn handoff(data: &Path, missed: &mut Vec<String>) {
    println!("handoff text            1,000     1,000,000   ratio   held to");
    for mix in Mix::ALL {
        let stores = [1_000, 1_000_000].map(|count| made(data, mix, count));
        assert!(stores.iter().zip([1_000, 1_000_000]).all(|(store, count)| text(store, count, BUDGET) > 4_000));
        let run = |store: &Store, count| {
            std::hint::black_box(text(store, count, BUDGET));
        };
        let [thousand, million] = &stores;
        let [small, large] = fastest([&mut || run(thousand, 1_000), &mut || run(million, 1_000_000)]);
        let ratio = large.as_secs_f64() / small.as_secs_f64();
        let (most, most_ratio) = if matches!(mix, Mix::Worst) { (150.0, f64::INFINITY) } else { (10.0, 2.0) };
        println!(
            "  {:<18} {:>7.2} ms {:>10.2} ms {ratio:>6.2}x   {most} ms, {most_ratio}x",
            mix.name(),
            ms(small),
            ms(large)
        );
        if ms(large) > most || ratio > most_ratio {
            missed.push(format!("handoff text, {}: {:.2} ms, {ratio:.2}x", mix.name(), ms(large)));
        }
    }
}

fn first_page(data: &Path, missed: &mut Vec<String>) {
    let count = 100_000;
    drop(made(data, Mix::Equal, count));
    let path = data.join(format!("equal-{count}/changeover.db"));
    let [time] = fastest([&mut || {
        let store = Store::open(&path, &options()).expect("a store");
        let page = store.read_page(thread(), PageAt::Newest, 60, 1 << 20).expect("a page");
        assert_eq!(page.messages.len(), 60);
    }]);
    println!(
        "open the database and the last page of a thread of 100,000: {:.1} ms (the whole screen: 300 ms)",
        ms(time)
    );
    if ms(time) > 100.0 {
        missed.push(format!("the last page of 100,000: {:.1} ms", ms(time)));
    }
}

/// Bytes that this process has had written to disk, if the system says.
fn written() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

fn disk_bytes(data: &Path, missed: &mut Vec<String>) {
    if written().is_none() {
        println!("bytes written while streaming: this system does not say");
        return;
    }
    println!("bytes written while a reply streams (a commit every 150 ms)");
    for count in [10, 100_000] {
        drop(made(data, Mix::Equal, count));
        // 1 MB in 10 s; then 1 kB a second for 60 s.
        for (name, seconds, commits, bytes) in [("fast", 10.0, 67, 15_000), ("slow", 60.0, 400, 150)] {
            let folder = data.join("streaming");
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).expect("the data folder");
            let path = folder.join("changeover.db");
            fs::copy(data.join(format!("equal-{count}/changeover.db")), &path).expect("a copy");
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
            let rate = bytes_written as f64 / 1024.0 / seconds;
            println!(
                "  {name}, thread of {count:>7}: {n:>8} bytes, {bytes_written:>8} written: {times:.2} n, {rate:.1} KiB a second"
            );
            if name == "fast" && times > 4.0 {
                missed.push(format!("disk bytes, fast, thread of {count}: {times:.2} n"));
            }
            if name == "slow" && rate > 100.0 {
                missed.push(format!("disk bytes, slowly, thread of {count}: {rate:.1} KiB a second"));
            }
        }
    }
}

/// What the search index costs for a reply of a megabyte of words that hardly repeat.
fn indexing_bytes(data: &Path, missed: &mut Vec<String>) {
    if written().is_none() {
        return;
    }
    let folder = data.join("streaming");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the data folder");
    let path = folder.join("changeover.db");
    fs::copy(data.join("equal-10/changeover.db"), &path).expect("a copy");
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
    println!("indexing behind: {times:.2} n for a reply of {n} bytes, {:.0} ms", ms(took));
    if times > 8.0 {
        missed.push(format!("indexing behind: {times:.2} n"));
    }
}
