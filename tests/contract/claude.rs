//! The Claude Code adapter on the real Claude Code (R2–R6, T2, T5, T9, G2, G3, M1, M2).

use std::{path::Path, sync::Arc, time::Duration};

use changeover_core::{
    approval::ApprovalSubject,
    event::{Ended, RuntimeEvent as E},
    failure::FailureKind,
    id::PromptId,
    part::WorkStatus,
    provider::ApprovalMode,
};
use changeover_runtime::{
    claude::Claude,
    session::{AgentRuntime, Answer, Login, McpAccess, Prompt, Resume, Session, SessionSpec},
};
use changeover_tests::{
    agents::{Agent, AgentHome, FAKE_KEY},
    fake_api::{Failure as ApiFailure, FakeApi, Rule},
};
use tokio::{sync::mpsc, time::timeout};
use uuid::Uuid;

use crate::drive::{said, told};

/// Far above what anything here takes: a hang fails, a slow machine does not.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open session and all that it has told.
struct Talk {
    session: Arc<dyn Session>,
    events: mpsc::Receiver<E>,
    seen: Vec<E>,
}

fn spec(home: &AgentHome) -> SessionSpec {
    SessionSpec {
        folder: home.work(),
        resume: None,
        model: None,
        effort: None,
        mode: ApprovalMode::Ask,
        mcp: None,
        env: home.env().clone(),
    }
}

async fn open(home: &AgentHome) -> Talk {
    open_with(spec(home)).await
}

async fn open_with(spec: SessionSpec) -> Talk {
    let opened = Claude::default().open(spec).await.unwrap_or_else(|failure| panic!("{failure:?}"));
    Talk { session: opened.session, events: opened.events, seen: Vec::new() }
}

fn resume(home: &AgentHome, session_id: &str, anchor: Option<&str>, rewind: bool) -> SessionSpec {
    let anchor = anchor.map(str::to_owned);
    SessionSpec { resume: Some(Resume { session_id: session_id.to_owned(), anchor, rewind }), ..spec(home) }
}

impl Talk {
    async fn send(&self, text: &str) {
        let prompt = Prompt { id: PromptId(Uuid::new_v4()), text: text.to_owned() };
        self.session.send(prompt).await.expect("the bytes leave us");
    }

    /// Reads on to an event; the place of it in `seen`.
    async fn until(&mut self, what: &str, wanted: impl Fn(&E) -> bool) -> E {
        loop {
            let event = match timeout(PATIENCE, self.events.recv()).await {
                Ok(Some(event)) => event,
                Ok(None) => panic!("the events ended before {what}: {:#?}", self.seen),
                Err(_) => panic!("no {what} in {PATIENCE:?}: {:#?}", self.seen),
            };
            self.seen.push(event.clone());
            if wanted(&event) {
                return event;
            }
        }
    }

    /// Reads on to the turn's end, allowing whatever is asked.
    async fn ended(&mut self) -> Ended {
        loop {
            match self.until("the end", |e| matches!(e, E::Ended(_) | E::ApprovalWanted(_))).await {
                E::Ended(ended) => return ended,
                E::ApprovalWanted(request) => self.answer(&request.key, Answer::Allow).await,
                _ => unreachable!(),
            }
        }
    }

    async fn answer(&self, key: &str, answer: Answer) {
        self.session.answer(key.to_owned(), answer).await.expect("answered");
    }

    /// A prompt to its end: what it told.
    async fn turn(&mut self, text: &str) -> (Vec<E>, Ended) {
        let from = self.seen.len();
        self.send(text).await;
        let ended = self.ended().await;
        (self.seen[from..].to_vec(), ended)
    }

    async fn completed(&mut self, text: &str) -> Vec<E> {
        let (events, ended) = self.turn(text).await;
        assert_eq!(ended, Ended::Completed, "{events:#?}");
        events
    }

    async fn asked(&mut self) -> changeover_core::approval::ApprovalRequest {
        match self.until("an approval", |e| matches!(e, E::ApprovalWanted(_))).await {
            E::ApprovalWanted(request) => request,
            _ => unreachable!(),
        }
    }

    fn id(&self) -> String {
        let ids = self.seen.iter().rev();
        let id = ids.filter_map(|e| if let E::SessionKnown { session_id, .. } = e { Some(session_id) } else { None });
        id.clone().next().expect("a session id").clone()
    }

    fn anchor(&self) -> String {
        let found = self.seen.iter().rev().find_map(|e| if let E::Anchor { anchor } = e { Some(anchor) } else { None });
        found.expect("an anchor").clone()
    }
}

/// The reply's text as a reader has it in the end: deltas joined, whole texts put in their place, void ones left out.
fn reply(events: &[E]) -> String {
    let mut items: Vec<(String, String)> = Vec::new();
    for event in events {
        match event {
            E::Text { item, delta } => match items.iter_mut().find(|(key, _)| key == item) {
                Some((_, text)) => text.push_str(delta),
                None => items.push((item.clone(), delta.clone())),
            },
            E::Whole { item, reasoning: false, text } => {
                let known = items.iter_mut().find(|(key, _)| key == item).expect("a whole text was begun");
                known.1.clone_from(text);
            }
            E::Superseded { items: void } => items.retain(|(key, _)| !void.contains(key)),
            _ => {}
        }
    }
    items.into_iter().map(|(_, text)| text).collect()
}

type Ran = (String, WorkStatus, Option<i32>, String);

fn commands(events: &[E]) -> Vec<Ran> {
    let mut ran: Vec<(String, Ran)> = Vec::new();
    for event in events {
        if let E::Command { item, command, status, exit_code, output } = event {
            let now = (command.clone(), *status, *exit_code, output.clone().unwrap_or_default());
            match ran.iter_mut().find(|(key, _)| key == item) {
                Some((_, known)) => *known = now,
                None => ran.push((item.clone(), now)),
            }
        }
    }
    ran.into_iter().map(|(_, ran)| ran).collect()
}

fn failed(ended: Ended) -> changeover_core::failure::Failure {
    match ended {
        Ended::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

/// Whether a process with this in its command line and this folder as its own lives.
fn lives(folder: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let there = processes.filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder));
    there
        .map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ")
        })
        .collect()
}

async fn exists(file: &Path) {
    let wait = async {
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{} never came", file.display()));
}

#[tokio::test]
async fn a_turn_is_taken_then_answered_with_reasoning_text_and_context() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    let events =
        talk.completed("hello [[think:let me see]] [[say:Grüße, 世界!\n\n```\ncode\n```]] [[usage:1000:50]]").await;
    let place = |wanted: &dyn Fn(&E) -> bool| events.iter().position(wanted).expect("told");
    let known = place(&|e| matches!(e, E::SessionKnown { .. }));
    let taken = place(&|e| *e == E::Taken);
    let requested = place(&|e| *e == E::Requested);
    let thought = place(&|e| matches!(e, E::Reasoning { .. }));
    let said = place(&|e| matches!(e, E::Text { .. }));
    assert!(known < taken && taken < requested && requested < thought && thought < said, "{events:#?}");
    assert_eq!(reply(&events), "Grüße, 世界!\n\n```\ncode\n```");
    let thoughts: Vec<&E> = events.iter().filter(|e| matches!(e, E::Whole { reasoning: true, .. })).collect();
    assert!(matches!(thoughts[..], [E::Whole { text, .. }] if text == "let me see"), "{thoughts:?}");
    // G3: input and output of the last request; the window comes with the result.
    let figures: Vec<(u64, Option<u64>)> =
        events.iter().filter_map(|e| if let E::Context(f) = e { Some((f.used, f.window)) } else { None }).collect();
    assert_eq!(figures.last(), Some(&(1050, Some(1_000_000))));
    assert!(matches!(events[events.len() - 2..], [E::Anchor { .. }, E::Ended(Ended::Completed)]));
    assert!(!events.iter().any(|e| matches!(e, E::Raw { .. } | E::Superseded { .. })), "{events:#?}");
    // A second turn in the same process, and its figure is its own last request's, not a sum.
    let events = talk.completed("two [[tool:bash:ls]] [[say:r2]] [[usage:2000:30]]").await;
    let figures: Vec<u64> =
        events.iter().filter_map(|e| if let E::Context(f) = e { Some(f.used) } else { None }).collect();
    assert_eq!(figures, [2001, 2030, 2001, 2030]);
    talk.session.close().await;
    assert_eq!(lives(&home.work()), Vec::<String>::new());
    assert_eq!(api.strays(), Vec::<String>::new());
}

#[tokio::test]
async fn commands_are_told_with_exit_code_and_output_and_asked_for_in_full() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.send("go [[tool:bash:touch a; echo out; echo err >&2; exit 3]] [[tool:bash:touch b; echo fine]] [[tool:bash:touch c; sleep 99 & kill -9 $!; wait $!]] [[say:done]]").await;
    for command in
        ["touch a; echo out; echo err >&2; exit 3", "touch b; echo fine", "touch c; sleep 99 & kill -9 $!; wait $!"]
    {
        let request = talk.asked().await;
        assert_eq!(request.subject, ApprovalSubject::Command { command: command.into(), cwd: None });
        assert!(request.item.is_some());
        talk.answer(&request.key, Answer::Allow).await;
    }
    assert_eq!(talk.ended().await, Ended::Completed);
    let ran = commands(&talk.seen);
    let row = |command: &str, status, code, output: &str| (command.to_owned(), status, Some(code), output.to_owned());
    assert_eq!(ran[0], row("touch a; echo out; echo err >&2; exit 3", WorkStatus::Failed, 3, "out\nerr"));
    assert_eq!(ran[1], row("touch b; echo fine", WorkStatus::Completed, 0, "fine"));
    assert_eq!((ran[2].1, ran[2].2), (WorkStatus::Failed, Some(137)));
    assert!(["a", "b", "c"].iter().all(|file| home.work().join(file).exists()));
}

#[tokio::test]
async fn a_denied_command_never_ran_and_the_turn_goes_on() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.send("go [[tool:bash:touch forbidden]] [[say:as you wish]]").await;
    let request = talk.asked().await;
    talk.answer(&request.key, Answer::Deny).await;
    assert_eq!(talk.ended().await, Ended::Completed);
    assert_eq!(commands(&talk.seen), [("touch forbidden".into(), WorkStatus::Declined, None, String::new())]);
    assert_eq!(reply(&talk.seen), "as you wish");
    assert!(!home.work().join("forbidden").exists());
    // A key that is answered already is no error and does nothing.
    talk.answer(&request.key, Answer::Allow).await;
}

#[tokio::test]
async fn edits_ask_with_their_diff_and_go_through_unasked_in_the_edits_mode() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let file = home.work().join("f.txt");
    let path = file.to_str().expect("text");
    let write = format!(r#"[[call:Write:{{"file_path":"{path}","content":"a\nb\nc\n"}}]]"#);
    let edit = format!(r#"[[call:Edit:{{"file_path":"{path}","old_string":"b","new_string":"B"}}]]"#);
    let mut talk = open(&home).await;
    talk.send(&format!("{write} {edit} [[say:ok]]")).await;
    let request = talk.asked().await;
    let ApprovalSubject::Edit { files } = &request.subject else { panic!("{request:?}") };
    assert_eq!(files[0].path, path);
    assert!(files[0].diff.ends_with("@@ -0,0 +1,3 @@\n+a\n+b\n+c\n"), "{}", files[0].diff);
    talk.answer(&request.key, Answer::Allow).await;
    let request = talk.asked().await;
    let ApprovalSubject::Edit { files } = &request.subject else { panic!("{request:?}") };
    assert!(files[0].diff.ends_with("-b\n+B\n"), "{}", files[0].diff);
    talk.answer(&request.key, Answer::Allow).await;
    assert_eq!(talk.ended().await, Ended::Completed);
    let done = talk.seen.iter().rev().find_map(|e| match e {
        E::FileChange { files, status: WorkStatus::Completed, .. } => Some(files[0].diff.clone()),
        _ => None,
    });
    assert!(done.as_ref().is_some_and(|d| d.ends_with("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")), "{done:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "a\nB\nc\n");

    let mut talk = open_with(SessionSpec { mode: ApprovalMode::Edits, ..spec(&home) }).await;
    let other = home.work().join("g.txt");
    let write = format!(r#"[[call:Write:{{"file_path":"{}","content":"x\n"}}]]"#, other.display());
    talk.send(&format!("{write} [[tool:bash:./unknown-program]] [[say:ok]]")).await;
    let request = talk.asked().await;
    assert!(matches!(request.subject, ApprovalSubject::Command { .. }), "only the command asks: {request:?}");
    assert!(other.exists());
    talk.answer(&request.key, Answer::Deny).await;
    assert_eq!(talk.ended().await, Ended::Completed);
}

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
async fn an_interrupt_takes_an_open_question_back() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.send("one [[tool:bash:touch asked]]").await;
    let request = talk.asked().await;
    talk.session.interrupt().await.expect("asked");
    talk.until("a withdrawal", |e| *e == E::ApprovalWithdrawn { key: request.key.clone() }).await;
    assert_eq!(talk.ended().await, Ended::Interrupted);
    assert!(!home.work().join("asked").exists());
}

#[tokio::test]
async fn a_session_goes_on_in_a_new_process_and_back_to_an_anchor_for_good() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.completed("one [[tool:bash:ls]] [[say:r1]]").await;
    let (id, first) = (talk.id(), talk.anchor());
    talk.session.close().await;
    let mut talk = open_with(resume(&home, &id, Some(&first), false)).await;
    let (_, ended) = talk.turn("two [[error:400]]").await;
    assert_eq!(failed(ended).kind, FailureKind::Rejected);
    assert_eq!(talk.id(), id);
    talk.session.kill().await;
    let mut talk = open_with(resume(&home, &id, Some(&first), true)).await;
    talk.completed("three [[say:r3]]").await;
    let (branch, third) = (talk.id(), talk.anchor());
    assert_ne!(branch, id);
    // Even killed, it does not fall back to the branch with the failed prompt.
    talk.session.kill().await;
    let mut talk = open_with(resume(&home, &branch, Some(&third), false)).await;
    talk.completed("four [[say:r4]]").await;
    let spoken: Vec<(String, String)> =
        told(&api).into_iter().filter(|(role, _)| role == "user" || role == "assistant").collect();
    let wanted = said(&[
        ("user", "one [[tool:bash:ls]] [[say:r1]]"),
        ("assistant", "r1"),
        ("user", "three [[say:r3]]"),
        ("assistant", "r3"),
        ("user", "four [[say:r4]]"),
    ]);
    assert_eq!(spoken, wanted);
}

#[tokio::test]
async fn only_a_session_that_is_not_there_is_gone() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let claude = Claude::default();
    let kind = async |spec: SessionSpec| match claude.open(spec).await {
        Ok(_) => None,
        Err(failure) => Some(failure.kind),
    };
    let unknown = Uuid::new_v4().to_string();
    assert_eq!(kind(resume(&home, &unknown, None, false)).await, Some(FailureKind::SessionGone));
    assert_eq!(kind(resume(&home, "no-such-title", None, false)).await, Some(FailureKind::SessionGone));
    let mut talk = open(&home).await;
    talk.completed("one [[say:r1]]").await;
    let (id, anchor) = (talk.id(), talk.anchor());
    talk.session.close().await;
    for rewind in [false, true] {
        assert_eq!(kind(resume(&home, &id, Some(&unknown), rewind)).await, Some(FailureKind::SessionGone));
    }
    // Lookalikes: it cannot open, or not answer, and the session is as it was.
    let mcp = Some(McpAccess { url: "not a url".into(), token: "t".into() });
    assert_ne!(kind(SessionSpec { mcp, ..resume(&home, &id, None, false) }).await, Some(FailureKind::SessionGone));
    let spec_of = resume(&home, &id, Some(&anchor), false);
    let effort = Some("no-such-effort".into());
    assert_ne!(kind(SessionSpec { effort, ..spec_of.clone() }).await, Some(FailureKind::SessionGone));
    let mut talk = open_with(spec_of.clone()).await;
    api.rule(Rule { error: ApiFailure::Status(500), count: 2, ..Rule::default() });
    let (_, ended) = talk.turn("No conversation found with session ID").await;
    assert_eq!(failed(ended).kind, FailureKind::Unavailable);
    api.clear_rules();
    talk.session.close().await;
    assert_eq!(kind(spec_of.clone()).await, None);
    // Its files are gone.
    std::fs::remove_dir_all(home.claude_home().join("projects")).expect("its sessions");
    assert_eq!(kind(spec_of).await, Some(FailureKind::SessionGone));
}

#[tokio::test]
async fn each_error_of_the_api_has_its_kind_and_is_never_an_answer() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    for (error, kind) in [
        ("401", FailureKind::NotLoggedIn),
        ("403", FailureKind::NotLoggedIn),
        ("404", FailureKind::BadModel),
        ("400", FailureKind::Rejected),
        ("429", FailureKind::RateLimited),
        ("500", FailureKind::Unavailable),
        ("529", FailureKind::Unavailable),
        ("refuse", FailureKind::Unavailable),
        ("toolong", FailureKind::Overflow),
    ] {
        let (events, ended) = talk.turn(&format!("x [[error:{error}]] [[retry_after:0]]")).await;
        let failure = failed(ended);
        assert_eq!(failure.kind, kind, "{error}: {failure:?}");
        assert!(events.contains(&E::Taken), "{error}");
        let made = |e: &E| matches!(e, E::Text { .. } | E::Reasoning { .. } | E::Whole { .. } | E::Tool { .. });
        assert!(!events.iter().any(made), "{error}: {events:#?}");
        let retried = events.iter().any(|e| matches!(e, E::Retrying { attempt: 1, max: Some(1), .. }));
        assert_eq!(retried, !matches!(error, "400" | "403" | "404" | "toolong"), "{error}: {events:#?}");
    }
    talk.completed("and now [[say:fine]]").await;
}

#[tokio::test]
async fn a_cut_stream_starts_over_and_what_was_told_of_it_is_void() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    for cut in ["drop", "midstream"] {
        let events = talk.completed(&format!("{cut} [[error:{cut}:1]] [[say:the whole answer]]")).await;
        assert_eq!(reply(&events), "the whole answer", "{events:#?}");
        let void: Vec<&E> = events.iter().filter(|e| matches!(e, E::Superseded { .. })).collect();
        match (cut, &void[..]) {
            (_, [E::Superseded { items }]) => assert_eq!(items.len(), 1),
            // A connection that is torn down may take what was sent last with it.
            ("drop", []) => {}
            _ => panic!("{events:#?}"),
        }
    }
    // It fails after a round that stands: what the history keeps is what the reply keeps.
    let prompt = "round [[tool:bash:ls]] [[error_after:1:529]]";
    let (events, ended) = talk.turn(prompt).await;
    assert_eq!(failed(ended).kind, FailureKind::Unavailable);
    assert_eq!(commands(&events).len(), 1);
    talk.completed("next [[say:r]]").await;
    let turns = api.turns();
    let last = turns.last().expect("a request");
    assert_eq!(last.texts("call").len(), 1, "the round of the failed turn: {:?}", last.messages());
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
async fn a_command_in_the_background_ends_after_its_turn_and_the_cli_does_not_go_on_by_itself() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    let command = "touch begun; while ! test -e go; do sleep 0.05; done; echo late; exit 4";
    let call = format!(r#"[[call:Bash:{{"command":"{command}","run_in_background":true}}]]"#);
    let events = talk.completed(&format!("one {call} [[say:it runs]]")).await;
    assert_eq!(commands(&events), [(command.into(), WorkStatus::Running, None, String::new())]);
    std::fs::write(home.work().join("go"), "").expect("a file");
    talk.until("the command's end", |e| matches!(e, E::Command { .. })).await;
    assert_eq!(commands(&talk.seen), [(command.into(), WorkStatus::Failed, Some(4), "late\n".into())]);
    let from = talk.seen.len();
    let events = talk.completed("two [[say:r2]]").await;
    assert_eq!(reply(&events), "r2");
    let speaks = |e: &&E| matches!(e, E::Text { .. } | E::Ended(_));
    let texts: Vec<&E> = talk.seen[from..].iter().filter(speaks).collect();
    assert_eq!(texts.iter().filter(|e| matches!(e, E::Ended(_))).count(), 1, "{texts:?}");
}

#[tokio::test]
async fn a_turn_with_sub_agents_ends_when_their_reports_are_read() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    let call = r#"[[call:Agent:{"description":"look","prompt":"SUBTASK","subagent_type":"general-purpose"}]]"#;
    let events = talk.completed(&format!("one {call} [[say:words]] [[usage:700:7]]")).await;
    let agent = events.iter().rev().find_map(|e| match e {
        E::Tool { name, status, output, .. } if name == "Agent" => Some((*status, output.clone().unwrap_or_default())),
        _ => None,
    });
    let (status, report) = agent.expect("the call");
    assert!(status == WorkStatus::Completed && report.contains("SUBTASK"), "{report}");
    assert!(reply(&events).starts_with("words"));
    let sub = api.turns().iter().filter(|turn| turn.user_text == "SUBTASK").count();
    assert_eq!(sub, 1);
    let figures = events.iter().filter_map(|e| if let E::Context(f) = e { Some(f.used) } else { None });
    assert!(figures.clone().all(|used| used == 701 || used == 707), "{:?}", figures.collect::<Vec<_>>());
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

#[tokio::test]
async fn our_mcp_server_reaches_the_model_and_its_secrets_no_process_list() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let server = crate::mcp::Server::start("very-secret-token").await;
    let mcp = Some(McpAccess { url: server.url(), token: "very-secret-token".into() });
    let mut talk = open_with(SessionSpec { mcp, ..spec(&home) }).await;
    talk.send(r#"one [[call:mcp__changeover__thread_read:{"limit":3}]] [[say:read]]"#).await;
    let end = talk.until("the end", |e| matches!(e, E::Ended(_) | E::ApprovalWanted(_))).await;
    assert_eq!(end, E::Ended(Ended::Completed), "reading asks for no leave");
    let turns = api.turns();
    let tools = turns[0].body["tools"].as_array().expect("tools").clone();
    let named: Vec<&str> = tools.iter().filter_map(|t| t["name"].as_str()).filter(|n| n.starts_with("mcp__")).collect();
    assert_eq!(
        named,
        ["mcp__changeover__thread_list", "mcp__changeover__thread_read", "mcp__changeover__thread_search"]
    );
    assert_eq!(server.calls(), [r#"thread_read {"limit":3}"#]);
    assert!(
        talk.seen
            .iter()
            .any(|e| matches!(e, E::Tool { output: Some(text), .. } if text.contains("page of thread_read")))
    );
    let line = lives(&home.work()).join("\n");
    assert!(
        line.contains("--mcp-config") && !line.contains("very-secret") && !line.contains(&server.port().to_string()),
        "{line}"
    );
}

#[tokio::test]
async fn the_wall_before_the_windows_end_is_lifted_and_nothing_is_compacted() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let model = Some("claude-sonnet-4-5".into());
    let mut talk = open_with(SessionSpec { model, ..spec(&home) }).await;
    let events = talk.completed("one [[say:r1]] [[usage:199000:50]]").await;
    let figure =
        events.iter().rev().find_map(|e| if let E::Context(f) = e { Some(*f) } else { None }).expect("a figure");
    assert_eq!((figure.used, figure.window), (199_050, Some(200_000)));
    let events = talk.completed("two [[say:r2]] [[usage:199500:50]]").await;
    assert!(!events.contains(&E::Compacted));
    let (_, ended) = talk.turn("three [[error:toolong]]").await;
    assert_eq!(failed(ended).kind, FailureKind::Overflow);
    assert!(api.turns().iter().all(|turn| turn.body["model"] == "claude-sonnet-4-5"));
    assert!(!api.requests().iter().any(|r| r.user_text.contains("summary")), "no summary was asked for");
}

#[tokio::test]
async fn it_is_found_with_version_login_and_models_or_told_why_not() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let claude = Claude::default();
    let found = claude.describe(home.env()).await;
    assert_eq!(found.problem, None);
    assert_eq!(found.login, Login::In { method: "API key".into() });
    let version = found.version.expect("a version");
    assert!(version.split('.').count() == 3 && version.bytes().all(|b| b.is_ascii_digit() || b == b'.'), "{version}");
    assert_eq!(found.path.and_then(|p| p.canonicalize().ok()), Some(Agent::Claude.binary()));
    let models = claude.models(home.env()).await.expect("models");
    assert_eq!(models.iter().filter(|m| m.default).count(), 1);
    let opus = models.iter().find(|m| m.id == "opus").expect("opus");
    assert_eq!((opus.name.as_str(), opus.efforts.first().map(String::as_str)), ("Opus", Some("low")));
    // Each is taken as it was offered.
    let spec = SessionSpec { model: Some("haiku".into()), effort: Some("high".into()), ..spec(&home) };
    let mut talk = open_with(spec).await;
    talk.completed("one [[say:r1]]").await;
    let turns = api.turns();
    assert!(turns[0].body["model"].as_str().is_some_and(|model| model.contains("haiku")), "{}", turns[0].body["model"]);
    assert_eq!(turns[0].body["output_config"]["effort"], "high");
    assert_eq!(turns[0].auth.as_deref(), Some(FAKE_KEY));
    assert!(turns[0].body["tools"].as_array().expect("tools").iter().all(|t| t["name"] != "AskUserQuestion"));

    let out = AgentHome::new(&api).logged_out();
    let described = claude.describe(out.env()).await;
    assert!(matches!(described.login, Login::Out { .. }), "{described:?}");
    let refused = claude.open(self::spec(&out)).await.err().expect("it is not logged in");
    assert_eq!(refused.kind, FailureKind::NotLoggedIn);
    std::fs::remove_file(out.bin().join("claude")).expect("a link");
    let missing = claude.describe(out.env()).await;
    assert_eq!((missing.path, missing.problem.map(|p| p.kind)), (None, Some(FailureKind::NotInstalled)));
    let refused = claude.open(self::spec(&out)).await.err().expect("it is not there");
    assert_eq!(refused.kind, FailureKind::NotInstalled);
    claude.pick(Some(Agent::Claude.binary()));
    assert_eq!(claude.describe(out.env()).await.found.as_deref(), Some("picked by hand"));
}
