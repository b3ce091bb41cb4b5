//! The size index (H3): each message's item sizes beside its place in a thread, and per block of 256 numbers what the
//! smallest is and how much there is. Kept up in the transaction that changes what it speaks of.

use std::collections::{BTreeMap, BTreeSet};

use changeover_core::{
    handoff::items::{ItemPlace, ItemSize, sizes_of},
    message::{Message, Role},
    notice::ItemKind,
    seq::Seq,
};
use rusqlite::{Transaction, params};

use crate::{
    codec::{int, seq},
    error::Result,
    message::{self, PLACED, placed},
};

/// Numbers in a block.
pub(crate) const BLOCK: i64 = 256;
const ITEM_BYTES: usize = 9;

/// The block that a number lies in.
pub(crate) fn block_of(seq: i64) -> i64 {
    seq / BLOCK
}

pub(crate) fn role_number(role: Role) -> i64 {
    match role {
        Role::User => 0,
        Role::Assistant => 1,
        Role::System => 2,
    }
}

/// Sizes as the index keeps them.
fn encode(sizes: &[ItemSize]) -> Vec<u8> {
    let mut blob = Vec::with_capacity(sizes.len() * ITEM_BYTES);
    for size in sizes {
        blob.extend(size.place.index.to_le_bytes());
        blob.push(match size.kind {
            ItemKind::User => 0,
            ItemKind::Assistant => 1,
            _ => 2,
        });
        blob.extend(u32::try_from(size.bytes).unwrap_or(u32::MAX).to_le_bytes());
    }
    blob
}

/// Sizes out of the index, in chronological order.
pub(crate) fn decode(at: Seq, blob: &[u8]) -> Vec<ItemSize> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    blob.chunks_exact(ITEM_BYTES)
        .map(|item| {
            let (index, rest) = item.split_at(4);
            let (kind, bytes) = rest.split_at(1);
            let kind = match kind {
                [0] => ItemKind::User,
                [1] => ItemKind::Assistant,
                _ => ItemKind::Command,
            };
            ItemSize { place: ItemPlace { seq: at, index: number(index) }, kind, bytes: u64::from(number(bytes)) }
        })
        .collect()
}

/// What the index says of one message.
struct Figures {
    textless: bool,
    commands: i64,
    least: Option<i64>,
    items: Option<Vec<u8>>,
}

fn figures(message: &Message) -> Figures {
    let sizes = sizes_of(message);
    let commands = sizes.iter().filter(|size| size.kind == ItemKind::Command).count();
    Figures {
        textless: message.is_content() && commands == sizes.len(),
        commands: i64::try_from(commands).unwrap_or(i64::MAX),
        least: sizes.iter().map(|size| int(size.bytes)).min(),
        items: (!sizes.is_empty()).then(|| encode(&sizes)),
    }
}

/// Puts a message in its place in a thread. Its block is the caller's to make anew.
pub(crate) fn insert_placed(tx: &Transaction<'_>, thread: i64, key: i64, stamp: i64, message: &Message) -> Result<()> {
    let figures = figures(message);
    tx.prepare_cached(
        "INSERT INTO thread_message (thread, seq, message, role, stamp, pinned, excluded, textless, commands, least, items)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        thread,
        int(message.seq),
        key,
        role_number(message.role),
        stamp,
        message.pinned,
        message.excluded,
        figures.textless,
        figures.commands,
        figures.least,
        figures.items
    ])?;
    Ok(())
}

/// Counts a message's items anew wherever it stands, and names the blocks that this touches.
pub(crate) fn resize(tx: &Transaction<'_>, key: i64, blocks: &mut BTreeSet<(i64, i64)>) -> Result<()> {
    let mut sql = tx.prepare_cached(&format!("SELECT {PLACED}, thread FROM thread_message WHERE message = ?1"))?;
    let places: Vec<_> =
        sql.query_map([key], |row| Ok((placed(row)?, row.get::<_, i64>(5)?)))?.collect::<rusqlite::Result<_>>()?;
    let Some((at, _)) = places.first() else { return Ok(()) };
    let figures = figures(&message::load(tx, *at, None)?.message);
    for (at, thread) in &places {
        tx.prepare_cached(
            "UPDATE thread_message SET textless = ?3, commands = ?4, least = ?5, items = ?6 WHERE thread = ?1 AND seq = ?2",
        )?
        .execute(params![thread, at.seq, figures.textless, figures.commands, figures.least, figures.items])?;
        blocks.insert((*thread, block_of(at.seq)));
    }
    Ok(())
}

/// One row of `block`: what is least of all kinds, of user and of assistant texts; messages; commands.
#[derive(Debug, Default, PartialEq, Eq)]
struct BlockRow {
    least: Option<i64>,
    user: Option<i64>,
    assistant: Option<i64>,
    messages: i64,
    commands: i64,
}

/// The lower of two, where `None` is "there is none".
fn lower(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Makes blocks anew, and the larger ones that they lie in.
pub(crate) fn rebuild(tx: &Transaction<'_>, blocks: &BTreeSet<(i64, i64)>) -> Result<()> {
    let mut larger: BTreeSet<(i64, i64)> = BTreeSet::new();
    for (thread, block) in blocks {
        if put_rows(tx, *thread, 1, *block, &count_messages(tx, *thread, *block)?)? {
            larger.insert((*thread, block / BLOCK));
        }
    }
    for (thread, block) in larger {
        put_rows(tx, thread, 2, block, &count_blocks(tx, thread, block)?)?;
    }
    Ok(())
}

/// What lies in a block, by stamp.
type Rows = BTreeMap<i64, BlockRow>;

/// A block from its messages.
fn count_messages(tx: &Transaction<'_>, thread: i64, block: i64) -> Result<Rows> {
    let mut now = Rows::new();
    let mut sql = tx.prepare_cached(
        "SELECT seq, stamp, excluded, commands, items FROM thread_message
         WHERE thread = ?1 AND seq >= ?2 AND seq < ?3 AND role < 2",
    )?;
    let mut rows = sql.query([thread, block * BLOCK, (block + 1) * BLOCK])?;
    while let Some(row) = rows.next()? {
        let figures = now.entry(row.get(1)?).or_default();
        figures.messages += 1;
        figures.commands += row.get::<_, i64>(3)?;
        if row.get(2)? {
            continue;
        }
        let blob = row.get_ref(4)?.as_blob_or_null().map_err(rusqlite::Error::from)?.unwrap_or_default();
        for item in decode(seq(row.get(0)?), blob) {
            let bytes = Some(int(item.bytes));
            figures.least = lower(figures.least, bytes);
            match item.kind {
                ItemKind::User => figures.user = lower(figures.user, bytes),
                ItemKind::Assistant => figures.assistant = lower(figures.assistant, bytes),
                _ => {}
            }
        }
    }
    Ok(now)
}

/// A larger block from the smaller ones in it.
fn count_blocks(tx: &Transaction<'_>, thread: i64, block: i64) -> Result<Rows> {
    let mut sql = tx.prepare_cached(
        "SELECT stamp, min(least), min(least_user), min(least_assistant), sum(messages), sum(commands) FROM block
         WHERE thread = ?1 AND level = 1 AND block >= ?2 AND block < ?3 GROUP BY stamp",
    )?;
    let rows = sql.query_map([thread, block * BLOCK, (block + 1) * BLOCK], block_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn block_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, BlockRow)> {
    let figures = BlockRow {
        least: row.get(1)?,
        user: row.get(2)?,
        assistant: row.get(3)?,
        messages: row.get(4)?,
        commands: row.get(5)?,
    };
    Ok((row.get(0)?, figures))
}

/// Puts a block's rows; only those that differ are written. Whether any did.
fn put_rows(tx: &Transaction<'_>, thread: i64, level: i64, block: i64, now: &Rows) -> Result<bool> {
    let before: Rows = tx
        .prepare_cached(
            "SELECT stamp, least, least_user, least_assistant, messages, commands FROM block
             WHERE thread = ?1 AND level = ?2 AND block = ?3",
        )?
        .query_map([thread, level, block], block_row)?
        .collect::<rusqlite::Result<_>>()?;
    for stamp in before.keys().filter(|stamp| !now.contains_key(stamp)) {
        tx.prepare_cached("DELETE FROM block WHERE thread = ?1 AND level = ?2 AND block = ?3 AND stamp = ?4")?
            .execute([thread, level, block, *stamp])?;
    }
    for (stamp, row) in now.iter().filter(|(stamp, row)| before.get(stamp) != Some(*row)) {
        tx.prepare_cached(
            "INSERT OR REPLACE INTO block
             (thread, level, block, stamp, least, least_user, least_assistant, messages, commands)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            thread,
            level,
            block,
            stamp,
            row.least,
            row.user,
            row.assistant,
            row.messages,
            row.commands
        ])?;
    }
    Ok(before != *now)
}
