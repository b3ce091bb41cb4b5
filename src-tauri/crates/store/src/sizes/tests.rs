//! Over several of the larger blocks, in which a store's own tests would take too long to append: rows put in by hand.

use std::collections::BTreeSet;

use changeover_core::{
    id::{ProjectId, ThreadId},
    message::SessionStamp,
    provider::{ApprovalMode, ProviderId, Target},
};
use uuid::Uuid;

use super::*;
use crate::{NewThread, OpenOptions, Project, index};

/// A message of one item.
struct Row {
    seq: i64,
    user: bool,
    own: bool,
    bytes: u32,
    excluded: bool,
}

/// 200,000 messages: users in the first fifth only, a session's own replies in the last, few small items and far apart.
fn rows() -> Vec<Row> {
    (1..=200_000)
        .map(|seq| Row {
            seq,
            user: seq < 40_000 && seq % 2 == 1,
            own: seq > 160_000 && seq % 3 > 0,
            bytes: if seq % 9_001 == 0 { 10 + u32::try_from(seq % 7).unwrap() } else { 1_000 },
            excluded: seq % 18_002 == 0,
        })
        .collect()
}

fn filled(rows: &[Row]) -> (tempfile::TempDir, Store, ThreadId) {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions { indexing: false, ..OpenOptions::default() };
    let store = Store::open(&folder.path().join("c.db"), &options).unwrap();
    let id = ThreadId(Uuid::from_u128(1));
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let project = Project { id: ProjectId(Uuid::nil()), path: "/".into(), name: String::new(), created_at: 0 };
        let project = store.open_project(project).await.unwrap().id;
        let target = Target { provider: ProviderId::claude(), model: None, effort: None, mode: ApprovalMode::Ask };
        store.create_thread(NewThread { id, project, title: String::new(), target, at: 0 }).await.unwrap();
    });
    let rows: Vec<_> = rows.iter().map(|row| (row.seq, row.user, row.own, row.bytes, row.excluded)).collect();
    store
        .write_blocking(move |writer| {
            writer.transaction(false, |tx| {
                tx.execute("INSERT INTO session_stamp VALUES (5, 's', 0), (6, 's', 1)", [])?;
                let mut blocks = BTreeSet::new();
                let mut sql = tx.prepare(
                    "INSERT INTO thread_message (thread, seq, message, role, stamp, excluded, least, items)
                     VALUES (1, ?1, ?1, ?2, ?3, ?4, ?5, ?6)",
                )?;
                for (seq, user, own, bytes, excluded) in rows {
                    let items = [&0_u32.to_le_bytes()[..], &[u8::from(!user)], &bytes.to_le_bytes()].concat();
                    let stamp = if user { 0 } else { 5 + i64::from(own) };
                    sql.execute(params![seq, i64::from(!user), stamp, excluded, bytes, items])?;
                    blocks.insert((1, index::block_of(seq)));
                }
                index::rebuild(tx, &blocks)
            })
        })
        .unwrap();
    (folder, store, id)
}

#[test]
fn h3_whole_stretches_are_passed_over_and_nothing_in_them_is_missed() {
    let rows = rows();
    let (_folder, store, id) = filled(&rows);
    let own = || Some(SessionStamp { id: "s".into(), incarnation: 1 });
    let scope = |after, upto, prompt, own| Scope { after, upto, prompt, own };
    for scope in [
        scope(0, 200_000, None, None),
        scope(0, 200_000, Some(199_999), own()),
        scope(70_000, 131_072, Some(100_000), own()),
        scope(65_535, 131_071, None, None),
        scope(65_536, 131_072, None, None),
        scope(300, 65_000, None, None),
        scope(162_000, 162_100, None, own()),
        scope(199_998, u64::MAX, None, own()),
        scope(200_000, 200_001, None, None),
    ] {
        let held: Vec<&Row> = rows
            .iter()
            .filter(|row| {
                let at = seq(row.seq);
                at > scope.after && at <= scope.upto && scope.prompt != Some(at) && !(row.own && scope.own.is_some())
            })
            .collect();
        let place = |row: &&Row| seq(row.seq);
        let mut sizes = store.item_sizes(id, &scope).unwrap();
        for max in [5, 10, 12, 16, 999, 1_000] {
            for before in [ItemPlace::END, ItemPlace { seq: 150_000, index: 0 }, ItemPlace { seq: 65_536, index: 1 }] {
                let expected = held.iter().rev().find(|row| {
                    let at = ItemPlace { seq: seq(row.seq), index: 0 };
                    at < before && u64::from(row.bytes) <= max && !row.excluded
                });
                let found = sizes.newest_fitting(before, max).unwrap();
                assert_eq!(found.map(|item| item.place.seq), expected.map(place), "{scope:?} {before:?} {max}");
            }
        }
        let of = |user: bool| held.iter().filter(move |row| row.user == user && !row.excluded);
        let text = |item: Option<ItemSize>| item.map(|item| item.place.seq);
        assert_eq!(text(sizes.last(ItemKind::User).unwrap()), of(true).next_back().map(place), "{scope:?}");
        assert_eq!(text(sizes.last(ItemKind::Assistant).unwrap()), of(false).next_back().map(place), "{scope:?}");
        assert_eq!(text(sizes.first_user().unwrap()), of(true).next().map(place), "{scope:?}");
        let totals = sizes.totals().unwrap();
        assert_eq!((totals.messages, totals.commands), (held.len() as u64, 0), "{scope:?}");
        let excluded: Vec<Seq> = held.iter().filter(|row| row.excluded).map(place).collect();
        assert_eq!(totals.kept_back.iter().map(|left| left.range.from).collect::<Vec<_>>(), excluded, "{scope:?}");
        for within in [(0, i64::MAX as u64), (100_000, 150_000), (40_001, 40_001), (161_999, 162_001)] {
            let inside: Vec<Seq> = held.iter().map(place).filter(|at| (within.0..=within.1).contains(at)).collect();
            let expected = inside.first().zip(inside.last()).map(|(from, to)| SeqRange { from: *from, to: *to });
            let within = SeqRange { from: within.0, to: within.1 };
            assert_eq!(sizes.bounds(within).unwrap(), expected, "{scope:?} {within:?}");
        }
    }
}
