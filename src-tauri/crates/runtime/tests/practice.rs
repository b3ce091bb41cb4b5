//! The practice agent as a real process behind the real ACP runtime: what it does, what goes wrong, and what it keeps (T9).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    fs,
    time::{Duration, Instant},
};

use changeover_core::{
    approval::ApprovalSubject,
    event::{Ended, Kept, RuntimeEvent as Event},
    failure::FailureKind,
    part::WorkStatus,
    provider::ApprovalMode,
};
use changeover_runtime::{
    practice::KEEPS,
    session::{AgentRuntime, Answer, Login, Resume},
};
use support::{Scene, carrying, ended, exited, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_turn_says_that_it_is_no_model_and_reports_its_context() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    let first = talk.next().await;
    assert_eq!(first, Event::SessionKnown { session_id: talk.id.clone(), model: Some("practice".into()) });
    let events = talk.turn("# Told\nsomething\n\n## New message\nHello, <you> & me?").await;
    assert_eq!(events[0], Event::Taken);
    let reply = text(&events);
    assert!(reply.contains("no model") && reply.contains("> Hello, <you> & me?") && reply.contains("run: COMMAND"));
    assert!(reply.contains("told 16 bytes"), "{reply}");
    let context = events.iter().find_map(|event| if let Event::Context(figure) = event { Some(*figure) } else { None });
    let context = context.unwrap();
    assert!(context.used > 0 && context.window == Some(200_000));
    assert_eq!(events.last(), Some(&Event::Ended(Ended::Completed)));
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Ended(_))).count(), 1);
    let before = text(&talk.turn("fill 150000").await);
    assert!(before.contains("150000"));
    let events = talk.turn("think\nplan").await;
    assert!(events.iter().any(|event| matches!(event, Event::Reasoning { .. })));
    let plans: Vec<_> = events.iter().filter(|event| matches!(event, Event::Plan { .. })).collect();
    let Some(Event::Plan { entries, .. }) = plans.last() else { panic!("no plan") };
    assert!(plans.len() == 4 && entries.iter().all(|entry| entry.status == Some(WorkStatus::Completed)));
    let context =
        events.iter().find_map(|event| if let Event::Context(figure) = event { Some(figure.used) } else { None });
    assert!((150_000..150_100).contains(&context.unwrap()), "{context:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_asked_for_really_run_and_told_with_its_exit_code() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    let command = "pwd; echo err >&2; touch made; exit 3";
    talk.send(&format!("run: {command}")).await;
    let before = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    let Some(Event::ApprovalWanted(request)) = before.last() else { panic!("not asked") };
    assert_eq!(request.subject, ApprovalSubject::Command { command: command.into(), cwd: None });
    assert!(!scene.folder().join("made").exists(), "it waits");
    let item = request.item.clone().unwrap();
    talk.answer(&request.key, Answer::Allow).await;
    talk.answer("no such key", Answer::Allow).await;
    let events = talk.until(ended).await;
    let folder = fs::canonicalize(scene.folder()).unwrap();
    let output = format!("{}\nerr\n", folder.display());
    let last = events.iter().rev().find(|event| matches!(event, Event::Command { .. })).unwrap();
    let expected = Event::Command {
        item,
        command: command.into(),
        status: WorkStatus::Failed,
        exit_code: Some(3),
        output: Some(output),
    };
    assert_eq!(*last, expected);
    assert!(scene.folder().join("made").exists());
    assert!(text(&events).contains("exit code 3"));
    assert_eq!(events.last(), Some(&Event::Ended(Ended::Completed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_command_never_runs_and_the_turn_goes_on_in_a_new_text() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    talk.send("stream 2\nrun: touch made\nstream 1").await;
    let before = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    let Some(Event::ApprovalWanted(request)) = before.last() else { panic!("not asked") };
    talk.answer(&request.key, Answer::Deny).await;
    talk.answer(&request.key, Answer::Allow).await;
    let events = talk.until(ended).await;
    let statuses: Vec<_> = events
        .iter()
        .filter_map(|event| if let Event::Command { status, .. } = event { Some(*status) } else { None })
        .collect();
    assert!(!statuses.is_empty() && statuses.iter().all(|status| *status == WorkStatus::Declined), "{statuses:?}");
    let items = |events: &[Event]| -> Vec<String> {
        let mut items: Vec<_> = events
            .iter()
            .filter_map(|e| if let Event::Text { item, .. } = e { Some(item.clone()) } else { None })
            .collect();
        items.dedup();
        items
    };
    assert_eq!((items(&before), items(&events)), (vec!["text-1".to_owned()], vec!["text-2".to_owned()]));
    assert!(text(&events).contains("You said no") && text(&events).contains("word1"));
    assert!(!scene.folder().join("made").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_shows_its_diff_and_goes_without_asking_only_in_its_mode() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    talk.send("edit: notes/a.txt").await;
    let before = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    let Some(Event::ApprovalWanted(request)) = before.last() else { panic!("not asked") };
    let ApprovalSubject::Edit { files } = &request.subject else { panic!("{request:?}") };
    assert_eq!(files[0].path, scene.folder().join("notes/a.txt").to_str().unwrap());
    assert!(files[0].diff.contains("\n+Written by the practice agent.\n"), "{}", files[0].diff);
    talk.answer(&request.key, Answer::Allow).await;
    let events = talk.until(ended).await;
    let change = events.iter().rev().find(|event| matches!(event, Event::FileChange { .. })).unwrap();
    assert!(matches!(change, Event::FileChange { status: WorkStatus::Completed, files, .. } if files.len() == 1));
    let file = scene.folder().join("notes/a.txt");
    assert_eq!(fs::read_to_string(&file).unwrap(), "Written by the practice agent.\n");
    assert!(text(&talk.turn("edit: ../out.txt").await).contains("only write inside"));

    let mut free = scene.open(|spec| spec.mode = ApprovalMode::Edits).await;
    let events = free.turn("edit: notes/a.txt").await;
    assert!(!events.iter().any(|event| matches!(event, Event::ApprovalWanted(_))));
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
    free.send("run: true").await;
    free.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_a_stream_a_question_and_a_commands_whole_tree() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    talk.send("stream 100000 every 20 ms").await;
    talk.until(|event| matches!(event, Event::Text { .. })).await;
    talk.interrupt().await;
    assert_eq!(talk.until(ended).await.last(), Some(&Event::Ended(Ended::Interrupted)));

    talk.send("run: touch made").await;
    let before = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    let Some(Event::ApprovalWanted(request)) = before.last() else { panic!("not asked") };
    talk.interrupt().await;
    let events = talk.until(ended).await;
    assert!(events.contains(&Event::ApprovalWithdrawn { key: request.key.clone() }), "{events:?}");
    assert!(matches!(
        &events[..],
        [.., Event::Command { status: WorkStatus::Interrupted, .. }, Event::Ended(Ended::Interrupted)]
    ));
    talk.answer(&request.key, Answer::Allow).await;

    talk.send("run: setsid --wait bash -c 'trap \"\" TERM; sleep 1000 & echo up; wait'").await;
    let before = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    let Some(Event::ApprovalWanted(request)) = before.last() else { panic!("not asked") };
    talk.answer(&request.key, Answer::Allow).await;
    talk.until(|event| matches!(event, Event::CommandOutput { delta, .. } if delta == "up\n")).await;
    assert!(carrying(&scene.mark).len() >= 3);
    let begun = Instant::now();
    talk.interrupt().await;
    assert_eq!(talk.until(ended).await.last(), Some(&Event::Ended(Ended::Interrupted)));
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(carrying(&scene.mark).len(), 1, "the agent alone");
    talk.interrupt().await;
    let reply = text(&talk.turn("recall").await);
    assert!(reply.contains("seen 4 messages") && !scene.folder().join("made").exists(), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_gets_through_while_nobody_reads_the_events() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    talk.send("stream 300000").await;
    talk.until(|event| matches!(event, Event::Text { .. })).await;
    talk.filled().await;
    tokio::time::timeout(Duration::from_secs(2), talk.interrupt()).await.unwrap();
    let events = talk.until(ended).await;
    assert_eq!(events.last(), Some(&Event::Ended(Ended::Interrupted)));
    assert!(events.len() < 300_000, "{}", events.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_fail_has_its_kind_and_the_session_goes_on() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    let cases = [
        ("auth", FailureKind::NotLoggedIn),
        ("limit", FailureKind::RateLimited),
        ("overload", FailureKind::Unavailable),
        ("overflow", FailureKind::Overflow),
        ("cut", FailureKind::Unavailable),
        ("protocol", FailureKind::Protocol),
    ];
    for (word, kind) in cases {
        let events = talk.turn(&format!("fail: {word}")).await;
        let Some(Event::Ended(Ended::Failed(failure))) = events.last() else { panic!("{word}: {events:?}") };
        assert_eq!(failure.kind, kind, "{word}");
        assert_eq!(failure.retry_at.is_some(), word == "limit");
        let answered = events.iter().any(|event| matches!(event, Event::Text { .. }));
        assert_eq!(answered, matches!(word, "cut" | "protocol"), "{word}");
        if word == "protocol" {
            let raw = events.iter().filter(|event| matches!(event, Event::Raw { .. })).count();
            assert_eq!(raw, 3, "{events:?}");
        }
    }
    assert!(text(&talk.turn("recall").await).contains("seen 7 messages"));

    let mut small = scene.open(|spec| spec.model = Some("practice-small".into())).await;
    small.turn("fill 20001").await;
    let events = small.turn("hello").await;
    assert!(
        matches!(events.last(), Some(Event::Ended(Ended::Failed(f))) if f.kind == FailureKind::Overflow),
        "{events:?}"
    );
}

/// T9: what the adapter declares is what the agent's own record holds, and what it goes on with after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_what_it_declares() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    talk.turn("fail: overload").await;
    assert_eq!(scene.kept(&talk.id), (KEEPS.failed_unanswered, "fail: overload".into()));
    talk.turn("fail: cut").await;
    assert_eq!(scene.kept(&talk.id), (KEEPS.failed_answered, "fail: cut".into()));

    talk.send("run: true").await;
    talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    talk.interrupt().await;
    talk.until(ended).await;
    assert_eq!(scene.kept(&talk.id), (KEEPS.interrupted_unanswered, "run: true".into()));

    talk.send("stream 100000 every 20 ms").await;
    talk.until(|event| matches!(event, Event::Text { .. })).await;
    talk.interrupt().await;
    talk.until(ended).await;
    assert_eq!(scene.kept(&talk.id), (KEEPS.interrupted_answered, "stream 100000 every 20 ms".into()));

    talk.send("stream 100001 every 20 ms").await;
    talk.until(|event| matches!(event, Event::Text { .. })).await;
    talk.session.kill().await;
    assert!(
        matches!(talk.until(exited).await.last(), Some(Event::Exited { failure }) if failure.kind == FailureKind::Exited)
    );
    assert_eq!(carrying(&scene.mark), Vec::<u32>::new());
    assert_eq!(scene.kept(&talk.id), (Kept::PromptOnly, "stream 100001 every 20 ms".into()));

    let id = talk.id.clone();
    let mut again = scene
        .open(|spec| spec.resume = Some(Resume { session_id: id.clone(), anchor: None, rewind: false, fork: false }))
        .await;
    assert!(matches!(again.next().await, Event::SessionKnown { session_id, .. } if session_id == id));
    let events = again.turn("recall").await;
    assert_eq!(events[0], Event::Taken, "nothing of the replay is an event");
    let reply = text(&events);
    assert!(reply.contains("seen 6 messages") && reply.contains("5. stream 100001 every 20 ms"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_the_last_event_and_a_hang_can_be_killed() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    talk.send("fail: crash").await;
    let events = talk.until(exited).await;
    let Some(Event::Exited { failure }) = events.last() else { panic!("{events:?}") };
    assert!(failure.message.contains("exit code 1: crashed, as asked for"), "{failure:?}");
    assert!(!events.iter().any(ended) && talk.events.recv().await.is_none());
    let refused = talk.try_send("hello").await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Exited);

    let mut talk = scene.open(|_| {}).await;
    talk.next().await;
    talk.send("fail: hang").await;
    assert_eq!(talk.try_send("second").await.unwrap_err().kind, FailureKind::Protocol, "one prompt at a time");
    talk.interrupt().await;
    assert!(tokio::time::timeout(Duration::from_millis(300), talk.events.recv()).await.is_err(), "it is deaf");
    talk.session.kill().await;
    talk.until(exited).await;
    assert_eq!(carrying(&scene.mark), Vec::<u32>::new());
}

/// SIGKILL leaves the shells of real agents behind: the adapter ends what carried the dead agent's mark.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_an_agent_that_was_killed_from_outside_go_with_it() {
    let scene = Scene::new();
    let mut talk = scene.open(|_| {}).await;
    talk.send("run: setsid --wait bash -c 'trap \"\" TERM; (sleep 1000 &); echo up; exec sleep 1001'").await;
    let before = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    let Some(Event::ApprovalWanted(request)) = before.last() else { panic!("not asked") };
    talk.answer(&request.key, Answer::Allow).await;
    talk.until(|event| matches!(event, Event::CommandOutput { delta, .. } if delta == "up\n")).await;
    let is_agent = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().contains("practice-agent");
    let agent = carrying(&scene.mark).into_iter().find(is_agent).unwrap();
    let agent = rustix::process::Pid::from_raw(i32::try_from(agent).unwrap()).unwrap();
    rustix::process::kill_process(agent, rustix::process::Signal::KILL).unwrap();
    let events = talk.until(exited).await;
    assert!(
        matches!(events.last(), Some(Event::Exited { failure }) if failure.message.contains("signal 9")),
        "{events:?}"
    );
    assert_eq!(carrying(&scene.mark), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_sessions_models_folders_and_rewinds_are_told_apart() {
    let scene = Scene::new();
    let resume =
        |id: &str, rewind| Some(Resume { session_id: id.into(), anchor: Some("x".into()), rewind, fork: false });
    let unknown = uuid::Uuid::new_v4().to_string();
    let gone = scene.refused(|spec| spec.resume = resume(&unknown, false)).await;
    assert!(gone.kind == FailureKind::SessionGone && gone.message.contains(&unknown), "{gone:?}");
    let back = scene.refused(|spec| spec.resume = resume(&unknown, true)).await;
    assert_eq!(back.kind, FailureKind::Rejected);
    let model = scene.refused(|spec| spec.model = Some("gpt".into())).await;
    assert!(model.kind == FailureKind::BadModel && model.hint.unwrap().contains("practice-small"));
    let folder = scene.refused(|spec| spec.folder = spec.folder.join("no")).await;
    assert_eq!(folder.kind, FailureKind::FolderGone);
    // Each of them left no process behind, a moment later.
    let deadline = Instant::now() + Duration::from_secs(5);
    while !carrying(&scene.mark).is_empty() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_describes_itself_lists_its_models_and_closes_without_a_trace() {
    let scene = Scene::new();
    let env = scene.env();
    let description = scene.runtime.describe(&env).await;
    assert_eq!(description.problem, None);
    assert_eq!(description.path, Some(support::PARTS.into()));
    assert_eq!(description.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert!(matches!(description.login, Login::In { .. }));
    let models = scene.runtime.models(&env).await.unwrap();
    let shown: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.window, model.default)).collect();
    assert_eq!(shown, [("practice", Some(200_000), true), ("practice-small", Some(20_000), false)]);

    let mut talk = scene.open(|spec| spec.model = Some("practice-small".into())).await;
    assert!(matches!(talk.next().await, Event::SessionKnown { model: Some(model), .. } if model == "practice-small"));
    let events = talk.turn("hello").await;
    assert!(events.iter().any(|event| matches!(event, Event::Context(figure) if figure.window == Some(20_000))));
    talk.session.close().await;
    assert_eq!(carrying(&scene.mark), Vec::<u32>::new());
    talk.until(exited).await;
}
