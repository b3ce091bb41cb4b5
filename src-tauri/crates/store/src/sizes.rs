//! Answers to a handoff's questions out of the size index (H3): whole blocks are passed over, bodies are never read.

use changeover_core::{
    handoff::items::{Item, ItemPlace, ItemSize, ItemSizes, Scope, Totals, items_of},
    id::ThreadId,
    notice::{ItemKind, LeftOut, LeftOutReason},
    seq::{Seq, SeqRange, SeqSet},
};
use rusqlite::{OptionalExtension, params};

use crate::{
    Store,
    codec::{int, seq},
    error::{Fault, Result, StoreError},
    index::{BLOCK, block_of, decode},
    message::{self, PLACED, placed},
    pool::Reader,
    thread,
};

/// The sizes of a thread's items within a scope, all as of the moment it was asked for: it holds a reading connection and its
/// snapshot until it is dropped, so it is to be short-lived. The bodies of what was chosen come from the same snapshot.
pub struct StoredSizes {
    // Before the store: its connection is given back while there is still something to give it to.
    reader: Reader,
    store: Store,
    thread: i64,
    /// First and last number in the scope.
    first: i64,
    last: i64,
    /// The prompt's number; 0: none.
    prompt: i64,
    /// The stamp of the session whose own replies are left away; -1: none.
    own: i64,
}

impl Drop for StoredSizes {
    fn drop(&mut self) {
        // Ends the snapshot; a connection on which this fails is not lent again.
        let _ = self.reader.execute_batch("ROLLBACK");
    }
}

impl Store {
    /// The sizes of a thread's items within `scope`. Blocks while all reading connections are lent.
    ///
    /// # Errors
    /// `NoSuchThread`, or the database cannot be read.
    pub fn item_sizes(&self, id: ThreadId, scope: &Scope) -> Result<StoredSizes, StoreError> {
        let make = || -> Result<StoredSizes> {
            let reader = self.reader()?;
            reader.execute_batch("BEGIN")?;
            let mut sizes = StoredSizes {
                store: self.clone(),
                reader,
                thread: 0,
                first: int(scope.after).saturating_add(1),
                last: int(scope.upto),
                prompt: scope.prompt.map_or(0, int),
                own: -1,
            };
            sizes.thread = thread::key_of(&sizes.reader, id)?;
            let last = sizes
                .reader
                .prepare_cached("SELECT max(seq) FROM thread_message WHERE thread = ?1")?
                .query_row([sizes.thread], |row| row.get::<_, Option<i64>>(0))?;
            sizes.last = sizes.last.min(last.unwrap_or(0));
            if let Some(own) = &scope.own {
                let found = sizes
                    .reader
                    .prepare_cached("SELECT key FROM session_stamp WHERE session_id = ?1 AND incarnation = ?2")?
                    .query_row(params![own.id, own.incarnation], |row| row.get(0))
                    .optional()?;
                sizes.own = found.unwrap_or(-1);
            }
            Ok(sizes)
        };
        make().map_err(|fault| fault.at(self.path()))
    }
}

/// What a message must be for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Any of the scope.
    Any,
    /// With a text by the user.
    User,
    /// With a text by an agent.
    Assistant,
}

impl Wanted {
    /// The condition on a block's row.
    fn block(self) -> &'static str {
        match self {
            Self::Any => "messages > 0",
            Self::User => "least_user IS NOT NULL",
            Self::Assistant => "least_assistant IS NOT NULL",
        }
    }

    /// The condition on a message's row.
    fn row(self) -> &'static str {
        match self {
            Self::Any => "role < 2",
            Self::User => "role = 0 AND textless = 0 AND excluded = 0",
            Self::Assistant => "role = 1 AND textless = 0 AND excluded = 0",
        }
    }
}

impl StoredSizes {
    /// The chosen items with their bodies, in the order of `places`; a place where nothing stands is left away.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn items(&self, places: &[ItemPlace]) -> Result<Vec<Item>, StoreError> {
        let read = || -> Result<Vec<Item>> {
            let mut items = Vec::with_capacity(places.len());
            let mut message: Option<(Seq, Vec<Item>)> = None;
            for place in places {
                if message.as_ref().is_none_or(|(seq, _)| *seq != place.seq) {
                    let at = self
                        .reader
                        .prepare_cached(&format!("SELECT {PLACED} FROM thread_message WHERE thread = ?1 AND seq = ?2"))?
                        .query_row([self.thread, int(place.seq)], placed)
                        .optional()?;
                    let found = match at {
                        Some(at) => items_of(&message::load(&self.reader, at, None)?.message),
                        None => Vec::new(),
                    };
                    message = Some((place.seq, found));
                }
                if let Some((_, found)) = &message {
                    items.extend(found.iter().find(|item| item.place == *place).cloned());
                }
            }
            Ok(items)
        };
        read().map_err(|fault| fault.at(self.store.path()))
    }

    fn answer<T>(&self, result: Result<T>) -> Result<T, StoreError> {
        result.map_err(|fault: Fault| fault.at(self.store.path()))
    }

    /// The nearest block beyond `block` in a direction, within the scope, of which `wanted` (a condition on its row, `?5` in it
    /// is `max`) holds: within its larger block, then by the larger blocks.
    fn next_block(&self, block: i64, newest: bool, wanted: &str, max: i64) -> Result<Option<i64>> {
        let (first, last) = (block_of(self.first), block_of(self.last));
        let order = if newest { "DESC" } else { "ASC" };
        let sql = |level: u8| {
            format!(
                "SELECT block FROM block WHERE thread = ?1 AND level = {level} AND block BETWEEN ?2 AND ?3 AND stamp <> ?4
                 AND ({wanted}) AND ?5 = ?5 ORDER BY block {order} LIMIT 1"
            )
        };
        let (small, large) = (sql(1), sql(2));
        let find = |sql: &str, from: i64, to: i64| -> Result<Option<i64>> {
            if from > to {
                return Ok(None);
            }
            let row =
                self.reader.prepare_cached(sql)?.query_row([self.thread, from, to, self.own, max], |row| row.get(0));
            Ok(row.optional()?)
        };
        let around = block / BLOCK;
        let (inside, beyond) = if newest {
            ((first.max(around * BLOCK), block - 1), (first / BLOCK, around - 1))
        } else {
            ((block + 1, last.min(around * BLOCK + BLOCK - 1)), (around + 1, last / BLOCK))
        };
        if let Some(found) = find(&small, inside.0, inside.1)? {
            return Ok(Some(found));
        }
        let (mut from, mut to) = beyond;
        while let Some(around) = find(&large, from, to)? {
            let found = find(&small, first.max(around * BLOCK), last.min(around * BLOCK + BLOCK - 1))?;
            if found.is_some() {
                return Ok(found);
            }
            // Only at the scope's end: what it promised lies outside.
            if newest { to = around - 1 } else { from = around + 1 }
        }
        Ok(None)
    }

    /// The message nearest to `from` in a direction, within `first..=last`, that is wanted: its number and items. Looks into
    /// the block it begins in, then only into blocks that hold such a one.
    fn nearest(&self, wanted: Wanted, first: i64, last: i64, newest: bool) -> Result<Option<(i64, Vec<u8>)>> {
        let (first, last) = (first.max(self.first), last.min(self.last));
        let mut block = block_of(if newest { last } else { first });
        let order = if newest { "DESC" } else { "ASC" };
        let rows = format!(
            "SELECT seq, items FROM thread_message WHERE thread = ?1 AND seq BETWEEN ?2 AND ?3 AND {}
             AND stamp <> ?4 AND seq <> ?5 ORDER BY seq {order} LIMIT 1",
            wanted.row()
        );
        while first <= last && block >= block_of(first) && block <= block_of(last) {
            let (from, to) = (first.max(block * BLOCK), last.min(block * BLOCK + BLOCK - 1));
            let found = self
                .reader
                .prepare_cached(&rows)?
                .query_row(params![self.thread, from, to, self.own, self.prompt], |row| {
                    Ok((row.get(0)?, row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default()))
                })
                .optional()?;
            if found.is_some() {
                return Ok(found);
            }
            let next = self.next_block(block, newest, wanted.block(), 0)?;
            match next {
                Some(next) => block = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// The text item of a message's row.
    fn text_item((at, items): (i64, Vec<u8>)) -> Option<ItemSize> {
        decode(seq(at), &items).into_iter().find(|item| item.kind != ItemKind::Command)
    }

    fn fitting(&self, before: ItemPlace, max_bytes: u64) -> Result<Option<ItemSize>> {
        let max = int(max_bytes);
        // The message that `before` stands in may hold fitting items below it.
        let own = int(before.seq);
        if before.index > 0 && own >= self.first && own <= self.last {
            let row: Option<Option<Vec<u8>>> = self
                .reader
                .prepare_cached(
                    "SELECT items FROM thread_message WHERE thread = ?1 AND seq = ?2 AND role < 2 AND excluded = 0
                     AND stamp <> ?3 AND seq <> ?4 AND least <= ?5",
                )?
                .query_row(params![self.thread, own, self.own, self.prompt, max], |row| row.get(0))
                .optional()?;
            let items = decode(before.seq, &row.flatten().unwrap_or_default());
            let below = items.into_iter().rev().find(|item| item.place < before && item.bytes <= max_bytes);
            if below.is_some() {
                return Ok(below);
            }
        }
        let last = own.saturating_sub(1).min(self.last);
        let mut block = block_of(last);
        while last >= self.first && block >= block_of(self.first) {
            let (from, to) = (self.first.max(block * BLOCK), last.min(block * BLOCK + BLOCK - 1));
            let row: Option<(i64, Vec<u8>)> = self
                .reader
                .prepare_cached(
                    "SELECT seq, items FROM thread_message WHERE thread = ?1 AND seq BETWEEN ?2 AND ?3 AND least <= ?4
                     AND role < 2 AND excluded = 0 AND stamp <> ?5 AND seq <> ?6 ORDER BY seq DESC LIMIT 1",
                )?
                .query_row(params![self.thread, from, to, max, self.own, self.prompt], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()?;
            if let Some((at, items)) = row {
                let newest = decode(seq(at), &items).into_iter().rev().find(|item| item.bytes <= max_bytes);
                if newest.is_some() {
                    return Ok(newest);
                }
            }
            let next = self.next_block(block, true, "least <= ?5", max)?;
            match next {
                Some(next) => block = next,
                None => break,
            }
        }
        Ok(None)
    }

    fn pins(&self) -> Result<Vec<ItemSize>> {
        let mut sql = self.reader.prepare_cached(
            "SELECT seq, items FROM thread_message INDEXED BY thread_message_pinned
             WHERE thread = ?1 AND seq BETWEEN ?2 AND ?3 AND pinned = 1
             AND role < 2 AND excluded = 0 AND textless = 0 AND stamp <> ?4 AND seq <> ?5 ORDER BY seq DESC",
        )?;
        let rows: Vec<(i64, Vec<u8>)> = sql
            .query_map([self.thread, self.first, self.last, self.own, self.prompt], |row| {
                Ok((row.get(0)?, row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default()))
            })?
            .collect::<rusqlite::Result<_>>()?;
        Ok(rows.into_iter().filter_map(Self::text_item).collect())
    }

    /// Messages and commands: whole blocks from their figures, larger ones first, the ends message by message.
    fn counts(&self) -> Result<(u64, u64)> {
        let mut counts = (0, 0);
        let mut add = |sign: i64, (messages, commands): (i64, i64)| {
            counts = (counts.0 + sign * messages, counts.1 + sign * commands);
        };
        let mut walk = self.reader.prepare_cached(
            "SELECT count(*), coalesce(sum(commands), 0) FROM thread_message
             WHERE thread = ?1 AND seq BETWEEN ?2 AND ?3 AND role < 2 AND stamp <> ?4",
        )?;
        let mut sum = self.reader.prepare_cached(
            "SELECT coalesce(sum(messages), 0), coalesce(sum(commands), 0) FROM block
             WHERE thread = ?1 AND level = ?5 AND block BETWEEN ?2 AND ?3 AND stamp <> ?4",
        )?;
        let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        // What is left at each end of a level goes to the one below it: level, numbers from, numbers below.
        let mut rest = vec![(2, self.first, self.last.saturating_add(1))];
        while let Some((level, from, end)) = rest.pop() {
            if from >= end {
                continue;
            }
            if level == 0 {
                add(1, walk.query_row([self.thread, from, end - 1, self.own], pair)?);
                continue;
            }
            let size = if level == 1 { BLOCK } else { BLOCK * BLOCK };
            let (first, last) = (from.saturating_add(size - 1) / size, end / size);
            if first >= last {
                rest.push((level - 1, from, end));
                continue;
            }
            add(1, sum.query_row([self.thread, first, last - 1, self.own, level], pair)?);
            rest.extend([(level - 1, from, first * size), (level - 1, last * size, end)]);
        }
        if self.prompt >= self.first && self.prompt <= self.last {
            add(-1, walk.query_row([self.thread, self.prompt, self.prompt, self.own], pair)?);
        }
        Ok((seq(counts.0), seq(counts.1)))
    }

    /// The numbers of the scope's messages with a mark. The index is named, since SQLite would rather walk the thread.
    fn marked(&self, mark: &str) -> Result<Vec<i64>> {
        let mut sql = self.reader.prepare_cached(&format!(
            "SELECT seq FROM thread_message INDEXED BY thread_message_{mark}
             WHERE thread = ?1 AND seq BETWEEN ?2 AND ?3 AND {mark} = 1 AND (?6 OR excluded = 0)
             AND role < 2 AND stamp <> ?4 AND seq <> ?5 ORDER BY seq"
        ))?;
        let also_excluded = mark == "excluded";
        let rows = sql
            .query_map(params![self.thread, self.first, self.last, self.own, self.prompt, also_excluded], |row| {
                row.get(0)
            })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn count_all(&self) -> Result<Totals> {
        let (messages, commands) = self.counts()?;
        let mut kept_back: Vec<LeftOut> = Vec::new();
        for at in self.marked("excluded")?.into_iter().map(seq) {
            match kept_back.last_mut() {
                // Joined where no message of the scope lies between.
                Some(before) if self.nearest(Wanted::Any, int(before.range.to) + 1, int(at) - 1, false)?.is_none() => {
                    before.range.to = at;
                }
                _ => kept_back.push(LeftOut { range: SeqRange { from: at, to: at }, reason: LeftOutReason::Excluded }),
            }
        }
        let textless: SeqSet = self.marked("textless")?.into_iter().map(seq).collect();
        Ok(Totals { messages, commands, kept_back, textless: textless.ranges().to_vec() })
    }
}

impl ItemSizes for StoredSizes {
    type Error = StoreError;

    fn newest_fitting(&mut self, before: ItemPlace, max_bytes: u64) -> Result<Option<ItemSize>, StoreError> {
        self.answer(self.fitting(before, max_bytes))
    }

    fn last(&mut self, kind: ItemKind) -> Result<Option<ItemSize>, StoreError> {
        let wanted = if kind == ItemKind::User { Wanted::User } else { Wanted::Assistant };
        self.answer(self.nearest(wanted, 0, i64::MAX, true).map(|found| found.and_then(Self::text_item)))
    }

    fn first_user(&mut self) -> Result<Option<ItemSize>, StoreError> {
        self.answer(self.nearest(Wanted::User, 0, i64::MAX, false).map(|found| found.and_then(Self::text_item)))
    }

    fn pinned(&mut self) -> Result<Vec<ItemSize>, StoreError> {
        self.answer(self.pins())
    }

    fn totals(&mut self) -> Result<Totals, StoreError> {
        self.answer(self.count_all())
    }

    fn bounds(&mut self, within: SeqRange) -> Result<Option<SeqRange>, StoreError> {
        let (from, to) = (int(within.from), int(within.to));
        let first = self.answer(self.nearest(Wanted::Any, from, to, false))?;
        let last = self.answer(self.nearest(Wanted::Any, from, to, true))?;
        Ok(first.zip(last).map(|((from, _), (to, _))| SeqRange { from: seq(from), to: seq(to) }))
    }
}

#[cfg(test)]
mod tests;
