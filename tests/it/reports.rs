//! Public reports on resuming, stopping, processes and approvals, each tried on the real app (the other rows: tests/REPORTS.md).

use std::{
    fs,
    time::{Duration, Instant},
};

use changeover_core::{
    approval::ApprovalDecision,
    message::{Message, MessageState},
    part::PartBody,
    provider::{ApprovalMode, ProviderId, Target},
    transition::TransitionKind,
    turn::record::{Approval, ApprovalState},
};
use changeover_engine::api::types::{ApprovalAnswerParams, EventBody, Nothing, ThreadMark};
use changeover_tests::{
    agents::{Agent, AgentHome},
    app::{App, stop_pid, target},
    fake_api::FakeApi,
    marked::all_of,
    talk::Talk,
};

const AGENTS: [(Agent, fn() -> ProviderId); 2] =
    [(Agent::Claude, ProviderId::claude), (Agent::Codex, ProviderId::codex)];

/// A target that asks for everything.
fn asking(provider: &ProviderId) -> Target {
    Target { mode: ApprovalMode::Ask, ..target(provider) }
}

/// The first question after a mark.
async fn question(app: &App, mark: usize) -> Approval {
    let event = app.event_from(mark, |e| matches!(e.body, EventBody::Approval { .. })).await;
    let EventBody::Approval { approval } = event.body else { unreachable!("it is one") };
    assert_eq!(approval.state, ApprovalState::Open);
    approval
}

/// R004, R007: agents are gone with the app; reopened, the thread is idle, and the next message goes on in the very session
/// that the CLI named last, which is told nothing again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r004_r007_after_a_restart_the_same_session_goes_on() {
    for (agent, provider) in AGENTS {
        let (api, provider) = (FakeApi::start().await, provider());
        let home = AgentHome::new(&api);
        let mut talk = Talk::new(&api, App::start(&home).await, &home.work()).await;
        talk.say(&provider, "remember 4711").await;
        let sessions = |page: &changeover_engine::api::types::ThreadReadResponse| {
            page.sessions.iter().map(|session| session.session_id.clone()).collect::<Vec<_>>()
        };
        let before = sessions(&talk.app.page(talk.thread).await);
        let kept = talk.stop().await;
        let mut talk = Talk::resume(&api, App::start(&home).await, kept).await;
        assert_eq!(talk.app.agent_pids(agent, &home.work()), [0; 0], "{provider}");
        let page = talk.app.page(talk.thread).await;
        assert!(page.turn.is_none() && page.thread.mark != ThreadMark::Running, "{:?}", page.thread);
        assert_eq!(sessions(&page), before);
        let said = talk.say(&provider, "which number?").await;
        assert_eq!(said.preview.kind, TransitionKind::Reuse);
        assert_eq!(sessions(&talk.app.page(talk.thread).await), before, "{provider}");
        let last = api.requests().into_iter().rev().find(|r| r.user_text.contains(&said.nonce)).expect("asked");
        assert_eq!(last.count("remember 4711"), 1, "{provider}");
        talk.told_once().await;
        talk.app.stop().await;
    }
}

/// R055: the app ends while a command waits for its leave; reopened, another agent takes over and answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r055_a_question_that_was_open_at_the_end_blocks_no_other_agent() {
    for (_, provider) in AGENTS {
        let (api, provider) = (FakeApi::start().await, provider());
        let other = if provider == ProviderId::claude() { ProviderId::codex() } else { ProviderId::claude() };
        let home = AgentHome::new(&api);
        let app = App::start(&home).await;
        let talk = Talk::new(&api, app, &home.work()).await;
        let mark = talk.app.mark();
        talk.app.send(talk.thread, asking(&provider), "[[tool:bash:touch pending]][[say:done]]").await;
        question(&talk.app, mark).await;
        let (thread, nonces) = (talk.thread, talk.nonces.clone());
        talk.app.kill().await;
        let mut talk = Talk::resume(&api, App::start(&home).await, (thread, nonces)).await;
        let reply = talk.app.last_reply(thread).await;
        assert_eq!(reply.state, MessageState::Interrupted);
        talk.say(&other, "and now?").await;
        talk.say(&provider, "and you?").await;
        assert!(!home.work().join("pending").exists(), "nobody allowed it");
        talk.told_once().await;
        talk.app.stop().await;
    }
}

/// The commands of all messages, whole.
fn commands(messages: &[Message]) -> Vec<PartBody> {
    let parts = messages.iter().flat_map(|message| message.parts.iter().map(|part| part.body.clone()));
    parts.filter(|body| matches!(body, PartBody::Command { .. })).collect()
}

/// R056: what commands printed is there after a restart, and no finished one counts as failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r056_finished_commands_keep_their_output_through_a_restart() {
    for (_, provider) in AGENTS {
        let (api, provider) = (FakeApi::start().await, provider());
        let home = AgentHome::new(&api);
        let mut talk = Talk::new(&api, App::start(&home).await, &home.work()).await;
        let calls: String = ["one", "two", "three"].map(|n| format!("[[tool:bash:x={n}; echo out-$x]]\n")).concat();
        talk.say(&provider, &calls).await;
        let before = commands(&talk.app.messages(talk.thread).await);
        let outputs = ["one", "two", "three"].map(|n| format!("out-{n}"));
        assert_eq!(before.len(), 3);
        for (body, wanted) in before.iter().zip(&outputs) {
            let PartBody::Command { output, exit_code, .. } = body else { unreachable!("only commands") };
            assert_eq!((output.trim_end(), *exit_code), (wanted.as_str(), Some(0)));
        }
        let kept = talk.stop().await;
        let talk = Talk::resume(&api, App::start(&home).await, kept).await;
        assert_eq!(commands(&talk.app.messages(talk.thread).await), before, "{provider}");
        talk.app.stop().await;
    }
}

/// R167: two threads on one agent, in turn, in one run of the app: each goes on in its own session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r167_two_threads_in_turn_are_both_answered_each_time() {
    for (_, provider) in AGENTS {
        let (api, provider) = (FakeApi::start().await, provider());
        let home = AgentHome::new(&api);
        let app = App::start(&home).await;
        let threads = [app.new_thread(&home.work()).await, app.new_thread(&home.work()).await];
        app.watch(&threads).await;
        for round in 0..2 {
            for (at, thread) in threads.into_iter().enumerate() {
                let (mine, other) = (format!("word-{at}-"), format!("word-{}-", 1 - at));
                app.turn(thread, &provider, &format!("{mine}{round} [[say:heard {mine}{round}]]")).await;
                assert_eq!(app.last_reply(thread).await.text(), format!("heard {mine}{round}"), "{}", app.log());
                let last = api.requests().into_iter().rev().find(|r| r.user_text.contains(&mine)).expect("asked");
                assert_eq!(last.count(&other), 0, "{provider}: the other thread's words");
                assert_eq!(last.texts("user").iter().filter(|text| text.contains(&mine)).count(), round + 1);
            }
        }
        app.stop().await;
    }
}

/// R209: an agent that is stuck (stopped dead: it hears nothing, not even a request to end) is killed within 3 s, and the
/// thread goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r209_stop_ends_an_agent_that_is_stuck() {
    for (agent, provider) in AGENTS {
        let (api, provider) = (FakeApi::start().await, provider());
        let home = AgentHome::new(&api);
        let app = App::start(&home).await;
        let thread = app.new_thread(&home.work()).await;
        let mark = app.mark();
        app.send(thread, target(&provider), "[[gate:stuck]][[say:never]]").await;
        api.wait_gate("stuck").await;
        let pids = app.agent_pids(agent, &home.work());
        assert_eq!(pids.len(), 1);
        stop_pid(pids[0]);
        let begun = Instant::now();
        app.interrupt(thread).await;
        app.turn_ended(mark, thread).await;
        let took = begun.elapsed();
        assert!(took <= Duration::from_millis(3_500), "{provider}: {took:?}");
        assert_eq!(app.agent_pids(agent, &home.work()), [0; 0], "{provider} was killed");
        api.open_gate("stuck");
        app.turn(thread, &provider, "[[say:on we go]]").await;
        assert_eq!(app.last_reply(thread).await.text(), "on we go", "{}", app.log());
        app.stop().await;
    }
}

/// R063: a question in a thread that is not in view: its row waits for the person, whatever is looked at, and the card is
/// there when it is opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r063_a_question_in_another_thread_shows_on_its_row_and_when_it_is_opened() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let app = App::start(&home).await;
    let (looked_at, asks) = (app.new_thread(&home.work()).await, app.new_thread(&home.work()).await);
    app.watch(&[looked_at]).await;
    let mark = app.mark();
    app.send(asks, asking(&ProviderId::practice()), "run: touch made").await;
    let waits = |body: &EventBody| matches!(body, EventBody::Thread { thread } if thread.mark == ThreadMark::Waiting);
    app.event_from(mark, |e| e.thread_id == Some(asks) && waits(&e.body)).await;
    app.watch(&[asks]).await;
    let page = app.page(asks).await;
    let [approval] = &page.approvals[..] else { panic!("{:?}", page.approvals) };
    assert_eq!(approval.state, ApprovalState::Open);
    let mark = app.mark();
    let params = ApprovalAnswerParams { thread_id: asks, approval_id: approval.id, decision: ApprovalDecision::Once };
    let _: Nothing = app.get("approval/answer", &params).await;
    app.turn_ended(mark, asks).await;
    assert!(home.work().join("made").exists());
    app.stop().await;
}

/// R061: an orderly end of the app in the middle of a turn leaves no agent and no command of its within 5 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r061_quitting_in_the_middle_of_a_turn_leaves_no_process() {
    for (_, provider) in AGENTS {
        let (api, provider) = (FakeApi::start().await, provider());
        let home = AgentHome::new(&api);
        let app = App::start(&home).await;
        let thread = app.new_thread(&home.work()).await;
        app.send(thread, target(&provider), "[[tool:bash:touch begun; sleep 3617]][[say:never]]").await;
        let begun = Instant::now();
        while !home.work().join("begun").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{provider}: the command did not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let before = all_of(app.pid(), &app.data);
        assert!(before.iter().any(|seen| seen.command.contains("sleep 3617")), "{before:?}");
        let data = app.data.clone();
        let begun = Instant::now();
        app.stop().await;
        changeover_tests::marked::gone_within(Duration::from_secs(5).saturating_sub(begun.elapsed()), &data, &before)
            .await;
    }
}

/// R147: started in `/`, as from a dock, the agent works in the project's folder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r147_an_app_that_was_started_in_the_root_runs_agents_in_the_project() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut command = tokio::process::Command::new(changeover_tests::app::binary());
    command.args(["run", "--project"]).arg(home.work()).arg("--data").arg(home.root().join("data"));
    command.args(["--provider", "practice", "--approve", "all", "run: pwd > where"]);
    command.current_dir("/").env_clear().envs(home.env()).env("CHANGEOVER_NO_SHELL", "1").kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await.expect("it ends").expect("ran");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = fs::read_to_string(home.work().join("where")).expect("written in the project");
    assert_eq!(told.trim_end(), home.work().to_str().expect("a path"));
}
