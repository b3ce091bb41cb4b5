//! Our MCP server where it cannot be had (M1).

use changeover_core::event::RuntimeEvent;
use changeover_runtime::session::{McpAccess, SessionSpec};

use super::bench::Bench;
use crate::mcp::Server;

const TOKEN: &str = "token-for-this-session-only";

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
