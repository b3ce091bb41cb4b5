//! Sizes of items from a plain list in memory, with a minimum per block as a store keeps it: what stores are tested
//! against, and what the benchmark measures.

use std::convert::Infallible;

use crate::{
    handoff::items::{ItemPlace, ItemSize, ItemSizes, Scope, Totals, sizes_of},
    message::Message,
    notice::{ItemKind, LeftOut, LeftOutReason},
    seq::{Seq, SeqRange, SeqSet},
};

/// Items per block.
const BLOCK: usize = 256;

/// A message of the scope by its sizes.
#[derive(Debug, Clone)]
pub struct Row {
    /// The message.
    pub seq: Seq,
    /// Offered first (H2).
    pub pinned: bool,
    /// Kept out (H2).
    pub excluded: bool,
    /// Its items in order.
    pub items: Vec<ItemSize>,
}

/// A thread's sizes within a scope.
#[derive(Debug, Clone, Default)]
pub struct PlainSizes {
    items: Vec<ItemSize>,
    minima: Vec<u64>,
    messages: Vec<Seq>,
    pinned: Vec<ItemSize>,
    excluded: SeqSet,
    textless: SeqSet,
    commands: u64,
    first_user: Option<ItemSize>,
    last_user: Option<ItemSize>,
    last_assistant: Option<ItemSize>,
    /// How many items and blocks were looked at so far: what a test of H3 counts.
    pub looked_at: u64,
}

impl PlainSizes {
    /// Sizes of these messages (ascending by seq), as far as `scope` holds them.
    pub fn new(messages: &[Message], scope: &Scope) -> Self {
        let mut sizes = Self::default();
        for message in messages.iter().filter(|message| scope.holds(message)) {
            sizes.push(Row {
                seq: message.seq,
                pinned: message.pinned,
                excluded: message.excluded,
                items: sizes_of(message),
            });
        }
        sizes
    }

    /// Adds the next message of the scope.
    pub fn push(&mut self, row: Row) {
        let is_text = |item: &&ItemSize| item.kind != ItemKind::Command;
        self.messages.push(row.seq);
        self.commands += row.items.iter().filter(|item| item.kind == ItemKind::Command).count() as u64;
        if row.excluded {
            self.excluded.insert(row.seq);
            return;
        }
        match row.items.iter().find(is_text) {
            None => self.textless.insert(row.seq),
            Some(text) if row.pinned => self.pinned.insert(0, *text),
            Some(_) => {}
        }
        for item in row.items {
            match item.kind {
                ItemKind::User => {
                    self.first_user.get_or_insert(item);
                    self.last_user = Some(item);
                }
                ItemKind::Assistant => self.last_assistant = Some(item),
                ItemKind::Command | ItemKind::Summary => {}
            }
            if self.items.len().is_multiple_of(BLOCK) {
                self.minima.push(u64::MAX);
            }
            if let Some(minimum) = self.minima.last_mut() {
                *minimum = item.bytes.min(*minimum);
            }
            self.items.push(item);
        }
    }
}

impl ItemSizes for PlainSizes {
    type Error = Infallible;

    fn newest_fitting(&mut self, before: ItemPlace, max_bytes: u64) -> Result<Option<ItemSize>, Infallible> {
        let mut end = self.items.partition_point(|item| item.place < before);
        while end > 0 {
            let block = (end - 1) / BLOCK;
            let start = block * BLOCK;
            self.looked_at += 1;
            if self.minima.get(block).is_some_and(|minimum| *minimum <= max_bytes) {
                let items = self.items.get(start..end).unwrap_or_default();
                let found = items.iter().rev().find(|item| item.bytes <= max_bytes);
                self.looked_at += items.len() as u64;
                if let Some(found) = found {
                    return Ok(Some(*found));
                }
            }
            end = start;
        }
        Ok(None)
    }

    fn last(&mut self, kind: ItemKind) -> Result<Option<ItemSize>, Infallible> {
        Ok(match kind {
            ItemKind::User => self.last_user,
            ItemKind::Assistant => self.last_assistant,
            ItemKind::Command | ItemKind::Summary => None,
        })
    }

    fn first_user(&mut self) -> Result<Option<ItemSize>, Infallible> {
        Ok(self.first_user)
    }

    fn pinned(&mut self) -> Result<Vec<ItemSize>, Infallible> {
        Ok(self.pinned.clone())
    }

    fn totals(&mut self) -> Result<Totals, Infallible> {
        let kept = self.excluded.ranges().iter();
        Ok(Totals {
            messages: self.messages.len() as u64,
            commands: self.commands,
            kept_back: kept.map(|range| LeftOut { range: *range, reason: LeftOutReason::Excluded }).collect(),
            textless: self.textless.ranges().to_vec(),
        })
    }

    fn bounds(&mut self, within: SeqRange) -> Result<Option<SeqRange>, Infallible> {
        let start = self.messages.partition_point(|seq| *seq < within.from);
        let end = self.messages.partition_point(|seq| *seq <= within.to);
        let inside = self.messages.get(start..end).unwrap_or_default();
        Ok(inside.first().zip(inside.last()).map(|(from, to)| SeqRange { from: *from, to: *to }))
    }
}
