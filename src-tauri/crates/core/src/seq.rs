//! Message numbers within a thread, and sets of them kept as ranges.

use serde::{Deserialize, Serialize};

/// A message's number in its thread: 1, 2, 3, …, never reused.
pub type Seq = u64;

/// An inclusive range of message numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct SeqRange {
    /// First number in the range.
    #[ts(type = "number")]
    pub from: Seq,
    /// Last number in the range, included.
    #[ts(type = "number")]
    pub to: Seq,
}

/// A set of message numbers: sorted, disjoint, adjacent ranges joined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(transparent)]
pub struct SeqSet(Vec<SeqRange>);

impl SeqSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[SeqRange] {
        &self.0
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers are in the set.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|r| r.to - r.from + 1).sum()
    }

    /// Whether `seq` is in the set.
    pub fn contains(&self, seq: Seq) -> bool {
        let at = self.0.partition_point(|r| r.to < seq);
        self.0.get(at).is_some_and(|r| r.from <= seq)
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Seq> {
        self.0.iter().flat_map(|r| r.from..=r.to)
    }

    /// Adds one number.
    pub fn insert(&mut self, seq: Seq) {
        self.insert_range(SeqRange { from: seq, to: seq });
    }

    /// Adds an inclusive range; an empty one (`from > to`) adds nothing.
    pub fn insert_range(&mut self, range: SeqRange) {
        if range.from > range.to {
            return;
        }
        let start = self.0.partition_point(|r| r.to.saturating_add(1) < range.from);
        let end = self.0.partition_point(|r| r.from <= range.to.saturating_add(1));
        let (mut from, mut to) = (range.from, range.to);
        for old in self.0.get(start..end).unwrap_or_default() {
            from = from.min(old.from);
            to = to.max(old.to);
        }
        self.0.splice(start..end, [SeqRange { from, to }]);
    }

    /// Takes one number out.
    pub fn remove(&mut self, seq: Seq) {
        let at = self.0.partition_point(|r| r.to < seq);
        let Some(old) = self.0.get(at).copied().filter(|r| r.from <= seq) else {
            return;
        };
        let mut parts = Vec::with_capacity(2);
        if old.from < seq {
            parts.push(SeqRange { from: old.from, to: seq - 1 });
        }
        if seq < old.to {
            parts.push(SeqRange { from: seq + 1, to: old.to });
        }
        self.0.splice(at..=at, parts);
    }

    /// Drops every number above `upto`.
    pub fn truncate_above(&mut self, upto: Seq) {
        self.0.retain(|r| r.from <= upto);
        if let Some(last) = self.0.last_mut() {
            last.to = last.to.min(upto);
        }
    }
}

impl FromIterator<Seq> for SeqSet {
    fn from_iter<I: IntoIterator<Item = Seq>>(seqs: I) -> Self {
        let mut set = Self::new();
        for seq in seqs {
            set.insert(seq);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_plain_set(ops in prop::collection::vec((0_u8..4, 1_u64..40, 0_u64..6), 0..60)) {
            let (mut set, mut model) = (SeqSet::new(), BTreeSet::new());
            for (op, seq, len) in ops {
                match op {
                    0 => { set.insert(seq); model.insert(seq); }
                    1 => { set.remove(seq); model.remove(&seq); }
                    2 => { set.insert_range(SeqRange { from: seq, to: seq + len }); model.extend(seq..=seq + len); }
                    _ => { set.truncate_above(seq); model.retain(|s| *s <= seq); }
                }
                let flat: BTreeSet<Seq> = set.ranges().iter().flat_map(|r| r.from..=r.to).collect();
                prop_assert_eq!(&flat, &model);
                prop_assert_eq!(set.len(), model.len() as u64);
                for pair in set.ranges().windows(2) {
                    prop_assert!(pair[0].to + 1 < pair[1].from);
                }
                for probe in 0..50 { prop_assert_eq!(set.contains(probe), model.contains(&probe)); }
            }
        }
    }
}
