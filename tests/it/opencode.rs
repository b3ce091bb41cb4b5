//! OpenCode among the others (EA2), with what only it has: one server for all threads (EA4), and shells that outlive it (EA5).

use std::time::{Duration, Instant};

use changeover_core::{provider::ProviderId, seq::Seq, transition::TransitionKind};
use changeover_engine::api::types::ProviderState;
use changeover_tests::{
    agents::{Agent, AgentHome},
    app::{App, target},
    fake_api::{FakeApi, PATIENCE, Recorded},
    marked,
    talk::{Place, Talk, nonce, places},
};
use serde_json::json;

fn opencode() -> ProviderId {
    ProviderId::opencode()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ea2_claude_opencode_codex_opencode_claude_and_every_message_is_told_once() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api).with_opencode();
    let app = App::start(&home).await;
    // On a machine that is busy its version is not known within detection's ten seconds.
    let view = app.provider(&opencode()).await;
    assert_eq!(view.state, ProviderState::Ready, "{view:?}");
    let mut talk = Talk::new(&api, app, &home.work()).await;
    let mut kinds = Vec::new();
    for (provider, body) in [
        (ProviderId::claude(), "what is here?"),
        (opencode(), "and what do you say?"),
        (ProviderId::codex(), "you too?"),
        (opencode(), "[[tool:bash:echo made; exit 3]] is that so?"),
        (ProviderId::claude(), "then go on"),
    ] {
        let said = talk.say(&provider, body).await;
        kinds.push(said.preview.kind);
        talk.told_once().await;
    }
    use TransitionKind::{Delta, Fresh, Handoff};
    assert_eq!(kinds, [Fresh, Handoff, Handoff, Delta, Delta]);

    let content: Vec<Seq> =
        talk.app.messages(talk.thread).await.iter().filter(|m| m.is_content()).map(|m| m.seq).collect();
    let pick = |places: &[usize]| places.iter().map(|place| content[*place]).collect::<Vec<_>>();
    let sessions = talk.app.sessions(talk.thread).await.sessions;
    let sets = sessions.iter().find(|sets| sets.session.provider == opencode()).expect("a session");
    let at = |place: Place| -> Vec<Seq> {
        places(sets).into_iter().filter(|(_, at)| *at == [place]).map(|(seq, _)| seq).collect()
    };
    assert_eq!(at(Place::Own), pick(&[3, 7]));
    assert_eq!(at(Place::Told), pick(&[0, 1, 2, 4, 5, 6]));
    assert_eq!(at(Place::Above), pick(&[8, 9]));
    // What it ran is told to the next one, with its exit code.
    let told = talk.handovers().await.pop().expect("a handover");
    let text = talk.app.handover_text(talk.thread, told.0).await;
    assert!(text.contains("Command: echo made; exit 3\nExit code: 3\nOutput:\nmade"), "{text}");
    assert_eq!(api.strays(), [""; 0]);
    talk.app.stop().await;
}

/// The names of our own tools that a request offers.
fn ours(request: &Recorded) -> Vec<String> {
    let tools = request.body["tools"].as_array().into_iter().flatten();
    let names = tools.filter_map(|tool| tool["name"].as_str());
    names.filter(|name| name.contains("thread_")).map(str::to_owned).collect()
}

/// EA4, M1: one server, one folder, two threads: each reads its own family and not the other's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ea4_two_threads_on_opencode_in_one_folder_read_their_own_family_and_not_the_others() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api).with_opencode();
    let app = App::start(&home).await;
    let threads = [app.new_thread(&home.work()).await, app.new_thread(&home.work()).await];
    app.watch(&threads).await;
    let nonces = [nonce(), nonce()];
    let mut tools = Vec::new();
    for (thread, nonce) in threads.iter().zip(&nonces) {
        app.turn(*thread, &opencode(), &format!("{nonce} is said here [[say:ok]]")).await;
        let names = ours(&api.turns().pop().expect("a request"));
        assert_eq!(names.len(), 3, "{names:?}\n{}", app.log());
        tools.push(names);
    }
    assert!(tools[0].iter().all(|name| !tools[1].contains(name)), "{tools:?}");
    let servers = app.agent_pids(Agent::OpenCode, &app.data.join("opencode"));
    assert_eq!(servers.len(), 1, "one server for both");

    for (own, other) in [(0, 1), (1, 0)] {
        let read = async |thread: &str, say: &str| {
            let call = json!({"thread_id": thread});
            app.turn(threads[own], &opencode(), &format!("[[call:thread_read:{call}]][[say:{say}]]")).await;
            let request = api.turns().pop().expect("a request");
            assert_eq!(ours(&request), tools[own]);
            request.texts("result").pop().expect("a result")
        };
        let page = read(&threads[own].to_string(), "read").await;
        assert!(page.contains(&nonces[own]) && !page.contains(&nonces[other]), "{page}");
        let refused = read(&threads[other].to_string(), "tried").await;
        assert!(!refused.contains(&nonces[other]) && !refused.contains("is said here"), "{refused}");
    }
    assert_eq!(api.strays(), [""; 0]);
    app.stop().await;
}

/// EA5, R5: neither SIGKILL nor SIGTERM makes OpenCode end its shells. The guard does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ea5_kill_9_of_the_app_while_opencode_runs_a_command_leaves_nothing_after_five_seconds() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api).with_opencode();
    let app = App::start(&home).await;
    let thread = app.new_thread(&home.work()).await;
    app.send(thread, target(&opencode()), "[[tool:bash:(sleep 600 &); setsid sleep 600 & sleep 600]]").await;
    let (data, pid) = (app.data.clone(), app.pid());
    let asleep = || marked::all_of(pid, &data).into_iter().filter(|seen| seen.command == "sleep 600").count();
    let begun = Instant::now();
    while asleep() < 3 {
        assert!(begun.elapsed() < PATIENCE, "the command did not run: {}", app.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = marked::all_of(pid, &data);
    app.kill().await;
    marked::gone_within(Duration::from_secs(5), &data, &before).await;

    // In good order too, and the session is there again afterwards.
    let app = App::start(&home).await;
    app.watch(&[thread]).await;
    app.turn(thread, &opencode(), "and on [[say:back]]").await;
    assert_eq!(app.last_reply(thread).await.text(), "back", "{}", app.log());
    let before = marked::all_of(app.pid(), &data);
    app.stop().await;
    marked::gone_within(Duration::from_secs(5), &data, &before).await;
    assert_eq!(api.strays(), [""; 0]);
}
