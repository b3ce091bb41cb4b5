//! Random moments of a streaming reply, on the practice agent.

use std::time::{Duration, Instant};

use changeover_core::{
    message::{MessageState, Role},
    part::{PartBody, WorkStatus},
    provider::ProviderId,
};
use changeover_engine::api::types::EventBody;
use changeover_tests::{app::target, marked};

use super::{
    partition::{check_practice, never_twice, nonce, nonces, practice_prompts},
    scene::{Dice, OUTLIVES, Scene, rounds, settled, shells, shows, unchanged},
    screen::{BEHIND, Screen, nothing_runs},
};

/// What the practice agent streams, as far as it got: `word1 word2 …`.
fn is_beginning(text: &str) -> bool {
    let whole: String = (1..=4000).map(|n| format!("word{n} ")).collect();
    whole.starts_with(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc5_kill_9_at_random_moments_of_streaming() {
    let scene = Scene::new().await;
    let (practice, work) = (ProviderId::practice(), scene.home.work());
    let mut dice = Dice::new();
    let (mut lost, mut ended, mut compared) = (Duration::ZERO, Duration::ZERO, 0);
    let mut app = scene.start(None).await;
    let (thread, side) = (app.new_thread(&work).await, app.new_thread(&work).await);
    for round in 1..=rounds(10, 50) {
        app.watch(&[thread, side]).await;
        // An agent's shell and what it started, in another thread.
        let mark = app.mark();
        let run = format!("run: {}; echo ready; exec sleep 3605", shells(&work));
        app.send(side, target(&practice), &run).await;
        app.event_from(mark, |e| shows(e, side, "ready")).await;
        // The reply that is cut.
        let before = app.messages(thread).await;
        let mark = app.mark();
        let said = cut_message();
        let sent = app.send(thread, target(&practice), &said).await;
        app.event_from(mark, |e| shows(e, thread, "word1 ")).await;
        let reply = app.event_from(mark, |e| matches!(&e.body, EventBody::Message { message } if message.role == Role::Assistant && e.thread_id == Some(thread))).await;
        let EventBody::Message { message: reply } = reply.body else { unreachable!("it is one") };
        // No waiting for anything: this is the random moment.
        tokio::time::sleep(Duration::from_millis(dice.below(1500))).await;
        let living = marked::all_of(app.pid(), &scene.data);
        let sleeps = living.iter().filter(|seen| seen.command.starts_with("sleep 360")).count();
        assert!(sleeps >= 5, "the agent's shells run: {living:#?}");
        let client = app.connection();
        let killed = Instant::now();
        app.kill().await;
        let took = marked::gone_within(OUTLIVES, &scene.data, &living).await;
        let screen = Screen::of(reply.id, &client.heard_from(mark), killed);
        scene.autopsy();

        app = scene.start(None).await;
        app.watch(&[thread, side]).await;
        settled(&app, thread).await;
        let after = app.messages(thread).await;
        unchanged(&before, &after);
        let question = after.iter().find(|m| m.id == sent).expect("S1: the message is there");
        assert_eq!((question.text().as_str(), question.state), (said.as_str(), MessageState::Done));
        let cut = after.iter().find(|m| m.id == reply.id).expect("the cut reply is there");
        assert_eq!(cut.state, MessageState::Interrupted);
        nothing_runs(cut);
        let behind = screen.lost(cut, killed);
        // Killed just after its first word, it may have lost that.
        let text = cut.text();
        if let Some((_, words)) = text.split_once("bytes of output.\n") {
            assert!(is_beginning(words), "{words:?} was never said");
        }
        println!("round {round}: lost {} ms, all gone after {} ms", behind.as_millis(), took.as_millis());
        assert!(behind <= BEHIND, "S1: what was on the screen for {} ms is lost", behind.as_millis());
        (lost, ended) = (lost.max(behind), ended.max(took));
        // The other thread's command was cut as well, and says so.
        settled(&app, side).await;
        let other = app.last_reply(side).await;
        assert_eq!(other.state, MessageState::Interrupted);
        let command = other.parts.iter().find_map(|p| match &p.body {
            PartBody::Command { status, output, .. } => Some((*status, output.contains("ready"))),
            _ => None,
        });
        assert_eq!(command, Some((WorkStatus::Interrupted, true)), "{other:#?}");

        // The next turn works, and T6 holds.
        let (said, answer) = whole_message();
        app.turn(thread, &practice, &said).await;
        let next = app.last_reply(thread).await;
        assert_eq!((next.state, nonces(&next)), (MessageState::Done, vec![answer]));
        let messages = app.messages(thread).await;
        let sets = app.sessions(thread).await.sessions;
        assert_eq!(sets.len(), 1, "one session: {sets:#?}");
        compared += check_practice(&scene.data, &messages, &sets[0]);
        never_twice(&scene.data, &messages);
    }
    println!(
        "at most {} ms lost, all gone after at most {} ms, {compared} nonces",
        lost.as_millis(),
        ended.as_millis()
    );
    // What the agent itself says it has seen is what its prompts say.
    let sets = app.sessions(thread).await.sessions;
    app.turn(thread, &practice, "recall all").await;
    let recalled = app.last_reply(thread).await.text();
    let prompts = practice_prompts(&scene.data, &sets[0].session.session_id);
    assert!(prompts.iter().all(|prompt| recalled.contains(prompt)), "{recalled}");
    assert!(recalled.contains(&format!("has seen {} messages", prompts.len())));
    app.stop().await;
}

/// A message whose reply says a nonce and then streams for eight seconds.
fn cut_message() -> String {
    format!("{}\nrun: echo {} | tr z r\nstream 4000 every 2 ms", nonce('u'), nonce('z'))
}

/// A message whose reply says a nonce; and that nonce.
fn whole_message() -> (String, String) {
    let seed = nonce('z');
    (format!("{}\nrun: echo {seed} | tr z r", nonce('u')), seed.replace('z', "r"))
}
