//! Our MCP server as OpenCode uses it (M1): one server is shared, and each session has its own tools only.

use changeover_core::event::RuntimeEvent;
use changeover_core::part::WorkStatus;
use changeover_runtime::session::{AgentRuntime, McpAccess, SessionSpec};
use changeover_tests::fake_api::Recorded;

use super::bench::{Bench, running};
use crate::mcp::Server;

/// The names of our tools in a request.
fn offered(request: &Recorded) -> Vec<String> {
    let tools = request.body["tools"].as_array().expect("tools").iter();
    let names = tools.filter_map(|tool| tool["name"].as_str());
    names.filter(|name| name.starts_with("changeover")).map(str::to_owned).collect()
}

#[tokio::test]
async fn m1_two_sessions_in_one_folder_have_their_own_tools_and_not_each_others() {
    let bench = Bench::new().await;
    let (one, other) = ("token-of-the-one-session", "token-of-the-other-session");
    let (first, second) = (Server::start(one).await, Server::start(other).await);
    let access = |server: &Server, token: &str| Some(McpAccess { url: server.url(), token: token.into() });
    let mut a = bench.open(SessionSpec { mcp: access(&first, one), ..bench.asking() }).await;
    let mut b = bench.open(SessionSpec { mcp: access(&second, other), ..bench.asking() }).await;
    let none = bench.open(bench.asking()).await;
    assert_eq!(bench.servers().len(), 1);
    let mut tools = Vec::new();
    for open in [&mut a, &mut b] {
        let from = open.seen.len();
        let events = open.turn(r#"[[call:thread_read:{"thread_id":"t1"}]][[say:done]]"#).await;
        assert!(!events.iter().any(|event| matches!(event, RuntimeEvent::ApprovalWanted(_))), "{events:#?}");
        let read = |event: &RuntimeEvent| {
            matches!(event, RuntimeEvent::Tool { name, output: Some(output), status: WorkStatus::Completed, .. }
                if name == "mcp__changeover__thread_read" && output == "page of thread_read")
        };
        assert!(open.seen[from..].iter().any(read), "{events:#?}");
        tools.push(offered(&bench.api.turns().pop().expect("a request")));
    }
    assert_eq!((tools[0].len(), tools[1].len()), (3, 3), "{tools:?}");
    assert!(tools[0].iter().all(|name| !tools[1].contains(name)), "{tools:?}");
    assert_eq!((first.calls().len(), second.calls().len()), (1, 1));
    // Called by its name all the same, the other's tool is not there.
    let theirs = tools[1].iter().find(|name| name.ends_with("thread_read")).expect("a name").clone();
    let params = format!(r#"[[call:{theirs}:{{"thread_id":"t1"}}]][[say:done]]"#);
    a.turn(&params).await;
    assert_eq!(second.calls().len(), 1, "it cannot be called");
    // A session without has none, and neither has a sub-agent.
    let mut none = none;
    none.answered("hello").await;
    assert_eq!(offered(&bench.api.turns().pop().expect("a request")), [""; 0]);
    let id = a.id().await;
    a.answered(r#"[[call:task:{"description":"d","prompt":"look","subagent_type":"general"}]]"#).await;
    let sub = bench.api.turns().into_iter().rev().find(|request| {
        let session = request.session.as_deref();
        request.count("look") > 0 && session != Some(id.as_str())
    });
    assert_eq!(offered(&sub.expect("a sub-agent's request")), [""; 0]);
    // Opened again, with another token, it has the same tools by the same names.
    a.close().await;
    let third = Server::start("token-of-the-third-opening").await;
    let mcp = access(&third, "token-of-the-third-opening");
    let mut a = bench.open(SessionSpec { mcp, ..bench.resuming(&id, None) }).await;
    a.answered(r#"[[call:thread_read:{"thread_id":"t2"}]][[say:done]]"#).await;
    assert_eq!(offered(&bench.api.turns().pop().expect("a request")), tools[0]);
    assert_eq!(third.calls(), [r#"thread_read {"thread_id":"t2"}"#]);
    assert_eq!(running(|_, command| command.contains("token-of-the")), [0; 0], "in no argv");
    a.close().await;
    b.close().await;
    none.close().await;
    bench.runtime.close().await;
    let port = first.port().to_string();
    for secret in ["token-of-the", &format!("127.0.0.1:{port}")] {
        let written = std::process::Command::new("grep").args(["-rl", secret]).arg(bench.home.root()).output();
        assert_eq!(String::from_utf8_lossy(&written.expect("grep runs").stdout), "", "{secret} is in no file");
    }
    bench.end().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_a_warning_and_the_turn_runs() {
    let bench = Bench::new().await;
    let server = Server::start("right").await;
    let mcp = Some(McpAccess { url: server.url(), token: "wrong".into() });
    let mut open = bench.open(SessionSpec { mcp, ..bench.asking() }).await;
    open.answered("hello").await;
    let warned =
        |event: &RuntimeEvent| matches!(event, RuntimeEvent::Warning { message } if message.contains("changeover"));
    assert!(open.seen.iter().any(warned), "{:#?}", open.seen);
    assert_eq!(server.calls(), [""; 0]);
    open.close().await;
    bench.end().await;
}
