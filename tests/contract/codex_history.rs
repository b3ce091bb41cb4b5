//! What Codex keeps in a thread's history (T9, T10), and how it says that a thread is gone (T5).

use changeover_tests::agents::AgentHome;
use changeover_tests::cli::Cli;
use changeover_tests::fake_api::FakeApi;
use serde_json::{Value, json};

use crate::drive::{codex_begin, codex_thread, codex_turn, said, told};

const UNKNOWN: &str = "01a22b4a-05b7-7881-8f71-f4720d39472e";

async fn resume(cli: &mut Cli, thread: &str) -> Result<Value, Value> {
    cli.call("thread/resume", json!({"threadId": thread, "excludeTurns": true})).await
}

/// Rewinds in place to before a turn.
async fn revert(cli: &mut Cli, thread: &str, turn: &str) -> Result<Value, Value> {
    cli.call("thread/revert", json!({"threadId": thread, "beforeTurnId": turn})).await
}

/// A new thread with the history up to a turn, that turn included; its id.
async fn fork(cli: &mut Cli, thread: &str, last: &str) -> String {
    let forked = cli.call("thread/fork", json!({"threadId": thread, "lastTurnId": last})).await.expect("a fork");
    forked["thread"]["id"].as_str().expect("an id").to_owned()
}

fn turn_id(turn: &Value) -> &str {
    turn["id"].as_str().expect("an id")
}

/// The thread's turns as (status, client id of the prompt), oldest first.
async fn turns(cli: &mut Cli, thread: &str) -> Vec<(String, String)> {
    let listed = cli.call("thread/turns/list", json!({"threadId": thread})).await.expect("a list");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let newest_first = listed["data"].as_array().expect("turns").iter();
    newest_first.rev().map(|turn| (text(&turn["status"]), text(&turn["items"][0]["clientId"]))).collect()
}

fn refusal(code: i64, message: &str) -> Result<Value, Value> {
    Err(json!({"code": code, "message": message}))
}

#[tokio::test]
async fn a_prompt_that_the_api_refused_stays_until_it_is_reverted() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    for kind in ["401", "429", "529", "400", "midstream", "toolong"] {
        let failing = format!("two [[error:{kind}]]");
        let thread = codex_thread(&mut cli, &home).await;
        let first = codex_turn(&mut cli, &thread, "one [[say:r1]]").await;
        let second = codex_turn(&mut cli, &thread, &failing).await;
        assert_eq!(second["status"], "failed", "{kind}");
        let clean = said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", "three [[say:r3]]")]);

        let branch = fork(&mut cli, &thread, turn_id(&first)).await;
        codex_turn(&mut cli, &branch, "three [[say:r3]]").await;
        assert_eq!(told(&api), clean, "{kind}, forked");

        // After an overflow the next turn on top of it would compact the thread (and that is not what is tested here).
        if kind != "toolong" {
            codex_turn(&mut cli, &thread, "three [[say:r3]]").await;
            let kept = said(&[
                ("user", "one [[say:r1]]"),
                ("assistant", "r1"),
                ("user", &failing),
                ("user", "three [[say:r3]]"),
            ]);
            assert_eq!(told(&api), kept, "{kind}");
        }
        let reverted = revert(&mut cli, &thread, turn_id(&second)).await.expect("a revert");
        assert_eq!(reverted["thread"]["id"], thread.as_str());
        codex_turn(&mut cli, &thread, "three [[say:r3]]").await;
        assert_eq!(told(&api), clean, "{kind}, reverted");
    }
}

#[tokio::test]
async fn a_first_turn_that_failed_is_reverted_to_an_empty_thread() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    let thread = codex_thread(&mut cli, &home).await;
    let failed = codex_turn(&mut cli, &thread, "one [[error:400]]").await;
    // A fork has no place before the first turn.
    let branch = fork(&mut cli, &thread, turn_id(&failed)).await;
    codex_turn(&mut cli, &branch, "two [[say:r2]]").await;
    assert_eq!(told(&api), said(&[("user", "one [[error:400]]"), ("user", "two [[say:r2]]")]));
    revert(&mut cli, &thread, turn_id(&failed)).await.expect("a revert");
    codex_turn(&mut cli, &thread, "two [[say:r2]]").await;
    assert_eq!(told(&api), said(&[("user", "two [[say:r2]]")]));
}

#[tokio::test]
async fn a_revert_holds_through_a_kill() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let first = "one [[tool:bash:echo x]] [[say:r1]]";
    for then_a_turn in [false, true] {
        let mut cli = Cli::codex(&home, &home.work()).await;
        let thread = codex_thread(&mut cli, &home).await;
        codex_turn(&mut cli, &thread, first).await;
        let failed = codex_turn(&mut cli, &thread, "two [[error:400]]").await;
        revert(&mut cli, &thread, turn_id(&failed)).await.expect("a revert");
        let mut kept = vec!["one [[tool:bash:echo x]] [[say:r1]]", "last [[say:r4]]"];
        if then_a_turn {
            codex_turn(&mut cli, &thread, "again [[say:r2]]").await;
            kept.insert(1, "again [[say:r2]]");
        }
        cli.kill().await;
        let mut cli = Cli::codex(&home, &home.work()).await;
        // Only a loaded thread can be reverted.
        let unloaded = revert(&mut cli, &thread, turn_id(&failed)).await;
        assert_eq!(unloaded, refusal(-32600, &format!("thread not found: {thread}")));
        resume(&mut cli, &thread).await.expect("it is there");
        let gone = revert(&mut cli, &thread, turn_id(&failed)).await;
        assert_eq!(gone, refusal(-32600, &format!("turn not found: {}", turn_id(&failed))));
        codex_turn(&mut cli, &thread, "last [[say:r4]]").await;
        let prompts = api.turns().last().expect("a request").conversation();
        let prompts: Vec<_> =
            prompts.iter().filter(|(role, _)| role == "user").map(|(_, text)| text.as_str()).collect();
        assert_eq!(prompts, kept);
    }
}

#[tokio::test]
async fn an_interrupted_prompt_stays_with_a_note_and_what_was_streamed_does_not() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    for gate in ["gate_before", "gate"] {
        let text = format!("two [[{gate}:{gate}]] [[say:partial and the rest]]");
        let thread = codex_thread(&mut cli, &home).await;
        codex_turn(&mut cli, &thread, "one [[say:r1]]").await;
        let turn = codex_begin(&mut cli, &thread, &text).await;
        api.wait_gate(gate).await;
        if gate == "gate" {
            cli.until(|line| line["method"] == "item/agentMessage/delta" && line["params"]["turnId"] == turn.as_str())
                .await;
        }
        cli.call("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await.expect("an interrupt");
        assert_eq!(cli.turn_completed().await["status"], "interrupted");
        codex_turn(&mut cli, &thread, "three [[say:r3]]").await;
        let mut found = told(&api);
        let (role, note) = found.remove(3);
        assert!(role == "user" && note.starts_with("<turn_aborted>"), "{role} {note}");
        let kept =
            said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", &text), ("user", "three [[say:r3]]")]);
        assert_eq!(found, kept, "{gate}");
        revert(&mut cli, &thread, &turn).await.expect("a revert");
        codex_turn(&mut cli, &thread, "three [[say:r3]]").await;
        assert_eq!(told(&api), said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", "three [[say:r3]]")]));
    }
}

#[tokio::test]
async fn killed_the_turns_list_tells_what_was_taken() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let one = ("completed".to_owned(), "one [[say:r1]]".to_owned());
    for gate in ["gate_before", "gate", "none"] {
        let text = format!("two [[{gate}:{gate}]] [[say:partial and the rest]]");
        let mut cli = Cli::codex(&home, &home.work()).await;
        let thread = codex_thread(&mut cli, &home).await;
        codex_turn(&mut cli, &thread, "one [[say:r1]]").await;
        let turn = codex_begin(&mut cli, &thread, &text).await;
        match gate {
            "none" => {
                cli.turn_completed().await;
            }
            gate => api.wait_gate(gate).await,
        }
        cli.kill().await;
        let mut cli = Cli::codex(&home, &home.work()).await;
        resume(&mut cli, &thread).await.expect("it is there");
        let status = if gate == "none" { "completed" } else { "interrupted" };
        assert_eq!(turns(&mut cli, &thread).await, [one.clone(), (status.to_owned(), text.clone())], "{gate}");
        codex_turn(&mut cli, &thread, "three [[say:r3]]").await;
        let mut kept = said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", &text)]);
        if gate == "none" {
            kept.extend(said(&[("assistant", "partial and the rest")]));
        }
        kept.extend(said(&[("user", "three [[say:r3]]")]));
        assert_eq!(told(&api), kept, "{gate}");
        // Turn ids outlive the process: the unanswered one can still be taken back.
        revert(&mut cli, &thread, &turn).await.expect("a revert");
        codex_turn(&mut cli, &thread, "three [[say:r3]]").await;
        assert_eq!(told(&api), said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", "three [[say:r3]]")]));
    }
}

#[tokio::test]
async fn a_running_turn_is_reverted_too_and_a_client_id_is_not_idempotent() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    let thread = codex_thread(&mut cli, &home).await;
    codex_turn(&mut cli, &thread, "one [[say:r1]]").await;
    codex_turn(&mut cli, &thread, "one [[say:r1]]").await;
    let turn = codex_begin(&mut cli, &thread, "two [[gate:run]]").await;
    api.wait_gate("run").await;
    revert(&mut cli, &thread, &turn).await.expect("a revert");
    codex_turn(&mut cli, &thread, "three [[say:r3]]").await;
    let one = [("user", "one [[say:r1]]"), ("assistant", "r1")];
    assert_eq!(told(&api), said(&[one[0], one[1], one[0], one[1], ("user", "three [[say:r3]]")]));
}

#[tokio::test]
async fn a_thread_that_is_gone_is_told_in_these_words() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    let thread = codex_thread(&mut cli, &home).await;
    let first = codex_turn(&mut cli, &thread, "one [[say:r1]]").await;
    let never = codex_thread(&mut cli, &home).await;
    let no_rollout = |id: &str| refusal(-32600, &format!("no rollout found for thread id {id}"));

    // Held by another process it is not gone.
    let mut second = Cli::codex(&home, &home.work()).await;
    let held = resume(&mut second, &thread).await;
    assert_eq!(held, refusal(-32600, &format!("thread {thread} already has an active writer")));
    second.close().await;
    cli.close().await;

    let mut cli = Cli::codex(&home, &home.work()).await;
    let input = json!([{"type": "text", "text": "x"}]);
    let unloaded = cli.call("turn/start", json!({"threadId": thread, "input": input})).await;
    assert_eq!(unloaded, refusal(-32600, &format!("thread not found: {thread}")));
    // Nor is it in another folder.
    let other = home.root().join("other");
    std::fs::create_dir(&other).expect("a folder");
    let moved = cli.call("thread/resume", json!({"threadId": thread, "excludeTurns": true, "cwd": other})).await;
    let path = moved.as_ref().expect("it is there")["thread"]["path"].as_str().expect("a path").to_owned();
    assert_eq!(moved.expect("it is there")["cwd"], json!(other));

    assert_eq!(resume(&mut cli, &never).await, no_rollout(&never));
    assert_eq!(resume(&mut cli, UNKNOWN).await, no_rollout(UNKNOWN));
    assert_eq!(cli.call("thread/fork", json!({"threadId": UNKNOWN})).await, no_rollout(UNKNOWN));
    let nonsense = resume(&mut cli, "nonsense").await.expect_err("no uuid");
    assert!(nonsense["message"].as_str().is_some_and(|words| words.starts_with("invalid session id: ")), "{nonsense}");
    cli.close().await;

    for content in ["", "garbage\n"] {
        std::fs::write(&path, content).expect("it is written");
        let mut cli = Cli::codex(&home, &home.work()).await;
        let unreadable = resume(&mut cli, &thread).await.expect_err("it cannot be read");
        assert_eq!(unreadable["code"], -32603);
        let words = unreadable["message"].as_str().expect("words").to_owned();
        assert!(
            words.starts_with("failed to read thread: ") && words.ends_with(&format!("rollout at {path} is empty")),
            "{words}"
        );
        cli.close().await;
    }
    std::fs::remove_file(&path).expect("it is removed");
    let mut cli = Cli::codex(&home, &home.work()).await;
    assert_eq!(resume(&mut cli, &thread).await, no_rollout(&thread));
    let branch = cli.call("thread/fork", json!({"threadId": thread, "lastTurnId": turn_id(&first)})).await;
    let lineage = format!("invalid paginated history lineage for {thread}: missing source rollout");
    assert_eq!(branch, refusal(-32600, &lineage));
    assert_eq!(api.strays(), Vec::<String>::new());
}
