//! Our MCP server as Codex uses it (M1).

use changeover_core::event::RuntimeEvent;
use changeover_core::part::WorkStatus;
use changeover_runtime::session::{McpAccess, SessionSpec};

use super::bench::{Bench, running};
use crate::mcp::Server;

const TOKEN: &str = "token-for-this-session-only";

#[tokio::test]
async fn our_tools_are_offered_and_called_without_asking_and_the_token_stays_secret() {
    let bench = Bench::new().await;
    let server = Server::start(TOKEN).await;
    let mcp = Some(McpAccess { url: server.url(), token: TOKEN.into() });
    let mut open = bench.open(SessionSpec { mcp, ..bench.asking() }).await;
    let events = open.turn(r#"[[call:thread_read:{"thread_id":"t1"}]][[say:done]]"#).await;
    let offered = bench.api.turns()[0].body["tools"].to_string();
    for name in ["mcp__changeover", "thread_read", "thread_search", "thread_list"] {
        assert!(offered.contains(name), "{name} in {offered}");
    }
    assert!(!events.iter().any(|event| matches!(event, RuntimeEvent::ApprovalWanted(_))), "{events:#?}");
    let tool = RuntimeEvent::Tool {
        item: "call_fake0001_0".into(),
        name: "mcp__changeover__thread_read".into(),
        input: r#"{"thread_id":"t1"}"#.into(),
        output: Some("page of thread_read".into()),
        status: WorkStatus::Completed,
    };
    assert!(events.contains(&tool), "{events:#?}");
    assert_eq!(server.calls(), [r#"thread_read {"thread_id":"t1"}"#]);
    assert_eq!(running(|_, command| command.contains(TOKEN)), [0; 0], "in no argv");
    open.close().await;
    let written =
        std::process::Command::new("grep").args(["-rl", TOKEN]).arg(bench.home.root()).output().expect("grep runs");
    assert_eq!(String::from_utf8_lossy(&written.stdout), "", "in no file");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_a_warning_and_the_turn_runs() {
    let bench = Bench::new().await;
    let server = Server::start(TOKEN).await;
    let mcp = Some(McpAccess { url: server.url(), token: "wrong".into() });
    let mut open = bench.open(SessionSpec { mcp, ..bench.spec() }).await;
    open.answered("hello").await;
    let warned =
        |event: &RuntimeEvent| matches!(event, RuntimeEvent::Warning { message } if message.contains("changeover"));
    assert!(open.seen.iter().any(warned), "{:#?}", open.seen);
    assert_eq!(server.calls(), [""; 0]);
    open.close().await;
}
