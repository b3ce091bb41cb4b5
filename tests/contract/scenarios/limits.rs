//! Context, window, compaction, overflow, and our tools (G1, G2, G3, G8, M1, M2).

use changeover_core::{
    event::{Ended, RuntimeEvent as E},
    failure::FailureKind,
    part::WorkStatus,
    power::Power,
    usage::ContextFigure,
};
use changeover_runtime::session::{McpAccess, SessionSpec};
use changeover_tests::scenarios::Cell;

use super::stand::{Fault, Stand, refused};
use crate::{
    mcp::Server,
    talk::{Talk, reply},
};

fn figures(events: &[E]) -> Vec<ContextFigure> {
    events.iter().filter_map(|e| if let E::Context(figure) = e { Some(*figure) } else { None }).collect()
}

/// G3: what the last request saw, never a sum over rounds; and the window.
pub async fn usage_and_window(stand: &Stand) -> Cell {
    let mut talk = stand.open(stand.spec()).await;
    let first = talk.completed(&stand.filling(1050)).await;
    let mut last = figures(&first).last().copied();
    if stand.has_model() {
        let rounds = format!("{} [[usage:2000:50]]", stand.run("echo out"));
        let (events, ended) = talk.turn(&rounds).await;
        assert_eq!(ended, Ended::Completed);
        last = figures(&events).last().copied();
    }
    let used = if stand.has_model() { 2050 } else { last.map_or(0, |figure| figure.used) };
    talk.over().await;
    let (no_usage, no_window) = (stand.cannot(Power::Usage), stand.cannot(Power::Window));
    match (&no_usage, &no_window) {
        (Some(_), _) => assert_eq!(last, None),
        (None, Some(_)) => assert_eq!(last, Some(ContextFigure { used, window: None })),
        (None, None) => assert_eq!(last, Some(ContextFigure { used, window: Some(stand.window()) })),
    }
    assert!(used >= 1050);
    no_usage.or(no_window).map_or(Cell::Works, Cell::Cannot)
}

/// M1, M2: our tools are offered, called without leave, and the token is in no argv and no file.
pub async fn mcp_tool(stand: &Stand) -> Cell {
    let token = "scenario-token-0001";
    let server = Server::start(token).await;
    let mcp = Some(McpAccess { url: server.url(), token: token.into() });
    let mut talk = stand.open(SessionSpec { mcp, ..stand.spec() }).await;
    if let Some(words) = stand.cannot(Power::Mcp) {
        talk.completed(&stand.line(1).prompt).await;
        assert_eq!(server.calls(), [""; 0]);
        assert!(stand.processes().iter().all(|line| !line.contains(token)));
        talk.over().await;
        return Cell::Cannot(words);
    }
    talk.send(r#"look it up [[call:thread_read:{"thread_id":"t1"}]] [[say:I have read it]]"#).await;
    let end = talk.until("the end", |e| matches!(e, E::Ended(_) | E::ApprovalWanted(_))).await;
    assert_eq!(end, E::Ended(Ended::Completed), "reading asks for no leave: {:#?}", talk.seen);
    assert_eq!(server.calls(), [r#"thread_read {"thread_id":"t1"}"#]);
    let told = talk.seen.iter().rev().find_map(|e| match e {
        E::Tool { name, output, status, .. } => Some((name.clone(), output.clone().unwrap_or_default(), *status)),
        _ => None,
    });
    let (name, output, status) = told.expect("a tool call");
    assert!(name.ends_with("thread_read"), "{name}");
    assert!(output.contains("page of thread_read"), "{output}");
    assert_eq!((status, reply(&talk.seen).as_str()), (WorkStatus::Completed, "I have read it"));
    let turns = stand.api.turns();
    let offered = turns[0].body.to_string();
    assert!(["thread_read", "thread_search", "thread_list"].iter().all(|tool| offered.contains(tool)));
    assert!(turns[1].texts("result")[0].contains("page of thread_read"), "{:?}", turns[1].messages());
    let port = server.port().to_string();
    let lines = stand.processes();
    assert!(lines.iter().all(|line| !line.contains(token) && !line.contains(&port)), "in an argv: {lines:#?}");
    talk.over().await;
    stand.runtime.close().await;
    let search =
        std::process::Command::new("grep").args(["-rl", token]).arg(stand.home.root()).output().expect("grep runs");
    assert_eq!(String::from_utf8_lossy(&search.stdout), "", "in a file");
    Cell::Works
}

/// G2: above the whole window, and on: no request of its own making, nothing taken out of the history.
pub async fn compaction_off(stand: &Stand) -> Cell {
    let mut talk = stand.open(stand.spec()).await;
    let full = stand.filling(stand.overfull());
    talk.completed(&full).await;
    talk.completed(&full).await;
    let line = stand.line(1);
    assert_eq!(reply(&talk.completed(&line.prompt).await), line.reply);
    let compacted = talk.seen.contains(&E::Compacted);
    if let Some(words) = stand.cannot(Power::CompactionOff) {
        assert!(compacted, "it says that it compacts: {:#?}", talk.seen);
        talk.over().await;
        return Cell::Cannot(words);
    }
    assert!(!compacted, "{:#?}", talk.seen);
    if stand.has_model() {
        let asked: Vec<_> =
            stand.api.requests().iter().map(|request| (request.kind, request.user_text.clone())).collect();
        assert_eq!(stand.requests(), 3, "{asked:#?}");
    }
    let filled = super::stand::Line { prompt: full, reply: "filled".into() };
    stand.heard(&mut talk, &[&filled, &filled, &line]).await;
    talk.over().await;
    Cell::Works
}

/// G8, T9: told as what it is, never answered; and the next prompt does not stand on top of it.
pub async fn overflow(stand: &Stand) -> Cell {
    let lines = [1, 2].map(|n| stand.line(n));
    let mut talk = stand.open(stand.spec()).await;
    talk.completed(&lines[0].prompt).await;
    let (id, anchor) = (talk.id(), talk.last_anchor());
    let (events, ended) = talk.turn(&stand.fault(Fault::TooLong)).await;
    assert_eq!(refused(&events, ended).kind, FailureKind::Overflow);
    assert!(!talk.seen.contains(&E::Compacted));
    talk.over().await;
    let keeps = stand.runtime.capabilities().keeps;
    let requests = stand.requests();
    let back = stand.try_open(stand.rewinding(&id, anchor)).await;
    let mut talk: Talk = match back {
        Ok(talk) if keeps.rewinds => talk,
        Err(_) if !keeps.rewinds => stand.open(stand.spec()).await,
        Ok(_) => panic!("it cannot go back, and says that it did"),
        Err(failure) => panic!("it says that it can go back: {failure:?}"),
    };
    talk.completed(&lines[1].prompt).await;
    let kept: Vec<_> = if keeps.rewinds { lines.iter().collect() } else { vec![&lines[1]] };
    stand.heard(&mut talk, &kept).await;
    if stand.has_model() {
        assert_eq!(stand.requests(), requests + 1, "it did not compact");
    }
    talk.over().await;
    Cell::Works
}
