//! Short questions about where things stand in a thread, answered from its index.

use std::collections::HashSet;

use changeover_core::{
    id::{MessageId, ThreadId, TurnId},
    message::Message,
    part::{Part, PartBody, WorkStatus},
    provider::ProviderId,
    seq::{Seq, SeqSet},
    turn::record::TurnRecord,
};
use rusqlite::{OptionalExtension, params};

use crate::{
    Store,
    codec::{int, message_id, parse, seq},
    error::{Result, StoreError},
    message::{self, PLACED, placed},
    thread,
};

/// How far back a thread is looked through for work that still runs: messages.
const RUNNING_BACK: i64 = 500;

/// The newest content of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastContent {
    /// The highest and the second highest content message.
    pub seqs: [Option<Seq>; 2],
    /// Who gave the last reply.
    pub answered_by: Option<ProviderId>,
}

/// A piece of work that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningPart {
    /// The reply it belongs to.
    pub message: MessageId,
    /// Whose.
    pub provider: ProviderId,
    /// The part.
    pub part: Part,
}

impl Store {
    /// The newest content of a thread.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn last_content(&self, id: ThreadId) -> Result<LastContent, StoreError> {
        self.read(|conn| {
            let key = thread::key_of(conn, id)?;
            let mut seqs = conn
                .prepare_cached(
                    "SELECT seq FROM thread_message WHERE thread = ?1 AND role < 2 ORDER BY seq DESC LIMIT 2",
                )?
                .query_map([key], |row| Ok(seq(row.get(0)?)))?
                .collect::<rusqlite::Result<Vec<Seq>>>()?
                .into_iter();
            let provider: Option<Option<String>> = conn
                .prepare_cached(
                    "SELECT m.provider FROM thread_message t JOIN message m ON m.key = t.message
                     WHERE t.thread = ?1 AND t.role = 1 ORDER BY t.seq DESC LIMIT 1",
                )?
                .query_row([key], |row| row.get(0))
                .optional()?;
            Ok(LastContent {
                seqs: [seqs.next(), seqs.next()],
                answered_by: provider.flatten().and_then(|text| text.parse().ok()),
            })
        })
    }

    /// The first content message after a seq, without its parts.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn content_after(&self, id: ThreadId, after: Seq) -> Result<Option<Message>, StoreError> {
        self.read(|conn| {
            let key = thread::key_of(conn, id)?;
            let sql = format!(
                "SELECT {PLACED} FROM thread_message WHERE thread = ?1 AND seq > ?2 AND role < 2 ORDER BY seq LIMIT 1"
            );
            let at = conn.prepare_cached(&sql)?.query_row(params![key, int(after)], placed).optional()?;
            at.map(|at| Ok(message::load_head(conn, at)?.message)).transpose()
        })
    }

    /// Those of `messages` that the user excluded in a thread (H2).
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn excluded_of(&self, id: ThreadId, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        self.read(|conn| {
            let key = thread::key_of(conn, id)?;
            let mut sql = conn.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM thread_message t JOIN message m ON m.key = t.message
                 WHERE m.id = ?2 AND t.thread = ?1 AND t.excluded)",
            )?;
            let mut excluded = Vec::new();
            for message in messages {
                if sql.query_row(params![key, message.0.as_bytes()], |row| row.get(0))? {
                    excluded.push(*message);
                }
            }
            Ok(excluded)
        })
    }

    /// Every content message's number. Walks the thread: for the command line and tests, never for a turn.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn content_seqs(&self, id: ThreadId) -> Result<SeqSet, StoreError> {
        self.read(|conn| {
            let key = thread::key_of(conn, id)?;
            let mut sql =
                conn.prepare_cached("SELECT seq FROM thread_message WHERE thread = ?1 AND role < 2 ORDER BY seq")?;
            let seqs = sql.query_map([key], |row| Ok(seq(row.get(0)?)))?;
            Ok(seqs.collect::<rusqlite::Result<SeqSet>>()?)
        })
    }

    /// The replies of these turns: of a session's own turns its own replies, under whatever id it gave them (bringing it
    /// back may have changed its id). Walks the thread's turns: for the command line and tests, never for a turn.
    ///
    /// # Errors
    /// `NoSuchThread`; `BadRecord`; the database cannot be read.
    pub fn replies_of(&self, id: ThreadId, turns: &HashSet<TurnId>) -> Result<SeqSet, StoreError> {
        self.read(|conn| {
            let key = thread::key_of(conn, id)?;
            let mut sql = conn.prepare_cached("SELECT record FROM turn WHERE thread = ?1")?;
            let mut replies = SeqSet::new();
            for record in sql.query_map([key], |row| row.get::<_, String>(0))? {
                let turn: TurnRecord = parse(|| "a turn".to_owned(), &record?)?;
                if let Some(reply) = turn.reply.filter(|_| turns.contains(&turn.id)) {
                    replies.insert(reply.seq);
                }
            }
            Ok(replies)
        })
    }

    /// Parts of the newest messages that say they still run: what an ended process left behind (S2).
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn running_parts(&self, id: ThreadId) -> Result<Vec<RunningPart>, StoreError> {
        self.read(|conn| {
            let key = thread::key_of(conn, id)?;
            let mut sql = conn.prepare_cached(
                "SELECT m.id, m.key, m.provider, p.item FROM thread_message t
                 JOIN message m ON m.key = t.message
                 JOIN part p ON p.message = m.key AND p.superseded = 0 AND p.body LIKE '%\"status\":\"running\"%'
                 WHERE t.thread = ?1 AND t.role = 1
                   AND t.seq > (SELECT last_seq FROM thread WHERE key = ?1) - ?2
                 ORDER BY t.seq",
            )?;
            let rows = sql
                .query_map(params![key, RUNNING_BACK], |row| {
                    Ok((
                        message_id(row, 0)?,
                        row.get::<_, i64>(1)?,
                        row.get::<_, Option<String>>(2)?,
                        row.get::<_, String>(3)?,
                    ))
                })?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let mut running = Vec::new();
            for (id, message, provider, item) in rows {
                let provider = provider.and_then(|text| text.parse().ok());
                let part = message::load_part(conn, message, &item)?.filter(|part| is_running(&part.body));
                if let (Some(provider), Some(part)) = (provider, part) {
                    running.push(RunningPart { message: id, provider, part });
                }
            }
            Ok(running)
        })
    }
}

/// Whether it is work that has not ended. A plan's entry under way is none.
fn is_running(body: &PartBody) -> bool {
    matches!(
        body,
        PartBody::Command { status: WorkStatus::Running, .. }
            | PartBody::Tool { status: WorkStatus::Running, .. }
            | PartBody::FileChange { status: WorkStatus::Running, .. }
    )
}
