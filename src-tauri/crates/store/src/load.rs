//! What an actor needs to take a thread up again, and what a start finds unfinished.

use changeover_core::{
    id::ThreadId,
    provider::Target,
    seq::Seq,
    session::SessionRecord,
    turn::record::{Approval, Queued, TurnRecord},
};
use rusqlite::{Connection, OptionalExtension, params};
use serde::de::DeserializeOwned;

use crate::{
    Store,
    codec::{self, seq, thread_id},
    error::{Fault, Result, StoreError},
    thread,
};

/// A thread's state on disk, without its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadOnDisk {
    /// Its highest message number; 0: none.
    pub last_seq: Seq,
    /// Its highest content message's number; 0: none.
    pub last_content_seq: Seq,
    /// Its title.
    pub title: String,
    /// Whether the user gave the title.
    pub titled_by_user: bool,
    /// Provider and model of its next turn; `None` where the record cannot be read.
    pub target: Option<Target>,
    /// The live session of each provider. One whose record cannot be read is left away: a handoff is always right (T10).
    pub sessions: Vec<SessionRecord>,
    /// The open turn.
    pub turn: Option<OpenTurn>,
    /// Messages that wait, in order.
    pub queue: Vec<Queued>,
    /// Approvals that a person is awaited for.
    pub approvals: Vec<Approval>,
    /// What is allowed "in this thread" (R4).
    pub rules: Vec<String>,
}

/// A turn that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenTurn {
    /// The turn, its handover with it.
    pub turn: TurnRecord,
    /// The handover's exact text, while it is not yet a notice.
    pub text: Option<String>,
}

impl Store {
    /// A thread as it was left.
    ///
    /// # Errors
    /// `NoSuchThread`; `BadRecord` where the open turn cannot be read; the database cannot be read.
    pub fn load(&self, id: ThreadId) -> Result<ThreadOnDisk, StoreError> {
        self.read(|conn| {
            let key = thread::key_of(conn, id)?;
            let mut loaded = conn
                .prepare_cached(
                    "SELECT last_seq, last_content_seq, title, titled_by_user, target FROM thread WHERE key = ?1",
                )?
                .query_row([key], |row| {
                    Ok(ThreadOnDisk {
                        last_seq: seq(row.get(0)?),
                        last_content_seq: seq(row.get(1)?),
                        title: row.get(2)?,
                        titled_by_user: row.get(3)?,
                        target: row.get::<_, Option<String>>(4)?.and_then(|text| serde_json::from_str(&text).ok()),
                        sessions: Vec::new(),
                        turn: None,
                        queue: Vec::new(),
                        approvals: Vec::new(),
                        rules: Vec::new(),
                    })
                })?;
            loaded.sessions =
                readable(conn, "SELECT record FROM provider_session WHERE thread = ?1 AND live = 1 ORDER BY key", key)?;
            loaded.queue = readable(conn, "SELECT record FROM queue WHERE thread = ?1 ORDER BY position", key)?;
            loaded.approvals =
                readable(conn, "SELECT record FROM approval WHERE thread = ?1 AND open = 1 ORDER BY key", key)?;
            loaded.rules = conn
                .prepare_cached("SELECT rule FROM rule WHERE thread = ?1 ORDER BY rule")?
                .query_map([key], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let open: Option<(i64, String)> = conn
                .prepare_cached("SELECT key, record FROM turn WHERE thread = ?1 AND open = 1")?
                .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            loaded.turn = open.map(|(turn, record)| open_turn(conn, id, turn, &record)).transpose()?;
            Ok(loaded)
        })
    }

    /// The threads with a turn that has not ended: after a crash each of them is taken up again (DESIGN 2b). Deleted ones
    /// too: their turn has to end all the same.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn open_turns(&self) -> Result<Vec<ThreadId>, StoreError> {
        self.read(|conn| {
            let mut sql = conn
                .prepare("SELECT t.id FROM turn u JOIN thread t ON t.key = u.thread WHERE u.open = 1 ORDER BY u.key")?;
            Ok(sql.query_map([], |row| thread_id(row, 0))?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The threads in which messages wait: the head of each queue goes once nothing else is open.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn waiting_queues(&self) -> Result<Vec<ThreadId>, StoreError> {
        self.read(|conn| {
            let mut sql = conn.prepare(
                "SELECT id FROM thread WHERE deleted_at IS NULL AND key IN (SELECT thread FROM queue) ORDER BY key",
            )?;
            Ok(sql.query_map([], |row| thread_id(row, 0))?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// All open approvals of all threads, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn open_approvals(&self) -> Result<Vec<(ThreadId, Approval)>, StoreError> {
        self.read(|conn| {
            let mut sql = conn.prepare(
                "SELECT t.id, a.record FROM approval a JOIN thread t ON t.key = a.thread WHERE a.open = 1 ORDER BY a.key",
            )?;
            let rows = sql.query_map([], |row| Ok((thread_id(row, 0)?, row.get::<_, String>(1)?)))?;
            let mut approvals = Vec::new();
            for row in rows {
                let (thread, record) = row?;
                match serde_json::from_str(&record) {
                    Ok(approval) => approvals.push((thread, approval)),
                    Err(error) => tracing::warn!(%thread, %error, "an approval cannot be read"),
                }
            }
            Ok(approvals)
        })
    }

    /// The approvals of a turn, open and settled, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn approvals_of(&self, turn: changeover_core::id::TurnId) -> Result<Vec<Approval>, StoreError> {
        self.read(|conn| {
            let mut sql = conn.prepare_cached("SELECT record FROM approval WHERE turn = ?1 ORDER BY key")?;
            let rows = sql.query_map([turn.0.as_bytes()], |row| row.get::<_, String>(0))?;
            let records = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(records.iter().filter_map(|record| serde_json::from_str(record).ok()).collect())
        })
    }

    /// The turn that a request made. Of an ended one the handover is no longer here: it is a notice, or told nothing.
    ///
    /// # Errors
    /// `NoSuchThread`; `BadRecord`; the database cannot be read.
    pub fn turn_by_client_id(&self, id: ThreadId, client_id: &str) -> Result<Option<TurnRecord>, StoreError> {
        self.read(|conn| {
            let thread = thread::key_of(conn, id)?;
            let found: Option<(i64, String)> = conn
                .prepare_cached("SELECT key, record FROM turn WHERE thread = ?1 AND client_id = ?2")?
                .query_row(params![thread, client_id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            found.map(|(turn, record)| open_turn(conn, id, turn, &record).map(|open| open.turn)).transpose()
        })
    }

    /// The sessions of a thread that are no longer used, oldest first: provider and the provider's own id.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn retired_sessions(&self, id: ThreadId) -> Result<Vec<SessionRecord>, StoreError> {
        self.read(|conn| {
            let key = thread::key_of(conn, id)?;
            readable(conn, "SELECT record FROM provider_session WHERE thread = ?1 AND live = 0 ORDER BY key", key)
        })
    }
}

fn open_turn(conn: &Connection, id: ThreadId, key: i64, record: &str) -> Result<OpenTurn> {
    let what = || format!("a turn of thread {id}");
    let mut turn: TurnRecord = codec::parse(what, record)?;
    let kept: Option<(String, Option<String>)> = conn
        .prepare_cached("SELECT handover, text FROM turn_handover WHERE turn = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let mut text = None;
    if let Some((handover, exact)) = kept {
        turn.handover = Some(codec::parse(what, &handover)?);
        text = exact;
    }
    Ok(OpenTurn { turn, text })
}

/// Records of a thread; those that cannot be read are logged and left away.
fn readable<T: DeserializeOwned>(conn: &Connection, sql: &str, thread: i64) -> Result<Vec<T>, Fault> {
    let mut sql = conn.prepare_cached(sql)?;
    let mut rows = sql.query([thread])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        match serde_json::from_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?) {
            Ok(record) => records.push(record),
            Err(error) => tracing::warn!(%error, "a record of a thread cannot be read and is left away"),
        }
    }
    Ok(records)
}
