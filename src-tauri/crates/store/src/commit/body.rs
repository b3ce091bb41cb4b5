//! Parts and their chunks (S1, S2): a reply grows by appended rows and is never written twice.

use changeover_core::part::Part;
use rusqlite::{OptionalExtension, params};

use super::Batch;
use crate::{
    error::{Fault, Result},
    message::{ORDINAL_BITS, part_keys, split, whole_text},
};

/// A chunk of at least so many bytes stays as it is; smaller ones are joined when their message ends.
const CHUNK_STAYS: usize = 4096;
/// Joined chunks are no longer than this.
const JOINED: usize = 64 * 1024;

impl Batch<'_> {
    pub(super) fn insert_part(&self, message: i64, ordinal: i64, part: &Part, body: &str, text: &str) -> Result<()> {
        if ordinal >= 1 << ORDINAL_BITS {
            return Err(Fault::invariant("a message has more parts than it can have"));
        }
        self.tx
            .prepare_cached(
                "INSERT INTO part (key, message, item, superseded, body, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![(message << ORDINAL_BITS) | ordinal, message, part.key, part.superseded, body, text])
            .map_err(|error| super::taken(error, || format!("part {} stands twice in its message", part.key)))?;
        Ok(())
    }

    /// Adds a part, or replaces the body of the one with its key. Of a text that merely grew only what is new is written.
    pub(super) fn put_part(&self, message: i64, part: &Part) -> Result<()> {
        let (body, text) = split(&part.body)?;
        let found = self
            .tx
            .prepare_cached("SELECT key, superseded, chunked, body, text FROM part WHERE message = ?1 AND item = ?2")?
            .query_row(params![message, part.key], |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, bool>(1)?,
                    row.get::<_, bool>(2)?,
                    row.get::<_, String>(3)?,
                    row.get::<_, String>(4)?,
                ))
            })
            .optional()?;
        let Some((key, superseded, chunked, old_body, own)) = found else {
            let (first, last) = part_keys(message);
            let highest: Option<i64> = self
                .tx
                .prepare_cached("SELECT max(key) FROM part WHERE key BETWEEN ?1 AND ?2")?
                .query_row([first, last], |row| row.get(0))?;
            let ordinal = highest.map_or(0, |key| key - first + 1);
            return self.insert_part(message, ordinal, part, &body, &text);
        };
        let old = whole_text(self.tx, key, own, chunked)?;
        match text.strip_prefix(old.as_str()) {
            Some(more) => {
                if old_body != body || superseded != part.superseded {
                    self.tx
                        .prepare_cached("UPDATE part SET superseded = ?2, body = ?3 WHERE key = ?1")?
                        .execute(params![key, part.superseded, body])?;
                }
                self.chunk(key, chunked, more)
            }
            None => {
                if chunked {
                    self.tx.prepare_cached("DELETE FROM chunk WHERE part = ?1")?.execute([key])?;
                }
                self.tx
                    .prepare_cached(
                        "UPDATE part SET superseded = ?2, chunked = 0, body = ?3, text = ?4 WHERE key = ?1",
                    )?
                    .execute(params![key, part.superseded, body, text])?;
                Ok(())
            }
        }
    }

    pub(super) fn append_chunk(&self, message: i64, item: &str, text: &str) -> Result<()> {
        let found = self
            .tx
            .prepare_cached("SELECT key, chunked FROM part WHERE message = ?1 AND item = ?2")?
            .query_row(params![message, item], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (key, chunked) =
            found.ok_or_else(|| Fault::invariant(format!("a chunk comes for part {item}, which is not there")))?;
        self.chunk(key, chunked, text)
    }

    fn chunk(&self, part: i64, chunked: bool, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if !chunked {
            self.tx.prepare_cached("UPDATE part SET chunked = 1 WHERE key = ?1")?.execute([part])?;
        }
        self.tx
            .prepare_cached(
                "INSERT INTO chunk (part, n, text)
                 VALUES (?1, (SELECT coalesce(max(n), 0) + 1 FROM chunk WHERE part = ?1), ?2)",
            )?
            .execute(params![part, text])?;
        Ok(())
    }

    /// Joins the small chunks of a message that has ended: they were what it took to be on disk in time (S1), and would be a
    /// row each for ever. Those that are long enough stay, so that nothing long is written twice.
    pub(super) fn join_chunks(&self, message: i64) -> Result<()> {
        let (first, last) = part_keys(message);
        let chunked: Vec<(i64, bool)> = self
            .tx
            .prepare_cached("SELECT key, text = '' FROM part WHERE key BETWEEN ?1 AND ?2 AND chunked = 1")?
            .query_map([first, last], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (part, bare) in chunked {
            self.join_part(part, bare)?;
        }
        Ok(())
    }

    fn join_part(&self, part: i64, bare: bool) -> Result<()> {
        let chunks: Vec<(i64, usize)> = self
            .tx
            .prepare_cached("SELECT n, octet_length(text) FROM chunk WHERE part = ?1 ORDER BY n")?
            .query_map([part], |row| Ok((row.get(0)?, usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0))))?
            .collect::<rusqlite::Result<_>>()?;
        let total: usize = chunks.iter().map(|(_, len)| len).sum();
        if bare && total < CHUNK_STAYS {
            let text = whole_text(self.tx, part, String::new(), true)?;
            self.tx
                .prepare_cached("UPDATE part SET text = ?2, chunked = 0 WHERE key = ?1")?
                .execute(params![part, text])?;
            self.tx.prepare_cached("DELETE FROM chunk WHERE part = ?1")?.execute([part])?;
            return Ok(());
        }
        let mut run: Vec<i64> = Vec::new();
        let mut bytes = 0;
        for (n, len) in chunks {
            if len >= CHUNK_STAYS || bytes + len > JOINED {
                self.join_run(part, &run)?;
                run.clear();
                bytes = 0;
            }
            if len < CHUNK_STAYS {
                run.push(n);
                bytes += len;
            }
        }
        self.join_run(part, &run)
    }

    /// Makes one chunk of a run of neighbours; it takes the first one's place.
    fn join_run(&self, part: i64, run: &[i64]) -> Result<()> {
        let [first, .., last] = run else { return Ok(()) };
        let mut text = String::new();
        {
            let mut sql =
                self.tx.prepare_cached("SELECT text FROM chunk WHERE part = ?1 AND n BETWEEN ?2 AND ?3 ORDER BY n")?;
            let mut rows = sql.query([part, *first, *last])?;
            while let Some(row) = rows.next()? {
                text.push_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
            }
        }
        self.tx
            .prepare_cached("DELETE FROM chunk WHERE part = ?1 AND n BETWEEN ?2 AND ?3")?
            .execute([part, *first, *last])?;
        self.tx
            .prepare_cached("INSERT INTO chunk (part, n, text) VALUES (?1, ?2, ?3)")?
            .execute(params![part, first, text])?;
        Ok(())
    }
}
