//! A turn from its prompt to its end: text, reasoning, commands, figures.

use changeover_core::event::{Ended, RuntimeEvent};
use changeover_core::part::WorkStatus;
use changeover_core::usage::ContextFigure;
use changeover_runtime::session::{AgentRuntime, Login, SessionSpec};

use super::bench::{Bench, RUN, eventually};

fn text(item: &str, delta: &str) -> RuntimeEvent {
    RuntimeEvent::Text { item: item.into(), delta: delta.into() }
}

fn thought(item: &str, delta: &str) -> RuntimeEvent {
    RuntimeEvent::Reasoning { item: item.into(), delta: delta.into() }
}

/// A command's line, status, exit code and output.
type CommandState = (String, WorkStatus, Option<i32>, Option<String>);

/// The last state of each command.
pub fn commands(events: &[RuntimeEvent]) -> Vec<CommandState> {
    let mut last: Vec<(String, CommandState)> = Vec::new();
    for event in events {
        if let RuntimeEvent::Command { item, command, status, exit_code, output } = event {
            last.retain(|(key, _)| key != item);
            last.push((item.clone(), (command.clone(), *status, *exit_code, output.clone())));
        }
    }
    last.into_iter().map(|(_, state)| state).collect()
}

fn requested(events: &[RuntimeEvent]) -> usize {
    events.iter().filter(|event| **event == RuntimeEvent::Requested).count()
}

#[tokio::test]
async fn a_turn_streams_reasoning_and_text_and_ends_with_its_figures() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    let id = open.id().await;
    let events = open.turn("[[think:hmmmmm]][[say:hello there]][[usage:1000:5]]").await;
    let whole =
        |item: &str, reasoning, text: &str| RuntimeEvent::Whole { item: item.into(), reasoning, text: text.into() };
    let Some(RuntimeEvent::Anchor { anchor }) = events.iter().rev().nth(1) else { panic!("{events:#?}") };
    let expected = [
        RuntimeEvent::Taken,
        RuntimeEvent::Requested,
        thought("rs_0001", "hm"),
        thought("rs_0001", "mm"),
        thought("rs_0001", "mm"),
        whole("rs_0001", true, "hmmmmm"),
        text("msg_0001", "hell"),
        text("msg_0001", "o th"),
        text("msg_0001", "ere"),
        whole("msg_0001", false, "hello there"),
        RuntimeEvent::Context(ContextFigure { used: 1005, window: Some(258_400) }),
        RuntimeEvent::Anchor { anchor: anchor.clone() },
        RuntimeEvent::Ended(Ended::Completed),
    ];
    assert_eq!(events, expected);
    let turns = bench.api.turns();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].session.as_deref(), Some(id.as_str()));
    open.close().await;
    assert_eq!(bench.api.strays(), [""; 0]);
}

#[tokio::test]
async fn commands_come_with_line_exit_code_and_output_and_requests_are_counted() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    for (line, state, exit_code, output) in [
        ("echo out; echo 'it'\\''s'", WorkStatus::Completed, 0, Some("out\nit's\n")),
        ("echo a; exit 3", WorkStatus::Failed, 3, Some("a\n")),
        ("kill -9 $$", WorkStatus::Failed, 137, None),
    ] {
        let before = bench.api.turns().len();
        let events = open.turn(&format!("[[tool:bash:{line}]][[say:done]]")).await;
        let expected = (line.to_owned(), state, Some(exit_code), output.map(str::to_owned));
        assert_eq!(commands(&events), [expected]);
        assert_eq!(requested(&events), bench.api.turns().len() - before);
        assert_eq!(requested(&events), 2);
    }
    // Every command carries the mark by which it is found and ended (R5).
    let events = open.turn("[[tool:bash:echo $CHANGEOVER_MARK]]").await;
    assert_eq!(commands(&events)[0].3.as_deref(), Some(format!("{RUN}\n").as_str()));
    open.close().await;
}

#[tokio::test]
async fn a_command_that_outlives_its_turn_reports_its_end() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    let go = bench.home.work().join("go");
    // Codex gives a command ten seconds, then goes on without it.
    let events =
        open.turn("[[tool:bash:echo hi; while [ ! -e go ]; do sleep 0.1; done; echo bye; exit 4]][[say:done]]").await;
    assert_eq!(events.last(), Some(&RuntimeEvent::Ended(Ended::Completed)));
    assert_eq!(commands(&events)[0].1, WorkStatus::Running);
    open.send("[[gate:second]] next").await;
    bench.api.wait_gate("second").await;
    std::fs::write(&go, "").expect("a file");
    open.until(|event| matches!(event, RuntimeEvent::Command { status: WorkStatus::Failed, .. })).await;
    let (line, status, exit_code, output) = commands(&open.seen).pop().expect("a command");
    assert!(line.starts_with("echo hi; while"), "{line}");
    assert_eq!((status, exit_code, output.as_deref()), (WorkStatus::Failed, Some(4), Some("hi\nbye\n")));
    bench.api.open_gate("second");
    assert_eq!(open.ended().await, Ended::Completed);
    open.close().await;
}

#[tokio::test]
async fn detection_says_version_login_and_models() {
    let bench = Bench::new().await;
    let described = bench.runtime.describe(&bench.env()).await;
    assert_eq!(described.path, Some(bench.home.bin().join("codex")));
    assert_eq!(described.version.as_deref(), Some("0.171.0"));
    assert_eq!((described.login, described.problem), (Login::In { method: "key of fake".into() }, None));
    let models = bench.runtime.models(&bench.env()).await.expect("models");
    let ours = models.iter().find(|model| model.id == "gpt-5-codex").expect("the one from the settings");
    assert_eq!((ours.default, ours.window), (true, Some(258_400)));
    let listed = models.iter().find(|model| model.id == "gpt-6.2-sol").expect("one of the catalogue");
    assert_eq!((listed.default, listed.window), (false, Some(475_000)));
    assert_eq!(listed.efforts[..2], ["low", "medium"]);
    assert!(models.iter().all(|model| model.id != "codex-auto-review"), "hidden models are not on offer");
    eventually("the end of every question's process", || bench.servers().is_empty()).await;
    assert_eq!(bench.api.requests().len(), 0);

    let mut env = bench.env();
    env.remove("FAKE_API_KEY");
    let described = bench.runtime.describe(&env).await;
    assert!(matches!(&described.login, Login::Out { hint } if hint.contains("FAKE_API_KEY")), "{described:?}");
    std::fs::remove_file(bench.home.bin().join("codex")).expect("no codex");
    let described = bench.runtime.describe(&bench.env()).await;
    let kind = described.problem.map(|problem| problem.kind);
    assert_eq!((described.path, kind), (None, Some(changeover_core::failure::FailureKind::NotInstalled)));
}

#[tokio::test]
async fn codex_is_not_given_the_means_to_begin_turns_by_itself() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    let id = open.id().await;
    open.answered("one").await;
    open.close().await;
    let mut open = bench.open(bench.resuming(&id, None)).await;
    open.answered("two").await;
    for request in bench.api.turns() {
        let tools = request.body["tools"].to_string();
        assert!(tools.contains("exec_command") && !tools.contains("goal"), "{tools}");
    }
    open.close().await;
}

#[tokio::test]
async fn model_and_effort_are_those_that_were_chosen() {
    let bench = Bench::new().await;
    let spec = SessionSpec { model: Some("gpt-5.5".into()), effort: Some("high".into()), ..bench.spec() };
    let mut open = bench.open(spec).await;
    open.answered("one").await;
    let body = &bench.api.turns()[0].body;
    assert_eq!((body["model"].as_str(), body["reasoning"]["effort"].as_str()), (Some("gpt-5.5"), Some("high")));
    let told = RuntimeEvent::SessionKnown { session_id: open.id().await, model: Some("gpt-5.5".into()) };
    assert_eq!(open.seen[0], told);
    open.close().await;
}

/// T6, S2: what a person writes is no command of the CLI's: it goes to the model as it is, byte for byte.
#[tokio::test]
async fn a_message_that_begins_with_a_slash_is_a_message() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    open.answered("first").await;
    let said = ["/new", "/compact now\nplease", "!ls", "/etc/hosts says what?", "/nosuch thing "];
    for text in said {
        open.answered(text).await;
    }
    let turns = bench.api.turns();
    let last = turns.last().expect("a request");
    for text in ["first"].into_iter().chain(said) {
        assert_eq!(
            last.texts("user").iter().filter(|told| **told == text).count(),
            1,
            "{text:?}: {:#?}",
            last.messages()
        );
    }
    open.close().await;
}
