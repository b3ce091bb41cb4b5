//! Recorded frames of Codex 0.171.0, and what they mean.

use super::*;
use serde_json::json;

const THREAD: &str = "01a22b56-3b95-7cf2-acba-24c9eef4e905";
const TURN: &str = "01a22b56-3bb2-7552-be7e-b47184b99863";

struct Played {
    normalizer: Normalizer,
}

impl Played {
    /// With the prompt `c1` written and its turn begun.
    fn new() -> Self {
        let mut normalizer = Normalizer::new(THREAD.into(), "/w".into(), Some(258_400));
        normalizer.sent("c1".into());
        let mut played = Self { normalizer };
        assert_eq!(played.normalizer.phase(), Phase::Sent);
        let begun = played
            .note("turn/started", json!({"turn": {"id": TURN, "items": [], "status": "inProgress", "error": null}}));
        assert_eq!(begun, []);
        assert_eq!(played.normalizer.phase(), Phase::Running(TURN.into()));
        played
    }

    fn meaning(&mut self, method: &str, mut params: Value) -> Meaning {
        params.as_object_mut().unwrap().entry("threadId").or_insert_with(|| THREAD.into());
        params.as_object_mut().unwrap().entry("turnId").or_insert_with(|| TURN.into());
        self.normalizer.note(method, &serde_json::value::to_raw_value(&params).unwrap())
    }

    fn note(&mut self, method: &str, params: Value) -> Vec<RuntimeEvent> {
        self.meaning(method, params).events
    }

    fn started(&mut self, item: Value) -> Vec<RuntimeEvent> {
        self.note("item/started", json!({"item": item, "startedAtMs": 1}))
    }

    fn completed(&mut self, item: Value) -> Vec<RuntimeEvent> {
        self.note("item/completed", json!({"item": item, "contentTokenCount": null, "completedAtMs": 1}))
    }

    fn usage(&mut self, total: u64, last: u64) -> Vec<RuntimeEvent> {
        let tokens = |n: u64| json!({"totalTokens": n, "inputTokens": n - 5, "cachedInputTokens": 0, "outputTokens": 5, "reasoningOutputTokens": 0});
        let usage = json!({"total": tokens(total), "last": tokens(last), "modelContextWindow": 95_000_000});
        self.note("thread/tokenUsage/updated", json!({"tokenUsage": usage}))
    }

    fn ended(&mut self, status: &str, error: Value) -> Meaning {
        self.meaning("turn/completed", json!({"turn": {"id": TURN, "items": [], "status": status, "error": error}}))
    }
}

fn message(id: &str, text: &str) -> Value {
    json!({"type": "agentMessage", "moderation": null, "id": id, "text": text, "phase": null, "memoryCitation": null})
}

fn command(status: &str, exit_code: Value, output: Value) -> Value {
    json!({"type": "commandExecution", "id": "call_1", "pluginId": null, "command": "/bin/bash -lc 'echo a; exit 3'", "cwd": "/w",
        "processId": "72884", "source": "unifiedExecStartup", "status": status, "commandActions": [], "aggregatedOutput": output, "exitCode": exit_code})
}

fn context(used: u64) -> RuntimeEvent {
    RuntimeEvent::Context(ContextFigure { used, window: Some(258_400) })
}

#[test]
fn a_turn_with_reasoning_and_text() {
    let mut played = Played::new();
    let prompt = |client: &str| json!({"type": "userMessage", "id": "u", "clientId": client, "content": []});
    assert_eq!(played.started(prompt("another client's")), []);
    assert_eq!(played.started(prompt("c1")), [RuntimeEvent::Taken, RuntimeEvent::Requested]);
    assert_eq!(played.completed(prompt("c1")), []);
    let reasoning = |summary: Value| json!({"type": "reasoning", "id": "rs_1", "summary": summary, "content": []});
    assert_eq!(played.started(reasoning(json!([]))), []);
    assert_eq!(played.note("item/reasoning/summaryPartAdded", json!({"itemId": "rs_1", "summaryIndex": 0})), []);
    let mut thought =
        played.note("item/reasoning/summaryTextDelta", json!({"itemId": "rs_1", "delta": "h", "summaryIndex": 0}));
    thought.extend(played.note("item/reasoning/summaryPartAdded", json!({"itemId": "rs_1", "summaryIndex": 1})));
    thought.extend(
        played.note("item/reasoning/summaryTextDelta", json!({"itemId": "rs_1", "delta": "m", "summaryIndex": 1})),
    );
    let part = |delta: &str| RuntimeEvent::Reasoning { item: "rs_1".into(), delta: delta.into() };
    assert_eq!(thought, [part("h"), part("\n\n"), part("m")]);
    let whole =
        |item: &str, reasoning, text: &str| RuntimeEvent::Whole { item: item.into(), reasoning, text: text.into() };
    assert_eq!(played.completed(reasoning(json!(["h", "m"]))), [whole("rs_1", true, "h\n\nm")]);
    assert_eq!(played.started(message("msg_1", "")), []);
    assert_eq!(
        played.note("item/agentMessage/delta", json!({"itemId": "msg_1", "delta": "echo"})),
        [RuntimeEvent::Text { item: "msg_1".into(), delta: "echo".into() }]
    );
    assert_eq!(played.completed(message("msg_1", "echo: hello")), [whole("msg_1", false, "echo: hello")]);
    assert_eq!(played.usage(1005, 1005), [context(1005)]);
    assert_eq!(played.note("thread/readState/changed", json!({"readState": {}})), []);
    let end = played.ended("completed", Value::Null);
    assert_eq!(end.events, [RuntimeEvent::Anchor { anchor: TURN.into() }, RuntimeEvent::Ended(Ended::Completed)]);
    assert_eq!((end.act, played.normalizer.phase()), (None, Phase::Idle));
    assert_eq!(played.ended("completed", Value::Null).events, [], "one end for one prompt");
}

#[test]
fn requests_are_counted_by_what_shows_them() {
    let mut played = Played::new();
    assert_eq!(played.usage(100, 100), [context(100)]);
    assert_eq!(played.usage(100, 100), [context(100)], "the same figure again is no request");
    let events = played.started(command("inProgress", Value::Null, Value::Null));
    assert_eq!(events[0], RuntimeEvent::Requested);
    assert_eq!(events.len(), 2);
    assert_eq!(played.usage(300, 200), [context(200)]);
    assert_eq!(played.usage(600, 300), [RuntimeEvent::Requested, context(300)], "a response that made nothing");
    let full = json!({"total": {"totalTokens": 95_000_000}, "last": {"totalTokens": 94_749_995}, "modelContextWindow": 95_000_000});
    assert_eq!(
        played.note("thread/tokenUsage/updated", json!({"tokenUsage": full})),
        [],
        "Codex's mark of an overflow"
    );
}

#[test]
fn what_a_retry_abandons_is_superseded_and_what_was_finished_stands() {
    let mut played = Played::new();
    played.started(json!({"type": "reasoning", "id": "rs_61", "summary": [], "content": []}));
    played.completed(json!({"type": "reasoning", "id": "rs_61", "summary": ["deep"], "content": []}));
    played.started(message("msg_61", ""));
    let error = json!({"message": "Reconnecting... 2/5", "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": null}},
        "additionalDetails": "stream disconnected before completion: stream closed before response.completed", "misalignment": null});
    let seen = played.note("error", json!({"error": error, "willRetry": true}));
    let why = "stream disconnected before completion: stream closed before response.completed";
    let expected = [
        RuntimeEvent::Superseded { items: vec!["msg_61".into()] },
        RuntimeEvent::Retrying { attempt: 2, max: Some(5), message: why.into() },
        RuntimeEvent::Requested,
    ];
    assert_eq!(seen, expected);
    assert_eq!(played.started(message("msg_62", "")), []);
    let error = json!({"message": why, "codexErrorInfo": "other", "additionalDetails": null, "misalignment": null});
    assert_eq!(played.note("error", json!({"error": error.clone(), "willRetry": false})), []);
    let failure = Failure::new(FailureKind::Unavailable, why);
    // What it leaves half written is not in its history: void here too, so that what stands is what is held (T9).
    let cut = RuntimeEvent::Superseded { items: vec!["msg_62".into()] };
    assert_eq!(played.ended("failed", error).events, [cut, RuntimeEvent::Ended(Ended::Failed(failure))]);
}

#[test]
fn a_command_reports_after_its_turn_and_one_that_we_cut_says_so() {
    let running = |status, exit_code, output: Option<&str>| RuntimeEvent::Command {
        item: "call_1".into(),
        command: "echo a; exit 3".into(),
        status,
        exit_code,
        output: output.map(str::to_owned),
    };
    let mut played = Played::new();
    assert_eq!(
        played.started(command("inProgress", Value::Null, Value::Null)),
        [running(WorkStatus::Running, None, None)]
    );
    played.ended("completed", Value::Null);
    played.normalizer.sent("c2".into());
    let late = played.note("item/commandExecution/outputDelta", json!({"itemId": "call_1", "delta": "a\n"}));
    assert_eq!(late, [RuntimeEvent::CommandOutput { item: "call_1".into(), delta: "a\n".into() }]);
    let end = played.completed(command("failed", json!(3), json!("a\n")));
    assert_eq!(end, [running(WorkStatus::Failed, Some(3), Some("a\n"))]);

    let mut played = Played::new();
    played.started(command("inProgress", Value::Null, Value::Null));
    played.normalizer.interrupting();
    let end = played.ended("interrupted", Value::Null);
    let cut = running(WorkStatus::Interrupted, None, None);
    assert_eq!((end.events, end.act), (vec![cut, RuntimeEvent::Ended(Ended::Interrupted)], Some(Act::EndCommands)));
    let cut = played.completed(command("failed", json!(137), Value::Null));
    assert_eq!(cut, [running(WorkStatus::Interrupted, Some(137), None)]);
}

#[test]
fn a_question_is_answered_once_or_withdrawn() {
    let mut played = Played::new();
    let params =
        json!({"threadId": THREAD, "turnId": TURN, "itemId": "call_1", "command": "/bin/bash -lc ls", "cwd": "/w"});
    let raw = serde_json::value::to_raw_value(&params).unwrap();
    let ask = |played: &mut Played, id: u64| {
        let (meaning, reply) = played.normalizer.question(json!(id), "item/commandExecution/requestApproval", &raw);
        assert!(
            matches!(&meaning.events[..], [RuntimeEvent::ApprovalWanted(request)] if request.key == id.to_string())
        );
        assert_eq!(reply, None);
    };
    ask(&mut played, 0);
    assert_eq!(played.normalizer.answer("0", Answer::Deny), Some((json!(0), json!({"decision": "decline"}))));
    assert_eq!(played.normalizer.answer("0", Answer::Allow), None);
    assert_eq!(played.note("serverRequest/resolved", json!({"requestId": 0})), [], "that was our answer");
    ask(&mut played, 1);
    let withdrawn = |key: &str| RuntimeEvent::ApprovalWithdrawn { key: key.into() };
    assert_eq!(played.note("serverRequest/resolved", json!({"requestId": 1})), [withdrawn("1")]);
    ask(&mut played, 2);
    assert_eq!(
        played.ended("interrupted", Value::Null).events,
        [withdrawn("2"), RuntimeEvent::Ended(Ended::Interrupted)]
    );
}

#[test]
fn other_threads_and_turns_are_nobodys_reply() {
    let mut played = Played::new();
    let delta = |thread: &str, turn: &str| json!({"threadId": thread, "turnId": turn, "itemId": "m", "delta": "x"});
    assert_eq!(played.note("item/agentMessage/delta", delta("a-sub-agent", TURN)), []);
    assert_eq!(played.note("item/agentMessage/delta", delta(THREAD, "another-turn")), []);
    let usage = json!({"threadId": "a-sub-agent", "tokenUsage": {"total": {"totalTokens": 9}, "last": {"totalTokens": 9, "inputTokens": 9}}});
    assert_eq!(played.note("thread/tokenUsage/updated", usage), []);
    played.ended("completed", Value::Null);
    let begun = played.meaning(
        "turn/started",
        json!({"turn": {"id": "its-own", "items": [], "status": "inProgress", "error": null}}),
    );
    assert_eq!(begun.act, Some(Act::StopTurn("its-own".into())));
    assert_eq!(played.note("some/thing/new", json!({})), [RuntimeEvent::Raw { kind: "some/thing/new".into() }]);
    assert_eq!(
        played.started(json!({"type": "hologram", "id": "h"})),
        [RuntimeEvent::Raw { kind: "item:hologram".into() }]
    );
}

#[test]
fn a_prompt_that_is_refused_ends_its_turn() {
    let mut normalizer = Normalizer::new(THREAD.into(), "/w".into(), None);
    normalizer.sent("c1".into());
    let error = wire::RpcError { code: -32600, message: format!("thread not found: {THREAD}") };
    let meaning = normalizer.started(Err(&error));
    let failure = Failure::new(FailureKind::SessionGone, format!("Codex: thread not found: {THREAD}"));
    assert_eq!(meaning.events, [RuntimeEvent::Ended(Ended::Failed(failure))]);
    assert_eq!(normalizer.phase(), Phase::Idle);
}

#[test]
fn plans_files_tools_warnings_and_compaction() {
    let mut played = Played::new();
    let plan = json!({"explanation": null, "plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "inProgress"}, {"step": "c", "status": "pending"}]});
    let entry = |text: &str, status| PlanEntry { text: text.into(), status };
    let entries =
        vec![entry("a", Some(WorkStatus::Completed)), entry("b", Some(WorkStatus::Running)), entry("c", None)];
    assert_eq!(played.note("turn/plan/updated", plan), [RuntimeEvent::Plan { item: format!("plan:{TURN}"), entries }]);
    let change = json!({"type": "fileChange", "id": "f", "changes": [{"path": "/w/n", "kind": {"type": "add"}, "diff": "a\n"}], "status": "declined"});
    let files = vec![FileDelta { path: "/w/n".into(), diff: "@@ -0,0 +1,1 @@\n+a\n".into() }];
    assert_eq!(
        played.completed(change),
        [RuntimeEvent::FileChange { item: "f".into(), files, status: WorkStatus::Declined }]
    );
    let call = json!({"type": "mcpToolCall", "id": "m", "server": "s", "tool": "ping", "status": "completed", "arguments": {"text": "hi"},
        "result": {"content": [{"type": "text", "text": "pong:hi"}], "structuredContent": null, "_meta": null}, "error": null});
    let tool = RuntimeEvent::Tool {
        item: "m".into(),
        name: "mcp__s__ping".into(),
        input: r#"{"text":"hi"}"#.into(),
        output: Some("pong:hi".into()),
        status: WorkStatus::Completed,
    };
    assert_eq!(played.completed(call), [tool]);
    let compaction = json!({"type": "contextCompaction", "id": "k"});
    assert_eq!(played.started(compaction.clone()), []);
    assert_eq!(played.completed(compaction), [RuntimeEvent::Compacted]);
    let failed = json!({"name": "s", "status": "failed", "error": "HTTP 401", "failureReason": null});
    let warning = RuntimeEvent::Warning { message: "The MCP server s did not start: HTTP 401".into() };
    assert_eq!(played.note("mcpServer/startupStatus/updated", failed), [warning]);
    assert_eq!(played.note("warning", json!({"message": "Model metadata for `x` not found. Defaulting"})), []);
}

/// R065: a question of a sub-agent's thread, which no list of ours knows, is asked all the same and is no part of the reply.
#[test]
fn r065_a_question_of_an_unknown_thread_is_asked_and_answered() {
    let mut played = Played::new();
    let params =
        json!({"threadId": "a-sub-agent", "turnId": "its-turn", "itemId": "c", "command": "make", "cwd": "/w"});
    let raw = RawValue::from_string(params.to_string()).unwrap();
    let (meaning, reply) = played.normalizer.question(json!(7), "item/commandExecution/requestApproval", &raw);
    assert_eq!(reply, None, "it waits for the person");
    let [RuntimeEvent::ApprovalWanted(request)] = &meaning.events[..] else { panic!("{:?}", meaning.events) };
    assert_eq!((request.key.as_str(), &request.item), ("7", &None));
    assert_eq!(played.normalizer.answer("7", Answer::Allow), Some((json!(7), json!({"decision": "accept"}))));
}
