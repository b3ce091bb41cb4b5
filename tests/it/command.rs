//! FC6: a command's exit code and output are in the transcript and cross to the other agent; one that still runs says so, and
//! is completed later.

use std::collections::BTreeSet;

use changeover_core::{
    message::Message,
    part::{PartBody, WorkStatus},
    provider::ProviderId,
};
use changeover_engine::api::types::EventBody;
use changeover_tests::{
    agents::AgentHome,
    app::App,
    fake_api::FakeApi,
    talk::{Talk, nonce},
};

/// The commands of a message: line, status, exit code, output.
fn commands(message: &Message) -> Vec<(String, WorkStatus, Option<i32>, String)> {
    let command = |body: &PartBody| match body {
        PartBody::Command { command, status, exit_code, output } => {
            Some((command.clone(), *status, *exit_code, output.clone()))
        }
        _ => None,
    };
    message.parts.iter().filter_map(|part| command(&part.body)).collect()
}

/// Three commands of one agent, as the transcript has them and as the other is told.
async fn crosses(from: ProviderId, to: ProviderId, killed: i32) {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = Talk::new(&api, App::start(&home).await, &home.work()).await;
    let ways = [
        ("echo err-or >&2; exit 0", "\nerr-or", 0, WorkStatus::Completed),
        ("exit 3", "", 3, WorkStatus::Failed),
        ("kill -9 $$", "", killed, WorkStatus::Failed),
    ];
    let ways = ways.map(|(then, more, code, status)| {
        let n = nonce();
        (format!("x={n}; echo \"got-$x-end\"; {then}"), format!("got-{n}-end{more}"), code, status)
    });
    let calls: String = ways.iter().map(|(line, ..)| format!("[[tool:bash:{line}]]\n")).collect();
    talk.say(&from, &calls).await;
    let ran = commands(&talk.app.last_reply(talk.thread).await);
    // Which of its two pipes is read first is the CLI's affair.
    let lines = |output: &str| output.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let as_run: Vec<_> = ran.iter().map(|(l, s, c, o)| (l.clone(), lines(o), *c, *s)).collect();
    let expected: Vec<_> = ways.iter().map(|(l, o, c, s)| (l.clone(), lines(o), Some(*c), *s)).collect();
    assert_eq!(as_run, expected);
    let told = talk.say(&to, "what came of it?").await.preview.text.expect("a handoff");
    for ((line, .., code, _), (.., output)) in ways.iter().zip(&ran) {
        let item = format!("Command: {line}\nExit code: {code}\nOutput:\n{output}");
        assert_eq!(told.matches(&item).count(), 1, "{item}\n--- is not once in:\n{told}");
    }
    talk.told_once().await;
    talk.app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc6_codex_commands_cross_to_claude() {
    crosses(ProviderId::codex(), ProviderId::claude(), 137).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc6_claude_commands_cross_to_codex() {
    // Claude Code itself says 1 of a shell that a signal ended.
    crosses(ProviderId::claude(), ProviderId::codex(), 1).await;
}

/// Codex goes on without a command that takes long: its turn ends while the command runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc6_a_command_that_still_runs_says_so_and_is_completed_later() {
    let (api, claude, codex) = (FakeApi::start().await, ProviderId::claude(), ProviderId::codex());
    let home = AgentHome::new(&api);
    let mut talk = Talk::new(&api, App::start(&home).await, &home.work()).await;
    let pipe = home.work().join("go");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let n = nonce();
    // It ends when somebody writes into the pipe, and not before.
    let line = format!("x={n}; echo \"begun-$x\"; read word < go; echo \"$word-$x\"; exit 4");
    let call = serde_json::json!({"cmd": line, "yield_time_ms": 500});
    talk.say(&codex, &format!("[[call:exec_command:{call}]]")).await;
    let reply = talk.app.last_reply(talk.thread).await;
    // Codex may keep a running command's first bytes to itself until the end.
    let so_far = commands(&reply).first().map(|(.., output)| output.clone()).unwrap_or_default();
    assert!(format!("begun-{n}\n").starts_with(&so_far), "{so_far:?}");
    let running = (line.clone(), WorkStatus::Running, None, so_far.clone());
    assert_eq!(commands(&reply), [running], "the turn is over, the command is not");

    let told = talk.say(&claude, "what came of it?").await.preview.text.expect("a handoff");
    let item = format!("Command: {line}\nExit code: still running\nOutput:\n{so_far}");
    let item = item.trim_end();
    assert_eq!(told.matches(item).count(), 1, "{item}\n--- is not once in:\n{told}");

    let mark = talk.app.mark();
    let writing = tokio::task::spawn_blocking(move || std::fs::write(pipe, "ended\n"));
    let over = |body: &EventBody| match body {
        EventBody::PartStatus { message_id, status, exit_code, .. } => {
            *message_id == reply.id && *status == WorkStatus::Failed && *exit_code == Some(4)
        }
        EventBody::Part { message_id, part } => {
            *message_id == reply.id && matches!(&part.body, PartBody::Command { exit_code: Some(4), .. })
        }
        _ => false,
    };
    talk.app.event_from(mark, |event| over(&event.body)).await;
    writing.await.expect("it wrote").expect("into the pipe");
    let messages = talk.app.messages(talk.thread).await;
    let reply = messages.into_iter().find(|message| message.id == reply.id).expect("the reply");
    let ended = (line.clone(), WorkStatus::Failed, Some(4), format!("begun-{n}\nended-{n}\n"));
    assert_eq!(commands(&reply), [ended]);

    // Whoever is told from now on is told how it ended.
    let preview = talk.app.preview(talk.thread, &ProviderId::practice()).await.text.expect("a handoff");
    let item = format!("Command: {line}\nExit code: 4\nOutput:\nbegun-{n}\nended-{n}");
    assert_eq!(preview.matches(&item).count(), 1, "{item}\n--- is not once in:\n{preview}");
    talk.say(&codex, "and now?").await;
    talk.told_once().await;
    assert_eq!(api.strays(), [""; 0]);
    talk.app.stop().await;
}
