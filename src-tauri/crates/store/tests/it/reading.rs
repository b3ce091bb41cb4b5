//! Pages, lists, settings; and records that cannot be read, which hide nothing else (R003, R011, R168).

use changeover_core::{
    message::Role,
    part::{Part, PartBody, WorkStatus},
    seq::Seq,
    turn::write::Write,
};
use changeover_store::{PageAt, StoreError};
use serde_json::json;

use crate::common::*;

fn seqs(world: &World, at: PageAt, limit: usize, bytes: usize) -> (Vec<Seq>, bool, bool) {
    let page = world.store.read_page(world.thread, at, limit, bytes).unwrap();
    let seqs: Vec<Seq> = page.messages.iter().map(|message| message.seq).collect();
    assert_eq!((page.first_seq, page.last_seq), (*seqs.first().unwrap_or(&0), *seqs.last().unwrap_or(&0)));
    (seqs, page.has_before, page.has_after)
}

#[test]
fn pages_lie_where_they_are_asked_for() {
    let world = world();
    assert_eq!(seqs(&world, PageAt::Newest, 10, 1 << 20), (vec![], false, false));
    world.put((1..=20).map(|n| append(user(n, "text"))).collect());
    let big = 1 << 20;
    assert_eq!(seqs(&world, PageAt::Newest, 3, big), (vec![18, 19, 20], true, false));
    assert_eq!(seqs(&world, PageAt::Before(18), 3, big), (vec![15, 16, 17], true, true));
    assert_eq!(seqs(&world, PageAt::Before(3), 5, big), (vec![1, 2], false, true));
    assert_eq!(seqs(&world, PageAt::Before(1), 5, big), (vec![], false, false));
    assert_eq!(seqs(&world, PageAt::After(17), 5, big), (vec![18, 19, 20], true, false));
    assert_eq!(seqs(&world, PageAt::After(0), 2, big), (vec![1, 2], false, true));
    assert_eq!(seqs(&world, PageAt::Around(10), 5, big), (vec![8, 9, 10, 11, 12], true, true));
    assert_eq!(seqs(&world, PageAt::Around(1), 4, big), (vec![1, 2, 3, 4], false, true));
    // A message weighs 256 bytes and its texts; the first one comes whatever the bound.
    assert_eq!(seqs(&world, PageAt::Newest, 200, 600), (vec![19, 20], true, false));
    assert_eq!(seqs(&world, PageAt::Newest, 200, 1), (vec![20], true, false));
    assert_eq!(seqs(&world, PageAt::After(4), 200, 600), (vec![5, 6], true, true));
}

#[test]
fn long_texts_are_cut_in_a_page_and_whole_when_asked_for() {
    let world = world();
    let long: String = (0..40_000).map(|n| format!("é{n}\n")).collect();
    let id = message_id(2);
    let part = |output: &str| Part {
        key: "c".into(),
        superseded: false,
        body: PartBody::Command {
            command: "yes".into(),
            status: WorkStatus::Completed,
            exit_code: Some(0),
            output: output.into(),
        },
    };
    world.put(vec![append(user(1, &long)), append(reply(2)), Write::Part { message: id, part: part("") }]);
    let mut rest = long.as_str();
    while !rest.is_empty() {
        let at = (0..=9_000.min(rest.len())).rev().find(|at| rest.is_char_boundary(*at)).unwrap();
        let (chunk_text, after) = rest.split_at(at);
        world.put(vec![chunk(id, "c", chunk_text)]);
        rest = after;
    }
    world.put(vec![done(id)]);
    let page = world.store.read_page(world.thread, PageAt::Newest, 10, 1 << 20).unwrap();
    let texts: Vec<&str> = page
        .messages
        .iter()
        .map(|message| match &message.parts[0].body {
            PartBody::Text { text } => text.as_str(),
            PartBody::Command { output, .. } => output.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(page.cuts.len(), 2);
    for (text, cut) in texts.iter().zip(&page.cuts) {
        assert!(text.len() <= 64 * 1024 && text.len() > 63 * 1024);
        assert_eq!(text.len() as u64 + cut.bytes, long.len() as u64);
        let (head, tail) = text.split_at(cut.at as usize);
        assert!(long.starts_with(head) && long.ends_with(tail));
    }
    assert_eq!(world.store.read_part(id, "c").unwrap(), Some(part(&long)));
    assert_eq!(world.store.read_part(id, "none").unwrap(), None);
    assert_eq!(world.store.read_message(world.thread, message_id(1)).unwrap(), user(1, &long));

    // A page that may hold little cuts harder, and still shows something of everything.
    let page = world.store.read_page(world.thread, PageAt::Newest, 10, 8 * 1024).unwrap();
    assert_eq!(page.messages.len(), 1);
    assert_eq!(page.cuts[0].bytes, long.len() as u64 - 8 * 1024);
}

fn raw(world: &World, sql: &str) {
    rusqlite::Connection::open(world.path()).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn r011_r168_a_bad_record_is_shown_raw_and_the_rest_opens() {
    let world = world();
    world.put((1..=6).map(|n| append(user(n, &format!("text {n}")))).collect());
    raw(
        &world,
        "UPDATE part SET body = '{\"type\":\"text\",\"text\":{}}' WHERE message = 2;
         UPDATE message SET state = 'sideways' WHERE key = 3;
         UPDATE message SET notice = '[1]' WHERE key = 4;
         DELETE FROM message WHERE key = 5;",
    );
    let page = world.store.read_page(world.thread, PageAt::Newest, 10, 1 << 20).unwrap();
    assert_eq!(page.messages.iter().map(|message| message.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(page.damaged, [2, 3, 4, 5]);
    assert_eq!(page.messages[0], user(1, "text 1"));
    assert_eq!(page.messages[5], user(6, "text 6"));
    assert_eq!(page.messages[1].parts, [Part::text("t", "{\"type\":\"text\",\"text\":{}}text 2")]);
    assert_eq!(page.messages[3].parts[0].body, PartBody::Text { text: "[1]".into() });
    assert_eq!(world.store.threads(None).unwrap().len(), 1);
    // The thread goes on.
    world.put(vec![append(user(7, "on"))]);
}

#[test]
fn r003_a_bad_setting_is_reported_on_its_own() {
    let world = world();
    wait(async {
        world.store.put_setting("a".into(), json!({"x": [1, 2]})).await.unwrap();
        world.store.put_setting("b".into(), json!(true)).await.unwrap();
        world.store.put_setting("gone".into(), json!(1)).await.unwrap();
        world.store.put_setting("gone".into(), json!(null)).await.unwrap();
    });
    raw(&world, "UPDATE setting SET value = '{' WHERE name = 'a'");
    let world = world.reopen();
    let settings = world.store.settings().unwrap();
    assert_eq!(settings.values.into_iter().collect::<Vec<_>>(), [("b".to_owned(), json!(true))]);
    assert_eq!(settings.bad.keys().collect::<Vec<_>>(), ["a"]);
    assert!(matches!(world.store.setting("a"), Err(StoreError::BadRecord { what, .. }) if what == "setting a"));
    assert_eq!(world.store.setting("b").unwrap(), Some(json!(true)));
    assert_eq!(world.store.setting("gone").unwrap(), None);
    assert_eq!(world.store.threads(None).unwrap().len(), 1);
}

#[test]
fn t10_a_session_that_cannot_be_read_is_left_away() {
    let world = world();
    raw(
        &world,
        "INSERT INTO provider_session (thread, provider, session_id, live, record) VALUES (1, 'claude', 'x', 1, '{}');
         UPDATE thread SET target = '7';",
    );
    let loaded = world.store.load(world.thread).unwrap();
    assert_eq!((loaded.sessions, loaded.target), (vec![], None));
    assert_eq!(world.store.threads(None).unwrap()[0].target, None);
}

#[test]
fn threads_are_listed_put_away_and_brought_back() {
    let world = world();
    let other = thread_id(8);
    add_thread(&world.store, other);
    world.put(vec![append(user(1, "q")), append(message(2, Role::Assistant, vec![Part::text("t", "a")]))]);
    let list =
        |world: &World| -> Vec<_> { world.store.threads(None).unwrap().into_iter().map(|thread| thread.id).collect() };
    assert_eq!(list(&world), [world.thread, other], "last changed first");
    let project = world.store.projects().unwrap();
    assert_eq!(project.len(), 1, "the same path is the same project");
    assert_eq!(world.store.threads(Some(project[0].id)).unwrap().len(), 2);
    let none = changeover_core::id::ProjectId(uuid(77));
    assert!(world.store.threads(Some(none)).unwrap().is_empty());
    wait(async {
        let store = &world.store;
        store.mark_seen(world.thread, 1).await.unwrap();
        store.mark_seen(world.thread, 0).await.unwrap();
        store.archive(world.thread, Some(50)).await.unwrap();
        store.pin_thread(world.thread, Some(51)).await.unwrap();
        store.set_draft(world.thread, "half a thought".into()).await.unwrap();
        store.delete(other, Some(60)).await.unwrap();
    });
    let summary = world.store.thread(world.thread).unwrap();
    assert_eq!((summary.last_seq, summary.last_content_seq, summary.seen_seq), (2, 2, 1));
    assert_eq!((summary.archived_at, summary.pinned_at), (Some(50), Some(51)));
    assert_eq!(summary.target, Some(target()));
    assert_eq!(world.store.draft(world.thread).unwrap(), "half a thought");
    assert_eq!(list(&world), [world.thread]);
    wait(world.store.delete(other, None)).unwrap();
    assert_eq!(list(&world), [world.thread, other]);
    assert!(matches!(wait(world.store.archive(thread_id(9), None)), Err(StoreError::NoSuchThread(_))));
}

#[test]
fn s4_a_purge_takes_one_thread_and_nothing_else() {
    let world = world();
    let other = thread_id(8);
    add_thread(&world.store, other);
    let text = "x".repeat(5000);
    world.put((1..=700).map(|n| append(user(n, &text))).collect());
    let theirs = changeover_core::message::Message { id: message_id(9000), ..user(1, "stays") };
    world.store.commit_blocking(other, vec![append(theirs.clone())]).unwrap();
    wait(async {
        world.store.delete(world.thread, Some(100)).await.unwrap();
        assert_eq!(world.store.purge(100).await.unwrap(), 0, "not yet due");
        assert_eq!(world.store.purge(101).await.unwrap(), 1);
    });
    assert!(matches!(world.store.thread(world.thread), Err(StoreError::NoSuchThread(_))));
    assert_eq!(all(&world.store, other), [theirs]);
    let conn = rusqlite::Connection::open(world.path()).unwrap();
    for (table, kept) in [("message", 1), ("part", 1), ("thread_message", 1), ("thread", 1), ("block", 2)] {
        let rows: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, kept, "{table}");
    }
}

#[test]
fn s2_work_that_still_runs_is_found_and_its_status_changes_without_its_bytes() {
    let world = world();
    let id = message_id(2);
    let running = |key: &str| match command(key, "sleep 100", "so far\n") {
        Part { key, superseded, body: PartBody::Command { command, output, .. } } => Part {
            key,
            superseded,
            body: PartBody::Command { command, output, status: WorkStatus::Running, exit_code: None },
        },
        other => other,
    };
    let plan = Part {
        key: "plan".into(),
        superseded: false,
        body: PartBody::Plan {
            entries: vec![changeover_core::part::PlanEntry { text: "x".into(), status: Some(WorkStatus::Running) }],
        },
    };
    let parts = [running("c"), plan, command("ended", "ls", "")];
    world.put(vec![append(user(1, "q")), append(reply(2))]);
    world.put(parts.map(|part| Write::Part { message: id, part }).into());
    world.put(vec![done(id)]);
    let found = world.store.running_parts(world.thread).unwrap();
    assert_eq!(found.iter().map(|found| (found.message, found.part.clone())).collect::<Vec<_>>(), [(id, running("c"))]);
    let status = |status| Write::PartStatus { message: id, key: "c".into(), status, exit_code: Some(0) };
    world.put(vec![status(WorkStatus::Completed)]);
    assert!(world.store.running_parts(world.thread).unwrap().is_empty());
    assert_eq!(world.store.read_part(id, "c").unwrap(), Some(command("c", "sleep 100", "so far\n")));
    // The size index has followed: the command is handed over as it now is.
    let scope = changeover_core::handoff::items::Scope { after: 0, upto: 2, prompt: None, own: None };
    let sizes = world.store.item_sizes(world.thread, &scope).unwrap();
    let place = changeover_core::handoff::items::ItemPlace { seq: 2, index: 0 };
    let body = &sizes.items(&[place]).unwrap()[0].body;
    assert_eq!(body, "Command: sleep 100\nExit code: 0\nOutput:\nso far\n");
    let error = world.store.commit_blocking(
        world.thread,
        vec![Write::PartStatus { message: id, key: "none".into(), status: WorkStatus::Failed, exit_code: None }],
    );
    assert!(matches!(error, Err(StoreError::Invariant(_))));
}
