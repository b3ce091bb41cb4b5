//! Relay throughput (FC11): a reply of 1,000,000 deltas from an agent's pipe to the event hub, through the real adapter,
//! actor, step, store and hub, beside only parsing the same lines into the same wire types in the same run; and how much
//! memory that takes on the way.
//!
//! The agent is this program again, with `agent` as its argument: it speaks just enough ACP, and writes as fast as the pipe
//! takes it.

#![allow(clippy::expect_used)]

use std::{
    collections::HashSet,
    fmt::Write as _,
    io::{BufRead as _, BufWriter, Write as _},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use agent_client_protocol::v1::schema::{ContentBlock, SessionNotification, SessionUpdate};
use changeover_core::{id::ThreadId, part::PartBody, provider::ProviderId};
use changeover_engine::{
    Engine, EngineOptions,
    api::{Caller, types::EventBody},
};
use changeover_runtime::{
    acp::{AcpAgent, AcpRuntime, Program},
    practice::KEEPS,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[path = "../../../../tests/bench/rows.rs"]
mod rows;

/// A build that is not optimised shows that it works, no more.
const DELTAS: usize = if cfg!(debug_assertions) { 40_000 } else { 1_000_000 };
/// Deltas before the measured ones: opens the session, and all that is made once is there.
const WARM: usize = 20_000;
const RUNS: usize = 3;
/// Times of only parsing that relaying may take.
const MOST: f64 = 3.0;
/// How much more memory may be resident at the end of a reply than at its first tenth: nothing that grows with it. Ten
/// bytes a delta kept would be as much.
const GROWTH: u64 = 8 << 20;
const SESSION: &str = "0c8c2b53-4f4e-4a0c-9f3e-1d2f5a3b7c01";

fn main() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("agent") {
        return agent().expect("the pipe");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let lines = lines();
    let mut parsed = Duration::MAX;
    let mut relayed = Relayed { time: Duration::MAX, resident: [0; 3] };
    for _ in 0..RUNS {
        parsed = parsed.min(parse(&lines));
        let run = runtime.block_on(relay());
        if run.time < relayed.time {
            relayed = run;
        }
    }
    let ratio = relayed.time.as_secs_f64() / parsed.as_secs_f64();
    let second = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    rows::row(&format!("parsing {DELTAS} deltas, and no more"), &second(parsed), "", None);
    rows::row(
        "relaying them from wire to event hub",
        &format!("{}, {ratio:.2}x", second(relayed.time)),
        &format!("{MOST}x of only parsing"),
        Some(ratio <= MOST),
    );
    let [tenth, half, all] = relayed.resident;
    let mib = |bytes: u64| bytes >> 20;
    rows::row(
        "resident at 10 %, 50 % and 100 % of them",
        &format!("{}, {}, {} MiB", mib(tenth), mib(half), mib(all)),
        &format!("flat: within {} MiB", GROWTH >> 20),
        Some(half.max(all) <= tenth + GROWTH),
    );
}

/// The n-th delta: a word or two, as models send them.
fn delta(n: usize) -> &'static str {
    const WORDS: [&str; 8] =
        ["The ", "quick", " brown fox", " \\\"jumps\\\"", " over", " the lazy", " dog.\\n", " Größe"];
    WORDS[n % WORDS.len()]
}

fn line(into: &mut String, n: usize) {
    into.clear();
    let _ = write!(
        into,
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{SESSION}","update":{{"sessionUpdate":"agent_message_chunk","messageId":"msg_01","content":{{"type":"text","text":"{}"}}}}}}}}"#,
        delta(n)
    );
}

/// Bytes of text in so many deltas.
fn text_bytes(deltas: usize) -> usize {
    let bytes = |n| serde_json::from_str::<String>(&format!("\"{}\"", delta(n))).expect("a delta").len();
    let round: usize = (0..8).map(bytes).sum();
    deltas / 8 * round + (0..deltas % 8).map(bytes).sum::<usize>()
}

// --- the agent ---

fn agent() -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(64 * 1024, std::io::stdout());
    for asked in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&asked?)?;
        let Some(id) = asked.get("id") else { continue };
        let result = match asked.get("method").and_then(Value::as_str) {
            Some("initialize") => {
                json!({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "relay", "version": "1"}})
            }
            Some("session/new") => json!({"sessionId": SESSION}),
            Some("session/prompt") => {
                let text = asked.pointer("/params/prompt/0/text").and_then(Value::as_str).unwrap_or_default();
                let deltas = text.split_whitespace().next_back().and_then(|n| n.parse().ok()).unwrap_or(0);
                let mut written = String::new();
                for n in 0..deltas {
                    line(&mut written, n);
                    written.push('\n');
                    out.write_all(written.as_bytes())?;
                }
                json!({"stopReason": "end_turn"})
            }
            _ => Value::Null,
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        out.flush()?;
    }
    Ok(())
}

// --- only parsing ---

#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "jsonrpc")]
    _jsonrpc: String,
    method: String,
    params: SessionNotification,
}

/// Some of the lines; they come again and again, so that what is measured is not this program's memory.
fn lines() -> Vec<String> {
    (0..10_000)
        .map(|n| {
            let mut text = String::new();
            line(&mut text, n);
            text
        })
        .collect()
}

fn parse(lines: &[String]) -> Duration {
    let begun = Instant::now();
    let mut bytes = 0;
    for line in lines.iter().cycle().take(DELTAS) {
        let frame: Frame = serde_json::from_str(line).expect("a frame");
        assert_eq!(frame.method, "session/update");
        if let SessionUpdate::AgentMessageChunk(chunk) = frame.params.update
            && let ContentBlock::Text(text) = chunk.content
        {
            bytes += text.text.len();
        }
    }
    let time = begun.elapsed();
    assert_eq!(bytes, text_bytes(DELTAS));
    time
}

// --- the whole way ---

struct Relayed {
    time: Duration,
    resident: [u64; 3],
}

async fn relay() -> Relayed {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    let engine = engine(folder.path()).await;
    let mut subscription = engine.hub().subscribe();
    let caller = Caller { subscriber: Some(subscription.id()), ..Caller::default() };
    let ask = async |method: &str, params: Value| engine.dispatch(method, params, &caller).await.expect("an answer");
    let project = ask("project/open", json!({"path": workspace})).await;
    let thread = ask("thread/start", json!({"projectId": project["project"]["id"]})).await;
    let id: ThreadId = serde_json::from_value(thread["thread"]["id"].clone()).expect("an id");
    ask("event/watch", json!({"threadIds": [id]})).await;
    let mut relayed = Relayed { time: Duration::ZERO, resident: [0; 3] };
    for (turn, deltas) in [WARM, DELTAS].into_iter().enumerate() {
        let (total, mut marks) = (text_bytes(deltas), vec![(10, 0), (50, 1), (100, 2)]);
        let begun = Instant::now();
        let text = format!("say so many words: {deltas}");
        ask("turn/start", json!({"threadId": id, "clientTurnId": turn.to_string(), "text": text})).await;
        let (mut got, mut replies) = (0, HashSet::new());
        'turn: loop {
            let events = subscription.next().await.expect("a subscriber that keeps up");
            for event in events.into_iter().filter(|event| event.thread_id == Some(id)) {
                match event.body {
                    EventBody::Part { message_id, part } => {
                        if let PartBody::Text { text } = part.body {
                            got += text.len();
                            replies.insert(message_id);
                        }
                    }
                    EventBody::Text { text, .. } => got += text.len(),
                    EventBody::Warning { message } => panic_with(&message),
                    EventBody::Turn { turn: None } => break 'turn,
                    _ => {}
                }
            }
            while let Some((percent, at)) = marks.first().copied()
                && got * 100 >= total * percent
            {
                relayed.resident[at] = resident();
                marks.remove(0);
            }
        }
        relayed.time = begun.elapsed();
        assert_eq!((got, replies.len()), (total, 1), "every byte arrives, in one reply");
    }
    engine.close().await;
    relayed
}

fn panic_with(message: &str) {
    assert!(message.is_empty(), "the engine warns: {message}");
}

async fn engine(folder: &Path) -> Engine {
    let agent = AcpAgent {
        id: ProviderId::practice(),
        program: Program::BuiltIn(std::env::current_exe().expect("this program")),
        args: vec!["agent".into()],
        env: [].into(),
        keeps: KEEPS,
    };
    let options = EngineOptions {
        data_folder: folder.join("data"),
        environment: [].into(),
        repair_environment: false,
        mark: format!("relay-bench.{}", std::process::id()),
        runtimes: vec![Arc::new(AcpRuntime::new(agent))],
        max_attempts: Some(1),
        window: false,
    };
    Engine::open(options).await.expect("an engine")
}

/// Bytes of this process that are in memory; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}
