//! S4: what stops a running thread asks first; and a thread that is gone or put away stays as it was left.

use changeover_core::{
    part::{Part, PartBody, WorkStatus},
    provider::{ApprovalMode, ProviderId, Target},
    turn::record::ApprovalState,
};
use changeover_engine::api::{
    error::ErrorCode,
    types::{EventBody, Nothing, PartReadResponse, ThreadListParams, ThreadListResponse, ThreadResponse},
};
use changeover_tests::{
    agents::AgentHome,
    app::{App, target},
    fake_api::FakeApi,
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_deleting_a_thread_that_runs_asks_stops_it_and_leaves_no_row_behind() {
    let home = AgentHome::new(&FakeApi::start().await);
    let app = App::start(&home).await;
    let thread = app.new_thread(&home.work()).await;
    let mark = app.mark();
    app.send(thread, target(&ProviderId::practice()), "stream 100000 every 5 ms").await;
    app.event_from(mark, |e| matches!(e.body, EventBody::Text { .. })).await;
    let refused = app.ask::<Nothing>("thread/delete", &json!({"threadId": thread})).await.expect_err("it asks");
    assert_eq!(refused.code, ErrorCode::Running, "{refused:?}");
    assert!(app.page(thread).await.turn.is_some(), "nothing was stopped");
    let _: Nothing = app.get("thread/delete", &json!({"threadId": thread, "stop": true})).await;
    app.event_from(mark, |e| matches!(e.body, EventBody::ThreadDeleted {})).await;
    // Everything that the ending turn still had to say was said before; a second thread's event comes after it.
    let other = app.new_thread(&home.work()).await;
    app.event_from(mark, |e| e.thread_id == Some(other)).await;
    let heard = app.events_from(mark);
    let gone = heard.iter().position(|e| matches!(e.body, EventBody::ThreadDeleted {})).expect("deleted");
    let ghosts = heard[gone + 1..].iter().filter(|e| e.thread_id == Some(thread)).collect::<Vec<_>>();
    assert!(ghosts.is_empty(), "{ghosts:#?}");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_archiving_a_thread_that_waits_for_leave_asks_and_withdraws_the_question_and_sending_takes_it_back() {
    let home = AgentHome::new(&FakeApi::start().await);
    let app = App::start(&home).await;
    let thread = app.new_thread(&home.work()).await;
    let mark = app.mark();
    let asks = Target { mode: ApprovalMode::Ask, ..target(&ProviderId::practice()) };
    app.send(thread, asks, "run: echo hello").await;
    app.event_from(
        mark,
        |e| matches!(&e.body, EventBody::Approval { approval } if approval.state == ApprovalState::Open),
    )
    .await;
    let refused =
        app.ask::<Nothing>("thread/archive", &json!({"threadId": thread, "on": true})).await.expect_err("it asks");
    assert_eq!(refused.code, ErrorCode::Running, "{refused:?}");
    let put: ThreadResponse = app.get("thread/archive", &json!({"threadId": thread, "on": true, "stop": true})).await;
    assert!(put.thread.archived);
    let page = app.page(thread).await;
    assert!(page.turn.is_none() && !page.approvals.iter().any(|a| a.state == ApprovalState::Open), "{page:#?}");
    app.turn(thread, &ProviderId::practice(), "think").await;
    let list: ThreadListResponse =
        app.get("thread/list", &ThreadListParams { project_id: None, archived: false }).await;
    assert!(list.threads.iter().any(|t| t.id == thread && !t.archived), "{list:#?}");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_title_keeps_no_control_characters() {
    let home = AgentHome::new(&FakeApi::start().await);
    let app = App::start(&home).await;
    let thread = app.new_thread(&home.work()).await;
    app.turn(thread, &ProviderId::practice(), "think \u{1b}[2Jof\u{7} it\0now").await;
    assert_eq!(app.page(thread).await.thread.title, "think [2Jof it now");
    let named: ThreadResponse =
        app.get("thread/rename", &json!({"threadId": thread, "title": "\u{1b}]0;owned\u{7}\u{9b}x"})).await;
    assert_eq!(named.thread.title, "]0;owned x");
    app.stop().await;
}

/// Many lines, a long line and a process that stays in the background: each is told whole, at the cost of what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commands_long_output_comes_through_and_what_it_left_running_is_not_waited_for() {
    let home = AgentHome::new(&FakeApi::start().await);
    let app = App::start(&home).await;
    let thread = app.new_thread(&home.work()).await;
    for (line, begins, ends) in [
        ("seq 1 20000", "1\n2\n", "19999\n20000\n"),
        ("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last", "xxx", "\nlast\n"),
        ("(sleep 888 &) ; echo started", "started\n", "started\n"),
    ] {
        let mark = app.mark();
        app.send(thread, target(&ProviderId::practice()), &format!("run: {line}")).await;
        app.turn_ended(mark, thread).await;
        let page = app.page(thread).await;
        let reply = page.messages.last().expect("a reply");
        let is_command = |part: &&Part| matches!(part.body, PartBody::Command { .. });
        let key = reply.parts.iter().find(is_command).map(|part| part.key.clone());
        // A page gives a long part in short; this is the whole.
        let whole: PartReadResponse =
            app.get("part/read", &json!({"threadId": thread, "messageId": reply.id, "key": key})).await;
        let command = match whole.part.body {
            PartBody::Command { output, status, exit_code, .. } => Some((output, status, exit_code)),
            _ => None,
        };
        let (output, status, exit) = command.expect("a command");
        assert_eq!((status, exit), (WorkStatus::Completed, Some(0)), "{line}");
        assert!(output.starts_with(begins), "{line}: {}", &output[..output.len().min(200)]);
        let end = &output[output.len().saturating_sub(100)..];
        assert!(end.ends_with(ends), "{line}: {end}");
        assert!(output.len() < 2 * 1024 * 1024, "{line}: {}", output.len());
    }
    app.stop().await;
}
