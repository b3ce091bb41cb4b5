//! Detection, models, and our MCP server (R2, R6, M1, M2).

use changeover_core::{
    event::{Ended, RuntimeEvent as E},
    failure::FailureKind,
};
use changeover_runtime::{
    claude::Claude,
    session::{AgentRuntime, Login, McpAccess, SessionSpec},
};
use changeover_tests::{
    agents::{Agent, AgentHome, FAKE_KEY},
    fake_api::FakeApi,
};

use super::bench::{lives, open_with, spec};

#[tokio::test]
async fn our_mcp_server_reaches_the_model_and_its_secrets_no_process_list() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let server = crate::mcp::Server::start("very-secret-token").await;
    let mcp = Some(McpAccess { url: server.url(), token: "very-secret-token".into() });
    let mut talk = open_with(SessionSpec { mcp, ..spec(&home) }).await;
    talk.send(r#"one [[call:mcp__changeover__thread_read:{"limit":3}]] [[say:read]]"#).await;
    let end = talk.until("the end", |e| matches!(e, E::Ended(_) | E::ApprovalWanted(_))).await;
    assert_eq!(end, E::Ended(Ended::Completed), "reading asks for no leave");
    let turns = api.turns();
    let tools = turns[0].body["tools"].as_array().expect("tools").clone();
    let named: Vec<&str> = tools.iter().filter_map(|t| t["name"].as_str()).filter(|n| n.starts_with("mcp__")).collect();
    assert_eq!(
        named,
        ["mcp__changeover__thread_list", "mcp__changeover__thread_read", "mcp__changeover__thread_search"]
    );
    assert_eq!(server.calls(), [r#"thread_read {"limit":3}"#]);
    assert!(
        talk.seen
            .iter()
            .any(|e| matches!(e, E::Tool { output: Some(text), .. } if text.contains("page of thread_read")))
    );
    let line = lives(&home.work()).join("\n");
    assert!(
        line.contains("--mcp-config") && !line.contains("very-secret") && !line.contains(&server.port().to_string()),
        "{line}"
    );
}

#[tokio::test]
async fn it_is_found_with_version_login_and_models_or_told_why_not() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let claude = Claude::default();
    let found = claude.describe(home.env()).await;
    assert_eq!(found.problem, None);
    assert_eq!(found.login, Login::In { method: "API key".into() });
    let version = found.version.expect("a version");
    assert!(version.split('.').count() == 3 && version.bytes().all(|b| b.is_ascii_digit() || b == b'.'), "{version}");
    assert_eq!(found.path.and_then(|p| p.canonicalize().ok()), Some(Agent::Claude.binary()));
    let models = claude.models(home.env()).await.expect("models");
    assert_eq!(models.iter().filter(|m| m.default).count(), 1);
    let opus = models.iter().find(|m| m.id == "opus").expect("opus");
    assert_eq!((opus.name.as_str(), opus.efforts.first().map(String::as_str)), ("Opus", Some("low")));
    // Each is taken as it was offered.
    let chosen = SessionSpec { model: Some("haiku".into()), effort: Some("high".into()), ..spec(&home) };
    let mut talk = open_with(chosen).await;
    talk.completed("one [[say:r1]]").await;
    let turns = api.turns();
    assert!(turns[0].body["model"].as_str().is_some_and(|model| model.contains("haiku")), "{}", turns[0].body["model"]);
    assert_eq!(turns[0].body["output_config"]["effort"], "high");
    assert_eq!(turns[0].auth.as_deref(), Some(FAKE_KEY));
    assert!(turns[0].body["tools"].as_array().expect("tools").iter().all(|t| t["name"] != "AskUserQuestion"));

    let out = AgentHome::new(&api).logged_out();
    let described = claude.describe(out.env()).await;
    assert!(matches!(described.login, Login::Out { .. }), "{described:?}");
    let refused = claude.open(spec(&out)).await.err().expect("it is not logged in");
    assert_eq!(refused.kind, FailureKind::NotLoggedIn);
    std::fs::remove_file(out.bin().join("claude")).expect("a link");
    let missing = claude.describe(out.env()).await;
    assert_eq!((missing.path, missing.problem.map(|p| p.kind)), (None, Some(FailureKind::NotInstalled)));
    let refused = claude.open(spec(&out)).await.err().expect("it is not there");
    assert_eq!(refused.kind, FailureKind::NotInstalled);
    claude.pick(Some(Agent::Claude.binary()));
    assert_eq!(claude.describe(out.env()).await.found.as_deref(), Some("picked by hand"));
}
