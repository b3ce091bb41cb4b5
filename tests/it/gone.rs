//! FC4: a session that is gone goes on by itself as a handoff, once (T5); what only looks like it drops nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use changeover_core::{
    failure::FailureKind, id::ThreadId, notice::Notice, provider::ProviderId, session::SessionRecord,
    transition::TransitionKind,
};
use changeover_tests::{
    agents::{Agent, AgentHome},
    app::{App, Start, database, put_session, session_records},
    cli::Cli,
    fake_api::{Failure, FakeApi, Rule},
    talk::Talk,
};
use serde_json::json;

async fn start(home: &AgentHome) -> App {
    App::start_with(home, Start { max_attempts: Some(1), ..Start::default() }).await
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The CLI's own file of a session.
fn session_file(home: &AgentHome, session: &str) -> PathBuf {
    let named = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.contains(session) && name.ends_with(".jsonl")
    };
    let mut found: Vec<PathBuf> =
        [home.claude_home(), home.codex_home()].iter().flat_map(|folder| files(folder)).filter(named).collect();
    assert_eq!(found.len(), 1, "one file of {session}: {found:?}");
    found.remove(0)
}

fn record(data: &Path, thread: ThreadId, provider: &ProviderId) -> SessionRecord {
    session_records(&database(data), thread).remove(provider).expect("a session")
}

/// The reasons of all notices of lost sessions.
async fn lost(talk: &Talk<'_>) -> Vec<String> {
    let messages = talk.app.messages(talk.thread).await.into_iter();
    messages
        .filter_map(|message| match message.notice {
            Some(Notice::SessionGone { reason, .. }) => Some(reason),
            _ => None,
        })
        .collect()
}

/// One way to lose a session, done to its record and its CLI's files while no app runs; the CLI's words for it.
type Loss = (fn(&AgentHome, &mut SessionRecord), &'static str);

/// Each loss in turn, in one thread: one notice with the CLI's words, a handoff that tells everything once, and no dead end.
async fn goes_on(provider: ProviderId, losses: &[Loss]) {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let app = start(&home).await;
    let data = app.data.clone();
    let mut talk = Talk::new(&api, app, &home.work()).await;
    talk.say(&provider, "to begin with").await;
    for (n, (lose, words)) in losses.iter().enumerate() {
        let kept = talk.stop().await;
        let mut session = record(&data, kept.0, &provider);
        lose(&home, &mut session);
        put_session(&data, kept.0, &session);
        talk = Talk::resume(&api, start(&home).await, kept).await;

        let (text, _, answered) = talk.compose("are you still there?", "");
        let (before, handed) = (api.turns().len(), talk.handovers().await.len());
        talk.app.turn(talk.thread, &provider, &text).await;
        talk.answered(&answered).await;
        let reasons = lost(&talk).await;
        assert_eq!(reasons.len(), n + 1, "one notice each time: {reasons:?}");
        assert!(reasons[n].contains(words), "{:?} does not hold {words:?}", reasons[n]);
        let handovers = talk.handovers().await;
        assert_eq!(handovers.len(), handed + 1, "{}", talk.transcript().await);
        let (notice, handover) = handovers.last().expect("a handover");
        assert_eq!(handover.kind, TransitionKind::Handoff);
        assert_eq!(handover.left_out, []);
        let told = talk.app.handover_text(talk.thread, *notice).await;
        let requests = &api.turns()[before..];
        let held = requests.iter().filter(|r| r.texts("user").iter().any(|text| text.starts_with(&told))).count();
        assert!(held == requests.len() && held > 0, "every request of the turn is the handoff's");
        assert_ne!(record(&data, talk.thread, &provider).session_id, session.session_id);
        talk.told_once().await;
        // And it stays: the next turn simply goes on.
        let next = talk.say(&provider, "good").await;
        assert_eq!(next.preview.kind, TransitionKind::Reuse);
        assert_eq!(lost(&talk).await.len(), n + 1);
    }
    talk.told_once().await;
    assert_eq!(api.strays(), [""; 0]);
    talk.app.stop().await;
}

fn file_deleted(home: &AgentHome, session: &mut SessionRecord) {
    fs::remove_file(session_file(home, &session.session_id)).expect("it is deleted");
}

fn unknown_id(_: &AgentHome, session: &mut SessionRecord) {
    session.session_id = uuid::Uuid::new_v4().to_string();
}

fn no_id(_: &AgentHome, session: &mut SessionRecord) {
    session.session_id = "zzz-nonsense".to_owned();
}

fn unknown_place(_: &AgentHome, session: &mut SessionRecord) {
    session.anchor = Some(uuid::Uuid::new_v4().to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc4_claude_a_session_that_is_gone_goes_on_as_a_handoff() {
    let losses: [Loss; 4] = [
        (file_deleted, "No conversation found with session ID:"),
        (unknown_id, "No conversation found with session ID:"),
        (no_id, "--resume requires a valid session ID"),
        (unknown_place, "No message found with message.uuid of:"),
    ];
    goes_on(ProviderId::claude(), &losses).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc4_codex_a_session_that_is_gone_goes_on_as_a_handoff() {
    let losses: [Loss; 4] = [
        (file_deleted, "no rollout found for thread id"),
        (unknown_id, "no rollout found for thread id"),
        (no_id, "invalid session id:"),
        (unknown_place, "turn not found:"),
    ];
    goes_on(ProviderId::codex(), &losses).await;
}

/// A failure that is no loss: refused for this reason, the session is the one that it was, and no notice says otherwise.
async fn not_lost(talk: &Talk<'_>, provider: &ProviderId, kinds: &[FailureKind], words: &str) {
    let messages = talk.app.messages(talk.thread).await;
    match messages.last().and_then(|message| message.notice.as_ref()) {
        Some(Notice::Error { failure, .. }) => {
            assert!(kinds.contains(&failure.kind), "{failure:?}");
            assert!(failure.message.contains(words), "{failure:?} does not hold {words:?}");
        }
        other => panic!("{other:?}\n{}{}", talk.transcript().await, talk.app.log()),
    }
    assert_eq!(lost(talk).await, [""; 0]);
    let records = session_records(&talk.app.database(), talk.thread);
    assert!(records.contains_key(provider), "the session was dropped\n{}", talk.transcript().await);
}

/// After all the failures the same message goes on in the same session: nothing was ever handed over.
async fn goes_on_in_the_same(talk: &mut Talk<'_>, provider: &ProviderId, message: changeover_core::id::MessageId) {
    talk.app.again(talk.thread, provider, message).await;
    let reply = talk.nonces.last().expect("a nonce").clone();
    talk.answered(&reply).await;
    assert_eq!(talk.handovers().await, []);
    assert_eq!(lost(talk).await, [""; 0]);
    talk.told_once().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc4_claude_lookalikes_drop_nothing() {
    let (api, claude) = (FakeApi::start().await, ProviderId::claude());
    let home = AgentHome::new(&api);
    let app = start(&home).await;
    let data = app.data.clone();
    let mut talk = Talk::new(&api, app, &home.work()).await;
    talk.say(&claude, "to begin with").await;
    let id = record(&data, talk.thread, &claude).session_id;
    // The model may say the words.
    talk.say_to(&claude, "what do you say?", &format!("No conversation found with session ID: {id}")).await;
    assert_eq!(record(&data, talk.thread, &claude).session_id, id);

    api.rule(Rule { error: Failure::Status(500), count: 100, ..Rule::default() });
    let message = talk.try_say(&claude, "and now?").await;
    not_lost(&talk, &claude, &[FailureKind::Unavailable], "500").await;
    api.clear_rules();

    // The CLI ends before it opens the session, for another reason.
    let kept = talk.stop().await;
    let link = home.bin().join("claude");
    fs::remove_file(&link).expect("the link");
    let broken = home.root().join("no-such-file.json");
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in -p) exec '{0}' \"$@\" --mcp-config='{1}';; esac\nexec '{0}' \"$@\"\n",
        Agent::Claude.binary().display(),
        broken.display()
    );
    fs::write(&link, script).expect("a script");
    fs::set_permissions(&link, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it can be run");
    let talk = {
        let talk = Talk::resume(&api, start(&home).await, kept).await;
        talk.app.again(talk.thread, &claude, message).await;
        not_lost(&talk, &claude, &ANY, "MCP").await;
        talk
    };
    fs::remove_file(&link).expect("the script");
    std::os::unix::fs::symlink(Agent::Claude.binary(), &link).expect("a link");
    let kept = talk.stop().await;
    let mut talk = Talk::resume(&api, start(&home).await, kept).await;
    goes_on_in_the_same(&mut talk, &claude, message).await;
    talk.app.stop().await;
}

/// Kinds of a start that fails; which of them is the adapter's to say.
const ANY: [FailureKind; 4] =
    [FailureKind::Rejected, FailureKind::Exited, FailureKind::Protocol, FailureKind::NotInstalled];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc4_codex_lookalikes_drop_nothing() {
    let (api, codex) = (FakeApi::start().await, ProviderId::codex());
    let home = AgentHome::new(&api);
    let app = start(&home).await;
    let data = app.data.clone();
    let mut talk = Talk::new(&api, app, &home.work()).await;
    talk.say(&codex, "to begin with").await;
    let id = record(&data, talk.thread, &codex).session_id;
    talk.say_to(&codex, "what do you say?", &format!("no rollout found for thread id {id}")).await;
    assert_eq!(record(&data, talk.thread, &codex).session_id, id);

    api.rule(Rule { error: Failure::Status(500), count: 100, ..Rule::default() });
    let message = talk.try_say(&codex, "and now?").await;
    not_lost(&talk, &codex, &[FailureKind::Unavailable], "").await;
    api.clear_rules();

    // Another process has the session open.
    let kept = talk.stop().await;
    let mut holder = Cli::codex(&home, &home.work()).await;
    holder.call("thread/resume", json!({"threadId": id})).await.expect("it is resumed");
    let talk = Talk::resume(&api, start(&home).await, kept).await;
    talk.app.again(talk.thread, &codex, message).await;
    not_lost(&talk, &codex, &ANY, "already has an active writer").await;
    holder.close().await;

    // A broken MCP configuration of the user's.
    let kept = talk.stop().await;
    let config = home.codex_home().join("config.toml");
    let good = fs::read_to_string(&config).expect("a config");
    home.write_codex_config(&format!("{good}\n[mcp_servers.x]\ncommand = 5\n"));
    let talk = Talk::resume(&api, start(&home).await, kept).await;
    talk.app.again(talk.thread, &codex, message).await;
    not_lost(&talk, &codex, &ANY, "config.toml").await;
    home.write_codex_config(&good);
    let kept = talk.stop().await;
    let mut talk = Talk::resume(&api, start(&home).await, kept).await;
    goes_on_in_the_same(&mut talk, &codex, message).await;
    talk.app.stop().await;
}
