//! The fake API itself: the real Claude Code and the real Codex take it for their vendor's.

use changeover_tests::agents::{AgentHome, FAKE_KEY};
use changeover_tests::cli::Cli;
use changeover_tests::fake_api::{Failure, FakeApi, Kind, Rule, Wire, nonce_table};
use serde_json::{Value, json};

use crate::drive::{codex_thread, codex_turn, uuid};

/// The texts of the items of one type that Codex finished.
fn codex_items(cli: &Cli, kind: &str) -> Vec<Value> {
    let items =
        cli.seen().iter().filter(|line| line["method"] == "item/completed").map(|line| line["params"]["item"].clone());
    items.filter(|item| item["type"] == kind).collect()
}

#[tokio::test]
async fn claude_streams_text_and_thinking_and_reports_the_usage_it_was_given() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::claude(&home, &home.work(), &[]);
    api.put_text("reply", "a reply of its own");
    cli.prompt(&uuid(), "hello [[think:deep thought]] [[text:reply]] [[usage:12345:67]]").await;
    let result = cli.result().await;
    assert_eq!((&result["is_error"], &result["result"]), (&json!(false), &json!("a reply of its own")));
    let usage = cli.seen().iter().rev().find(|line| line["event"]["type"] == "message_delta").expect("a message_delta");
    assert_eq!(usage["event"]["usage"]["input_tokens"], 12345);
    assert_eq!(usage["event"]["usage"]["output_tokens"], 67);
    let streamed = |kind: &str, key: &str| -> String {
        let deltas = cli.seen().iter().map(|line| &line["event"]["delta"]).filter(|delta| delta["type"] == kind);
        deltas.filter_map(|delta| delta[key].as_str()).collect()
    };
    assert_eq!(streamed("text_delta", "text"), "a reply of its own");
    assert_eq!(streamed("thinking_delta", "thinking"), "deep thought");

    let turns = api.turns();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].auth.as_deref(), Some(FAKE_KEY));
    assert_eq!(turns[0].wire, Some(Wire::Anthropic));
    assert_eq!(turns[0].session.as_deref(), result["session_id"].as_str());
    assert_eq!(api.strays(), Vec::<String>::new());
}

#[tokio::test]
async fn codex_streams_text_and_reasoning_and_reports_the_usage_it_was_given() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    let thread = codex_thread(&mut cli, &home).await;
    api.put_text("reply", "a reply of its own");
    let turn = codex_turn(&mut cli, &thread, "hello [[think:deep thought]] [[text:reply]] [[usage:12345:67]]").await;
    assert_eq!(turn["status"], "completed");
    assert_eq!(codex_items(&cli, "agentMessage")[0]["text"], "a reply of its own");
    assert_eq!(codex_items(&cli, "reasoning")[0]["summary"], json!(["deep thought"]));
    let usage = cli.seen().iter().find(|line| line["method"] == "thread/tokenUsage/updated").expect("usage");
    assert_eq!(usage["params"]["tokenUsage"]["last"]["totalTokens"], 12345 + 67);

    let turns = api.turns();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].auth, Some(format!("Bearer {FAKE_KEY}")));
    assert_eq!(turns[0].wire, Some(Wire::Responses));
    assert_eq!(turns[0].session.as_deref(), Some(thread.as_str()));
    assert_eq!(api.strays(), Vec::<String>::new());
}

#[tokio::test]
async fn claude_runs_the_commands_it_is_told_to_one_per_round() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::claude(&home, &home.work(), &["--allowedTools", "Bash"]);
    cli.prompt(&uuid(), "go [[tool:bash:echo first; exit 3]] [[tool:bash:echo second]] [[say:done]]").await;
    let result = cli.result().await;
    assert_eq!(result["result"], "done");
    let turns = api.turns();
    assert_eq!(turns.len(), 3);
    let results = turns[2].texts("result");
    assert_eq!(results.len(), 2);
    assert!(results[0].contains("Exit code 3") && results[0].contains("first"), "{results:?}");
    assert!(results[1].contains("second"), "{results:?}");
}

#[tokio::test]
async fn codex_runs_the_commands_it_is_told_to() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    let thread = codex_thread(&mut cli, &home).await;
    let turn =
        codex_turn(&mut cli, &thread, "go [[tool:bash:echo first; exit 3]] [[tool:bash:echo second]] [[say:done]]")
            .await;
    assert_eq!(turn["status"], "completed");
    let commands = codex_items(&cli, "commandExecution");
    let seen: Vec<_> = commands.iter().map(|item| (&item["exitCode"], &item["aggregatedOutput"])).collect();
    assert_eq!(seen, [(&json!(3), &json!("first\n")), (&json!(0), &json!("second\n"))]);
    assert_eq!(codex_items(&cli, "agentMessage")[0]["text"], "done");
    assert_eq!(api.turns()[2].texts("result").len(), 2);
}

#[tokio::test]
async fn parallel_calls_come_in_one_round() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::claude(&home, &home.work(), &["--allowedTools", "Bash"]);
    cli.prompt(&uuid(), "go [[parallel]] [[tool:bash:echo first]] [[tool:bash:echo second]] [[say:done]]").await;
    assert_eq!(cli.result().await["result"], "done");
    assert_eq!(api.turns().len(), 2);
}

#[tokio::test]
async fn claude_tells_each_error_as_its_vendors() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    for (kind, status, reason, words) in [
        ("400", json!(400), "api_error", "fake bad request"),
        ("401", json!(401), "api_error", "Invalid API key"),
        ("403", json!(403), "api_error", "fake forbidden"),
        ("404", json!(404), "api_error", "selected model"),
        ("429", json!(429), "api_error", "rate limit"),
        ("500", json!(500), "api_error", "Internal server error"),
        ("529", json!(529), "api_error", "Overloaded"),
        ("toolong", json!(400), "prompt_too_long", "Prompt is too long"),
        ("refuse", Value::Null, "api_error", "Connection"),
    ] {
        let mut cli = Cli::claude(&home, &home.work(), &[]);
        cli.prompt(&uuid(), &format!("hello [[error:{kind}]] [[retry_after:0]]")).await;
        let result = cli.result().await;
        let text = result["result"].as_str().unwrap_or_default();
        assert!(text.to_lowercase().contains(&words.to_lowercase()), "{kind}: {text}");
        assert_eq!(
            (&result["is_error"], &result["api_error_status"], &result["terminal_reason"]),
            (&json!(true), &status, &json!(reason)),
            "{kind}"
        );
    }
    assert_eq!(api.strays(), Vec::<String>::new());
}

#[tokio::test]
async fn codex_tells_each_error_as_its_vendors() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    for (kind, info) in [
        ("400", json!("other")),
        ("401", json!({"httpConnectionFailed": {"httpStatusCode": 401}})),
        ("403", json!({"httpConnectionFailed": {"httpStatusCode": 403}})),
        ("429", json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}})),
        ("500", json!("internalServerError")),
        ("529", json!({"httpConnectionFailed": {"httpStatusCode": 529}})),
        ("toolong", json!("contextWindowExceeded")),
        ("midstream", json!("other")),
        ("drop", json!("other")),
    ] {
        let thread = codex_thread(&mut cli, &home).await;
        let turn = codex_turn(&mut cli, &thread, &format!("hello [[error:{kind}]]")).await;
        assert_eq!((&turn["status"], &turn["error"]["codexErrorInfo"]), (&json!("failed"), &info), "{kind}: {turn}");
    }
    assert_eq!(api.strays(), Vec::<String>::new());
}

#[tokio::test]
async fn an_error_for_the_first_requests_alone_is_retried_to_success() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::claude(&home, &home.work(), &[]);
    for kind in ["529", "drop", "midstream"] {
        let before = api.turns().len();
        cli.prompt(&uuid(), &format!("hello [[error:{kind}:1]] [[say:at last]]")).await;
        let result = cli.result().await;
        assert_eq!((&result["is_error"], &result["result"]), (&json!(false), &json!("at last")), "{kind}");
        assert_eq!(api.turns().len() - before, 2, "{kind}");
    }
}

#[tokio::test]
async fn a_rule_fails_requests_whatever_they_say_and_an_error_can_wait_for_a_later_round() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::claude(&home, &home.work(), &["--allowedTools", "Bash"]);
    api.rule(Rule { error: Failure::Status(401), count: 2, path: "/v1/messages".to_owned(), ..Rule::default() });
    cli.prompt(&uuid(), "hello").await;
    assert_eq!(cli.result().await["api_error_status"], 401);
    api.clear_rules();
    cli.prompt(&uuid(), "go [[tool:bash:echo x]] [[error_after:1:400]]").await;
    assert_eq!(cli.result().await["api_error_status"], 400);
    assert_eq!(api.turns().last().expect("a request").texts("result").len(), 1);
}

#[tokio::test]
async fn a_gate_holds_a_reply_after_its_first_delta_and_before_its_headers() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::codex(&home, &home.work()).await;
    let thread = codex_thread(&mut cli, &home).await;
    let input = json!([{"type": "text", "text": "hello [[gate_before:early]] [[gate:mid]] [[say:one two three]]"}]);
    cli.call("turn/start", json!({"threadId": thread, "input": input})).await.expect("a turn");
    api.wait_gate("early").await;
    assert!(!cli.seen().iter().any(|line| line["method"] == "item/agentMessage/delta"));
    api.open_gate("early");
    api.wait_gate("mid").await;
    let delta = cli.until(|line| line["method"] == "item/agentMessage/delta").await;
    assert_eq!(delta["params"]["delta"], "one t");
    api.open_gate("mid");
    assert_eq!(cli.turn_completed().await["status"], "completed");
    assert_eq!(codex_items(&cli, "agentMessage")[0]["text"], "one two three");
}

#[tokio::test]
async fn a_reply_that_hangs_ends_with_its_client() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::claude(&home, &home.work(), &[]);
    cli.prompt(&uuid(), "hello [[hang]]").await;
    cli.until(|line| line["event"]["delta"]["type"] == "text_delta").await;
    let answer = cli.control(json!({"subtype": "interrupt"})).await;
    assert_eq!(answer["response"]["subtype"], "success");
    assert_eq!(cli.result().await["terminal_reason"], "aborted_streaming");
}

#[tokio::test]
async fn only_the_new_message_of_a_framed_prompt_gives_directives() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut cli = Cli::claude(&home, &home.work(), &[]);
    cli.prompt(&uuid(), "# History\nuser: old [[error:401]]\n\n## New message\n\nnow [[say:fresh]]").await;
    assert_eq!(cli.result().await["result"], "fresh");
    assert_eq!(api.turns()[0].user_text, "now [[say:fresh]]");
}

#[tokio::test]
async fn the_nonce_table_counts_what_each_session_was_told() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let nonces = [uuid(), uuid(), uuid()];
    api.put_text("reply", &nonces[1]);
    let mut claude = Cli::claude(&home, &home.work(), &[]);
    claude.prompt(&uuid(), &format!("{} [[text:reply]]", nonces[0])).await;
    claude.result().await;
    claude.prompt(&uuid(), &format!("{} [[say:ok]]", nonces[2])).await;
    let session = claude.result().await["session_id"].as_str().expect("a session").to_owned();
    let mut codex = Cli::codex(&home, &home.work()).await;
    let thread = codex_thread(&mut codex, &home).await;
    codex_turn(&mut codex, &thread, &format!("{0} {0}", nonces[2])).await;

    let table = nonce_table(&api.requests(), &nonces);
    let seen: Vec<_> = table.0.iter().map(|row| (row.session.as_str(), row.requests, row.most, row.last)).collect();
    let (session, thread) = (session.as_str(), thread.as_str());
    assert_eq!(
        seen,
        [
            (session, 2, 1, 1),
            (session, 1, 1, 1),
            (session, 1, 1, 1),
            (thread, 0, 0, 0),
            (thread, 0, 0, 0),
            (thread, 1, 2, 2)
        ],
        "\n{table}"
    );
}

#[tokio::test]
async fn a_wrong_directive_and_an_unknown_path_do_not_pass_in_silence() {
    let api = FakeApi::start().await;
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body = json!({"messages": [{"role": "user", "content": "x [[error:402]]"}], "tools": [{"name": "Bash"}]});
    let messages = || http.post(format!("{}/v1/messages", api.base_url()));
    assert_eq!(messages().json(&body).send().await.expect("an answer").status(), 401, "no key");
    let messages = || messages().header("x-api-key", FAKE_KEY);
    let answer = messages().json(&body).send().await.expect("an answer");
    assert_eq!(answer.status(), 400);
    assert!(answer.text().await.expect("a body").contains("wrong directive"));
    let answer = http.get(format!("{}/elsewhere", api.base_url())).send().await.expect("an answer");
    assert_eq!(answer.status(), 404);
    // What a CLI asks a proxy for is seen too.
    let proxy = reqwest::Proxy::all(api.base_url()).expect("a proxy");
    let through = reqwest::Client::builder().proxy(proxy).build().expect("a client");
    assert_eq!(through.get("http://example.invalid/v1/models").send().await.expect("an answer").status(), 404);
    assert_eq!(api.strays(), ["GET /elsewhere", "GET http://example.invalid/v1/models"]);
    let whole: Value = messages()
        .json(&json!({"messages": [{"role": "user", "content": "hi"}]}))
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    assert_eq!(whole["content"], json!([{"type": "text", "text": "echo: hi"}]));
    assert_eq!(api.requests().last().expect("a request").kind, Kind::Side);
}

#[tokio::test]
async fn dropped_it_is_gone() {
    let api = FakeApi::start().await;
    let addr = api.addr;
    drop(api);
    let refused = tokio::net::TcpStream::connect(addr).await.expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn logged_out_each_cli_says_so() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api).logged_out();
    let mut claude = Cli::claude(&home, &home.work(), &[]);
    claude.prompt(&uuid(), "hello").await;
    let result = claude.result().await;
    assert_eq!((&result["is_error"], &result["result"]), (&json!(true), &json!("Not logged in · Please run /login")));
    let mut codex = Cli::codex(&home, &home.work()).await;
    let account = codex.call("account/read", json!({})).await;
    let account = account.expect("an answer");
    assert_eq!((&account["account"], &account["requiresOpenaiAuth"]), (&Value::Null, &json!(true)));
    // Codex takes a turn all the same and asks its API without a key.
    let thread = codex_thread(&mut codex, &home).await;
    let turn = codex_turn(&mut codex, &thread, "hello").await;
    assert_eq!(turn["status"], "failed");
    assert_eq!(turn["error"]["codexErrorInfo"], json!({"httpConnectionFailed": {"httpStatusCode": 401}}));
    assert_eq!(api.strays(), Vec::<String>::new());
}

#[tokio::test]
async fn a_program_of_another_language_drives_it_through_its_stdin() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_fake-api"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("stdin");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut answers = Vec::new();
    let place = lines.next_line().await.expect("a line").expect("a line");
    let place: Value = serde_json::from_str(&place).expect("JSON");
    for command in [
        json!({"do": "put_text", "key": "k", "text": "NONCE"}),
        json!({"do": "rule", "error": "529"}),
        json!({"do": "nonces", "nonces": ["NONCE"]}),
        json!({"do": "nothing"}),
    ] {
        stdin.write_all(format!("{command}\n").as_bytes()).await.expect("it reads");
        let line = lines.next_line().await.expect("a line").expect("a line");
        answers.push(serde_json::from_str::<Value>(&line).expect("JSON"));
    }
    assert_eq!(answers[0..2], [json!({}), json!({})]);
    assert_eq!(answers[2]["rows"], json!([]));
    assert_eq!(answers[3], json!({"error": "no such command: \"nothing\""}));
    let folder = std::path::PathBuf::from(place["work"].as_str().expect("a folder"));
    assert!(folder.is_dir());
    drop(stdin);
    assert!(child.wait().await.expect("it ends").success());
    assert!(!folder.exists());
}
