//! A store in a temp folder with one project and one thread, and messages to put in it.

use std::path::PathBuf;

use changeover_core::{
    id::{MessageId, ProjectId, PromptId, ThreadId, TurnId},
    message::{Message, MessageState, Role, SessionStamp},
    part::{Part, PartBody, WorkStatus},
    provider::{ApprovalMode, ProviderId, Target},
    seq::Seq,
    turn::{
        record::{TurnPhase, TurnRecord},
        write::Write,
    },
};
use changeover_store::{NewThread, OpenOptions, Project, Store};
use tempfile::TempDir;
use uuid::Uuid;

pub fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub fn thread_id(n: u128) -> ThreadId {
    ThreadId(uuid(n))
}

pub fn message_id(n: u128) -> MessageId {
    MessageId(uuid(0x1000_0000 + n))
}

pub fn target() -> Target {
    Target { provider: ProviderId::claude(), model: Some("m".into()), effort: None, mode: ApprovalMode::Ask }
}

pub struct World {
    pub folder: TempDir,
    pub store: Store,
    pub thread: ThreadId,
}

impl World {
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("changeover.db")
    }

    /// Closes the store and opens it again.
    pub fn reopen(self) -> Self {
        let path = self.path();
        let Self { folder, store, thread } = self;
        drop(store);
        Self { store: Store::open(&path, &OpenOptions::default()).unwrap(), folder, thread }
    }

    pub fn put(&self, writes: Vec<Write>) {
        self.store.commit_blocking(self.thread, writes).unwrap();
    }
}

pub fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub fn add_thread(store: &Store, id: ThreadId) {
    wait(async {
        let project = Project { id: ProjectId(uuid(1)), path: "/work/p".into(), name: "p".into(), created_at: 1 };
        let project = store.open_project(project).await.unwrap();
        store
            .create_thread(NewThread { id, project: project.id, title: String::new(), target: target(), at: 2 })
            .await
            .unwrap();
    });
}

pub fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("changeover.db"), &OpenOptions::default()).unwrap();
    let thread = thread_id(7);
    add_thread(&store, thread);
    World { folder, store, thread }
}

pub fn message(n: Seq, role: Role, parts: Vec<Part>) -> Message {
    Message {
        id: message_id(n.into()),
        seq: n,
        role,
        state: MessageState::Done,
        provider: (role == Role::Assistant).then(ProviderId::claude),
        model: None,
        session: (role == Role::Assistant).then(|| SessionStamp { id: "s".into(), incarnation: 0 }),
        created_at: 1000 + n as i64,
        ended_at: None,
        pinned: false,
        excluded: false,
        parts,
        notice: None,
    }
}

pub fn user(n: Seq, text: &str) -> Message {
    message(n, Role::User, vec![Part::text("t", text)])
}

/// A reply that has just begun.
pub fn reply(n: Seq) -> Message {
    Message { state: MessageState::Open, ..message(n, Role::Assistant, vec![]) }
}

pub fn append(message: Message) -> Write {
    Write::Append { message: Box::new(message), text: None }
}

pub fn done(message: MessageId) -> Write {
    Write::MessageState { message, state: MessageState::Done, ended_at: Some(5000), provider: None }
}

pub fn chunk(message: MessageId, key: &str, text: impl Into<String>) -> Write {
    Write::Chunk { message, key: key.into(), text: text.into() }
}

pub fn command(key: &str, line: &str, output: &str) -> Part {
    Part {
        key: key.into(),
        superseded: false,
        body: PartBody::Command {
            command: line.into(),
            status: WorkStatus::Completed,
            exit_code: Some(0),
            output: output.into(),
        },
    }
}

pub fn turn(n: u128, phase: TurnPhase) -> TurnRecord {
    TurnRecord {
        id: TurnId(uuid(0x2000_0000 + n)),
        client_id: format!("client {n}"),
        message: message_id(1),
        message_seq: 1,
        target: target(),
        phase,
        attempt: 1,
        gone: false,
        go_on: false,
        compacted: false,
        prompt: None,
        session: None,
        anchor_before: None,
        known_before: 0,
        handover: None,
        upto: 1,
        reply: None,
        started_at: 10,
        ended_at: None,
        failure: None,
    }
}

pub fn prompt(n: u128) -> PromptId {
    PromptId(uuid(0x3000_0000 + n))
}

pub fn put_turn(turn: TurnRecord) -> Write {
    Write::Turn { turn: Box::new(turn), text: None }
}

/// Everything in the thread, whole.
pub fn all(store: &Store, thread: ThreadId) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut after = 0;
    loop {
        let page = store.read_page(thread, changeover_store::PageAt::After(after), 200, usize::MAX).unwrap();
        assert!(page.cuts.is_empty() && page.damaged.is_empty());
        messages.extend(page.messages);
        after = page.last_seq;
        if !page.has_after {
            return messages;
        }
    }
}
