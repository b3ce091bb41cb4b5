//! Frames recorded from Claude Code 2.1.332, taken as they came.

use changeover_core::{
    event::{Ended, RuntimeEvent as E},
    failure::FailureKind,
    part::WorkStatus,
};

use super::{
    normalize::{Conversation, Effect},
    wire,
};
use crate::session::Answer;

/// Plays a recording as the answer to one prompt and writes down what came of it. Neighbouring deltas are joined.
fn replay(recording: &str) -> Vec<String> {
    let mut conversation = Conversation::default();
    conversation.writing("prompt-1".into()).unwrap();
    run(&mut conversation, recording)
}

fn run(conversation: &mut Conversation, recording: &str) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for line in recording.lines() {
        for effect in conversation.frame(wire::parse(line)) {
            let shown = match effect {
                Effect::Event(E::ApprovalWanted(request)) => {
                    assert!(conversation.answer(&request.key, Answer::Allow).is_some());
                    format!("approval {:?} {:?}", request.item, request.subject)
                }
                Effect::Event(event) => show(event),
                Effect::Write(line) => format!("write {}", line["request"]),
                Effect::CommandEnd { item, status, exit_code, .. } => {
                    format!("command end {item} {status:?} {exit_code:?}")
                }
            };
            match (told.last_mut(), shown.split_once('+')) {
                (Some(last), Some((head, delta))) if last.starts_with(&format!("{head}+")) => last.push_str(delta),
                _ => told.push(shown),
            }
        }
    }
    told
}

fn show(event: E) -> String {
    match event {
        E::Text { item, delta } => format!("text {item} +{delta}"),
        E::Reasoning { item, delta } => format!("reasoning {item} +{delta}"),
        E::Whole { item, reasoning, text } => format!("whole {item} {reasoning} {text}"),
        E::Command { item, command, status, exit_code, output } => {
            format!("command {item} [{command}] {status:?} {exit_code:?} {output:?}")
        }
        E::Tool { item, name, status, output, .. } => {
            let first = output.as_deref().and_then(|o| o.lines().next()).map(str::to_owned);
            format!("tool {item} {name} {status:?} {first:?}")
        }
        E::FileChange { item, files, status } => {
            format!("files {item} {status:?} {:?} {}", files[0].path, files[0].diff)
        }
        E::Context(figure) => format!("context {} {:?}", figure.used, figure.window),
        E::SessionKnown { session_id, model } => format!("session {session_id} {model:?}"),
        E::Superseded { items } => format!("superseded {items:?}"),
        E::Anchor { .. } => "anchor".into(),
        E::Ended(Ended::Failed(failure)) => {
            let until = failure.retry_at.map_or(String::new(), |at| format!("until {at}: "));
            format!("failed {:?} {until}{}", failure.kind, failure.message)
        }
        E::Retrying { attempt, max, message } => format!("retrying {attempt} {max:?} {message}"),
        other => format!("{other:?}"),
    }
}

const HEAD: [&str; 4] = ["session session-1 None", "Taken", "session session-1 Some(\"claude-opus-5-5\")", "Requested"];

fn after_head(told: &[String]) -> &[String] {
    assert_eq!(&told[..4], HEAD);
    &told[4..]
}

#[test]
fn a_command_with_its_leave_exit_code_and_output() {
    let told = replay(include_str!("recorded/command.jsonl"));
    let bash = "toolu_fake0001_0";
    let command = "echo out; echo err >&2; touch x; exit 3";
    let wanted = [
        "context 1001 None".to_owned(),
        "reasoning msg_fake0001:0 +hm".into(),
        "whole msg_fake0001:0 true hm".into(),
        format!("command {bash} [{command}] Running None None"),
        format!("approval Some(\"{bash}\") Command {{ command: \"{command}\", cwd: None }}"),
        "context 1005 None".into(),
        format!("command {bash} [{command}] Failed Some(3) Some(\"out\\nerr\")"),
        "Requested".into(),
        "context 1001 None".into(),
        "reasoning msg_fake0002:0 +hm".into(),
        "whole msg_fake0002:0 true hm".into(),
        "text msg_fake0002:1 +done".into(),
        "whole msg_fake0002:1 false done".into(),
        "context 1005 None".into(),
        "context 1005 Some(1000000)".into(),
        "anchor".into(),
        "Ended(Completed)".into(),
    ];
    assert_eq!(after_head(&told), wanted);
}

#[test]
fn edits_are_asked_for_and_told_as_diffs() {
    let told = replay(include_str!("recorded/edit.jsonl"));
    let files: Vec<&String> = told.iter().filter(|t| t.starts_with("files") || t.starts_with("approval")).collect();
    let created = "--- /dev/null\n+++ b/home/u/w/f.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n";
    let asked = "--- a/home/u/w/f.txt\n+++ b/home/u/w/f.txt\n@@ -1,1 +1,1 @@\n-b\n+B\n";
    let done = "--- a/home/u/w/f.txt\n+++ b/home/u/w/f.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
    let path = "/home/u/w/f.txt";
    assert_eq!(files[0], &format!("files toolu_fake0001_0 Running {path:?} {created}"));
    assert_eq!(files[2], &format!("files toolu_fake0001_0 Completed {path:?} {created}"));
    assert!(files[4].contains(&format!("{asked:?}")), "{}", files[4]);
    assert_eq!(files[5], &format!("files toolu_fake0002_0 Completed {path:?} {done}"));
    assert_eq!(files.len(), 6);
}

#[test]
fn a_block_that_was_cut_is_void_and_a_whole_one_before_it_stands() {
    let told = replay(include_str!("recorded/cut_first_block.jsonl"));
    let parts = |told: &[String]| -> Vec<String> {
        let words = ["text", "whole", "superseded", "retrying", "Ended"];
        told.iter().filter(|t| words.iter().any(|w| t.starts_with(w))).cloned().collect()
    };
    let wanted = [
        "text msg_fake0001:0 +aa",
        "retrying 1 Some(1) unknown",
        "superseded [\"msg_fake0001:0\"]",
        "text msg_fake0002:0 +aa bb",
        "whole msg_fake0002:0 false aa bb",
        "Ended(Completed)",
    ];
    assert_eq!(parts(&told), wanted);
    let told = replay(include_str!("recorded/cut_second_block.jsonl"));
    let wanted = [
        "text msg_fake0001:0 +whole first block. ",
        "whole msg_fake0001:0 false whole first block. ",
        "text msg_fake0001:1 +second partial",
        "superseded [\"msg_fake0001:1\"]",
        "text msg_fake0002:0 +final",
        "whole msg_fake0002:0 false final",
        "Ended(Completed)",
    ];
    assert_eq!(parts(&told), wanted);
}

#[test]
fn an_interrupted_command_is_told_as_cut_off_and_not_with_what_the_cli_says_to_its_model() {
    let mut conversation = Conversation::default();
    conversation.writing("prompt-1".into()).unwrap();
    let recording = include_str!("recorded/interrupted_command.jsonl");
    let at = recording.lines().position(|line| line.contains("control_response")).unwrap();
    let (before, after): (Vec<&str>, Vec<&str>) =
        (recording.lines().take(at).collect(), recording.lines().skip(at).collect());
    run(&mut conversation, &before.join("\n"));
    assert_eq!(conversation.interrupt()["request"]["subtype"], "interrupt");
    let told = run(&mut conversation, &after.join("\n"));
    let command = "command toolu_fake0001_0 [touch pid; sleep 60] Interrupted None None";
    assert_eq!(told.iter().filter(|t| t.starts_with("command")).collect::<Vec<_>>(), [command]);
    assert_eq!(told.last().unwrap(), "Ended(Interrupted)");
}

#[test]
fn a_background_command_ends_after_its_turn_and_the_turn_that_the_cli_begins_for_it_is_stopped() {
    let told = replay(include_str!("recorded/background_command.jsonl"));
    let end = told.iter().position(|t| t == "Ended(Completed)").unwrap();
    assert!(told[..end].iter().any(|t| t.contains("Running")), "{told:?}");
    let after = ["command end toolu_fake0001_0 Failed Some(4)", "write {\"subtype\":\"interrupt\"}"];
    assert_eq!(&told[end + 1..], after);
}

#[test]
fn a_turn_lasts_until_its_sub_agents_have_reported_and_the_model_has_read_it() {
    let told = replay(include_str!("recorded/agent.jsonl"));
    let tools: Vec<&String> = told.iter().filter(|t| t.starts_with("tool")).collect();
    let tool = "tool toolu_fake0001_0 Agent";
    let said = "Some(\"echo: SLOWSUB\")";
    let wanted = [format!("{tool} Running None"), format!("{tool} Running {said}"), format!("{tool} Completed {said}")];
    assert_eq!(tools, wanted.iter().collect::<Vec<_>>());
    let words: Vec<&String> = told.iter().filter(|t| t.starts_with("whole")).collect();
    assert_eq!(words.len(), 2, "the model's words before and after the report: {words:?}");
    assert_eq!(told.iter().filter(|t| t.starts_with("Ended")).count(), 1);
    assert_eq!(told.last().unwrap(), "Ended(Completed)");
    assert!(
        told.iter().all(|t| !t.starts_with("context") || t.starts_with("context 50")),
        "the sub-agent's own: {told:?}"
    );
}

#[test]
fn an_error_that_the_cli_words_as_an_answer_is_none() {
    let told = replay(include_str!("recorded/overloaded.jsonl"));
    let [retry, end] = after_head(&told) else { panic!("{told:?}") };
    assert_eq!(retry, "retrying 1 Some(1) 529 overloaded");
    assert!(end.starts_with(&format!("failed {:?} API Error: 529 Overloaded.", FailureKind::Unavailable)), "{end}");
}

/// X6. Recorded with an account's token: with an API key the CLI does not learn when a limit ends.
#[test]
fn a_used_up_plan_says_until_when() {
    let told = replay(include_str!("recorded/plan_limit.jsonl"));
    let end = "failed RateLimited until 1796034666000: You've hit your 5-hour limit · resets 10:31am (UTC)";
    assert_eq!(told.last().unwrap(), end);
}

#[test]
fn a_prompt_that_the_history_holds_already_or_that_never_left_the_queue_ends_without_a_result() {
    let life = |state: &str| {
        format!(r#"{{"type":"command_lifecycle","command_uuid":"prompt-1","state":"{state}","session_id":"s"}}"#)
    };
    assert_eq!(replay(&life("completed")), ["session s None", "Taken", "Ended(Completed)"]);
    assert_eq!(replay(&[life("queued"), life("cancelled")].join("\n")), ["Ended(Interrupted)"]);
    let told = replay(&life("refused"));
    assert!(told[0].starts_with("failed Rejected"), "{told:?}");
    let other = life("completed").replace("prompt-1", "another");
    assert_eq!(replay(&other), Vec::<String>::new());
}

#[test]
fn when_the_process_is_gone_nothing_is_left_running_or_asked() {
    let mut conversation = Conversation::default();
    conversation.writing("prompt-1".into()).unwrap();
    let recording = include_str!("recorded/command.jsonl");
    let asked = recording.lines().position(|line| line.contains("can_use_tool")).unwrap();
    let mut key = None;
    for line in recording.lines().take(asked + 1) {
        for effect in conversation.frame(wire::parse(line)) {
            if let Effect::Event(E::ApprovalWanted(request)) = effect {
                key = Some(request.key);
            }
        }
    }
    let events = conversation.exited();
    assert!(matches!(&events[0], E::Command { status: WorkStatus::Interrupted, .. }), "{events:?}");
    assert_eq!(events[1..], [E::ApprovalWithdrawn { key: key.clone().unwrap() }]);
    assert_eq!(conversation.answer(&key.unwrap(), Answer::Allow), None);
}
