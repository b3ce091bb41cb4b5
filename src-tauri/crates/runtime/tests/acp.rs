//! The ACP runtime against scripted agents: real processes that say what PROTOCOLS has seen real agents say.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{fs, os::unix::fs::PermissionsExt};

use changeover_core::{
    approval::ApprovalSubject,
    event::{Ended, Keeps, RuntimeEvent as Event},
    failure::{Failure, FailureKind},
    part::WorkStatus,
    provider::ApprovalMode,
};
use changeover_runtime::{
    acp::{AcpAgent, AcpRuntime, Program},
    session::{AgentRuntime, Answer, Environment, McpAccess, Resume},
};
use support::{Scene, ended, exited, text};

/// Each line we write goes into `in.N` (1: the greeting, 2: the session, 3: the prompt, …).
const TAKE: &str = r#"
n=0
take() { n=$((n+1)); IFS= read -r line || exit 0; printf '%s\n' "$line" > "$OUT/in.$n"; }
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'"$1"'}}'; }
take; say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"fake","version":"9"},"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}},"authMethods":[{"id":"k","name":"Use a key"}]}}'
"#;
const NEW: &str = r#"take; say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'"#;

fn scene(script: &str) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir_all(&out).unwrap();
    let program = dir.path().join("agent");
    fs::write(&program, format!("#!/bin/bash\n{TAKE}\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let env = Environment::from([("OUT".into(), out.to_str().unwrap().into())]);
    let id = "acp:fake".parse().unwrap();
    let agent = AcpAgent { id, program: Program::Search("agent".into()), args: vec![], env, keeps: Keeps::UNKNOWN };
    let runtime = AcpRuntime::new(agent);
    runtime.pick(Some(program));
    Scene::with(dir, runtime)
}

fn written(scene: &Scene, number: u32) -> serde_json::Value {
    let file = scene.folder().parent().unwrap().join("out").join(format!("in.{number}"));
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mcp_server_goes_over_the_pipe_with_its_token_as_a_header() {
    let scene = scene(&format!("{NEW}\ntake"));
    let mcp = McpAccess { url: "http://127.0.0.1:9/mcp".into(), token: "secret-token".into() };
    let talk = scene.open(|spec| spec.mcp = Some(mcp)).await;
    let greeting = written(&scene, 1);
    assert_eq!(greeting["params"]["protocolVersion"], 1);
    assert_eq!(greeting["params"]["clientCapabilities"]["fs"]["readTextFile"], false);
    let params = &written(&scene, 2)["params"];
    assert_eq!(params["cwd"], scene.folder().to_str().unwrap());
    let server = &params["mcpServers"][0];
    assert_eq!((server["type"].as_str(), server["url"].as_str()), (Some("http"), Some("http://127.0.0.1:9/mcp")));
    assert_eq!(server["headers"][0]["value"], "Bearer secret-token");
    talk.session.close().await;
}

/// OpenCode's growing output with an exit code, Claude's code as text in a fence, Gemini's silence; then text as a new item.
#[tokio::test(flavor = "multi_thread")]
async fn commands_of_three_agents_end_with_what_each_of_them_tells() {
    let script = r#"
take
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"messageId":"a"}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"one "},"messageId":"a"}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"two"},"messageId":"a"}'
update '{"sessionUpdate":"tool_call","toolCallId":"o","title":"bash","kind":"execute","status":"pending","rawInput":{"command":"touch a; exit 3"}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"o","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"out\n"}}]}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"o","status":"completed","rawOutput":{"output":"out\nerr\n","metadata":{"exit":3}}}'
update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"`false`","kind":"execute","status":"pending","rawInput":{"command":"false"}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed","rawOutput":"Exit code 3\nout\nerr","content":[{"type":"content","content":{"type":"text","text":"```console\nout\n```"}}]}'
update '{"sessionUpdate":"tool_call","toolCallId":"g","title":"touch b","kind":"execute","status":"in_progress","content":[]}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"g","status":"completed","content":[]}'
update '{"sessionUpdate":"tool_call","toolCallId":"m","title":"mcp__changeover__search","kind":"other","status":"completed","rawInput":{"q":"x"},"content":[{"type":"content","content":{"type":"text","text":"```\nfound\n```"}}]}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"three"},"messageId":"a"}'
update '{"sessionUpdate":"usage_update","used":1234,"size":0}'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"o","status":"failed"}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"too late"}}'
take"#;
    let scene = scene(&format!("{NEW}\n{script}"));
    let mut talk = scene.open(|_| {}).await;
    let events = talk.turn("go").await;
    assert_eq!(written(&scene, 3)["params"]["prompt"], serde_json::json!([{"type": "text", "text": "go"}]));
    // What comes together may come as one event: the words of an item count, not how they were cut.
    let mut texts: Vec<Event> = Vec::new();
    for text in events.iter().filter(|event| matches!(event, Event::Text { .. })).cloned() {
        let apart = match texts.last_mut() {
            Some(last) => last.join(text),
            None => Some(text),
        };
        texts.extend(apart);
    }
    let text = |item: &str, delta: &str| Event::Text { item: item.into(), delta: delta.into() };
    assert_eq!(texts, [text("text-1", "one two"), text("text-2", "three")]);
    let last = |wanted: &str| {
        events.iter().rev().find_map(|event| match event {
            Event::Command { item, command, status, exit_code, output } if item == wanted => {
                Some((command.as_str(), *status, *exit_code, output.as_deref()))
            }
            _ => None,
        })
    };
    assert_eq!(last("o"), Some(("touch a; exit 3", WorkStatus::Failed, Some(3), Some("out\nerr\n"))));
    assert_eq!(last("c"), Some(("false", WorkStatus::Failed, Some(3), Some("out\nerr"))));
    assert_eq!(last("g"), Some(("touch b", WorkStatus::Completed, None, None)));
    let growing = Event::Command {
        item: "o".into(),
        command: "touch a; exit 3".into(),
        status: WorkStatus::Running,
        exit_code: None,
        output: Some("out\n".into()),
    };
    assert!(events.contains(&growing));
    let tool = Event::Tool {
        item: "m".into(),
        name: "mcp__changeover__search".into(),
        input: r#"{"q":"x"}"#.into(),
        output: Some("found\n".into()),
        status: WorkStatus::Completed,
    };
    assert!(events.contains(&tool), "{events:?}");
    assert!(events.iter().any(|e| matches!(e, Event::Context(f) if f.used == 1234 && f.window.is_none())));
    // S2: an item may change after its turn; text belongs to no reply any more.
    assert!(matches!(talk.next().await, Event::Command { status: WorkStatus::Failed, .. }));
    assert!(matches!(talk.next().await, Event::Raw { .. }));
    talk.session.kill().await;
}

/// Gemini: the question is the first sign of the call, option ids are its own, and what it is not asked never shows again.
#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_by_the_kind_of_option_and_only_once() {
    let script = r#"
take
say '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"proceed_always","name":"Always","kind":"allow_always"},{"optionId":"proceed_once","name":"Allow","kind":"allow_once"},{"optionId":"cancel","name":"Reject","kind":"reject_once"}],"toolCall":{"toolCallId":"t1","status":"pending","title":"touch a.txt; exit 3","kind":"execute","rawInput":{},"content":[]}}}'
take
say '{"jsonrpc":"2.0","id":"x","method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"a","name":"Always","kind":"allow_always"},{"optionId":"r","name":"Reject","kind":"reject_always"}],"toolCall":{"toolCallId":"t2","title":"Write","kind":"edit","rawInput":{"path":"/f","text":"t"}}}}'
take
say '{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/etc/passwd"}}'
take
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"refusal"}}'
take"#;
    let scene = scene(&format!("{NEW}\n{script}"));
    let mut talk = scene.open(|_| {}).await;
    talk.send("go").await;
    let events = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    assert!(matches!(
        &events[..],
        [Event::Taken, Event::Command { status: WorkStatus::Running, .. }, Event::ApprovalWanted(_)]
    ));
    let Some(Event::ApprovalWanted(request)) = events.last() else { panic!() };
    let subject = ApprovalSubject::Command { command: "touch a.txt; exit 3".into(), cwd: None };
    assert_eq!((request.key.as_str(), &request.subject), ("0", &subject));
    talk.answer("0", Answer::Allow).await;
    talk.answer("0", Answer::Deny).await;
    let events = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    let chosen = serde_json::json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}});
    assert_eq!((written(&scene, 4)["id"].clone(), written(&scene, 4)["result"].clone()), (0.into(), chosen));
    let Some(Event::ApprovalWanted(request)) = events.last() else { panic!() };
    // No diff was given, so the whole input is shown.
    let subject = ApprovalSubject::Tool { name: "Write".into(), input: r#"{"path":"/f","text":"t"}"#.into() };
    assert_eq!((request.key.as_str(), &request.subject), ("\"x\"", &subject));
    let only_for_good = talk.session.answer("\"x\"".into(), Answer::Allow).await.unwrap_err();
    assert_eq!(only_for_good.kind, FailureKind::Rejected);
    talk.answer("\"x\"", Answer::Deny).await;
    let events = talk.until(ended).await;
    assert_eq!(written(&scene, 5)["result"]["outcome"]["optionId"], "r");
    assert_eq!(written(&scene, 6)["error"]["code"], -32601);
    assert!(events.iter().any(|event| matches!(event, Event::Tool { status: WorkStatus::Declined, .. })));
    assert!(matches!(events.last(), Some(Event::Ended(Ended::Failed(f))) if f.kind == FailureKind::Rejected));
    talk.session.kill().await;
}

/// An agent without modes: what R4 lets go is answered here, and only that.
#[tokio::test(flavor = "multi_thread")]
async fn edits_go_without_asking_where_the_agent_has_no_mode_for_it() {
    let script = r#"
take
say '{"jsonrpc":"2.0","id":10,"method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}],"toolCall":{"toolCallId":"t1","title":"Edit","kind":"edit","content":[{"type":"diff","path":"/w/f","oldText":"a\nb\n","newText":"a\nc\n"}]}}}'
take
update '{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed","content":[{"type":"content","content":{"type":"text","text":"disk full"}}]}'
say '{"jsonrpc":"2.0","id":11,"method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}],"toolCall":{"toolCallId":"t2","title":"ls","kind":"execute"}}}'
take
exec sleep 1000"#;
    let scene = scene(&format!("{NEW}\n{script}"));
    let mut talk = scene.open(|spec| spec.mode = ApprovalMode::Edits).await;
    talk.send("go").await;
    let events = talk.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    assert_eq!(written(&scene, 4)["result"]["outcome"]["optionId"], "y");
    let Some(Event::FileChange { files, .. }) = events.iter().find(|e| matches!(e, Event::FileChange { .. })) else {
        panic!("{events:?}")
    };
    let last = events.iter().rev().find(|event| matches!(event, Event::FileChange { .. })).unwrap();
    assert!(
        matches!(last, Event::FileChange { files: now, status: WorkStatus::Failed, .. } if now == files),
        "{last:?}"
    );
    assert_eq!((files[0].path.as_str(), files[0].diff.contains("\n a\n-b\n+c\n")), ("/w/f", true), "{files:?}");
    assert!(matches!(events.last(), Some(Event::ApprovalWanted(request)) if request.key == "11"));
    // Its process ends: the question is withdrawn, not answered (R4).
    talk.session.kill().await;
    let events = talk.until(exited).await;
    assert!(matches!(&events[..], [Event::ApprovalWithdrawn { .. }, Event::Exited { .. }]), "{events:?}");
}

/// Claude's adapter says an API's error as text, counts nothing, and then fails with the same words.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_was_said_as_text_first_is_folded_away() {
    let script = r#"
take
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"It begins. "}}'
update '{"sessionUpdate":"tool_call","toolCallId":"t","title":"ls","kind":"execute","status":"completed"}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"API Error: 529 over"}}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"loaded"}}'
update '{"sessionUpdate":"usage_update","used":0,"size":200000}'
say '{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Internal error: API Error: 529 overloaded"}}'
take"#;
    let scene = scene(&format!("{NEW}\n{script}"));
    let mut talk = scene.open(|_| {}).await;
    let events = talk.turn("go").await;
    let failure = Failure::new(FailureKind::Unavailable, "API Error: 529 overloaded");
    let expected = [Event::Superseded { items: vec!["text-2".into()] }, Event::Ended(Ended::Failed(failure))];
    assert_eq!(events[events.len() - 2..], expected);
    assert!(!events.iter().any(|event| matches!(event, Event::Context(_))));
    talk.session.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loaded_history_is_read_over_and_unknown_sessions_are_gone() {
    let script = r#"
take
case "$line" in *'"sessionId":"s1"'*) ;; *) say '{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"Internal error","data":{"details":"No previous sessions found for this project."}}}'; take;; esac
update '{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"old question"}}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"old answer"}}'
update '{"sessionUpdate":"tool_call","toolCallId":"old","title":"ls","kind":"execute","status":"completed"}'
say '{"jsonrpc":"2.0","id":2,"result":{}}'
take
update '{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"new answer"}}'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"max_tokens"}}'
take"#;
    let scene = scene(script);
    let resume = |id: &str| Some(Resume { session_id: id.into(), anchor: None, rewind: false, fork: false });
    let mut talk = scene.open(|spec| spec.resume = resume("s1")).await;
    assert_eq!(written(&scene, 2)["method"], "session/load");
    let events = talk.turn("go").await;
    assert_eq!(events[0], Event::Taken);
    assert!(matches!(&events[1], Event::Reasoning { item, .. } if item == "text-1"));
    assert_eq!(text(&events), "new answer");
    assert!(matches!(&events[..], [.., Event::Warning { .. }, Event::Ended(Ended::Completed)]));
    talk.session.kill().await;
    assert_eq!(scene.refused(|spec| spec.resume = resume("s2")).await.kind, FailureKind::SessionGone);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_start_says_why() {
    let dies = scene("echo 'cannot find my settings' >&2; exit 4");
    let failure = dies.refused(|_| {}).await;
    assert!(failure.kind == FailureKind::Exited && failure.message.contains("exit code 4: cannot find my settings"));
    let login = scene(
        r#"take; say '{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Gemini API key is missing or not configured."}}'; take"#,
    );
    let failure = login.refused(|_| {}).await;
    assert_eq!(failure.kind, FailureKind::NotLoggedIn);
    assert_eq!(failure.hint.as_deref(), Some("Log in with the agent's own command: Use a key."));
    // A line over the bound and noise between messages do no harm.
    let noisy = scene(&format!(
        "echo Debugger listening; {NEW}\ntake; head -c 70000000 /dev/zero | tr '\\0' x; echo; say '{{\"id\":3,\"result\":{{\"stopReason\":\"end_turn\"}}}}'; take"
    ));
    let mut talk = noisy.open(|_| {}).await;
    let events = talk.turn("go").await;
    assert_eq!(events, [Event::Raw { kind: "a line of 70000000 bytes".into() }, Event::Ended(Ended::Completed)]);
    talk.session.kill().await;
}
