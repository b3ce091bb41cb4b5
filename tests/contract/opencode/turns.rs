//! A turn from its prompt to its end: text, reasoning, commands, edits, approvals, figures; and what is found.

use changeover_core::approval::ApprovalSubject;
use changeover_core::event::{Ended, RuntimeEvent};
use changeover_core::failure::FailureKind;
use changeover_core::part::{FileDelta, PlanEntry, WorkStatus};
use changeover_core::provider::ApprovalMode;
use changeover_core::usage::ContextFigure;
use changeover_runtime::session::{AgentRuntime, Answer, Login, SessionSpec};
use changeover_tests::agents::OPENCODE_MODEL;
use serde_json::json;

use super::bench::{Bench, RUN, commands};

fn requested(events: &[RuntimeEvent]) -> usize {
    events.iter().filter(|event| **event == RuntimeEvent::Requested).count()
}

/// Whether it is reasoning, and the text.
type Texts = Vec<(bool, String)>;

/// The text or reasoning of a turn, as streamed and as stated whole, by item.
fn texts(events: &[RuntimeEvent]) -> (Texts, Texts) {
    let (mut streamed, mut whole) = (Texts::new(), Texts::new());
    for event in events {
        let (kind, delta) = match event {
            RuntimeEvent::Text { delta, .. } => (false, delta),
            RuntimeEvent::Reasoning { delta, .. } => (true, delta),
            RuntimeEvent::Whole { reasoning, text, .. } => {
                whole.push((*reasoning, text.clone()));
                continue;
            }
            _ => continue,
        };
        match streamed.last_mut() {
            Some((last, text)) if *last == kind => text.push_str(delta),
            _ => streamed.push((kind, delta.clone())),
        }
    }
    (streamed, whole)
}

#[tokio::test]
#[ignore = "open fault: an approval does not name the part that it belongs to"]
async fn a_turn_streams_and_ends_with_its_figures_and_commands_say_all_there_is() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.asking()).await;
    let id = open.id().await;
    let events = open.turn("[[think:hmmmmm]][[say:hello there]][[usage:1000:5]]").await;
    assert_eq!(events[..2], [RuntimeEvent::Taken, RuntimeEvent::Requested], "{events:#?}");
    let said = vec![(true, "hmmmmm".to_owned()), (false, "hello there".to_owned())];
    assert_eq!(texts(&events), (said.clone(), said));
    let figure = RuntimeEvent::Context(ContextFigure { used: 1005, window: Some(1_000_000) });
    let [.., RuntimeEvent::Anchor { anchor }, RuntimeEvent::Ended(Ended::Completed)] = &events[..] else {
        panic!("{events:#?}")
    };
    assert!(anchor.starts_with("msg_") && events.contains(&figure), "{events:#?}");
    let model = RuntimeEvent::SessionKnown { session_id: id.clone(), model: Some(OPENCODE_MODEL.into()) };
    assert_eq!(open.seen[0], model);
    // One request: none for a title, and the session's own id in it.
    assert_eq!(bench.api.requests().len(), 1, "{:?}", bench.api.requests());
    assert_eq!(bench.api.turns()[0].session.as_deref(), Some(id.as_str()));

    // R4: asked for in full, and a word of ours is the answer.
    for (line, answer, status, exit_code, output) in [
        ("echo out; echo 'it'\\''s' >&2", Answer::Allow, WorkStatus::Completed, Some(0), Some("out\nit's\n")),
        ("echo a; exit 3", Answer::Allow, WorkStatus::Failed, Some(3), Some("a\n")),
        ("echo $CHANGEOVER_MARK", Answer::Allow, WorkStatus::Completed, Some(0), Some(RUN)),
        ("touch never", Answer::Deny, WorkStatus::Declined, None, None),
    ] {
        let (from, before) = (open.seen.len(), bench.api.turns().len());
        open.send(&format!("[[tool:bash:{line}]][[say:done]]")).await;
        let request = open.asked().await;
        assert_eq!(request.subject, ApprovalSubject::Command { command: line.into(), cwd: None });
        assert!(request.item.is_some());
        open.answer(&request, answer).await;
        assert_eq!(open.ended().await, Ended::Completed);
        let events = &open.seen[from..];
        let (told, state, code, printed) = commands(events).pop().expect("a command");
        assert_eq!((told.as_str(), state, code), (line, status, exit_code), "{events:#?}");
        match answer {
            Answer::Allow => assert_eq!(printed.as_deref().map(str::trim_end), output.map(str::trim_end)),
            Answer::Deny => {
                let told = bench.api.turns().last().expect("a request").texts("result").pop().expect("a result");
                assert!(told.contains("The user said no to this."), "{told}");
            }
        }
        assert_eq!((requested(events), bench.api.turns().len() - before), (2, 2), "the turn goes on");
        assert!(!events.iter().any(|event| matches!(event, RuntimeEvent::ApprovalWithdrawn { .. })));
        // A second answer, or one to nothing, is no error and does nothing.
        open.answer(&request, Answer::Deny).await;
    }
    assert!(!bench.home.work().join("never").exists());
    // S2: what a running command prints is seen while it runs.
    open.send("[[tool:bash:echo first; while [ ! -e go ]; do sleep 0.05; done; echo last]]").await;
    let request = open.asked().await;
    open.answer(&request, Answer::Allow).await;
    open.until(|event| matches!(event, RuntimeEvent::CommandOutput { delta, .. } if delta == "first\n")).await;
    std::fs::write(bench.home.work().join("go"), "").expect("a file");
    assert_eq!(open.ended().await, Ended::Completed);
    assert_eq!(commands(&open.seen).pop().expect("a command").3.as_deref(), Some("first\nlast\n"));
    open.close().await;
    bench.end().await;
}

fn call(tool: &str, arguments: serde_json::Value) -> String {
    format!("[[call:{tool}:{arguments}]]")
}

fn changes(events: &[RuntimeEvent]) -> Vec<(Vec<FileDelta>, WorkStatus)> {
    let change = |event: &RuntimeEvent| match event {
        RuntimeEvent::FileChange { files, status, .. } => Some((files.clone(), *status)),
        _ => None,
    };
    events.iter().filter_map(change).collect()
}

#[tokio::test]
async fn edits_ask_with_their_diff_in_ask_and_go_through_in_edits_and_what_leaves_the_folder_asks() {
    let bench = Bench::new().await;
    let file = bench.home.work().join("new.txt");
    let path = file.display().to_string();
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    let mut open = bench.open(bench.asking()).await;
    let write = call("write", json!({"filePath": path, "content": "hello\nworld\n"}));
    let edit = call("edit", json!({"filePath": path, "oldString": "world", "newString": "there"}));
    for (ask, answer, status, hunk, after) in [
        (&write, Answer::Deny, WorkStatus::Declined, "@@ -0,0 +1,2 @@\n+hello\n+world\n", ""),
        (&write, Answer::Allow, WorkStatus::Completed, "@@ -0,0 +1,2 @@\n+hello\n+world\n", "hello\nworld\n"),
        (&edit, Answer::Allow, WorkStatus::Completed, "@@ -1,2 +1,2 @@\n hello\n-world\n+there\n", "hello\nthere\n"),
    ] {
        let from = open.seen.len();
        open.send(ask).await;
        let request = open.asked().await;
        let ApprovalSubject::Edit { files } = &request.subject else { panic!("{request:?}") };
        assert!(files.len() == 1 && files[0].path == path && files[0].diff.ends_with(hunk), "{files:?}");
        open.answer(&request, answer).await;
        assert_eq!(open.ended().await, Ended::Completed);
        let (files, last) = changes(&open.seen[from..]).pop().expect("a change");
        assert_eq!((files[0].path.as_str(), last), (path.as_str(), status));
        assert_eq!(read(), after);
    }
    open.close().await;

    let mut open = bench.open(SessionSpec { mode: ApprovalMode::Edits, ..bench.asking() }).await;
    let events = open.turn(&call("edit", json!({"filePath": path, "oldString": "there", "newString": "you"}))).await;
    assert!(!events.iter().any(|event| matches!(event, RuntimeEvent::ApprovalWanted(_))), "{events:#?}");
    assert_eq!((read().as_str(), changes(&events).pop().expect("a change").1), ("hello\nyou\n", WorkStatus::Completed));
    // A command is asked for all the same, and so is a file outside.
    open.send("[[tool:bash:true]]").await;
    let request = open.asked().await;
    assert!(matches!(request.subject, ApprovalSubject::Command { .. }));
    open.answer(&request, Answer::Allow).await;
    assert_eq!(open.ended().await, Ended::Completed);
    let outside = bench.home.root().join("outside.txt");
    open.send(&call("write", json!({"filePath": outside, "content": "x"}))).await;
    let request = open.asked().await;
    let expected = format!("external_directory {}/*", bench.home.root().display());
    assert!(matches!(&request.subject, ApprovalSubject::Tool { name, .. } if *name == expected), "{request:?}");
    open.answer(&request, Answer::Deny).await;
    assert_eq!(open.ended().await, Ended::Completed);
    assert!(!outside.exists());

    let todos = json!({"todos": [{"content": "look", "status": "completed", "priority": "high"},
        {"content": "leap", "status": "in_progress", "priority": "low"}]});
    let events = open.turn(&call("todowrite", todos)).await;
    let entry = |text: &str, status| PlanEntry { text: text.into(), status: Some(status) };
    let entries = vec![entry("look", WorkStatus::Completed), entry("leap", WorkStatus::Running)];
    assert!(events.contains(&RuntimeEvent::Plan { item: "plan".into(), entries }), "{events:#?}");
    let events = open.turn(&call("read", json!({"filePath": path}))).await;
    let done = |event: &RuntimeEvent| {
        matches!(event, RuntimeEvent::Tool { name, output: Some(output), status: WorkStatus::Completed, .. }
            if name == "read" && output.contains("hello"))
    };
    assert!(events.iter().any(done), "{events:#?}");
    open.close().await;
    bench.end().await;
}

/// A sub-agent's request, written so that the outer directive does not end with it.
fn to_sub_agent(prompt: &str) -> String {
    let task = json!({"description": "look", "prompt": prompt, "subagent_type": "general"}).to_string();
    format!("[[call:task:{}]]", task.replace("[[", "\\u005b\\u005b").replace("]]", "\\u005d\\u005d"))
}

/// G3: its figures are not the main thread's. R4: what it wants to run is asked for here.
#[tokio::test]
async fn a_sub_agent_asks_here_and_its_words_and_figures_are_no_part_of_the_reply() {
    let bench = Bench::new().await;
    let mut open = bench.open(SessionSpec { mode: ApprovalMode::Edits, ..bench.asking() }).await;
    let id = open.id().await;
    let from = open.seen.len();
    let prompt = format!(
        "{}[[say:all done]][[usage:2000:20]]",
        to_sub_agent("[[tool:bash:echo sub]][[say:inner words]][[usage:9000:900]]")
    );
    open.send(&prompt).await;
    let request = open.asked().await;
    assert_eq!(request.subject, ApprovalSubject::Command { command: "echo sub".into(), cwd: None });
    assert_eq!(request.item, None, "no part of this reply");
    open.answer(&request, Answer::Allow).await;
    assert_eq!(open.ended().await, Ended::Completed);
    let events = &open.seen[from..];
    let figures: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            RuntimeEvent::Context(figure) => Some(figure.used),
            _ => None,
        })
        .collect();
    assert_eq!(figures, [2020, 2020]);
    assert_eq!(texts(events).1, [(false, "all done".to_owned())]);
    assert!(commands(events).is_empty(), "{events:#?}");
    let mut tasks = events.iter().filter_map(|event| match event {
        RuntimeEvent::Tool { name, status, output, .. } if name == "task" => Some((*status, output.clone())),
        _ => None,
    });
    let (status, output) = tasks.next_back().expect("a task");
    assert!(status == WorkStatus::Completed && output.is_some_and(|text| text.contains("inner words")));
    assert!(bench.api.turns().iter().any(|request| request.session.as_deref() != Some(id.as_str())));
    open.close().await;
    bench.end().await;
}

#[tokio::test]
#[ignore = "open fault: one that is logged out is found out by its first turn, not when it opens"]
async fn detection_says_version_login_and_models_and_ends_its_server() {
    let mut bench = Bench::new().await;
    let begun = std::time::Instant::now();
    let described = bench.runtime.describe(&bench.env()).await;
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!((described.path, described.problem), (Some(bench.home.bin().join("opencode")), None));
    let models = bench.runtime.models(&bench.env()).await.expect("models");
    let ours = models.iter().find(|model| model.id == OPENCODE_MODEL).expect("the one from the settings");
    assert_eq!((ours.default, ours.window), (true, Some(1_000_000)));
    assert_eq!(ours.efforts, ["high", "max"]);
    assert_eq!(models.iter().filter(|model| model.default).count(), 1);
    // Its server stays for a while, so that it is asked at once; on a busy machine the first look may have been too short.
    let described = bench.runtime.describe(&bench.env()).await;
    assert_eq!(described.version.as_deref(), Some("1.18.33"));
    assert_eq!((described.login, described.problem), (Login::In { method: "Anthropic".into() }, None));
    assert_eq!(bench.servers().len(), 1, "one server for all questions");
    assert_eq!(bench.api.requests().len(), 0);
    bench.runtime.close().await;
    assert_eq!(bench.ours(), [0; 0]);

    bench.home.log_out();
    let failure = bench.try_open(bench.asking()).await.err().expect("refused");
    assert_eq!((failure.kind, failure.hint.as_deref()), (FailureKind::NotLoggedIn, Some("opencode auth login")));
    bench.runtime.close().await;
    // A broken configuration is said with its place, and nothing runs.
    bench.home.write_opencode_config(&json!({"nonsense": 1}));
    let failure = bench.try_open(bench.asking()).await.err().expect("refused");
    assert!(failure.kind == FailureKind::Rejected && failure.message.contains("opencode.json"), "{failure:?}");
    bench.runtime.close().await;
    let failure = bench.try_open(SessionSpec { folder: bench.home.root().join("nowhere"), ..bench.asking() }).await;
    assert_eq!(failure.err().map(|failure| failure.kind), Some(FailureKind::FolderGone), "R9");
    std::fs::remove_file(bench.home.bin().join("opencode")).expect("no opencode");
    let described = bench.runtime.describe(&bench.env()).await;
    assert_eq!(
        (described.path, described.problem.map(|problem| problem.kind)),
        (None, Some(FailureKind::NotInstalled))
    );
    bench.end().await;
}
