//! Threads: making, listing, naming, putting away, and the end of one (S3, S4).

use changeover_core::{
    Millis,
    id::{MessageId, ProjectId, ThreadId},
    provider::Target,
    seq::Seq,
    turn::record::TurnPhase,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use crate::{
    Store,
    codec::{self, int, json, seq, thread_id},
    error::{Fault, Result, StoreError},
    index, project,
};

/// A thread to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThread {
    /// Its id, new.
    pub id: ThreadId,
    /// Its project.
    pub project: ProjectId,
    /// Its title; empty until the first message.
    pub title: String,
    /// Provider and model of its first turn.
    pub target: Target,
    /// When it is made.
    pub at: Millis,
}

/// A thread as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSummary {
    /// Its id.
    pub id: ThreadId,
    /// Its project.
    pub project: ProjectId,
    /// Its title.
    pub title: String,
    /// Whether the user gave the title.
    pub titled_by_user: bool,
    /// Provider and model of its next turn; `None` where the record cannot be read.
    pub target: Option<Target>,
    /// Its highest message number; 0: none.
    pub last_seq: Seq,
    /// Its highest content message's number; 0: none.
    pub last_content_seq: Seq,
    /// How far the user has read.
    pub seen_seq: Seq,
    /// Where its newest turn stands; `None`: it never had one.
    pub phase: Option<TurnPhase>,
    /// The thread it was forked from.
    pub parent: Option<ThreadId>,
    /// When it was made.
    pub created_at: Millis,
    /// When something last happened in it.
    pub updated_at: Millis,
    /// When it was put away, if it is.
    pub archived_at: Option<Millis>,
    /// When it was put on top, if it is.
    pub pinned_at: Option<Millis>,
    /// When it was deleted, if it is: it can be brought back until it is purged.
    pub deleted_at: Option<Millis>,
}

/// The inner key of a thread.
pub(crate) fn key_of(conn: &Connection, id: ThreadId) -> Result<i64> {
    conn.prepare_cached("SELECT key FROM thread WHERE id = ?1")?
        .query_row([id.0.as_bytes()], |row| row.get(0))
        .optional()?
        .ok_or(Fault::Store(StoreError::NoSuchThread(id)))
}

/// Notes that the search index lacks a message's text.
pub(crate) fn search_later(tx: &Transaction<'_>, message: i64) -> Result<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO search_pending (message) VALUES (?1)")?.execute([message])?;
    Ok(())
}

const SUMMARY: &str =
    "SELECT t.id, p.id, t.title, t.titled_by_user, t.target, t.last_seq, t.last_content_seq, t.seen_seq,
    t.phase, t.parent, t.created_at, t.updated_at, t.archived_at, t.pinned_at, t.deleted_at
    FROM thread t JOIN project p ON p.key = t.project";

fn summary(row: &Row<'_>) -> rusqlite::Result<ThreadSummary> {
    Ok(ThreadSummary {
        id: thread_id(row, 0)?,
        project: codec::id(row, 1).map(ProjectId)?,
        title: row.get(2)?,
        titled_by_user: row.get(3)?,
        target: row.get::<_, Option<String>>(4)?.and_then(|text| serde_json::from_str(&text).ok()),
        last_seq: seq(row.get(5)?),
        last_content_seq: seq(row.get(6)?),
        seen_seq: seq(row.get(7)?),
        phase: row.get::<_, Option<String>>(8)?.and_then(|word| codec::unword(&word)),
        parent: row.get::<_, Option<[u8; 16]>>(9)?.map(|id| ThreadId(uuid::Uuid::from_bytes(id))),
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
        archived_at: row.get(12)?,
        pinned_at: row.get(13)?,
        deleted_at: row.get(14)?,
    })
}

impl Store {
    /// Makes an empty thread.
    ///
    /// # Errors
    /// `NoSuchProject`; `Invariant` where the id is taken; the database cannot be written.
    pub async fn create_thread(&self, new: NewThread) -> Result<(), StoreError> {
        self.write(move |writer| {
            writer.transaction(true, |tx| {
                let project = project::key_of(tx, new.project)?;
                tx.execute(
                    "INSERT INTO thread (id, project, title, target, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
                    params![new.id.0.as_bytes(), project, new.title, json("a target", &new.target)?, new.at],
                )
                .map_err(|error| match error.sqlite_error_code() {
                    Some(rusqlite::ErrorCode::ConstraintViolation) => {
                        Fault::invariant(format!("thread {} is there already", new.id))
                    }
                    _ => error.into(),
                })?;
                Ok(())
            })
        })
        .await
    }

    /// The threads of a project, or of all, last changed first; deleted ones never.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn threads(&self, project: Option<ProjectId>) -> Result<Vec<ThreadSummary>, StoreError> {
        self.read(|conn| {
            let mut sql = conn.prepare_cached(&format!(
                "{SUMMARY} WHERE t.deleted_at IS NULL AND (?1 IS NULL OR p.id = ?1) ORDER BY t.updated_at DESC, t.key DESC"
            ))?;
            let rows = sql.query_map([project.map(|id| *id.0.as_bytes())], summary)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// One thread, also a deleted one.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn thread(&self, id: ThreadId) -> Result<ThreadSummary, StoreError> {
        self.read(|conn| {
            conn.prepare_cached(&format!("{SUMMARY} WHERE t.id = ?1"))?
                .query_row([id.0.as_bytes()], summary)
                .optional()?
                .ok_or(Fault::Store(StoreError::NoSuchThread(id)))
        })
    }

    /// Sets a column of a thread that exists.
    async fn set<V>(&self, id: ThreadId, sql: &'static str, value: V) -> Result<(), StoreError>
    where
        V: rusqlite::ToSql + Send + 'static,
    {
        self.write(move |writer| {
            writer.transaction(false, |tx| match tx.prepare_cached(sql)?.execute(params![id.0.as_bytes(), value])? {
                0 => Err(StoreError::NoSuchThread(id).into()),
                _ => Ok(()),
            })
        })
        .await
    }

    /// The user names a thread; no other title takes its place any more.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be written.
    pub async fn rename(&self, id: ThreadId, title: String) -> Result<(), StoreError> {
        self.set(id, "UPDATE thread SET title = ?2, titled_by_user = 1 WHERE id = ?1", title).await
    }

    /// Puts a thread away (`Some(when)`), or back.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be written.
    pub async fn archive(&self, id: ThreadId, at: Option<Millis>) -> Result<(), StoreError> {
        self.set(id, "UPDATE thread SET archived_at = ?2 WHERE id = ?1", at).await
    }

    /// Keeps a thread on top (`Some(when)`), or no longer.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be written.
    pub async fn pin_thread(&self, id: ThreadId, at: Option<Millis>) -> Result<(), StoreError> {
        self.set(id, "UPDATE thread SET pinned_at = ?2 WHERE id = ?1", at).await
    }

    /// Deletes a thread (`Some(when)`), or brings it back. It is gone for good once [`Store::purge`] takes it.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be written.
    pub async fn delete(&self, id: ThreadId, at: Option<Millis>) -> Result<(), StoreError> {
        self.set(id, "UPDATE thread SET deleted_at = ?2 WHERE id = ?1", at).await
    }

    /// The user has read up to here; never goes back.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be written.
    pub async fn mark_seen(&self, id: ThreadId, upto: Seq) -> Result<(), StoreError> {
        self.set(id, "UPDATE thread SET seen_seq = max(seen_seq, min(?2, last_seq)) WHERE id = ?1", int(upto)).await
    }

    /// Keeps the composer's unsent text.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be written.
    pub async fn set_draft(&self, id: ThreadId, text: String) -> Result<(), StoreError> {
        self.set(id, "UPDATE thread SET draft = ?2 WHERE id = ?1", text).await
    }

    /// The composer's unsent text.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn draft(&self, id: ThreadId) -> Result<String, StoreError> {
        self.read(|conn| {
            conn.prepare_cached("SELECT draft FROM thread WHERE id = ?1")?
                .query_row([id.0.as_bytes()], |row| row.get(0))
                .optional()?
                .ok_or(Fault::Store(StoreError::NoSuchThread(id)))
        })
    }

    /// Pins a message in a thread, or excludes it from every handoff (H2). What is `None` stays as it is.
    ///
    /// # Errors
    /// `NoSuchThread`, `NoSuchMessage`; the database cannot be written.
    pub async fn mark_message(
        &self,
        id: ThreadId,
        message: MessageId,
        pinned: Option<bool>,
        excluded: Option<bool>,
    ) -> Result<(), StoreError> {
        self.write(move |writer| {
            writer.transaction(false, |tx| {
                let thread = key_of(tx, id)?;
                let at: Option<i64> = tx
                    .prepare_cached(
                        "SELECT t.seq FROM thread_message t JOIN message m ON m.key = t.message
                         WHERE m.id = ?1 AND t.thread = ?2",
                    )?
                    .query_row(params![message.0.as_bytes(), thread], |row| row.get(0))
                    .optional()?;
                let at = at.ok_or(Fault::Store(StoreError::NoSuchMessage(message)))?;
                tx.prepare_cached(
                    "UPDATE thread_message SET pinned = coalesce(?3, pinned), excluded = coalesce(?4, excluded)
                     WHERE thread = ?1 AND seq = ?2",
                )?
                .execute(params![thread, at, pinned, excluded])?;
                index::rebuild(tx, &[(thread, index::block_of(at))].into())
            })
        })
        .await
    }

    /// Takes threads deleted before `before` away for good, with what no other thread holds. Other threads, Git branches and
    /// worktrees are not touched (S4). Returns how many went.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn purge(&self, before: Millis) -> Result<usize, StoreError> {
        let due = self.read(|conn| {
            let mut sql = conn.prepare("SELECT key FROM thread WHERE deleted_at < ?1")?;
            Ok(sql.query_map([before], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?)
        })?;
        let count = due.len();
        for thread in due {
            // A job each and a bounded number of messages a time: whoever streams meanwhile waits for one, not for all.
            while self.write(move |writer| writer.transaction(false, |tx| purge_some(tx, thread, before))).await? {}
        }
        Ok(count)
    }
}

/// Takes up to 500 of a deleted thread's messages away, or, once there are none, the thread; whether there is more to do.
fn purge_some(tx: &Transaction<'_>, thread: i64, before: Millis) -> Result<bool> {
    let still: bool = tx
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM thread WHERE key = ?1 AND deleted_at < ?2)")?
        .query_row([thread, before], |row| row.get(0))?;
    if !still {
        return Ok(false);
    }
    let some: Vec<(i64, i64)> = tx
        .prepare_cached("SELECT seq, message FROM thread_message WHERE thread = ?1 ORDER BY seq DESC LIMIT 500")?
        .query_map([thread], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (at, message) in &some {
        tx.prepare_cached("DELETE FROM thread_message WHERE thread = ?1 AND seq = ?2")?.execute([thread, *at])?;
        let held: bool = tx
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM thread_message WHERE message = ?1)")?
            .query_row([message], |row| row.get(0))?;
        if held {
            continue;
        }
        let (first, last) = crate::message::part_keys(*message);
        tx.prepare_cached("DELETE FROM chunk WHERE part BETWEEN ?1 AND ?2")?.execute([first, last])?;
        tx.prepare_cached("DELETE FROM part WHERE key BETWEEN ?1 AND ?2")?.execute([first, last])?;
        tx.prepare_cached("DELETE FROM handover WHERE message = ?1")?.execute([message])?;
        tx.prepare_cached("DELETE FROM message WHERE key = ?1")?.execute([message])?;
        search_later(tx, *message)?;
    }
    if !some.is_empty() {
        return Ok(true);
    }
    for sql in [
        "DELETE FROM block WHERE thread = ?1",
        "DELETE FROM provider_session WHERE thread = ?1",
        "DELETE FROM turn_handover WHERE turn IN (SELECT key FROM turn WHERE thread = ?1)",
        "DELETE FROM prompt WHERE turn IN (SELECT key FROM turn WHERE thread = ?1)",
        "DELETE FROM turn WHERE thread = ?1",
        "DELETE FROM queue WHERE thread = ?1",
        "DELETE FROM approval WHERE thread = ?1",
        "DELETE FROM rule WHERE thread = ?1",
        "DELETE FROM thread WHERE key = ?1",
    ] {
        tx.execute(sql, [thread])?;
    }
    Ok(false)
}
