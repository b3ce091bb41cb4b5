//! Full-text search (S3). The index (FTS5, trigrams) lies in a file of its own beside the database: it is filled behind in
//! batches, never in a stream's transaction, and damage to it costs nothing but the time to make it anew (R171).
//!
//! It holds no positions: a hit is a message that has all trigrams of all words, read and looked through before it is shown.

use std::path::{Path, PathBuf};

use changeover_core::{
    Millis,
    id::{MessageId, ThreadId},
    seq::Seq,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::{
    Store, codec,
    error::{Fault, Result, StoreError},
    files,
    message::search_text,
    pool::BUSY,
    thread,
};

/// Number of the index's own schema: another one is thrown away and made anew.
const SCHEMA: i64 = 1;
/// How often, and after what pause, an index that is just being made is looked at again.
const MAKING_TRIES: u32 = 40;
const MAKING_PAUSE: std::time::Duration = std::time::Duration::from_millis(25);

const TABLE: &str = "CREATE VIRTUAL TABLE text USING fts5 (body, content = '', contentless_delete = 1, detail = 'none',
    tokenize = 'trigram');";
/// A batch of the filling: at most so many messages, and so many bytes of text but for the last one.
const BATCH: i64 = 64;
const BATCH_BYTES: usize = 512 * 1024;
/// Messages looked through for one question: candidates of the index, or, for words under three characters, the newest.
const LOOKED_THROUGH: usize = 4_000;
const SCANNED: i64 = 20_000;
const SCANNED_BYTES: usize = 8 << 20;
/// Messages not yet in the index that a question looks through all the same.
const PENDING: i64 = 256;

/// A message in which all words occur.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// In which thread: the oldest of those that hold it and were searched.
    pub thread: ThreadId,
    /// Its number there.
    pub seq: Seq,
    /// The message.
    pub message: MessageId,
    /// When it was written.
    pub at: Millis,
    /// The text around the first word, on one line.
    pub excerpt: String,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Newest first.
    pub hits: Vec<Hit>,
    /// What was not looked through, in words, if anything.
    pub not_searched: Option<String>,
}

/// The index as the writer fills it.
pub(crate) struct SearchIndex {
    path: PathBuf,
    conn: Option<Connection>,
}

impl SearchIndex {
    pub(crate) fn new(database: &Path) -> Self {
        Self { path: files::search(database), conn: None }
    }

    /// Brings one batch of messages in; whether there is more to do.
    pub(crate) fn index_some(&mut self, main: &Connection) -> Result<bool> {
        match self.fill(main) {
            Err(fault) if fault.is_damage() => {
                tracing::warn!(path = %self.path.display(), "the search index is damaged and is made anew");
                self.rebuild(main)?;
                Ok(true)
            }
            filled => filled,
        }
    }

    /// Throws the index away; all messages wait to be brought in.
    pub(crate) fn rebuild(&mut self, main: &Connection) -> Result<()> {
        self.conn = None;
        for suffix in ["", "-wal", "-shm"] {
            let file = files::beside(&self.path, suffix);
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(files::io_error(&file, &error).into());
                }
                _ => {}
            }
        }
        self.open(main).map(drop)
    }

    fn open(&mut self, main: &Connection) -> Result<&mut Connection> {
        if self.conn.is_none() {
            files::create(&self.path)?;
            let conn = Connection::open_with_flags(
                &self.path,
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            conn.busy_timeout(BUSY)?;
            let found: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            if found != SCHEMA {
                conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
                // In this order: an end between the two makes it all again.
                main.execute(
                    "INSERT OR IGNORE INTO search_pending SELECT key FROM message WHERE role <> 'system'",
                    [],
                )?;
                conn.execute_batch(&format!(
                    "BEGIN IMMEDIATE; DROP TABLE IF EXISTS text; {TABLE} PRAGMA user_version = {SCHEMA}; COMMIT;"
                ))?;
            }
            conn.pragma_update(None, "synchronous", "NORMAL")?;
            self.conn = Some(conn);
        }
        match &mut self.conn {
            Some(conn) => Ok(conn),
            None => unreachable!("it was opened just now"),
        }
    }

    fn fill(&mut self, main: &Connection) -> Result<bool> {
        let conn = self.open(main)?;
        let pending: Vec<i64> = main
            .prepare_cached("SELECT message FROM search_pending ORDER BY message LIMIT ?1")?
            .query_map([BATCH], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        if pending.is_empty() {
            return Ok(false);
        }
        let tx = conn.transaction()?;
        let (mut bytes, mut last) = (0, 0);
        for message in pending {
            if bytes >= BATCH_BYTES {
                break;
            }
            let text = search_text(main, message)?;
            bytes += text.len();
            tx.prepare_cached("DELETE FROM text WHERE rowid = ?1")?.execute([message])?;
            if !text.is_empty() {
                tx.prepare_cached("INSERT INTO text (rowid, body) VALUES (?1, ?2)")?.execute(params![message, text])?;
            }
            last = message;
        }
        tx.commit()?;
        // Done twice after an end between the two, which changes nothing.
        main.prepare_cached("DELETE FROM search_pending WHERE message <= ?1")?.execute([last])?;
        Ok(true)
    }
}

/// What is looked for: words, or phrases in double quotes; all must occur, in any case.
struct Words(Vec<String>);

impl Words {
    fn parse(text: &str) -> Self {
        let mut words = Vec::new();
        for (at, piece) in text.split('"').enumerate() {
            if at % 2 == 1 {
                words.push(piece.to_lowercase());
            } else {
                words.extend(piece.split_whitespace().map(str::to_lowercase));
            }
        }
        words.retain(|word| !word.trim().is_empty());
        Self(words)
    }

    /// The index's question; `None` where every word is too short for it.
    fn query(&self) -> Option<String> {
        let mut grams: Vec<String> = Vec::new();
        for word in &self.0 {
            let chars: Vec<char> = word.chars().collect();
            for gram in chars.windows(3).take(64) {
                let gram = format!("\"{}\"", gram.iter().collect::<String>().replace('"', "\"\""));
                if !grams.contains(&gram) {
                    grams.push(gram);
                }
            }
        }
        (!grams.is_empty()).then(|| grams.join(" AND "))
    }

    /// Where in the text the first word begins, if all occur.
    fn find(&self, text: &str) -> Option<String> {
        let lower = text.to_lowercase();
        let first = self.0.iter().map(|word| lower.find(word.as_str())).collect::<Option<Vec<_>>>()?;
        // Lowering a letter may change its length; near enough for an excerpt.
        Some(excerpt(text, first.first().copied().unwrap_or(0)))
    }
}

/// About 200 bytes of a text around an offset, on one line.
fn excerpt(text: &str, at: usize) -> String {
    let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (from, to) = (boundary(at.saturating_sub(60)), boundary(at.saturating_add(140)));
    let line = text.get(from..to).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
    format!("{before}{line}{after}")
}

/// Whether messages that the user excluded (H2) are found.
#[derive(Clone, Copy)]
enum KeptBack {
    /// They are: the user searches.
    Found,
    /// They are not: an agent searches. A message counts as excluded where it was excluded, and, if a thread is given, in
    /// no thread at all once it was excluded in that one.
    Hidden(Option<i64>),
}

struct Search<'a> {
    main: &'a Connection,
    words: Words,
    threads: Option<Vec<i64>>,
    kept_back: KeptBack,
    limit: usize,
    seen: std::collections::BTreeSet<i64>,
    hits: Vec<(i64, Hit)>,
}

impl Search<'_> {
    /// Looks at a message; its text's length.
    fn look(&mut self, message: i64) -> Result<usize> {
        if !self.seen.insert(message) {
            return Ok(0);
        }
        let text = search_text(self.main, message)?;
        let Some(excerpt) = self.words.find(&text) else { return Ok(text.len()) };
        let mut sql = self.main.prepare_cached(
            "SELECT t.id, p.seq, m.id, m.created_at, t.key, p.excluded FROM thread_message p
             JOIN thread t ON t.key = p.thread JOIN message m ON m.key = p.message
             WHERE p.message = ?1 AND t.deleted_at IS NULL ORDER BY t.key",
        )?;
        let mut rows = sql.query([message])?;
        let mut found = None;
        while let Some(row) = rows.next()? {
            let key: i64 = row.get(4)?;
            if let KeptBack::Hidden(own) = self.kept_back
                && row.get(5)?
            {
                if own == Some(key) {
                    return Ok(text.len());
                }
                continue;
            }
            if found.is_some() || self.threads.as_ref().is_some_and(|threads| !threads.contains(&key)) {
                continue;
            }
            found = Some(Hit {
                thread: codec::thread_id(row, 0)?,
                seq: codec::seq(row.get(1)?),
                message: codec::message_id(row, 2)?,
                at: row.get(3)?,
                excerpt: excerpt.clone(),
            });
        }
        self.hits.extend(found.map(|hit| (message, hit)));
        Ok(text.len())
    }

    /// Messages that the index does not hold yet; how many there are beyond those.
    fn pending(&mut self) -> Result<i64> {
        let waiting: Vec<i64> = self
            .main
            .prepare_cached("SELECT message FROM search_pending ORDER BY message DESC LIMIT ?1")?
            .query_map([PENDING], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for message in &waiting {
            self.look(*message)?;
        }
        if waiting.len() < usize::try_from(PENDING).unwrap_or(0) {
            return Ok(0);
        }
        let all: i64 = self.main.query_row("SELECT count(*) FROM search_pending", [], |row| row.get(0))?;
        Ok(all - PENDING)
    }

    /// The index's candidates, newest first; whether all were looked at that had to be.
    fn candidates(&mut self, index: &Connection, query: &str) -> Result<bool> {
        let mut sql = index.prepare("SELECT rowid FROM text WHERE text MATCH ?1 ORDER BY rowid DESC")?;
        let mut rows = sql.query([query])?;
        let (mut looked, mut fresh) = (0, 0);
        while let Some(row) = rows.next()? {
            if fresh >= self.limit {
                return Ok(true);
            }
            if looked >= LOOKED_THROUGH {
                return Ok(false);
            }
            looked += 1;
            let before = self.hits.len();
            self.look(row.get(0)?)?;
            fresh += self.hits.len() - before;
        }
        Ok(true)
    }

    /// The newest messages, one by one; whether that was all of them.
    fn scan(&mut self) -> Result<bool> {
        let newest: Vec<i64> = self
            .main
            .prepare_cached("SELECT key FROM message WHERE role <> 'system' ORDER BY key DESC LIMIT ?1")?
            .query_map([SCANNED + 1], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut bytes = 0;
        for (looked, message) in newest.iter().enumerate() {
            if self.hits.len() >= self.limit {
                return Ok(true);
            }
            if looked >= usize::try_from(SCANNED).unwrap_or(0) || bytes >= SCANNED_BYTES {
                return Ok(false);
            }
            bytes += self.look(*message)?;
        }
        Ok(true)
    }
}

impl Store {
    /// Messages in which all `words` occur, in any case, newest first; a phrase stands in double quotes. Looks at texts, and at
    /// the lines of commands. What it did not look through it says.
    ///
    /// # Errors
    /// The database cannot be read. A damaged index is none: it is made anew, and the answer says so.
    pub fn search(&self, words: &str, threads: Option<&[ThreadId]>, limit: usize) -> Result<Found, StoreError> {
        self.search_in(words, threads, KeptBack::Found, limit)
    }

    /// The same for an agent: without what the user excluded (H2). What was excluded in the thread `own` is found in no
    /// other thread either, though other threads of the family hold the same message.
    ///
    /// # Errors
    /// As for [`Store::search`].
    pub fn search_told(
        &self,
        words: &str,
        threads: Option<&[ThreadId]>,
        own: Option<ThreadId>,
        limit: usize,
    ) -> Result<Found, StoreError> {
        let own = own.map(|id| self.read(|main| thread::key_of(main, id))).transpose()?;
        self.search_in(words, threads, KeptBack::Hidden(own), limit)
    }

    fn search_in(
        &self,
        words: &str,
        threads: Option<&[ThreadId]>,
        kept_back: KeptBack,
        limit: usize,
    ) -> Result<Found, StoreError> {
        let mut damaged = false;
        let found = self.read(|main| {
            let words = Words::parse(words);
            if words.0.is_empty() || limit == 0 {
                return Ok(Found::default());
            }
            let threads = threads.map(|ids| keys(main, ids)).transpose()?;
            let query = words.query();
            let mut search =
                Search { main, words, threads, kept_back, limit, seen: std::collections::BTreeSet::new(), hits: Vec::new() };
            let mut missed: Vec<String> = Vec::new();
            match query {
                Some(query) => {
                    let behind = search.pending()?;
                    if behind > 0 {
                        missed.push(format!("{behind} messages that are still being indexed"));
                    }
                    let mut tries = 0;
                    let looked = loop {
                        match open_index(self.path()).and_then(|index| search.candidates(&index, &query)) {
                            // The writer is just making the index, or changing its mode: not damage, a moment.
                            Err(fault) if !fault.is_damage() && tries < MAKING_TRIES => {
                                tries += 1;
                                std::thread::sleep(MAKING_PAUSE);
                            }
                            looked => break looked,
                        }
                    };
                    match looked {
                        Ok(true) => {}
                        Ok(false) => missed.push(format!("what is older than {LOOKED_THROUGH} likely messages")),
                        Err(fault) => {
                            damaged = true;
                            tracing::warn!(error = %fault.at(&files::search(self.path())), "the search index cannot be read");
                            missed.push("the index: it cannot be read and is being made anew".into());
                        }
                    }
                }
                None => {
                    if !search.scan()? {
                        missed.push(format!(
                            "all but the newest {SCANNED} messages: words under three characters are not in the index"
                        ));
                    }
                }
            }
            let mut hits = search.hits;
            hits.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            hits.truncate(limit);
            Ok(Found {
                hits: hits.into_iter().map(|(_, hit)| hit).collect(),
                not_searched: (!missed.is_empty()).then(|| missed.join("; ")),
            })
        })?;
        if damaged {
            // In the writer's own time; who asked does not wait for it.
            self.post(crate::writer::Writer::rebuild_search);
        }
        Ok(found)
    }

    /// Waits until the search index holds everything written before this call.
    ///
    /// # Errors
    /// The index cannot be written.
    pub async fn flush_search(&self) -> Result<(), StoreError> {
        while self.write(crate::writer::Writer::index_some).await? {}
        Ok(())
    }
}

fn open_index(database: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(files::search(database), flags)?;
    conn.busy_timeout(BUSY)?;
    Ok(conn)
}

fn keys(conn: &Connection, ids: &[ThreadId]) -> Result<Vec<i64>, Fault> {
    let mut sql = conn.prepare_cached("SELECT key FROM thread WHERE id = ?1")?;
    let mut keys = Vec::with_capacity(ids.len());
    for id in ids {
        keys.extend(sql.query_row([id.0.as_bytes()], |row| row.get::<_, i64>(0)).optional()?);
    }
    Ok(keys)
}
