//! FC3: a turn that is refused, or cut off before an answer, on each real CLI: what the session is known to hold has not
//! moved, or the session was dropped (T9); and the same message, sent again as itself, stands once in the transcript and
//! once in the request, with the history once (T8).

use std::path::PathBuf;

use changeover_core::{
    failure::FailureKind,
    id::MessageId,
    message::{MessageState, Role},
    notice::Notice,
    provider::ProviderId,
    seq::Seq,
};
use changeover_engine::api::types::{Event, EventBody, ProviderState};
use changeover_tests::{
    agents::{Agent, AgentHome},
    app::{App, Start, database, kill_pid, put_session, session_records, stop_pid},
    fake_api::{Failure, FakeApi, Rule},
    talk::Talk,
};

fn provider(agent: Agent) -> ProviderId {
    match agent {
        Agent::Claude => ProviderId::claude(),
        Agent::Codex => ProviderId::codex(),
        Agent::OpenCode => ProviderId::opencode(),
    }
}

/// The other one: its turn leaves something that is to be told.
fn other(agent: Agent) -> ProviderId {
    match agent {
        Agent::Claude => ProviderId::codex(),
        Agent::Codex | Agent::OpenCode => ProviderId::claude(),
    }
}

/// One attempt a turn: the app's own retries are not what is tested here.
async fn start(home: &AgentHome) -> App {
    App::start_with(home, Start { max_attempts: Some(1), ..Start::default() }).await
}

/// How far a provider's session has seen; `None`: it has none.
fn known(talk: &Talk<'_>, provider: &ProviderId) -> Option<Seq> {
    session_records(&talk.app.database(), talk.thread).get(provider).map(|session| session.known_upto_seq)
}

/// The message was refused for this reason, and nothing else has changed.
async fn refused(talk: &Talk<'_>, agent: Agent, message: MessageId, kind: FailureKind, before: Option<Seq>) {
    let messages = talk.app.messages(talk.thread).await;
    let last = messages.last().expect("a message");
    match &last.notice {
        Some(Notice::Error { provider: whose, failure }) => {
            assert_eq!((whose, failure.kind), (&provider(agent), kind), "{failure:?}");
            assert!(!failure.message.is_empty(), "it says what happened");
        }
        other => panic!("{kind:?} was expected, not {other:?}\n{}{}", talk.transcript().await, talk.app.log()),
    }
    let sent = messages.iter().find(|m| m.id == message).expect("the message");
    assert_eq!((sent.role, sent.state), (Role::User, MessageState::NotAnswered));
    assert!(messages.iter().all(|m| m.seq <= sent.seq || m.role != Role::Assistant), "{}", talk.transcript().await);
    let now = known(talk, &provider(agent));
    assert!(now.is_none() || now == before, "the mark moved from {before:?} to {now:?}");
}

/// Sent again, the message is answered, and stands once in the transcript; T6 holds.
async fn answered_again(talk: &mut Talk<'_>, agent: Agent, message: MessageId) {
    talk.app.again(talk.thread, &provider(agent), message).await;
    let reply = talk.nonces.last().expect("a nonce").clone();
    talk.answered(&reply).await;
    let asked = &talk.nonces[talk.nonces.len() - 2];
    let messages = talk.app.messages(talk.thread).await;
    let holding: Vec<MessageId> = messages.iter().filter(|m| m.text().contains(asked)).map(|m| m.id).collect();
    assert_eq!(holding, [message], "{}", talk.transcript().await);
    let answers = messages.iter().filter(|m| m.text().contains(&reply)).count();
    assert_eq!(answers, 1, "{}", talk.transcript().await);
    talk.told_once().await;
}

/// A turn of each, so that the session knows something and has something to be told.
async fn warm(talk: &mut Talk<'_>, agent: Agent) {
    talk.say(&provider(agent), "to begin with").await;
    talk.say(&other(agent), "and besides").await;
}

/// The API refuses three times, in three ways; then the folder is gone; then the program.
async fn api_folder_and_program(agent: Agent) {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = Talk::new(&api, start(&home).await, &home.work()).await;
    warm(&mut talk, agent).await;
    let before = known(&talk, &provider(agent));
    assert!(before.is_some());

    let fails = |status| api.rule(Rule { error: Failure::Status(status), count: 100, ..Rule::default() });
    fails(401);
    let message = talk.try_say(&provider(agent), "are you there?").await;
    refused(&talk, agent, message, FailureKind::NotLoggedIn, before).await;
    for (status, kind) in [(429, FailureKind::RateLimited), (529, FailureKind::Unavailable)] {
        api.clear_rules();
        fails(status);
        talk.app.again(talk.thread, &provider(agent), message).await;
        refused(&talk, agent, message, kind, before).await;
    }
    api.clear_rules();
    answered_again(&mut talk, agent, message).await;

    talk.say(&other(agent), "something to be told").await;
    let before = known(&talk, &provider(agent));
    let sent = api.requests().len();
    let (folder, away) = (home.work(), home.root().join("work-away"));
    std::fs::rename(&folder, &away).expect("the folder is moved");
    let message = talk.try_say(&provider(agent), "where are we?").await;
    refused(&talk, agent, message, FailureKind::FolderGone, before).await;
    talk.app.again(talk.thread, &provider(agent), message).await;
    refused(&talk, agent, message, FailureKind::FolderGone, before).await;
    std::fs::rename(&away, &folder).expect("the folder is moved back");

    let kept = talk.stop().await;
    let link = home.bin().join(agent.command());
    std::fs::remove_file(&link).expect("the program is gone");
    let mut talk = Talk::resume(&api, start(&home).await, kept).await;
    talk.app.again(talk.thread, &provider(agent), message).await;
    refused(&talk, agent, message, FailureKind::NotInstalled, before).await;
    assert_eq!(api.requests().len(), sent, "nothing was sent while folder or program were gone");
    std::os::unix::fs::symlink(agent.binary(), &link).expect("the program is back");
    answered_again(&mut talk, agent, message).await;
    assert_eq!(api.strays(), [""; 0]);
    talk.app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc3_claude_401_429_529_folder_gone_program_gone() {
    api_folder_and_program(Agent::Claude).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc3_codex_401_429_529_folder_gone_program_gone() {
    api_folder_and_program(Agent::Codex).await;
}

/// The keys are taken away and given back.
async fn logged_out(agent: Agent) {
    let api = FakeApi::start().await;
    let mut home = AgentHome::new(&api);
    let mut talk = Talk::new(&api, start(&home).await, &home.work()).await;
    warm(&mut talk, agent).await;
    let before = known(&talk, &provider(agent));
    let kept = talk.stop().await;

    let config: PathBuf = home.codex_home().join("config.toml");
    let (key, logged_in) = (home.env()["ANTHROPIC_API_KEY"].clone(), std::fs::read_to_string(&config).expect("it"));
    home = home.logged_out();
    let sent = api.requests().len();
    let mut talk = Talk::resume(&api, start(&home).await, kept).await;
    let message = talk.try_say(&provider(agent), "do you know me?").await;
    refused(&talk, agent, message, FailureKind::NotLoggedIn, before).await;
    talk.app.again(talk.thread, &provider(agent), message).await;
    refused(&talk, agent, message, FailureKind::NotLoggedIn, before).await;
    let asked = |n: usize| api.requests()[n..].iter().filter(|r| !r.user_text.is_empty()).count();
    assert_eq!(asked(sent), 0, "nothing was sent");
    let kept = talk.stop().await;

    home.set("ANTHROPIC_API_KEY", &key);
    home.set("FAKE_API_KEY", &key);
    home.write_codex_config(&logged_in);
    let mut talk = Talk::resume(&api, start(&home).await, kept).await;
    answered_again(&mut talk, agent, message).await;
    assert_eq!(api.strays(), [""; 0]);
    talk.app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc3_claude_not_logged_in() {
    logged_out(Agent::Claude).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc3_codex_not_logged_in() {
    logged_out(Agent::Codex).await;
}

/// The session's one process.
fn pid(talk: &Talk<'_>, agent: Agent, home: &AgentHome) -> u32 {
    let pids = talk.app.agent_pids(agent, &home.work());
    assert_eq!(pids.len(), 1, "one process of {agent:?}: {pids:?}");
    pids[0]
}

/// Waits until the prompt stands in the CLI's history and the model is asked, then kills the CLI.
async fn killed_taken(talk: &Talk<'_>, agent: Agent, home: &AgentHome, mark: usize, gate: &str, times: usize) {
    talk.api.wait_gate_times(gate, times).await;
    kill_pid(pid(talk, agent, home));
    talk.app.turn_ended(mark, talk.thread).await;
}

/// The CLI is killed before it took the prompt, and between taking it and answering: in the first turn of its session, and
/// in a later one.
async fn killed(agent: Agent) {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = Talk::new(&api, start(&home).await, &home.work()).await;
    let it = provider(agent);

    // Its first turn: there is no place to bring the session back to.
    let (message, mark) = talk.begin(&it, "first [[gate_before:first]]").await;
    killed_taken(&talk, agent, &home, mark, "first", 1).await;
    refused(&talk, agent, message, FailureKind::Exited, None).await;
    assert_eq!(known(&talk, &it), None, "nothing is known of a session that never answered");
    api.open_gate("first");
    answered_again(&mut talk, agent, message).await;
    talk.say(&other(agent), "and besides").await;
    let before = known(&talk, &it);
    assert!(before.is_some());

    // Stopped, it cannot take what is written to it.
    let process = pid(&talk, agent, &home);
    stop_pid(process);
    let sent = api.turns().len();
    let (message, mark) = talk.begin(&it, "second [[gate_before:second]]").await;
    talk.sent(mark).await;
    kill_pid(process);
    talk.app.turn_ended(mark, talk.thread).await;
    refused(&talk, agent, message, FailureKind::Exited, before).await;
    assert_eq!(api.turns().len(), sent, "it was killed before it took the prompt");

    // Then twice between taken and answered.
    for times in [1, 2] {
        let mark = talk.app.mark();
        talk.app.begin_again(talk.thread, &it, message).await;
        killed_taken(&talk, agent, &home, mark, "second", times).await;
        refused(&talk, agent, message, FailureKind::Exited, before).await;
    }
    api.open_gate("second");
    answered_again(&mut talk, agent, message).await;
    // And the session is good for more.
    talk.say(&other(agent), "well").await;
    talk.say(&it, "well then").await;
    talk.told_once().await;
    assert_eq!(api.strays(), [""; 0]);
    talk.app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc3_claude_killed_before_taken_and_before_answered() {
    killed(Agent::Claude).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc3_codex_killed_before_taken_and_before_answered() {
    killed(Agent::Codex).await;
}

/// The check would show it: a session that is not brought back holds the refused prompt, and gets it a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc3_the_table_shows_a_prompt_that_was_left_standing() {
    let (api, codex) = (FakeApi::start().await, ProviderId::codex());
    let home = AgentHome::new(&api);
    let app = start(&home).await;
    let data = app.data.clone();
    let mut talk = Talk::new(&api, app, &home.work()).await;
    talk.say(&codex, "to begin with").await;
    api.rule(Rule { error: Failure::Status(401), count: 100, ..Rule::default() });
    let message = talk.try_say(&codex, "are you there?").await;
    api.clear_rules();
    let kept = talk.stop().await;
    let mut session = session_records(&database(&data), kept.0).remove(&codex).expect("a session");
    assert!(session.rewind, "T9: it is to be brought back");
    (session.rewind, session.anchor) = (false, None);
    put_session(&data, kept.0, &session);
    let talk = Talk::resume(&api, start(&home).await, kept).await;
    talk.app.again(talk.thread, &codex, message).await;
    let (shown, wrong) = talk.told().await;
    println!("{shown}{wrong:#?}");
    assert!(wrong.iter().any(|line| line.contains("2 times")), "{wrong:#?}");
    talk.app.stop().await;
}

/// R2: detection has ten seconds; a program that takes longer to say its version is no reason to refuse a turn. It is waited
/// for when its session opens, and from then on it is known to be there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_a_program_that_is_only_slow_is_waited_for() {
    use std::os::unix::fs::PermissionsExt as _;

    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let link = home.bin().join(Agent::Claude.command());
    std::fs::remove_file(&link).expect("its place");
    let real = Agent::Claude.binary();
    // What is slow here is the machine's stand-in: nothing waits for it but the app.
    let script = format!("#!/bin/sh\ncase $* in --version) sleep 3600;; esac\nexec '{}' \"$@\"\n", real.display());
    std::fs::write(&link, script).expect("a script");
    std::fs::set_permissions(&link, std::fs::Permissions::from_mode(0o755)).expect("it can be run");

    let app = start(&home).await;
    let claude = ProviderId::claude();
    let seen = app.provider(&claude).await;
    let problem = seen.problem.expect("it gave no answer");
    assert_eq!((seen.state, problem.kind), (ProviderState::Broken, FailureKind::NoProgress), "{problem:?}");
    let thread = app.new_thread(&home.work()).await;
    let mark = app.mark();
    app.turn(thread, &claude, "[[say:here I am]]").await;
    let reply = app.last_reply(thread).await;
    assert_eq!((reply.state, reply.text().as_str()), (MessageState::Done, "here I am"), "{}", app.log());
    let ready = |e: &Event| match &e.body {
        EventBody::Providers { providers } => {
            providers.iter().any(|p| p.id == claude && p.state == ProviderState::Ready && p.problem.is_none())
        }
        _ => false,
    };
    app.event_from(mark, ready).await;
    app.stop().await;
}
