//! The steps that the tests on a bare CLI share.

use changeover_tests::agents::AgentHome;
use changeover_tests::cli::Cli;
use changeover_tests::fake_api::{FakeApi, Recorded};
use serde_json::{Value, json};
use uuid::Uuid;

/// A fresh id for a prompt or a session.
pub fn uuid() -> String {
    Uuid::new_v4().to_string()
}

fn owned(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// What the newest turn request says was said, each text trimmed.
pub fn told(api: &FakeApi) -> Vec<(String, String)> {
    let turns = api.turns();
    trimmed(turns.last().expect("a request"))
}

fn trimmed(request: &Recorded) -> Vec<(String, String)> {
    let said = request.conversation().into_iter();
    said.map(|(role, text)| (role, text.trim().to_owned())).collect()
}

/// (role, text) pairs as [`told`] gives them.
pub fn said(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

/// A prompt that Claude Code answers: its session, and the uuid of the reply's last line.
pub async fn claude_turn(cli: &mut Cli, text: &str) -> (String, String) {
    cli.prompt(&uuid(), text).await;
    let result = cli.result().await;
    let mut newest_first = cli.seen().iter().rev();
    let reply = newest_first.find(|line| line["type"] == "assistant");
    let anchor = owned(&reply.expect("a reply")["uuid"]);
    (owned(&result["session_id"]), anchor)
}

/// A new Codex thread in the home's folder, that runs whatever the model asks for.
pub async fn codex_thread(cli: &mut Cli, home: &AgentHome) -> String {
    let params = json!({"cwd": home.work(), "approvalPolicy": "never", "sandbox": "danger-full-access"});
    let started = cli.call("thread/start", params).await.expect("a thread");
    owned(&started["thread"]["id"])
}

/// Starts a Codex turn; its id.
pub async fn codex_begin(cli: &mut Cli, thread: &str, text: &str) -> String {
    let input = json!([{"type": "text", "text": text}]);
    let params = json!({"threadId": thread, "input": input, "clientUserMessageId": text});
    let started = cli.call("turn/start", params).await.expect("a turn");
    owned(&started["turn"]["id"])
}

/// A Codex turn to its end.
pub async fn codex_turn(cli: &mut Cli, thread: &str, text: &str) -> Value {
    let id = codex_begin(cli, thread, text).await;
    let ours = |line: &Value| line["method"] == "turn/completed" && line["params"]["turn"]["id"] == id.as_str();
    cli.until(ours).await["params"]["turn"].clone()
}
