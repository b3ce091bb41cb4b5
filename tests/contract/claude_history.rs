//! What Claude Code keeps in a session's history (T9, T10), and how it says that a session is gone (T5).

use changeover_tests::agents::AgentHome;
use changeover_tests::cli::Cli;
use changeover_tests::fake_api::FakeApi;
use serde_json::json;

use crate::drive::{claude_turn, said, told, uuid};

const INTERRUPTED: &str = "[Request interrupted by user]";

fn resumed(home: &AgentHome, session: &str) -> Cli {
    Cli::claude(home, &home.work(), &["--resume", session])
}

/// The rewind that holds: a new session whose history ends at the anchor.
fn forked(home: &AgentHome, session: &str, anchor: &str, new: &str) -> Cli {
    let more = ["--resume", session, "--resume-session-at", anchor, "--fork-session", "--session-id", new];
    Cli::claude(home, &home.work(), &more)
}

#[tokio::test]
async fn a_prompt_that_the_api_refused_stays_in_the_history() {
    let api = FakeApi::start().await;
    let mut home = AgentHome::new(&api);
    home.set("DISABLE_AUTO_COMPACT", "1");
    for kind in ["401", "429", "529", "400", "toolong", "refuse"] {
        let failing = format!("two [[error:{kind}]] [[retry_after:0]]");
        let mut cli = Cli::claude(&home, &home.work(), &[]);
        let (session, _) = claude_turn(&mut cli, "one [[say:r1]]").await;
        let failed = uuid();
        cli.prompt(&failed, &failing).await;
        assert_eq!(cli.result().await["is_error"], true, "{kind}");
        let end = cli.until(|line| line["command_uuid"] == failed.as_str() && line["state"] != "started").await;
        assert_eq!(end["state"], "cancelled", "{kind}");
        claude_turn(&mut cli, "three [[say:r3]]").await;
        let mut history =
            said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", &failing), ("user", "three [[say:r3]]")]);
        assert_eq!(told(&api), history, "{kind}");
        cli.close().await;
        claude_turn(&mut resumed(&home, &session), "four [[say:r4]]").await;
        history.extend(said(&[("assistant", "r3"), ("user", "four [[say:r4]]")]));
        assert_eq!(told(&api), history, "{kind}, resumed");
    }
}

#[tokio::test]
async fn an_interrupted_prompt_stays_and_so_does_what_was_streamed() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    for (gate, partial) in [("gate_before", None), ("gate", Some("partial"))] {
        let text = format!("two [[{gate}:{gate}]] [[say:partial and the rest]]");
        let mut cli = Cli::claude(&home, &home.work(), &[]);
        let (session, _) = claude_turn(&mut cli, "one [[say:r1]]").await;
        cli.prompt(&uuid(), &text).await;
        api.wait_gate(gate).await;
        if partial.is_some() {
            cli.until(|line| line["event"]["delta"]["text"] == "partial").await;
        }
        cli.control(json!({"subtype": "interrupt"})).await;
        let note = cli.until(|line| line["type"] == "user").await;
        assert_eq!(note["message"]["content"][0]["text"], INTERRUPTED);
        assert_eq!(cli.result().await["terminal_reason"], "aborted_streaming");
        cli.close().await;

        let mut history = said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", &text)]);
        history.extend(partial.map(|partial| ("assistant".to_owned(), partial.to_owned())));
        history.extend(said(&[("user", INTERRUPTED), ("user", "three [[say:r3]]")]));
        // The note is a message with a uuid: an anchor that keeps what was streamed.
        let anchor = note["uuid"].as_str().expect("a uuid");
        claude_turn(&mut forked(&home, &session, anchor, &uuid()), "three [[say:r3]]").await;
        assert_eq!(told(&api), history, "{gate}, forked at the note");
        claude_turn(&mut resumed(&home, &session), "three [[say:r3]]").await;
        // A plain resume makes up an answer to the note.
        history.insert(history.len() - 1, ("assistant".to_owned(), "No response requested.".to_owned()));
        assert_eq!(told(&api), history, "{gate}, resumed");
    }
}

#[tokio::test]
async fn a_turn_is_on_disk_when_its_result_is_told() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    for _ in 0..3 {
        let mut cli = Cli::claude(&home, &home.work(), &[]);
        let (session, anchor) = claude_turn(&mut cli, "one [[say:r1]]").await;
        cli.kill().await;
        let mut cli = Cli::claude(&home, &home.work(), &["--resume", &session, "--resume-session-at", &anchor]);
        claude_turn(&mut cli, "two [[say:r2]]").await;
        assert_eq!(told(&api), said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", "two [[say:r2]]")]));
    }
}

#[tokio::test]
async fn killed_before_its_answer_a_prompt_may_or_may_not_stay_and_a_fork_at_the_anchor_is_always_right() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    for gate in ["gate_before", "gate"] {
        let text = format!("two [[{gate}:{gate}]] [[say:partial and the rest]]");
        let mut cli = Cli::claude(&home, &home.work(), &[]);
        let (session, anchor) = claude_turn(&mut cli, "one [[say:r1]]").await;
        cli.prompt(&uuid(), &text).await;
        api.wait_gate(gate).await;
        cli.kill().await;

        claude_turn(&mut forked(&home, &session, &anchor, &uuid()), "three [[say:r3]]").await;
        let clean = said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", "three [[say:r3]]")]);
        assert_eq!(told(&api), clean, "{gate}, forked");
        // Its file is written lazily. Where the prompt is in it, Claude Code makes up an answer.
        claude_turn(&mut resumed(&home, &session), "three [[say:r3]]").await;
        let mut kept = clean[..2].to_vec();
        kept.extend(said(&[("user", &text), ("assistant", "No response requested."), ("user", "three [[say:r3]]")]));
        let found = told(&api);
        assert!(found == kept || found == clean, "{gate}, resumed: {found:?}");
    }
}

#[tokio::test]
async fn a_fork_at_the_anchor_rewinds_for_good_and_a_rewind_in_place_does_not() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let first = "one [[think:hm]] [[tool:bash:echo x]] [[say:r1]]";
    let mut cli = Cli::claude(&home, &home.work(), &["--allowedTools", "Bash"]);
    let (session, anchor) = claude_turn(&mut cli, first).await;
    cli.prompt(&uuid(), "two [[error:400]]").await;
    cli.result().await;
    cli.close().await;
    let reply = [
        ("reasoning", "hm"),
        ("call", "Bash {\"command\":\"echo x\"}"),
        ("result", "x"),
        ("reasoning", "hm"),
        ("assistant", "r1"),
    ];
    let mut clean = said(&[("user", first)]);
    clean.extend(said(&reply));

    let new = uuid();
    let mut cli = forked(&home, &session, &anchor, &new);
    let (id, _) = claude_turn(&mut cli, "again [[say:r2]]").await;
    assert_eq!(id, new);
    cli.kill().await;
    claude_turn(&mut resumed(&home, &new), "three [[say:r3]]").await;
    let mut after = clean.clone();
    after.extend(said(&[("user", "again [[say:r2]]"), ("assistant", "r2"), ("user", "three [[say:r3]]")]));
    assert_eq!(told(&api), after, "forked, killed, resumed");

    // In place it looks right …
    let mut cli = Cli::claude(&home, &home.work(), &["--resume", &session, "--resume-session-at", &anchor]);
    let (id, lost) = claude_turn(&mut cli, "again [[say:r2]]").await;
    assert_eq!(id, session);
    assert_eq!(told(&api), after[..after.len() - 2], "rewound in place");
    cli.kill().await;
    // … but killed, the session goes back to the branch with the failed prompt, and the new turn cannot be reached.
    let mut cli = Cli::claude(&home, &home.work(), &["--resume", &session, "--resume-session-at", &lost]);
    cli.prompt(&uuid(), "three").await;
    assert_eq!(cli.result().await["errors"], json!([format!("No message found with message.uuid of: {lost}")]));
    claude_turn(&mut resumed(&home, &session), "three [[say:r3]]").await;
    clean.extend(said(&[("user", "two [[error:400]]"), ("user", "three [[say:r3]]")]));
    assert_eq!(told(&api), clean, "rewound in place, killed, resumed");
}

#[tokio::test]
async fn a_session_without_an_answer_has_no_anchor_and_its_id_is_used_up() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let id = uuid();
    let mut cli = Cli::claude(&home, &home.work(), &["--session-id", &id]);
    cli.prompt(&uuid(), "one [[error:400]]").await;
    cli.result().await;
    cli.close().await;
    let (status, stderr) = Cli::claude(&home, &home.work(), &["--session-id", &id]).close().await;
    assert_eq!(
        (status.code(), stderr.trim()),
        (Some(1), format!("Error: Session ID {id} is already in use.").as_str())
    );
}

#[tokio::test]
async fn a_prompts_uuid_is_idempotent_only_once_it_was_answered() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let (answered, failed) = (uuid(), uuid());
    let mut cli = Cli::claude(&home, &home.work(), &[]);
    cli.prompt(&answered, "one [[say:r1]]").await;
    let session = cli.result().await["session_id"].as_str().expect("an id").to_owned();
    cli.close().await;
    // Answered: a new process says "completed" and asks nobody.
    let mut cli = resumed(&home, &session);
    cli.prompt(&answered, "one [[say:r1]]").await;
    cli.until(|line| line["command_uuid"] == answered.as_str() && line["state"] == "completed").await;
    assert_eq!(api.turns().len(), 1);

    // Failed: the same process says nothing at all.
    cli.prompt(&failed, "two [[error:400]]").await;
    cli.until(|line| line["command_uuid"] == failed.as_str() && line["state"] == "cancelled").await;
    let before = cli.seen().len();
    cli.prompt(&failed, "two [[error:400]]").await;
    cli.control(json!({"subtype": "mcp_status"})).await;
    let lines = &cli.seen()[before..];
    assert!(lines.iter().all(|line| line["type"] == "control_response"), "{lines:?}");
    let asked = api.turns().len();
    cli.close().await;
    assert_eq!(api.turns().len(), asked);

    // Taken and killed: a new process runs it, and it stands twice in what the model is told.
    let killed = uuid();
    let text = "three [[gate_before:killed]] [[say:r3]]";
    let mut cli = resumed(&home, &session);
    cli.prompt(&killed, text).await;
    api.wait_gate("killed").await;
    wait_on_disk(&home, &session, &killed).await;
    cli.kill().await;
    api.open_gate("killed");
    let mut cli = resumed(&home, &session);
    cli.prompt(&killed, text).await;
    cli.result().await;
    assert_eq!(told(&api).iter().filter(|(_, said)| said == text).count(), 2);
}

/// Waits until the session's file holds a prompt; it is written lazily, and nothing on stdout says when.
async fn wait_on_disk(home: &AgentHome, session: &str, prompt: &str) {
    let find = || {
        let folders = std::fs::read_dir(home.claude_home().join("projects")).expect("a folder");
        let mut files = folders.map(|folder| folder.expect("an entry").path().join(format!("{session}.jsonl")));
        files.any(|file| {
            std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("\"uuid\":\"{prompt}\"")))
        })
    };
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(10));
    let found = async {
        while !find() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(changeover_tests::fake_api::PATIENCE, found).await.expect("the prompt is written");
}

#[tokio::test]
async fn a_session_that_is_gone_is_told_in_these_words() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::claude(&home, &home.work(), &[]);
    let (session, _) = claude_turn(&mut cli, "one [[say:r1]]").await;
    cli.close().await;

    // From another folder it is not gone.
    let other = home.root().join("other");
    std::fs::create_dir(&other).expect("a folder");
    let mut cli = Cli::claude(&home, &other, &["--resume", &session]);
    claude_turn(&mut cli, "two [[say:r2]]").await;
    assert_eq!(told(&api), said(&[("user", "one [[say:r1]]"), ("assistant", "r1"), ("user", "two [[say:r2]]")]));
    cli.close().await;
    // Nor is it for an error of another kind.
    let broken = Cli::claude(&home, &home.work(), &["--resume", &session, "--mcp-config", "/nowhere.json"]);
    let (status, stderr) = broken.close().await;
    assert_eq!(status.code(), Some(1));
    assert!(stderr.contains("Invalid MCP configuration") && !stderr.contains("No conversation found"), "{stderr}");

    std::fs::remove_dir_all(home.claude_home().join("projects")).expect("it is removed");
    let not_found = |id: &str| format!("No conversation found with session ID: {id}");
    let title = "Error: --resume requires a valid session ID or session title when used with --print. \
                 Usage: claude -p --resume <session-id|title>. \
                 Provided value \"nonsense\" is not a UUID and does not match any session title.";
    let unknown = uuid();
    for (id, words) in
        [(&session, not_found(&session)), (&unknown, not_found(&unknown)), (&"nonsense".to_owned(), title.to_owned())]
    {
        let mut cli = resumed(&home, id);
        cli.prompt(&uuid(), "three").await;
        let result = cli.result().await;
        assert_eq!((&result["subtype"], &result["errors"]), (&json!("error_during_execution"), &json!([words])));
        let (status, stderr) = cli.close().await;
        assert_eq!((status.code(), stderr.trim()), (Some(1), words.as_str()));
        // Without a prompt there is no result line.
        let mut cli = resumed(&home, id);
        cli.send(&json!({"type": "control_request", "request_id": "x", "request": {"subtype": "initialize"}})).await;
        let (status, stderr) = cli.close().await;
        assert_eq!((status.code(), stderr.trim()), (Some(1), words.as_str()));
    }
    assert_eq!(api.strays(), Vec::<String>::new());
}
