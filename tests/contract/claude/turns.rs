//! What a turn tells (T2, S2, R4, G3).

use changeover_core::{
    approval::ApprovalSubject,
    event::{Ended, RuntimeEvent as E},
    part::WorkStatus,
    provider::ApprovalMode,
};
use changeover_runtime::session::{Answer, SessionSpec};
use changeover_tests::{agents::AgentHome, fake_api::FakeApi};

use super::bench::{commands, lives, open, open_with, reply, resume, spec};

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

/// T6, S2: what a person writes is no command of the CLI's: it goes to the model as it is, byte for byte, in this process and
/// in one that resumes the session, and nothing of the history is forgotten.
#[tokio::test]
async fn a_message_that_begins_with_a_slash_is_a_message() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = open(&home).await;
    talk.completed("first").await;
    let id = talk.id();
    let said = ["/clear", "/compact now\nplease", "/help", "/etc/hosts says what?", "/nosuch thing ", " /clear"];
    for text in said {
        let events = talk.completed(text).await;
        assert_eq!(reply(&events), format!("echo: {}", text.trim()), "the model answers");
        assert!(!events.iter().any(|e| matches!(e, E::Raw { .. } | E::Compacted)), "{events:#?}");
    }
    assert_eq!(talk.id(), id);
    let anchor = talk.anchor();
    talk.session.close().await;
    let mut talk = open_with(resume(&home, &id, Some(&anchor), false)).await;
    talk.completed("/last").await;
    let turns = api.turns();
    let last = turns.last().expect("a request");
    for text in ["first"].into_iter().chain(said).chain(["/last"]) {
        assert_eq!(
            last.texts("user").iter().filter(|told| **told == text).count(),
            1,
            "{text:?}: {:#?}",
            last.messages()
        );
    }
}
