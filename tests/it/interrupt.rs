//! FC8, R5: an interrupt ends a running command and everything it started within 3 s, and nothing else.

use std::{
    fs,
    time::{Duration, Instant},
};

use changeover_core::{
    message::MessageState,
    part::{PartBody, WorkStatus},
    provider::ProviderId,
};
use changeover_engine::api::types::EventBody;
use changeover_tests::{
    agents::AgentHome,
    app::{App, target},
    fake_api::{FakeApi, PATIENCE},
    marked::{Seen, all_of},
};

/// R5's limit, from the click to the last process.
const IN_TIME: Duration = Duration::from_secs(3);

/// A command that ends when it is asked to, with a child in a session of its own.
const MEEK: &str = "setsid sleep 3611 >/dev/null 2>&1 &
sleep 3612 &
sleep 3613
";

/// The same, deaf to everything that can be ignored, and going on after each kill of what it waits for.
const DEAF: &str = r#"trap "" TERM INT HUP
setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 3611; done' >/dev/null 2>&1 &
sh -c 'trap "" TERM INT HUP; while :; do sleep 3612; done' &
while :; do sleep 3613; done
"#;

fn sleeps(app: &App) -> Vec<Seen> {
    all_of(app.pid(), &app.data).into_iter().filter(|seen| seen.command.starts_with("sleep 361")).collect()
}

/// Whether this event shows a piece of a reply that holds `text`.
fn says(body: &EventBody, text: &str) -> bool {
    match body {
        EventBody::Text { text: more, .. } => more.contains(text),
        EventBody::Part { part, .. } => match &part.body {
            PartBody::Text { text: all } | PartBody::Command { output: all, .. } => all.contains(text),
            _ => false,
        },
        _ => false,
    }
}

/// Waits for what nothing signals.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ends_commands_and_nothing_else(agent: ProviderId) {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let app = App::start(&home).await;
    let practice = agent == ProviderId::practice();
    let (thread, other) = (app.new_thread(&home.work()).await, app.new_thread(&home.work()).await);
    app.watch(&[thread, other]).await;
    for (name, script) in [("meek", MEEK), ("deaf", DEAF)] {
        let path = home.work().join(name);
        fs::write(&path, script).expect("a script");
        // The same agent is in the middle of a reply in another thread, and stays there until it is let on.
        let whole: String = (1..=60).map(|n| format!("word{n} ")).collect();
        api.put_text(name, &whole);
        let go = home.work().join(format!("{name}.go"));
        let (streams, runs) = if practice {
            let ticks = format!("run: until [ -e {} ]; do echo tick; sleep 0.02; done", go.display());
            (format!("{ticks}\nstream 60"), format!("run: sh {}", path.display()))
        } else {
            let held = format!("[[text:{name}]][[gate:{name}]][[slow:60:10]]");
            (held, format!("[[tool:bash:sh {}]][[say:never said]]", path.display()))
        };
        let elsewhere = app.mark();
        app.send(other, target(&agent), &streams).await;
        let first = if practice { "tick" } else { "word1 " };
        app.event_from(elsewhere, |e| e.thread_id == Some(other) && says(&e.body, first)).await;
        app.send(thread, target(&agent), &runs).await;
        until("the three sleeps", || sleeps(&app).len() == 3).await;

        let mark = app.mark();
        let begun = Instant::now();
        app.interrupt(thread).await;
        app.turn_ended(mark, thread).await;
        let told = begun.elapsed();
        until("the end of the sleeps", || sleeps(&app).is_empty()).await;
        let took = begun.elapsed();
        println!("{name}: the turn ended after {} ms, everything after {} ms", told.as_millis(), took.as_millis());
        assert!(told.max(took) <= IN_TIME, "{name}: {told:?}, {took:?}");
        let reply = app.last_reply(thread).await;
        assert_eq!(reply.state, MessageState::Interrupted, "{reply:#?}");
        let status = reply.parts.iter().find_map(|part| match part.body {
            PartBody::Command { status, .. } => Some(status),
            _ => None,
        });
        assert_eq!(status, Some(WorkStatus::Interrupted), "{reply:#?}");

        // The other thread has not noticed: its reply goes on and becomes whole.
        assert!(app.page(other).await.turn.is_some(), "the other turn runs");
        if practice {
            let mark = app.mark();
            app.event_from(mark, |e| e.thread_id == Some(other) && says(&e.body, "tick")).await;
            fs::write(&go, "").expect("a file");
        } else {
            api.open_gate(name);
        }
        app.turn_ended(elsewhere, other).await;
        let reply = app.last_reply(other).await;
        assert_eq!(reply.state, MessageState::Done);
        assert!(reply.text().trim_end().ends_with(whole.trim_end()), "{reply:#?}");
        // And this one goes on.
        app.turn(thread, &agent, if practice { "think" } else { "[[say:on we go]]" }).await;
        assert_eq!(app.last_reply(thread).await.state, MessageState::Done, "{}", app.log());
    }
    app.stop().await;
    assert_eq!(api.strays(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc8_interrupts_a_command_of_claude_code() {
    ends_commands_and_nothing_else(ProviderId::claude()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc8_interrupts_a_command_of_codex() {
    ends_commands_and_nothing_else(ProviderId::codex()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc8_interrupts_a_command_of_the_practice_agent() {
    ends_commands_and_nothing_else(ProviderId::practice()).await;
}
