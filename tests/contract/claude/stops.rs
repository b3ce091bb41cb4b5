//! Every way in which a turn stops (R5, T9).

use std::time::Duration;

use changeover_core::{
    event::{Ended, RuntimeEvent as E},
    failure::FailureKind,
    id::PromptId,
    part::WorkStatus,
};
use changeover_runtime::session::{Answer, Prompt};
use changeover_tests::{
    agents::{Agent, AgentHome},
    fake_api::FakeApi,
};
use tokio::time::timeout;
use uuid::Uuid;

use super::bench::{PATIENCE, commands, exists, lives, open, open_with, resume};
use crate::drive::{said, told};

#[tokio::test]
async fn an_interrupt_keeps_what_was_said_and_the_session_goes_on() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.completed("one [[say:r1]]").await;
    // In the middle of a reply.
    talk.send("two [[gate:g]] [[say:partial and the rest]]").await;
    talk.until("text", |e| matches!(e, E::Text { .. })).await;
    talk.session.interrupt().await.expect("asked");
    assert_eq!(talk.ended().await, Ended::Interrupted);
    let middle = talk.anchor();
    // Before the model made anything.
    talk.send("three [[gate_before:h]]").await;
    api.wait_gate("h").await;
    talk.session.interrupt().await.expect("asked");
    assert_eq!(talk.ended().await, Ended::Interrupted);
    // Before the CLI has even begun with it: it never stands in the history.
    talk.send("never [[say:never]]").await;
    talk.session.interrupt().await.expect("asked");
    let from = talk.seen.len();
    assert_eq!(talk.ended().await, Ended::Interrupted);
    let taken = talk.seen[from..].contains(&E::Taken);
    talk.completed("four [[say:r4]]").await;
    let note = "[Request interrupted by user]";
    let mut history = said(&[
        ("user", "one [[say:r1]]"),
        ("assistant", "r1"),
        ("user", "two [[gate:g]] [[say:partial and the rest]]"),
        ("assistant", "partial"),
        ("user", note),
        ("user", "three [[gate_before:h]]"),
        ("user", note),
    ]);
    if taken {
        history.extend(said(&[("user", "never [[say:never]]"), ("user", note)]));
    }
    history.extend(said(&[("user", "four [[say:r4]]")]));
    assert_eq!(told(&api), history);
    // T9: back to after the reply that was cut off, for good: a session of its own.
    let (old, text) = (talk.id(), "five [[say:r5]]");
    talk.session.close().await;
    let mut talk = open_with(resume(&home, &old, Some(&middle), true)).await;
    talk.completed(text).await;
    history.truncate(5);
    history.extend(said(&[("user", text)]));
    assert_eq!(told(&api), history);
    assert_ne!(talk.id(), old);
}

#[tokio::test]
async fn an_interrupt_ends_a_command_that_ignores_signals() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    let command = "trap '' TERM INT HUP; touch running; while true; do sleep 0.1; done";
    talk.send(&format!("one [[tool:bash:{command}]]")).await;
    let request = talk.asked().await;
    talk.answer(&request.key, Answer::Allow).await;
    exists(&home.work().join("running")).await;
    talk.session.interrupt().await.expect("asked");
    assert_eq!(talk.ended().await, Ended::Interrupted);
    assert_eq!(commands(&talk.seen), [(command.into(), WorkStatus::Interrupted, None, String::new())]);
    talk.completed("two [[say:r2]]").await;
    talk.session.kill().await;
    assert_eq!(lives(&home.work()), Vec::<String>::new());
}

#[tokio::test]
async fn a_killed_cli_is_told_as_exited_and_its_command_does_not_outlive_it() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.send("one [[tool:bash:touch running; sleep 1000]]").await;
    let request = talk.asked().await;
    talk.answer(&request.key, Answer::Allow).await;
    exists(&home.work().join("running")).await;
    // The CLI itself, as a crash would end it; what it started lives on, and is ours to end.
    let own = std::fs::read_dir("/proc").expect("processes").flatten().find(|entry| {
        let exe = std::fs::read_link(entry.path().join("exe"));
        exe.is_ok_and(|exe| exe == Agent::Claude.binary())
            && std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == home.work())
    });
    let pid: i32 = own.expect("it runs").file_name().to_str().expect("text").parse().expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    let exited = talk.until("the exit", |e| matches!(e, E::Exited { .. })).await;
    let E::Exited { failure } = exited else { unreachable!() };
    assert_eq!(failure.kind, FailureKind::Exited);
    assert!(timeout(PATIENCE, talk.events.recv()).await.expect("the end of the events").is_none());
    assert_eq!(commands(&talk.seen)[0].1, WorkStatus::Interrupted);
    assert_eq!(lives(&home.work()), Vec::<String>::new());
    let prompt = Prompt { id: PromptId(Uuid::new_v4()), text: "two".into() };
    assert_eq!(talk.session.send(prompt).await.map_err(|f| f.kind), Err(FailureKind::Exited));
}

#[tokio::test]
async fn dropping_a_session_ends_its_processes() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.send("one [[tool:bash:touch running; sleep 1000]]").await;
    let request = talk.asked().await;
    talk.answer(&request.key, Answer::Allow).await;
    exists(&home.work().join("running")).await;
    drop(talk);
    let gone = async {
        while !lives(&home.work()).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{:?}", lives(&home.work())));
}

#[tokio::test]
async fn an_interrupt_reaches_sub_agents_that_are_still_at_work() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    // The brackets are spelt so that they are the sub-agent's directive, not the prompt's.
    let prompt = r"\u005b\u005bgate_before:sub\u005d\u005d";
    let call =
        format!(r#"[[call:Agent:{{"description":"look","prompt":"{prompt}","subagent_type":"general-purpose"}}]]"#);
    talk.send(&format!("one {call} [[say:words]]")).await;
    talk.until("the model's words", |e| matches!(e, E::Whole { .. })).await;
    api.wait_gate("sub").await;
    talk.session.interrupt().await.expect("asked");
    assert_eq!(talk.ended().await, Ended::Interrupted);
    api.open_gate("sub");
    let agent = talk.seen.iter().rev().find_map(|e| if let E::Tool { status, .. } = e { Some(*status) } else { None });
    assert_eq!(agent, Some(WorkStatus::Interrupted));
    talk.completed("two [[say:r2]]").await;
}
