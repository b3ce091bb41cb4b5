//! What goes (B3): whole items by priority while they fit, seen by their sizes alone. Time goes with what is chosen and
//! the questions asked, never with the thread (H3).

use std::collections::BTreeMap;

use crate::{
    handoff::items::{ITEM_OVERHEAD, ItemPlace, ItemSize, ItemSizes},
    notice::{ItemKind, ItemMark, LeftOut, LeftOutReason},
    seq::{Seq, SeqRange, SeqSet},
};

/// The newest handoff document as an item (B2), by its sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummarySizes {
    /// The last message that it covers; it stands right behind it.
    pub upto: Seq,
    /// Rendered bytes of each form of it ([`crate::handoff::items::rendered_bytes`]), best first (B9): the whole, then
    /// Doing, Next and Dead ends, then Doing and Next with its path.
    pub forms: Vec<u64>,
}

/// Which form of the document goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryChoice {
    /// The last message that it covers.
    pub upto: Seq,
    /// The form's place in [`SummarySizes::forms`].
    pub form: usize,
    /// Its rendered bytes.
    pub bytes: u64,
}

/// What goes and what stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The chosen items of the transcript in chronological order.
    pub chosen: Vec<ItemSize>,
    /// The document, if there is one and some form of it fits.
    pub summary: Option<SummaryChoice>,
    /// There is a document and no form of it fits (B9: named, never skipped in silence).
    pub summary_missed: bool,
    /// Pinned messages that do not fit, newest first (B9).
    pub pins_missed: Vec<Seq>,
    /// What the chosen cost, in bytes: each its rendered bytes plus [`ITEM_OVERHEAD`].
    pub used: u64,
    /// What they may cost, in bytes.
    pub budget: u64,
    /// Messages told: their text goes, or they have none (T6). Exact.
    pub told: Vec<SeqRange>,
    /// Messages left out; each range begins and ends with one, and notices, the prompt and the session's own replies in
    /// between do not count.
    pub left_out: Vec<LeftOut>,
    /// Messages told.
    pub messages_told: u64,
    /// Messages there were to tell.
    pub messages_total: u64,
    /// Commands told.
    pub commands_told: u64,
    /// Commands there were to tell.
    pub commands_total: u64,
}

impl Selection {
    /// The chosen items for the strip and the list of what went (X2), in chronological order, each with its cost.
    pub fn marks(&self) -> Vec<ItemMark> {
        let mut marks: Vec<_> = self
            .chosen
            .iter()
            .map(|item| ItemMark { seq: item.place.seq, kind: item.kind, bytes: item.cost() })
            .collect();
        if let Some(summary) = self.summary {
            let at = self.chosen.partition_point(|item| item.place.seq <= summary.upto);
            let bytes = summary.bytes.saturating_add(ITEM_OVERHEAD);
            marks.insert(at, ItemMark { seq: summary.upto, kind: ItemKind::Summary, bytes });
        }
        marks
    }
}

/// What is chosen so far.
struct Chosen {
    budget: u64,
    used: u64,
    items: BTreeMap<ItemPlace, ItemSize>,
}

impl Chosen {
    /// The largest rendered item that still fits; `None` where not even an empty one does.
    fn room(&self) -> Option<u64> {
        self.budget.checked_sub(self.used)?.checked_sub(ITEM_OVERHEAD)
    }

    fn pay(&mut self, bytes: u64) -> bool {
        let fits = self.room().is_some_and(|room| bytes <= room);
        if fits {
            self.used += bytes + ITEM_OVERHEAD;
        }
        fits
    }

    /// Whether the item is in, now or already.
    fn add(&mut self, item: ItemSize) -> bool {
        if self.items.contains_key(&item.place) {
            return true;
        }
        let fits = self.pay(item.bytes);
        if fits {
            self.items.insert(item.place, item);
        }
        fits
    }
}

/// Chooses by B3: summary, pinned (newest first), last user, last assistant, first user, then newest to oldest. An item
/// costs its rendered bytes plus [`ITEM_OVERHEAD`]; what does not fit in `budget` bytes is skipped whole and the search
/// goes on with the next.
///
/// # Errors
/// Only what `sizes` cannot answer.
pub fn select<S: ItemSizes>(sizes: &mut S, budget: u64, summary: Option<&SummarySizes>) -> Result<Selection, S::Error> {
    let mut chosen = Chosen { budget, used: 0, items: BTreeMap::new() };

    let form = summary.and_then(|summary| {
        let (form, bytes) = summary.forms.iter().enumerate().find(|(_, bytes)| chosen.pay(**bytes))?;
        Some(SummaryChoice { upto: summary.upto, form, bytes: *bytes })
    });
    let mut pins_missed = Vec::new();
    for pin in sizes.pinned()? {
        if !chosen.add(pin) {
            pins_missed.push(pin.place.seq);
        }
    }
    let anchors = [sizes.last(ItemKind::User)?, sizes.last(ItemKind::Assistant)?, sizes.first_user()?];
    for anchor in anchors.into_iter().flatten() {
        chosen.add(anchor);
    }
    let mut before = ItemPlace::END;
    while let Some(room) = chosen.room() {
        let Some(item) = sizes.newest_fitting(before, room)? else { break };
        chosen.add(item);
        before = item.place;
    }

    let totals = sizes.totals()?;
    let items: Vec<ItemSize> = chosen.items.into_values().collect();
    let mut told = SeqSet::new();
    for range in &totals.textless {
        told.insert_range(*range);
    }
    for item in items.iter().filter(|item| item.kind != ItemKind::Command) {
        told.insert(item.place.seq);
    }
    Ok(Selection {
        summary: form,
        summary_missed: summary.is_some() && form.is_none(),
        pins_missed,
        used: chosen.used,
        budget,
        left_out: left_out(sizes, &told, totals.kept_back)?,
        messages_told: told.len(),
        messages_total: totals.messages,
        commands_told: items.iter().filter(|item| item.kind == ItemKind::Command).count() as u64,
        commands_total: totals.commands,
        told: told.ranges().to_vec(),
        chosen: items,
    })
}

/// What is neither told nor kept back stayed behind for want of room. Each gap is asked for once, so that none is named
/// that holds only notices, the prompt or own replies.
fn left_out<S: ItemSizes>(sizes: &mut S, told: &SeqSet, kept_back: Vec<LeftOut>) -> Result<Vec<LeftOut>, S::Error> {
    let Some(all) = sizes.bounds(SeqRange { from: 0, to: i64::MAX as u64 })? else {
        return Ok(kept_back);
    };
    let mut taken = told.clone();
    for kept in &kept_back {
        taken.insert_range(kept.range);
    }
    let mut left = kept_back;
    let mut from = all.from;
    let behind = SeqRange { from: all.to.saturating_add(1), to: all.to.saturating_add(1) };
    for next in taken.ranges().iter().chain([&behind]) {
        let to = next.from.saturating_sub(1).min(all.to);
        if from <= to
            && let Some(range) = sizes.bounds(SeqRange { from, to })?
        {
            left.push(LeftOut { range, reason: LeftOutReason::Budget });
        }
        from = from.max(next.to.saturating_add(1));
    }
    left.sort_unstable_by_key(|left| left.range);
    Ok(left)
}
