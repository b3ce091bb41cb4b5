// Threads to measure on, made once per schema and kept.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use changeover_core::{
    id::{MessageId, ProjectId, ThreadId},
    message::{Message, MessageState, Role, SessionStamp},
    part::Part,
    provider::{ApprovalMode, ProviderId, Target},
    seq::Seq,
    turn::write::Write,
};
use changeover_store::{NewThread, OpenOptions, Project, Store};
use uuid::Uuid;

/// Counts up whenever the data made here or the schema changes.
const DATA: u32 = 2;

/// Where they are kept: in `CHANGEOVER_BENCH_DATA`, else in the build folder.
pub fn folder() -> PathBuf {
    std::env::var_os("CHANGEOVER_BENCH_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from)
        .join(format!("store-{DATA}"))
}

/// Sizes of messages.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "each bench takes the mixes that it measures")]
pub enum Mix {
    /// Every message the same.
    Equal,
    /// Nine in ten tiny, one large.
    Tiny,
    /// After the newest few nothing fits what is left: a tiny one among every 4,000 is all that ever does.
    Worst,
}

impl Mix {
    /// Its name in the table and in the folder's name.
    pub fn name(self) -> &'static str {
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

/// A store that leaves the search index alone.
pub fn options() -> OpenOptions {
    OpenOptions { indexing: false, ..OpenOptions::default() }
}

/// The one thread.
pub fn thread() -> ThreadId {
    ThreadId(Uuid::from_u128(1))
}

fn id(seq: Seq) -> MessageId {
    MessageId(Uuid::from_u128(0x1_0000_0000 + u128::from(seq)))
}

/// Message `seq`, with so many bytes of text.
pub fn message(seq: Seq, bytes: usize) -> Message {
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

/// As a write.
pub fn append(message: Message) -> Write {
    Write::Append { message: Box::new(message), text: None }
}

/// Runs one future to its end.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// The data folder of a thread of `count` messages, made once.
pub fn made(data: &Path, mix: Mix, count: Seq) -> PathBuf {
    let folder = data.join(format!("{}-{count}", mix.name()));
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
    folder
}
