//! The same on the real CLIs.

use std::time::{Duration, Instant};

use changeover_core::{
    message::{MessageState, Role},
    provider::ProviderId,
};
use changeover_engine::api::types::EventBody;
use changeover_tests::{app::target, fake_api::PATIENCE, marked};

use super::{
    partition::{check_cli, nonce, nonces},
    scene::{Dice, OUTLIVES, Scene, rounds, settled, shells, shows, unchanged},
    screen::{BEHIND, Screen, nothing_runs},
};

impl Scene {
    /// A message with a nonce, for a reply that stands in no prompt; and that reply's nonce.
    fn ask(&self, more: &str) -> (String, String) {
        let (key, answer) = (nonce('k'), nonce('r'));
        // The nonce comes with the first piece; the rest is worth cutting.
        let rest: String = (1..=400).map(|n| format!(" word{n}")).collect();
        self.api.put_text(&key, &format!("{answer}{rest}"));
        (format!("{} [[text:{key}]]{more}", nonce('u')), answer)
    }
}

async fn killed_while_streaming(cli: ProviderId, other: ProviderId) {
    let scene = Scene::new().await;
    let work = scene.home.work();
    let mut dice = Dice::new();
    let mut compared = 0;
    let mut app = scene.start(None).await;
    let (thread, side) = (app.new_thread(&work).await, app.new_thread(&work).await);
    for round in 1..=rounds(1, 5) {
        app.watch(&[thread, side]).await;
        let (said, answer) = scene.ask("");
        app.turn(thread, &cli, &said).await;
        let first = app.last_reply(thread).await;
        assert_eq!((first.state, nonces(&first)), (MessageState::Done, vec![answer]), "{}", app.log());

        // The CLI's shell and what it started, in another thread. Nothing tells when they run but the process table.
        let run = format!("[[tool:bash:{}; sleep 3605; true]]", shells(&work));
        app.send(side, target(&cli), &run).await;
        let begun = Instant::now();
        while !marked::all_of(app.pid(), &scene.data).iter().any(|seen| seen.command == "sleep 3605") {
            assert!(begun.elapsed() < PATIENCE, "the command did not run: {}", app.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The reply that is cut.
        let before = app.messages(thread).await;
        let (said, answer) = scene.ask(" [[slow:400:10]]");
        let mark = app.mark();
        let sent = app.send(thread, target(&cli), &said).await;
        app.event_from(mark, |e| shows(e, thread, " word3")).await;
        let of_reply = |body: &EventBody| match body {
            EventBody::Message { message } if message.role == Role::Assistant => Some(message.id),
            _ => None,
        };
        let reply = app.event_from(mark, |e| e.thread_id == Some(thread) && of_reply(&e.body).is_some()).await;
        let reply = of_reply(&reply.body).expect("it is one");
        // No waiting for anything: this is the random moment.
        tokio::time::sleep(Duration::from_millis(dice.below(1500))).await;
        let living = marked::all_of(app.pid(), &scene.data);
        let sleeps = living.iter().filter(|seen| seen.command.starts_with("sleep 360")).count();
        assert!(sleeps >= 5, "the CLI's shells run: {living:#?}");
        let client = app.connection();
        let killed = Instant::now();
        app.kill().await;
        let took = marked::gone_within(OUTLIVES, &scene.data, &living).await;
        let screen = Screen::of(reply, &client.heard_from(mark), killed);
        scene.autopsy();

        app = scene.start(None).await;
        app.watch(&[thread, side]).await;
        settled(&app, thread).await;
        settled(&app, side).await;
        let after = app.messages(thread).await;
        unchanged(&before, &after);
        let question = after.iter().find(|m| m.id == sent).expect("S1: the message is there");
        assert_eq!((question.text(), question.state), (said, MessageState::Done));
        let cut = after.iter().find(|m| m.id == reply).expect("the cut reply is there");
        assert_eq!((cut.state, nonces(cut)), (MessageState::Interrupted, vec![answer]));
        nothing_runs(cut);
        let behind = screen.lost(cut, killed);
        println!("round {round}: lost {} ms, all gone after {} ms", behind.as_millis(), took.as_millis());
        assert!(behind <= BEHIND, "S1: what was on the screen for {} ms is lost", behind.as_millis());

        // The other thread's command was cut as well, and says so.
        let other_cut = app.last_reply(side).await;
        assert_eq!(other_cut.state, MessageState::Interrupted);
        nothing_runs(&other_cut);

        // The next turns work, here and there, and FC2's table holds.
        for provider in [&cli, &other] {
            let (said, answer) = scene.ask("");
            app.turn(thread, provider, &said).await;
            let next = app.last_reply(thread).await;
            assert_eq!((next.state, nonces(&next)), (MessageState::Done, vec![answer]), "{}", app.log());
            let messages = app.messages(thread).await;
            for sets in &app.sessions(thread).await.sessions {
                compared += check_cli(&scene.api, &messages, sets);
            }
        }
    }
    println!("{compared} nonces");
    app.stop().await;
    assert_eq!(scene.api.strays(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc5_killed_while_claude_code_streams() {
    killed_while_streaming(ProviderId::claude(), ProviderId::codex()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc5_killed_while_codex_streams() {
    killed_while_streaming(ProviderId::codex(), ProviderId::claude()).await;
}
