//! Threads that are kin, filled with messages, behind a real engine and its real loopback server.

use std::{path::Path, sync::Arc};

use changeover_core::{
    id::{MessageId, ProjectId, ThreadId},
    message::{Message, MessageState, Role},
    part::{Part, PartBody, WorkStatus},
    provider::{ApprovalMode, ProviderId, Target},
    seq::Seq,
    turn::write::Write,
};
use changeover_engine::{Engine, EngineOptions};
use changeover_runtime::session::{AgentRuntime, Environment};
use changeover_server::{http::Server, mcp};
use changeover_store::{NewThread, OpenOptions, Project, Store};
use rusqlite::{Connection, params};
use tempfile::TempDir;
use uuid::Uuid;

/// When the first message was written: 2026-11-30 08:00:00 UTC.
pub const BEGUN: i64 = 1_796_025_600_000;

/// A thread by a small number.
pub fn thread(n: u128) -> ThreadId {
    ThreadId(Uuid::from_u128(0x0190_a5c2_8b7e_7cc0_9d1f_0000_0000_0000 + n))
}

/// A data folder with threads in it, before any engine has it.
pub struct Filling {
    folder: TempDir,
    store: Store,
    project: ProjectId,
    next: u128,
}

impl Filling {
    /// One project, whose folder exists.
    pub async fn new() -> Self {
        let folder = TempDir::with_prefix("changeover-family-").expect("a temp folder");
        let store = Store::open(&database(folder.path()), &OpenOptions::default()).expect("a store");
        let project = project(&store, folder.path(), "work").await;
        Self { folder, store, project, next: 1 }
    }

    /// What follows belongs to another project.
    pub async fn other_project(&mut self, name: &str) {
        self.project = project(&self.store, self.folder.path(), name).await;
    }

    /// An empty thread.
    pub async fn thread(&self, id: ThreadId, title: &str) {
        let target = Target { provider: ProviderId::codex(), model: None, effort: None, mode: ApprovalMode::Ask };
        let new = NewThread { id, project: self.project, title: title.into(), target, at: BEGUN };
        self.store.create_thread(new).await.expect("a thread");
    }

    /// The thread's next message, said a minute after the one before.
    pub async fn say(&mut self, thread: ThreadId, change: impl FnOnce(&mut Message)) -> MessageId {
        let seq = self.store.load(thread).expect("a thread").last_seq + 1;
        let id = MessageId(Uuid::from_u128(self.next));
        self.next += 1;
        let mut message = Message {
            id,
            seq,
            role: Role::User,
            state: MessageState::Done,
            provider: None,
            model: None,
            session: None,
            created_at: BEGUN + i64::from(u32::try_from(seq).expect("few messages")) * 60_000,
            ended_at: None,
            pinned: false,
            excluded: false,
            parts: Vec::new(),
            notice: None,
        };
        change(&mut message);
        let append = Write::Append { message: Box::new(message), text: None };
        self.store.commit(thread, vec![append]).await.expect("a commit");
        id
    }

    /// A user's message of one text.
    pub async fn user(&mut self, thread: ThreadId, text: &str) -> MessageId {
        self.say(thread, |message| message.parts.push(Part::text("t", text))).await
    }

    /// A reply of these parts.
    pub async fn reply(&mut self, thread: ThreadId, provider: ProviderId, model: &str, parts: Vec<Part>) -> MessageId {
        self.say(thread, |message| {
            (message.role, message.provider, message.model) = (Role::Assistant, Some(provider), Some(model.into()));
            message.parts = parts;
        })
        .await
    }

    /// The user excludes a message in one thread (H2).
    pub async fn exclude(&self, thread: ThreadId, message: MessageId) {
        self.store.mark_message(thread, message, None, Some(true)).await.expect("it is marked");
    }

    /// Starts the engine on it, and the server; `forks`: thread and parent, and how much of the parent it holds.
    pub async fn serve(
        self,
        forks: &[(ThreadId, ThreadId, Seq)],
        with: Vec<Arc<dyn AgentRuntime>>,
        env: Environment,
    ) -> Family {
        let Self { folder, store, .. } = self;
        drop(store);
        fork(&database(folder.path()), forks);
        let options = EngineOptions {
            data_folder: folder.path().to_owned(),
            environment: env,
            repair_environment: false,
            mark: format!("test.{}", Uuid::new_v4()),
            runtimes: with,
            max_attempts: None,
            window: false,
        };
        let engine = Engine::open(options).await.expect("an engine");
        let server = Server::start(engine.clone(), mcp::router(engine.clone())).await.expect("a port");
        engine.set_mcp_url(format!("{}/mcp", server.url));
        Family { engine, server, folder }
    }
}

/// Threads being served.
pub struct Family {
    /// The engine.
    pub engine: Engine,
    /// Its loopback server.
    pub server: Server,
    /// The data folder; gone when dropped.
    pub folder: TempDir,
}

fn database(folder: &Path) -> std::path::PathBuf {
    folder.join("changeover.db")
}

async fn project(store: &Store, folder: &Path, name: &str) -> ProjectId {
    let path = folder.join(name);
    std::fs::create_dir_all(&path).expect("a folder");
    let path = path.canonicalize().expect("a true path").display().to_string();
    let id = ProjectId(Uuid::new_v4());
    store.open_project(Project { id, path, name: name.into(), created_at: BEGUN }).await.expect("a project").id
}

/// A fork's rows, as the schema defines them: lineage by id, and the same messages under the same numbers.
fn fork(database: &Path, forks: &[(ThreadId, ThreadId, Seq)]) {
    let conn = Connection::open(database).expect("the database");
    for (branch, parent, upto) in forks {
        let (branch, parent) = (branch.0.as_bytes(), parent.0.as_bytes());
        conn.execute("UPDATE thread SET parent = ?2 WHERE id = ?1", params![branch, parent]).expect("a parent");
        conn.execute(
            "INSERT INTO thread_message (thread, seq, message, role, stamp, textless, commands, least, items)
             SELECT (SELECT key FROM thread WHERE id = ?1), seq, message, role, stamp, textless, commands, least, items
             FROM thread_message WHERE thread = (SELECT key FROM thread WHERE id = ?2) AND seq <= ?3
             AND seq NOT IN (SELECT seq FROM thread_message WHERE thread = (SELECT key FROM thread WHERE id = ?1))",
            params![branch, parent, i64::try_from(*upto).expect("a small number")],
        )
        .expect("the messages up to the fork");
        conn.execute(
            "UPDATE thread SET last_seq = (SELECT coalesce(max(seq), 0) FROM thread_message WHERE thread = thread.key),
             last_content_seq = (SELECT coalesce(max(seq), 0) FROM thread_message WHERE thread = thread.key AND role < 2)
             WHERE id = ?1",
            params![branch],
        )
        .expect("its last number");
    }
}

/// A command that has run.
pub fn ran(key: &str, command: &str, exit_code: i32, output: impl Into<String>) -> Part {
    let status = if exit_code == 0 { WorkStatus::Completed } else { WorkStatus::Failed };
    let body = PartBody::Command { command: command.into(), status, exit_code: Some(exit_code), output: output.into() };
    Part { key: key.into(), superseded: false, body }
}
