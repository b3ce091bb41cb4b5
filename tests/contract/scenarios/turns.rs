//! A turn from its prompt to its end: words, commands, leave, interrupts (T2, S2, R4, R5, R8).

use std::time::{Duration, Instant};

use changeover_core::{
    approval::{ApprovalRequest, ApprovalSubject},
    event::{Ended, RuntimeEvent as E},
    failure::FailureKind,
    id::PromptId,
    part::WorkStatus,
    power::Power,
    provider::ApprovalMode,
};
use changeover_runtime::session::{Answer, Login, Prompt, SessionSpec};
use changeover_tests::scenarios::Cell;
use uuid::Uuid;

use super::stand::Stand;
use crate::talk::{Talk, commands, eventually, exists, reply};

/// R5: ask, terminate, kill, in all.
const IN_TIME: Duration = Duration::from_secs(3);

/// Found, opened, asked once; and then nothing of it is left.
pub async fn start(stand: &Stand) -> Cell {
    let found = stand.runtime.describe(&stand.spec().env).await;
    assert_eq!(found.problem, None);
    assert!(found.path.is_some() && found.version.is_some() && !matches!(found.login, Login::Out { .. }), "{found:?}");
    let mut talk = stand.open(stand.spec()).await;
    let line = stand.line(1);
    let from = talk.seen.len();
    let events = talk.completed(&line.prompt).await;
    assert_eq!(reply(&events), line.reply);
    let place = |what: &str, wanted: &dyn Fn(&E) -> bool| {
        let found: Vec<usize> = (from..talk.seen.len()).filter(|at| wanted(&talk.seen[*at])).collect();
        assert!(!found.is_empty(), "no {what}: {:#?}", talk.seen);
        found
    };
    // T2: taken once, before the model's first word; ended once, last.
    let taken = place("sign that it was taken", &|e| *e == E::Taken);
    let said = place("word", &|e| matches!(e, E::Text { .. }));
    let ended = place("end", &|e| matches!(e, E::Ended(_)));
    assert_eq!((taken.len(), ended.as_slice()), (1, &[talk.seen.len() - 1][..]), "{:#?}", talk.seen);
    assert!(taken[0] < said[0], "{:#?}", talk.seen);
    assert!(!talk.seen.iter().any(|e| matches!(e, E::Raw { .. } | E::Superseded { .. })), "{:#?}", talk.seen);
    assert!(!talk.id().is_empty());
    if stand.has_model() {
        assert_eq!(stand.requests(), 1);
    }
    stand.heard(&mut talk, &[&line]).await;
    assert!(!stand.processes().is_empty());
    talk.over().await;
    Cell::Works
}

/// The first words are there while the rest is still to come; in the end it is the whole reply, byte for byte.
pub async fn stream(stand: &Stand) -> Cell {
    let mut talk = stand.open(stand.spec()).await;
    if stand.has_model() {
        let whole = "Grüße, 世界!\n\n```\ncode\n```\nand\tso on";
        talk.send(&format!("go [[gate:more]] [[say:{whole}]]")).await;
        talk.until("the first words", |e| matches!(e, E::Text { .. })).await;
        let first = reply(&talk.seen);
        assert!(whole.starts_with(&first) && first.len() < whole.len(), "{first}");
        stand.api.open_gate("more");
        assert_eq!(talk.ended().await, Ended::Completed);
        assert_eq!(reply(&talk.seen), whole);
    } else {
        talk.send("stream 50 every 20 ms").await;
        talk.until("the first words", |e| matches!(e, E::Text { .. })).await;
        let first = Instant::now();
        assert_eq!(talk.ended().await, Ended::Completed);
        assert!(first.elapsed() > Duration::from_millis(500), "it came all at once");
        assert_eq!(reply(&talk.seen), stand.line(50).reply);
    }
    talk.over().await;
    Cell::Works
}

/// Asks for a command and lets it run: what was told of it.
async fn ran(stand: &Stand, command: &str) -> (Talk, ApprovalRequest) {
    let mut talk = stand.open(stand.spec()).await;
    talk.send(&stand.run(command)).await;
    let request = talk.asked().await;
    assert_eq!(request.subject, ApprovalSubject::Command { command: command.to_owned(), cwd: None });
    talk.answer(&request.key, Answer::Allow).await;
    assert_eq!(talk.ended().await, Ended::Completed, "{:#?}", talk.seen);
    (talk, request)
}

/// A command's end as it was told, and as the model was told.
async fn result(stand: &Stand, exit: i32) -> Cell {
    let command =
        if exit == 0 { "touch made; echo out".to_owned() } else { format!("touch made; echo out; exit {exit}") };
    let (talk, _) = ran(stand, &command).await;
    assert!(stand.home.work().join("made").exists());
    if stand.has_model() {
        let turns = stand.api.turns();
        assert!(turns[1].texts("result")[0].contains("out"), "{:?}", turns[1].messages());
        assert_eq!(reply(&talk.seen), "it is done");
    }
    let told = commands(&talk.seen);
    let cannot = stand.cannot(Power::CommandResult);
    let status = if exit == 0 || cannot.is_some() { WorkStatus::Completed } else { WorkStatus::Failed };
    let wanted = match cannot {
        None => (command, status, Some(exit), "out"),
        Some(_) => (command, status, None, ""),
    };
    let told: Vec<_> =
        told.iter().map(|(line, status, exit, out)| (line.clone(), *status, *exit, out.trim())).collect();
    assert_eq!(told, [wanted]);
    talk.over().await;
    cannot.map_or(Cell::Works, Cell::Cannot)
}

pub async fn command_exit_0(stand: &Stand) -> Cell {
    result(stand, 0).await
}

pub async fn command_exit_3(stand: &Stand) -> Cell {
    result(stand, 3).await
}

/// Nothing runs before the answer, also where everything is to be allowed: then the app says yes, and no agent is told to ask
/// nothing. An answer to what is no longer open is no error and does nothing.
pub async fn approve(stand: &Stand) -> Cell {
    for mode in [ApprovalMode::Ask, ApprovalMode::All] {
        approved(stand, mode).await;
    }
    Cell::Works
}

async fn approved(stand: &Stand, mode: ApprovalMode) {
    let mut talk = stand.open(SessionSpec { mode, ..stand.spec() }).await;
    let command = "echo x > made && sed -n 's/x/y/p' made";
    talk.send(&stand.run(command)).await;
    let request = talk.asked().await;
    assert_eq!(request.subject, ApprovalSubject::Command { command: command.to_owned(), cwd: None });
    assert!(!stand.home.work().join("made").exists());
    talk.answer(&request.key, Answer::Allow).await;
    talk.answer(&request.key, Answer::Deny).await;
    talk.answer("no such key", Answer::Allow).await;
    assert_eq!(talk.ended().await, Ended::Completed);
    assert_eq!(commands(&talk.seen).len(), 1);
    assert!(!talk.seen.iter().any(|e| matches!(e, E::ApprovalWithdrawn { .. })), "{:#?}", talk.seen);
    std::fs::remove_file(stand.home.work().join("made")).expect("it ran");
    talk.over().await;
}

/// It never runs, the model is told, and the turn goes on to its end.
pub async fn deny(stand: &Stand) -> Cell {
    let mut talk = stand.open(stand.spec()).await;
    let command = "echo x > forbidden";
    talk.send(&stand.run(command)).await;
    let request = talk.asked().await;
    talk.answer(&request.key, Answer::Deny).await;
    assert_eq!(talk.ended().await, Ended::Completed);
    let told: Vec<_> = commands(&talk.seen).into_iter().map(|(line, status, exit, _)| (line, status, exit)).collect();
    assert_eq!(told, [(command.to_owned(), WorkStatus::Declined, None)]);
    assert!(!stand.home.work().join("forbidden").exists());
    if stand.has_model() {
        assert_eq!(reply(&talk.seen), "it is done");
        assert_eq!(stand.api.turns()[1].texts("result").len(), 1, "the model is told");
    }
    talk.completed(&stand.line(1).prompt).await;
    talk.over().await;
    Cell::Works
}

/// A reply in the middle, an open question, a command that will not end: each stops in time, and the session goes on.
pub async fn interrupt(stand: &Stand) -> Cell {
    let mut talk = stand.open(stand.spec()).await;
    let stopped = async |talk: &mut Talk| {
        let begun = Instant::now();
        talk.session.interrupt().await.expect("asked");
        assert_eq!(talk.ended().await, Ended::Interrupted);
        assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    };
    talk.send(&stand.held("never")).await;
    talk.until("words", |e| matches!(e, E::Text { .. })).await;
    stopped(&mut talk).await;

    talk.send(&stand.run("touch asked")).await;
    let request = talk.asked().await;
    let from = talk.seen.len();
    stopped(&mut talk).await;
    let withdrawn = E::ApprovalWithdrawn { key: request.key.clone() };
    assert!(talk.seen[from..].contains(&withdrawn), "{:#?}", &talk.seen[from..]);
    talk.answer(&request.key, Answer::Allow).await;

    talk.send(&stand.run("touch running; sleep 617")).await;
    let request = talk.asked().await;
    talk.answer(&request.key, Answer::Allow).await;
    exists(&stand.home.work().join("running")).await;
    stopped(&mut talk).await;
    let asleep = || stand.processes().iter().any(|line| line.contains("sleep 617"));
    eventually("the command's end", || !asleep()).await;
    let last = commands(&talk.seen).pop().expect("a command");
    assert_eq!((last.0.as_str(), last.1), ("touch running; sleep 617", WorkStatus::Interrupted));

    let line = stand.line(2);
    assert_eq!(reply(&talk.completed(&line.prompt).await), line.reply);
    assert!(!stand.home.work().join("asked").exists());
    talk.over().await;
    Cell::Works
}

/// R8: refused at once, nothing of it goes to the model, and the turn that runs is as if nothing had been.
pub async fn second_prompt_while_busy(stand: &Stand) -> Cell {
    let mut talk = stand.open(stand.spec()).await;
    talk.send(&stand.held("busy")).await;
    talk.until("words", |e| matches!(e, E::Text { .. })).await;
    let prompt = Prompt { id: PromptId(Uuid::new_v4()), text: "too early".into() };
    let refused = talk.session.send(prompt).await.expect_err("refused");
    assert_eq!(refused.kind, FailureKind::Protocol, "{refused:?}");
    if stand.has_model() {
        stand.api.open_gate("busy");
        assert_eq!(talk.ended().await, Ended::Completed);
        assert_eq!(reply(&talk.seen), "the first words and then the rest of it");
        let line = stand.line(1);
        let held = super::stand::Line { prompt: stand.held("busy"), reply: reply(&talk.seen) };
        talk.completed(&line.prompt).await;
        stand.heard(&mut talk, &[&held, &line]).await;
        assert!(stand.api.requests().iter().all(|request| request.count("too early") == 0));
    } else {
        talk.session.interrupt().await.expect("asked");
        assert_eq!(talk.ended().await, Ended::Interrupted);
        let held = super::stand::Line { prompt: stand.held("busy"), reply: String::new() };
        stand.heard(&mut talk, &[&held]).await;
    }
    talk.over().await;
    Cell::Works
}
