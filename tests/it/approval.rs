//! FC7, R4: a real approval of each CLI, answered through the API, and what the CLI's own session file then says.

use std::{
    fs,
    path::{Path, PathBuf},
};

use changeover_core::{
    approval::{ApprovalDecision, ApprovalSubject},
    id::{ApprovalId, ThreadId},
    message::{Message, MessageState},
    part::{PartBody, WorkStatus},
    provider::{ApprovalMode, ProviderId, Target},
    turn::record::{Approval, ApprovalState},
};
use changeover_engine::api::{
    error::ErrorCode,
    types::{ApprovalAnswerParams, ApprovalListResponse, EventBody, Nothing},
};
use changeover_tests::{
    agents::AgentHome,
    app::{App, Client, database, target},
    fake_api::FakeApi,
};
use serde_json::Value;

/// The CLI's own file of a session; Codex begins another one when it goes back in a thread.
fn session_file(home: &AgentHome, cli: &ProviderId, session: &str) -> String {
    let root = if *cli == ProviderId::claude() {
        home.claude_home().join("projects")
    } else {
        home.codex_home().join("sessions")
    };
    let mut found: Vec<PathBuf> = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "jsonl") && path.display().to_string().contains(session) {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "the file of session {session}");
    found.sort();
    found.iter().map(|path| fs::read_to_string(path).expect("the session's file")).collect()
}

/// What came of each command, as the session file has it: the text that the model was given.
fn results(file: &str) -> Vec<String> {
    let mut results = Vec::new();
    for line in file.lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        // Claude Code: a user's message with the result; Codex: an item.
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                let error = if block["is_error"] == true { "error: " } else { "" };
                results.push(format!("{error}{}", words(&block["content"])));
            }
        }
        let kind = line["payload"]["type"].as_str().unwrap_or_default();
        if line["type"] == "response_item" && kind.ends_with("_call_output") {
            results.push(words(&line["payload"]["output"]));
        }
    }
    results
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(|block| words(&block["text"])).collect(),
        other => words(&other["content"]),
    }
}

/// A thread on one CLI that asks for everything.
struct Bench {
    api: FakeApi,
    home: AgentHome,
    cli: ProviderId,
}

impl Bench {
    async fn new(cli: ProviderId) -> Self {
        let api = FakeApi::start().await;
        let home = AgentHome::new(&api);
        Self { api, home, cli }
    }

    fn made(&self, name: &str) -> PathBuf {
        self.home.work().join(name)
    }

    /// Sends a message whose turn wants to run this command; where its events begin.
    async fn wants(&self, client: &Client, thread: ThreadId, command: &str) -> usize {
        let mark = client.mark();
        let asks = Target { mode: ApprovalMode::Ask, ..target(&self.cli) };
        client.send(thread, asks, &format!("[[tool:bash:{command}]][[say:then this]]")).await;
        mark
    }

    /// The same, until the question is there.
    async fn asked(&self, client: &Client, thread: ThreadId, command: &str) -> (usize, Approval) {
        let mark = self.wants(client, thread, command).await;
        let event = client.event_from(mark, |e| matches!(e.body, EventBody::Approval { .. })).await;
        let EventBody::Approval { approval } = event.body else { unreachable!("it is one") };
        assert_eq!(approval.state, ApprovalState::Open);
        let whole = ApprovalSubject::Command { command: command.to_owned(), cwd: None };
        assert_eq!(approval.request.subject, whole, "the full command");
        (mark, approval)
    }

    /// Results of the thread's live session, by its own file.
    async fn results(&self, client: &Client, thread: ThreadId) -> Vec<String> {
        let sessions = client.sessions(thread).await.sessions;
        let session = sessions.iter().find(|s| s.session.provider == self.cli).expect("a session");
        results(&session_file(&self.home, &self.cli, &session.session.session_id))
    }

    fn is_denial(&self, result: &str) -> bool {
        let wording = if self.cli == ProviderId::claude() { "The user said no to this" } else { "rejected by user" };
        result.contains(wording)
    }
}

async fn answer(client: &Client, thread: ThreadId, approval: &Approval, decision: ApprovalDecision) {
    let params = ApprovalAnswerParams { thread_id: thread, approval_id: approval.id, decision };
    let _: Nothing = client.get("approval/answer", &params).await;
}

async fn open(client: &Client) -> Vec<ApprovalId> {
    let list: ApprovalListResponse = client.get("approval/list", &Nothing {}).await;
    list.approvals.iter().map(|entry| entry.approval.id).collect()
}

fn command(reply: &Message) -> (WorkStatus, Option<i32>) {
    let commands = reply.parts.iter().filter_map(|part| match part.body {
        PartBody::Command { status, exit_code, .. } => Some((status, exit_code)),
        _ => None,
    });
    let commands: Vec<_> = commands.collect();
    assert_eq!(commands.len(), 1, "{reply:#?}");
    commands[0]
}

async fn what_the_person_chose(cli: ProviderId) {
    let bench = Bench::new(cli).await;
    let app = App::start(&bench.home).await;
    let thread = app.new_thread(&bench.home.work()).await;

    let (mark, allowed) = bench.asked(&app, thread, "echo it ran | tee allowed").await;
    assert!(!bench.made("allowed").exists(), "it waits for the answer");
    assert_eq!(open(&app).await, [allowed.id]);
    answer(&app, thread, &allowed, ApprovalDecision::Once).await;
    app.turn_ended(mark, thread).await;
    assert_eq!(fs::read_to_string(bench.made("allowed")).expect("it ran"), "it ran\n");
    assert_eq!(command(&app.last_reply(thread).await), (WorkStatus::Completed, Some(0)));

    let (mark, denied) = bench.asked(&app, thread, "echo no | tee denied").await;
    answer(&app, thread, &denied, ApprovalDecision::Deny).await;
    app.turn_ended(mark, thread).await;
    assert!(!bench.made("denied").exists(), "it never ran");
    let reply = app.last_reply(thread).await;
    assert_eq!((command(&reply).0, reply.state), (WorkStatus::Declined, MessageState::Done));
    assert!(reply.text().ends_with("then this"), "a no does not end the turn: {reply:#?}");

    let results = bench.results(&app, thread).await;
    println!("{results:#?}");
    assert_eq!(results.len(), 2, "{results:#?}");
    assert!(results[0].contains("it ran") && !bench.is_denial(&results[0]), "{results:#?}");
    assert!(bench.is_denial(&results[1]), "{results:#?}");
    // Answered once: a second answer is refused and changes nothing.
    let again = ApprovalAnswerParams { thread_id: thread, approval_id: denied.id, decision: ApprovalDecision::Once };
    let refused = app.ask::<Nothing>("approval/answer", &again).await.expect_err("it is settled");
    assert_eq!(refused.code, ErrorCode::Refused);
    assert_eq!(states(&app.data), [ApprovalState::Once, ApprovalState::Denied]);
    app.stop().await;
    assert_eq!(bench.api.strays(), Vec::<String>::new());
}

/// The states of all approvals in the database, in the order in which they were asked.
fn states(data: &Path) -> Vec<ApprovalState> {
    let database = database(data);
    let mut rows = database.prepare("SELECT record FROM approval ORDER BY key").expect("a statement");
    let rows = rows.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    rows.map(|text| serde_json::from_str::<Approval>(&text.expect("a row")).expect("a record").state).collect()
}

async fn closed_windows_and_restarts(cli: ProviderId) {
    let bench = Bench::new(cli).await;
    let mut app = App::start(&bench.home).await;
    let thread = app.new_thread(&bench.home.work()).await;

    // Every window is closed: it waits, and the answer counts when one is open again.
    let (_, waits) = bench.asked(&app, thread, "echo late | tee late").await;
    app.reconnect().await;
    app.watch(&[thread]).await;
    assert_eq!(open(&app).await, [waits.id], "it was not answered");
    assert!(!bench.made("late").exists());
    let page = app.page(thread).await;
    assert_eq!(page.approvals, std::slice::from_ref(&waits), "the window that opens shows it");
    let mark = app.mark();
    answer(&app, thread, &waits, ApprovalDecision::Once).await;
    app.turn_ended(mark, thread).await;
    assert!(bench.made("late").exists());
    assert_eq!(bench.results(&app, thread).await.len(), 1);

    // A restart withdraws it, in good order and after a crash.
    for crash in [false, true] {
        let (_, lost) = bench.asked(&app, thread, "echo lost | tee lost").await;
        if crash {
            app.kill().await
        } else {
            app.stop().await
        }
        app = App::start(&bench.home).await;
        app.watch(&[thread]).await;
        assert_eq!(open(&app).await, []);
        assert_eq!(states(&app.data).last(), Some(&ApprovalState::Withdrawn));
        let reply = app.last_reply(thread).await;
        assert_eq!(reply.state, MessageState::Interrupted, "{reply:#?}");
        let params = ApprovalAnswerParams { thread_id: thread, approval_id: lost.id, decision: ApprovalDecision::Once };
        let refused = app.ask::<Nothing>("approval/answer", &params).await.expect_err("nobody waits for it");
        assert_eq!(refused.code, ErrorCode::Refused);
        // Nobody said no: no session of the CLI has heard an answer.
        app.turn(thread, &bench.cli, "[[say:on we go]]").await;
        assert_eq!(app.last_reply(thread).await.text(), "on we go", "{}", app.log());
        let results = bench.results(&app, thread).await;
        assert!(!results.iter().any(|result| bench.is_denial(result)), "{results:#?}");
        assert!(!bench.made("lost").exists(), "it never ran");
    }
    app.stop().await;
}

async fn in_this_thread(cli: ProviderId) {
    let bench = Bench::new(cli).await;
    let app = App::start(&bench.home).await;
    let thread = app.new_thread(&bench.home.work()).await;
    let line = "echo once more | tee -a counted";
    let (mark, first) = bench.asked(&app, thread, line).await;
    answer(&app, thread, &first, ApprovalDecision::Thread).await;
    app.turn_ended(mark, thread).await;
    // The CLI asks again, so it never heard of an "always"; it is we who answer.
    let mark = bench.wants(&app, thread, line).await;
    app.turn_ended(mark, thread).await;
    let heard: Vec<Approval> = app
        .events_from(mark)
        .into_iter()
        .filter_map(|e| match e.body {
            EventBody::Approval { approval } => Some(approval),
            _ => None,
        })
        .collect();
    assert_eq!(heard.iter().map(|a| a.state).collect::<Vec<_>>(), [ApprovalState::Rule], "{heard:#?}");
    assert_eq!(fs::read_to_string(bench.made("counted")).expect("it ran"), "once more\nonce more\n");
    // Another command is another question, and another thread another matter.
    let (mark, other) = bench.asked(&app, thread, "echo other | tee other").await;
    answer(&app, thread, &other, ApprovalDecision::Deny).await;
    app.turn_ended(mark, thread).await;
    let elsewhere = app.new_thread(&bench.home.work()).await;
    let (mark, same) = bench.asked(&app, elsewhere, line).await;
    answer(&app, elsewhere, &same, ApprovalDecision::Deny).await;
    app.turn_ended(mark, elsewhere).await;
    assert_eq!(
        states(&app.data),
        [ApprovalState::Thread, ApprovalState::Rule, ApprovalState::Denied, ApprovalState::Denied]
    );
    app.stop().await;
    // Nor did it keep one on disk.
    for folder in [bench.home.home(), bench.home.work()] {
        assert_eq!(kept_rules(&folder), Vec::<PathBuf>::new());
    }
}

/// Files in which Claude Code or Codex keep what is always allowed.
fn kept_rules(folder: &Path) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().into_string().expect("a plain name");
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rules") || name.starts_with("settings") && name.ends_with(".json") {
                kept.push(path);
            } else if name == ".claude.json" {
                let text = fs::read_to_string(&path).expect("a file");
                let config: Value = serde_json::from_str(&text).expect("JSON");
                let projects = config["projects"].as_object().into_iter().flatten();
                for (_, project) in projects {
                    assert!(project["allowedTools"].as_array().is_none_or(Vec::is_empty), "{project}");
                }
            }
        }
    }
    kept
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc7_claude_code_does_what_the_person_chose() {
    what_the_person_chose(ProviderId::claude()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc7_codex_does_what_the_person_chose() {
    what_the_person_chose(ProviderId::codex()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc7_claude_codes_question_outlives_windows_but_not_the_app() {
    closed_windows_and_restarts(ProviderId::claude()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc7_codexs_question_outlives_windows_but_not_the_app() {
    closed_windows_and_restarts(ProviderId::codex()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_claude_code_never_hears_of_in_this_thread() {
    in_this_thread(ProviderId::claude()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_codex_never_hears_of_in_this_thread() {
    in_this_thread(ProviderId::codex()).await;
}
