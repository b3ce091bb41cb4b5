//! A batch of writes as one transaction (DESIGN 2a), with the rules of the data checked on the way.

mod body;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use changeover_core::{
    Millis,
    id::{MessageId, ThreadId},
    message::{Message, MessageState, Role, SessionStamp},
    provider::Target,
    seq::Seq,
    turn::{record::TurnPhase, write::Write},
};
use rusqlite::{OptionalExtension, Transaction, params};

use crate::{
    Store,
    codec::{self, int, json, word},
    error::{Fault, Result, StoreError},
    index,
    message::split,
    thread,
};

/// What a batch left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The thread's highest message number; 0: none.
    pub last_seq: Seq,
    /// Its highest content message's number; 0: none.
    pub last_content_seq: Seq,
}

impl Store {
    /// Writes a batch to a thread: all of it or nothing, in order. A batch with a user message or with a turn that is about to
    /// be sent survives a power cut once this returns (S1); every batch survives the end of the program.
    ///
    /// # Errors
    /// `Full` or `Locked`: nothing was written, the same batch may be tried again. `Invariant`: the batch breaks a rule
    /// (the next seq, one open turn per thread, a prompt written once, T11). `NoSuchThread`, `NoSuchMessage`.
    pub async fn commit(&self, thread: ThreadId, writes: Vec<Write>) -> Result<Committed, StoreError> {
        let durable = is_durable(&writes);
        self.write(move |writer| writer.transaction(durable, |tx| apply(tx, thread, &writes))).await
    }

    /// [`Store::commit`] for callers that may block.
    ///
    /// # Errors
    /// As there.
    pub fn commit_blocking(&self, thread: ThreadId, writes: Vec<Write>) -> Result<Committed, StoreError> {
        let durable = is_durable(&writes);
        self.write_blocking(move |writer| writer.transaction(durable, |tx| apply(tx, thread, &writes)))
    }
}

fn is_durable(writes: &[Write]) -> bool {
    writes.iter().any(|write| match write {
        Write::Append { message, .. } => message.role == Role::User,
        Write::Turn { turn, .. } => turn.phase == TurnPhase::Sent,
        _ => false,
    })
}

/// A message of the batch's thread, as far as writes need it.
#[derive(Debug, Clone, Copy)]
struct Known {
    key: i64,
    state: MessageState,
}

struct Batch<'a> {
    tx: &'a Transaction<'a>,
    thread: i64,
    known: BTreeMap<MessageId, Known>,
    last_seq: i64,
    last_content_seq: i64,
    touched: Option<Millis>,
    /// Messages whose item sizes are to be counted again.
    resize: BTreeSet<i64>,
    /// Blocks of this thread whose figures are to be made anew.
    blocks: BTreeSet<i64>,
}

pub(crate) fn apply(tx: &Transaction<'_>, id: ThreadId, writes: &[Write]) -> Result<Committed> {
    let (thread, last_seq, last_content_seq) = tx
        .prepare_cached("SELECT key, last_seq, last_content_seq FROM thread WHERE id = ?1")?
        .query_row([id.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?
        .ok_or(Fault::Store(StoreError::NoSuchThread(id)))?;
    let mut batch = Batch {
        tx,
        thread,
        known: BTreeMap::new(),
        last_seq,
        last_content_seq,
        touched: None,
        resize: BTreeSet::new(),
        blocks: BTreeSet::new(),
    };
    for write in writes {
        batch.write(write)?;
    }
    let mut blocks: BTreeSet<(i64, i64)> = batch.blocks.iter().map(|block| (thread, *block)).collect();
    for message in &batch.resize {
        index::resize(tx, *message, &mut blocks)?;
    }
    index::rebuild(tx, &blocks)?;
    if batch.last_seq != last_seq || batch.touched.is_some() {
        tx.prepare_cached(
            "UPDATE thread SET last_seq = ?2, last_content_seq = ?3, updated_at = max(updated_at, coalesce(?4, 0)) WHERE key = ?1",
        )?
        .execute(params![thread, batch.last_seq, batch.last_content_seq, batch.touched])?;
    }
    Ok(Committed { last_seq: codec::seq(batch.last_seq), last_content_seq: codec::seq(batch.last_content_seq) })
}

impl Batch<'_> {
    fn write(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::Append { message, text } => self.append(message, text.as_deref()),
            Write::MessageState { message, state, ended_at, provider } => {
                let known = self.known(*message)?;
                self.tx
                    .prepare_cached(
                        "UPDATE message SET state = ?2, ended_at = ?3, provider = coalesce(?4, provider) WHERE key = ?1",
                    )?
                    .execute(params![known.key, word(state)?, ended_at, provider.as_ref().map(|id| id.as_str())])?;
                self.known.insert(*message, Known { state: *state, ..known });
                self.touch(*ended_at);
                if *state != MessageState::Open {
                    self.join_chunks(known.key)?;
                    self.settle(known.key)?;
                }
                Ok(())
            }
            Write::MessageModel { message, model } => {
                let known = self.known(*message)?;
                self.tx
                    .prepare_cached("UPDATE message SET model = ?2 WHERE key = ?1")?
                    .execute(params![known.key, model])?;
                Ok(())
            }
            Write::MessageSession { message, session } => {
                let known = self.known(*message)?;
                let stamp = session.as_ref().map_or(Ok(0), |stamp| self.stamp(stamp))?;
                self.tx
                    .prepare_cached("UPDATE message SET stamp = ?2 WHERE key = ?1")?
                    .execute(params![known.key, stamp])?;
                let seq: i64 = self
                    .tx
                    .prepare_cached(
                        "UPDATE thread_message SET stamp = ?3 WHERE thread = ?1 AND message = ?2 RETURNING seq",
                    )?
                    .query_row(params![self.thread, known.key, stamp], |row| row.get(0))?;
                self.blocks.insert(index::block_of(seq));
                Ok(())
            }
            Write::Part { message, part } => {
                let known = self.known(*message)?;
                self.put_part(known.key, part)?;
                self.changed(known)
            }
            Write::Chunk { message, key, text } => {
                let known = self.known(*message)?;
                self.append_chunk(known.key, key, text)?;
                self.changed(known)
            }
            Write::PartStatus { message, key, status, exit_code } => {
                let known = self.known(*message)?;
                self.set_status(known.key, key, *status, *exit_code)?;
                self.changed(known)
            }
            Write::Supersede { message, keys } => {
                let known = self.known(*message)?;
                let mut sql =
                    self.tx.prepare_cached("UPDATE part SET superseded = 1 WHERE message = ?1 AND item = ?2")?;
                for key in keys {
                    sql.execute(params![known.key, key])?;
                }
                self.changed(known)
            }
            Write::Session(record) => self.put_session(record),
            Write::DropSession { provider, at } => self.retire_session(provider, Some(*at)),
            Write::Turn { turn, text } => self.put_turn(turn, text.as_deref()),
            Write::Queue(queue) => self.put_queue(queue),
            Write::Approval(approval) => self.put_approval(approval),
            Write::Rule(rule) => {
                self.tx
                    .prepare_cached("INSERT OR IGNORE INTO rule (thread, rule) VALUES (?1, ?2)")?
                    .execute(params![self.thread, rule])?;
                Ok(())
            }
            Write::Target(target) => self.put_target(target),
            Write::Title(title) => {
                self.tx
                    .prepare_cached("UPDATE thread SET title = ?2 WHERE key = ?1 AND titled_by_user = 0")?
                    .execute(params![self.thread, title])?;
                Ok(())
            }
        }
    }

    /// A message of this thread.
    fn known(&mut self, id: MessageId) -> Result<Known> {
        if let Some(known) = self.known.get(&id) {
            return Ok(*known);
        }
        let found = self
            .tx
            .prepare_cached(
                "SELECT m.key, m.state FROM message m JOIN thread_message t ON t.message = m.key
                 WHERE m.id = ?1 AND t.thread = ?2",
            )?
            .query_row(params![id.0.as_bytes(), self.thread], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
            .optional()?;
        let (key, state) = found.ok_or(Fault::Store(StoreError::NoSuchMessage(id)))?;
        // A word that cannot be read is a damaged record (shown as failed): not open, so its sizes are kept up.
        let known = Known { key, state: codec::unword(&state).unwrap_or(MessageState::Failed) };
        self.known.insert(id, known);
        Ok(known)
    }

    fn touch(&mut self, at: Option<Millis>) {
        self.touched = self.touched.max(at);
    }

    /// A message's parts have changed: what is finished is counted and searched anew, what streams later (S1).
    fn changed(&mut self, known: Known) -> Result<()> {
        if known.state == MessageState::Open { Ok(()) } else { self.settle(known.key) }
    }

    fn settle(&mut self, message: i64) -> Result<()> {
        self.resize.insert(message);
        thread::search_later(self.tx, message)
    }

    fn append(&mut self, message: &Message, text: Option<&str>) -> Result<()> {
        let seq = int(message.seq);
        if seq != self.last_seq + 1 {
            return Err(Fault::invariant(format!(
                "message {} comes as #{}, the thread's next number is {}",
                message.id,
                message.seq,
                self.last_seq + 1
            )));
        }
        let stamp = message.session.as_ref().map_or(Ok(0), |stamp| self.stamp(stamp))?;
        let notice = message.notice.as_ref().map(|notice| json("a notice", notice)).transpose()?;
        self.tx
            .prepare_cached(
                "INSERT INTO message (id, role, state, provider, model, stamp, created_at, ended_at, notice)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                message.id.0.as_bytes(),
                word(&message.role)?,
                word(&message.state)?,
                message.provider.as_ref().map(|id| id.as_str()),
                message.model,
                stamp,
                message.created_at,
                message.ended_at,
                notice
            ])
            .map_err(|error| taken(error, || format!("message {} is there already", message.id)))?;
        let key = self.tx.last_insert_rowid();
        if let Some(text) = text {
            self.tx
                .prepare_cached("INSERT INTO handover (message, text) VALUES (?1, ?2)")?
                .execute(params![key, text])?;
        }
        for (ordinal, part) in message.parts.iter().enumerate() {
            let (body, text) = split(&part.body)?;
            self.insert_part(key, i64::try_from(ordinal).unwrap_or(i64::MAX), part, &body, &text)?;
        }
        index::insert_placed(self.tx, self.thread, key, stamp, message)?;
        self.blocks.insert(index::block_of(seq));
        self.last_seq = seq;
        if message.is_content() {
            self.last_content_seq = seq;
        }
        if !message.parts.is_empty() && (message.role == Role::User || message.state != MessageState::Open) {
            thread::search_later(self.tx, key)?;
        }
        self.known.insert(message.id, Known { key, state: message.state });
        self.touch(Some(message.created_at));
        Ok(())
    }

    fn stamp(&self, stamp: &SessionStamp) -> Result<i64> {
        let found = self
            .tx
            .prepare_cached("SELECT key FROM session_stamp WHERE session_id = ?1 AND incarnation = ?2")?
            .query_row(params![stamp.id, stamp.incarnation], |row| row.get(0))
            .optional()?;
        if let Some(key) = found {
            return Ok(key);
        }
        self.tx
            .prepare_cached("INSERT INTO session_stamp (session_id, incarnation) VALUES (?1, ?2)")?
            .execute(params![stamp.id, stamp.incarnation])?;
        Ok(self.tx.last_insert_rowid())
    }

    fn put_target(&self, target: &Target) -> Result<()> {
        self.tx
            .prepare_cached("UPDATE thread SET target = ?2 WHERE key = ?1")?
            .execute(params![self.thread, json("a target", target)?])?;
        Ok(())
    }
}

/// A broken uniqueness as the rule that it stands for.
fn taken(error: rusqlite::Error, rule: impl FnOnce() -> String) -> Fault {
    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) {
        Fault::invariant(rule())
    } else {
        error.into()
    }
}
