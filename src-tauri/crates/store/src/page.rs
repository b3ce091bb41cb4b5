//! Pages of a transcript: bounded in messages and in bytes, wherever they lie (U3).

use changeover_core::{
    id::{MessageId, ThreadId},
    message::Message,
    part::{Part, PartBody},
    seq::Seq,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    Store,
    codec::{int, seq},
    error::{Fault, Result, StoreError},
    message::{self, Loaded, PLACED, Placed, placed},
    thread,
};

/// At most so many messages in a page.
pub const PAGE_MAX: usize = 200;
/// A text longer than this is given as its head and tail in a page; [`Store::read_part`] gives it whole.
pub const TEXT_WHOLE: usize = 64 * 1024;
/// Even in a message of very many parts each keeps so much of its text.
const TEXT_LEAST: usize = 2 * 1024;

/// Where a page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageAt {
    /// The end of the thread.
    Newest,
    /// Just before this message.
    Before(Seq),
    /// Just after this message.
    After(Seq),
    /// Around this message, itself included.
    Around(Seq),
}

/// Messages in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Ascending by seq.
    pub messages: Vec<Message>,
    /// The first one's number; 0: the page is empty.
    pub first_seq: Seq,
    /// The last one's number; 0: the page is empty.
    pub last_seq: Seq,
    /// Older messages exist.
    pub has_before: bool,
    /// Newer messages exist.
    pub has_after: bool,
    /// Texts of which the page holds head and tail only.
    pub cuts: Vec<Cut>,
    /// Messages of which a record cannot be read: shown in its raw form (R011, R168).
    pub damaged: Vec<Seq>,
}

/// Where a text in a page is not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The message.
    pub seq: Seq,
    /// The part.
    pub key: String,
    /// Bytes of its text before the gap.
    pub at: u64,
    /// Bytes that are left away.
    pub bytes: u64,
}

/// Bytes of a message that a page counts.
fn weight(message: &Message) -> usize {
    let part = |part: &Part| {
        part.key.len()
            + match &part.body {
                PartBody::Text { text } | PartBody::Reasoning { text } => text.len(),
                PartBody::Command { command, output, .. } => command.len() + output.len(),
                PartBody::Tool { input, output, .. } => input.len() + output.as_ref().map_or(0, String::len),
                PartBody::FileChange { files, .. } => files.iter().map(|file| file.path.len() + file.diff.len()).sum(),
                PartBody::Plan { entries } => entries.iter().map(|entry| entry.text.len()).sum(),
                PartBody::Attachment { .. } => 0,
            }
    };
    256 + message.parts.iter().map(part).sum::<usize>()
}

/// A page being filled: from one end on, as long as there is room.
struct Filling<'a> {
    conn: &'a Connection,
    thread: i64,
    loaded: Vec<Loaded>,
    room: usize,
}

impl Filling<'_> {
    /// Up to `limit` messages from `from` on, upwards or downwards, while they fit in `room` bytes more. The page's very first
    /// message comes whatever its size. `true`: stopped for want of room.
    fn fill(&mut self, from: i64, up: bool, limit: usize, room: usize) -> Result<()> {
        let sql = if up {
            format!("SELECT {PLACED} FROM thread_message WHERE thread = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3")
        } else {
            format!("SELECT {PLACED} FROM thread_message WHERE thread = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT ?3")
        };
        let places: Vec<Placed> = self
            .conn
            .prepare_cached(&sql)?
            .query_map(params![self.thread, from, i64::try_from(limit).unwrap_or(i64::MAX)], placed)?
            .collect::<rusqlite::Result<_>>()?;
        let mut room = room.min(self.room);
        for at in places {
            let parts: usize = {
                let (first, last) = message::part_keys(at.message);
                self.conn
                    .prepare_cached("SELECT count(*) FROM part WHERE key BETWEEN ?1 AND ?2")?
                    .query_row([first, last], |row| row.get::<_, i64>(0))
                    .map(|count| usize::try_from(count).unwrap_or(0))?
            };
            let share = (self.room / parts.max(1)).clamp(TEXT_LEAST, TEXT_WHOLE);
            let loaded = message::load(self.conn, at, Some(share))?;
            let weight = weight(&loaded.message);
            if weight > room && !self.loaded.is_empty() {
                break;
            }
            room = room.saturating_sub(weight);
            self.room = self.room.saturating_sub(weight);
            self.loaded.push(loaded);
        }
        Ok(())
    }
}

impl Store {
    /// A page of a thread: at most `limit` messages (up to [`PAGE_MAX`]) and about `max_bytes` bytes, but always one message
    /// where there is one. Long texts are cut in the page, and the page says where.
    ///
    /// # Errors
    /// `NoSuchThread`; the database cannot be read.
    pub fn read_page(&self, id: ThreadId, at: PageAt, limit: usize, max_bytes: usize) -> Result<Page, StoreError> {
        self.read(|conn| {
            let limit = limit.clamp(1, PAGE_MAX);
            let mut page = Filling { conn, thread: thread::key_of(conn, id)?, loaded: Vec::new(), room: max_bytes };
            match at {
                PageAt::Newest => page.fill(i64::MAX, false, limit, max_bytes)?,
                PageAt::Before(before) => page.fill(int(before).saturating_sub(1), false, limit, max_bytes)?,
                PageAt::After(after) => page.fill(int(after).saturating_add(1), true, limit, max_bytes)?,
                PageAt::Around(seq) => {
                    page.fill(int(seq), false, limit.div_ceil(2), max_bytes.div_ceil(2))?;
                    let left = limit - page.loaded.len();
                    page.fill(int(seq).saturating_add(1), true, left, max_bytes)?;
                }
            }
            page.finish()
        })
    }

    /// One message with all its parts, whole.
    ///
    /// # Errors
    /// `NoSuchThread`; `NoSuchMessage` where the thread does not hold it; the database cannot be read.
    pub fn read_message(&self, id: ThreadId, message: MessageId) -> Result<Message, StoreError> {
        self.read(|conn| {
            let thread = thread::key_of(conn, id)?;
            let key = message::key_of(conn, message)?;
            let at = conn
                .prepare_cached(&format!("SELECT {PLACED} FROM thread_message WHERE message = ?1 AND thread = ?2"))?
                .query_row([key, thread], placed)
                .optional()?
                .ok_or(Fault::Store(StoreError::NoSuchMessage(message)))?;
            Ok(message::load(conn, at, None)?.message)
        })
    }

    /// One part, whole; `None` where the message has none of that key.
    ///
    /// # Errors
    /// `NoSuchMessage`; the database cannot be read.
    pub fn read_part(&self, message: MessageId, key: &str) -> Result<Option<Part>, StoreError> {
        self.read(|conn| message::load_part(conn, message::key_of(conn, message)?, key))
    }

    /// The exact text that a handover notice stands for (T4, X1); `None`: the message is no such notice.
    ///
    /// # Errors
    /// `NoSuchMessage`; the database cannot be read.
    pub fn handover_text(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.read(|conn| {
            let key = message::key_of(conn, message)?;
            Ok(conn
                .prepare_cached("SELECT text FROM handover WHERE message = ?1")?
                .query_row([key], |row| row.get(0))
                .optional()?)
        })
    }
}

impl Filling<'_> {
    fn finish(mut self) -> Result<Page> {
        self.loaded.sort_by_key(|loaded| loaded.message.seq);
        let mut page = Page::default();
        for Loaded { message, damaged, cuts } in self.loaded {
            if damaged {
                page.damaged.push(message.seq);
            }
            let seq = message.seq;
            page.cuts.extend(cuts.into_iter().map(|(key, at, bytes)| Cut { seq, key, at, bytes }));
            page.messages.push(message);
        }
        page.first_seq = page.messages.first().map_or(0, |message| message.seq);
        page.last_seq = page.messages.last().map_or(0, |message| message.seq);
        let ends: (Option<i64>, Option<i64>) = (
            self.conn
                .prepare_cached("SELECT min(seq) FROM thread_message WHERE thread = ?1")?
                .query_row([self.thread], |row| row.get(0))?,
            self.conn
                .prepare_cached("SELECT max(seq) FROM thread_message WHERE thread = ?1")?
                .query_row([self.thread], |row| row.get(0))?,
        );
        if !page.messages.is_empty() {
            page.has_before = ends.0.is_some_and(|first| seq(first) < page.first_seq);
            page.has_after = ends.1.is_some_and(|last| seq(last) > page.last_seq);
        }
        Ok(page)
    }
}
