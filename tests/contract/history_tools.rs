//! The real CLIs read the conversation through our MCP server (M2, FC9): engine, server, adapter and CLI as they ship.

use std::{collections::HashSet, sync::Arc, time::Duration};

use changeover_core::{
    message::{MessageState, Role},
    provider::{ApprovalMode, ProviderId, Target},
};
use changeover_engine::api::{
    Caller,
    types::{EventBody, ThreadReadResponse},
};
use changeover_runtime::{claude::Claude, codex::CodexRuntime};
use changeover_tests::{
    agents::AgentHome,
    fake_api::FakeApi,
    family::{Family, Filling, thread},
};
use serde_json::json;
use uuid::Uuid;

/// Far above what anything here takes: a hang fails, a slow machine does not.
const PATIENCE: Duration = Duration::from_secs(120);

/// More than two pages of thirty numbered messages, behind both adapters.
async fn long_talk(home: &AgentHome) -> Family {
    let mut filling = Filling::new().await;
    filling.thread(thread(1), "A long talk").await;
    for n in 1..=30 {
        filling.user(thread(1), &format!("START-{n} {} END-{n}", "lorem ipsum ".repeat(250))).await;
    }
    let notes = home.root().join("notes");
    filling.serve(&[], vec![Arc::new(Claude::default()), Arc::new(CodexRuntime::new(notes))], home.env().clone()).await
}

/// Sends a message and waits until its turn is over; whatever was asked of the user meanwhile.
async fn turn(family: &Family, target: &Target, text: &str) -> Vec<String> {
    let mut events = family.engine.hub().subscribe();
    family.engine.hub().watch(events.id(), HashSet::from([thread(1)]));
    let params =
        json!({"threadId": thread(1), "clientTurnId": Uuid::new_v4().to_string(), "text": text, "target": target});
    family.engine.dispatch("turn/start", params, &Caller::default()).await.expect("the turn starts");
    let mut asked = Vec::new();
    let wait = async {
        loop {
            for event in events.next().await.expect("the hub goes on") {
                match event.body {
                    EventBody::Approval { approval } => asked.push(format!("{approval:?}")),
                    EventBody::Turn { turn: None } => return,
                    _ => {}
                }
            }
        }
    };
    if tokio::time::timeout(PATIENCE, wait).await.is_err() {
        panic!("the turn did not end in {PATIENCE:?}; asked: {asked:?}");
    }
    asked
}

/// `limit`: of each page's messages, so many that the CLI gives the model all of a page of three thousand bytes each.
async fn the_cli_reads_whole_pages_unasked(provider: ProviderId, limit: u32) {
    let target = Target { provider, model: None, effort: None, mode: ApprovalMode::Ask };
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let family = long_talk(&home).await;
    let call = |tool: &str, arguments: serde_json::Value| format!("[[call:{tool}:{arguments}]]");
    let newest = json!({"thread_id": thread(1), "limit": limit});
    let first = format!("{}[[say:read one]]", call("thread_read", newest));
    let second = [
        call("thread_read", json!({"before_seq": 21, "limit": limit})),
        call("thread_search", json!({"words": "START-7 END-7"})),
        call("thread_list", json!({})),
        call("thread_read", json!({"before_seq": "x"})),
        "[[say:read on]]".to_owned(),
    ]
    .concat();
    for text in [first, second] {
        assert_eq!(turn(&family, &target, &text).await, [""; 0], "nobody is asked");
    }
    let page = family.engine.dispatch("thread/read", json!({"threadId": thread(1)}), &Caller::default()).await;
    let page: ThreadReadResponse = serde_json::from_value(page.expect("a page")).expect("a page");
    let replies: Vec<_> = page.messages.iter().filter(|message| message.role == Role::Assistant).collect();
    assert_eq!(replies.iter().map(|reply| reply.state).collect::<Vec<_>>(), [MessageState::Done, MessageState::Done]);

    let turns = api.turns();
    let results = turns.last().expect("a request").texts("result");
    assert_eq!(results.len(), 5, "{results:#?}");
    // As the model sees it: the whole page, not what some limit of the CLI has left of it.
    let (newest, older) = (&results[0], &results[1]);
    assert!(
        newest.contains("### #30 User, ") && newest.contains("START-30 ") && newest.contains(" END-30"),
        "{newest}"
    );
    let (_, next) = newest.rsplit_once("and before_seq ").unwrap_or_else(|| panic!("where to go on: {newest}"));
    let next: u64 = next.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number");
    for n in next..=30 {
        assert!(newest.contains(&format!("START-{n} ")) && newest.contains(&format!(" END-{n}\n")), "#{n}: {newest}");
    }
    assert!(older.contains(" END-20\n") && !older.contains("START-21 "), "{older}");
    assert!(results[2].contains("### #7 User, 2026-11-30T08:07:00Z\n```\nSTART-7 lorem"), "{}", results[2]);
    assert!(results[3].contains("this conversation, titled \"A long talk\""), "{}", results[3]);
    assert!(results[4].contains("`before_seq` is a message's number"), "{}", results[4]);
    // The handoff that began it pointed there.
    let prompt = turns[0].texts("user").join("\n");
    assert!(prompt.contains("`thread_read`") && prompt.contains(&thread(1).to_string()), "{prompt}");
    assert_eq!(api.strays(), [""; 0]);
    family.engine.close().await;
}

#[tokio::test]
async fn claude_code_reads_whole_pages_unasked() {
    the_cli_reads_whole_pages_unasked(ProviderId::claude(), 100).await;
}

#[tokio::test]
async fn codex_reads_whole_pages_unasked() {
    // Of what a tool gives to a model that is not in its catalogue, as this one, Codex keeps 12,000 bytes.
    the_cli_reads_whole_pages_unasked(ProviderId::codex(), 3).await;
}

#[tokio::test]
async fn codex_tells_a_model_that_searches_for_its_tools_of_ours() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let family = long_talk(&home).await;
    let target =
        Target { provider: ProviderId::codex(), model: Some("gpt-5.5".into()), effort: None, mode: ApprovalMode::Ask };
    turn(&family, &target, "hello").await;
    let body = api.turns()[0].body.clone();
    let offered = body["tools"].as_array().expect("tools");
    assert!(offered.iter().any(|tool| tool["type"] == "tool_search"), "{offered:#?}");
    let told = body["input"].to_string();
    let ours = told.split_once("- mcp__changeover: ").unwrap_or_else(|| panic!("nothing of our server: {told}")).1;
    let ours = ours.split("\\n- ").next().unwrap_or_default();
    for name in ["thread_read", "thread_search", "thread_list"] {
        assert!(ours.contains(name), "{name} in {ours}");
    }
    family.engine.close().await;
}
