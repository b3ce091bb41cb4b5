//! `changeover serve` on large data folders after a clean end (FC11): when it is ready, what it holds in memory, what it does
//! when nobody does anything, and how long opening a long thread takes over the WebSocket.
//!
//! The program is this one: given a command of `changeover`, it is `changeover`. It runs with an environment of its own, in
//! which no agent but the practice agent is found.

#![allow(clippy::expect_used)]

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use changeover_engine::lock::Address;
use changeover_store::{OpenOptions, Store};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest as _},
};

#[path = "data.rs"]
mod data;
#[path = "rows.rs"]
mod rows;

use data::{Mix, made, thread, wait};
use rows::row;

/// Starts that are measured; the fastest counts, since what else the machine does is not what is measured.
const STARTS: usize = 12;
/// Until everything that a start begins in the background is done.
const SETTLE: Duration = Duration::from_secs(15);
const IDLE: Duration = Duration::from_secs(60);
/// How long system calls are counted.
const COUNTED: Duration = Duration::from_secs(20);
const MILLION: u64 = 1_000_000;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word != "--bench") {
        return changeover_server::cli::run_args(words);
    }
    let data = data::folder();
    let [million, long] = [MILLION, 100_000].map(|count| indexed(made(&data, Mix::Equal, count)));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    ready(&million);
    runtime.block_on(open_thread(&long));
    runtime.block_on(idle(&million));
    ExitCode::SUCCESS
}

/// Brings the search index up to date, as it is in a folder that was used.
fn indexed(folder: PathBuf) -> PathBuf {
    let done = folder.join("indexed");
    if !done.exists() {
        let begun = Instant::now();
        let store = Store::open(&folder.join("changeover.db"), &OpenOptions::default()).expect("a store");
        wait(store.flush_search()).expect("the index");
        drop(store);
        std::fs::write(&done, "").expect("the data folder");
        println!("(indexed in {:.0?})", begun.elapsed());
    }
    folder
}

/// A running `changeover serve`.
struct Served {
    child: Child,
    folder: PathBuf,
    ready: Duration,
    _home: tempfile::TempDir,
}

impl Served {
    fn start(folder: &Path) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["serve", "--data"]).arg(folder).env_clear();
        command.env("HOME", home.path()).env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().expect("changeover serve");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("the address");
        let ready = begun.elapsed();
        assert!(line.starts_with("http://127.0.0.1:"), "no address: {line}");
        Self { child, folder: folder.to_owned(), ready, _home: home }
    }

    /// A clean end: the next start is after one.
    fn end(mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("its end");
        self.child.wait().expect("its end");
        assert!(self.folder.join("changeover.db.closed").exists(), "it did not end cleanly");
    }

    /// It and its guard.
    fn processes(&self) -> Vec<u32> {
        let id = self.child.id();
        let mut all = vec![id];
        for task in tasks(id) {
            let children = std::fs::read_to_string(task.join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        all
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn ready(folder: &Path) {
    // The first one after something else had the folder is not after a clean end of its own.
    Served::start(folder).end();
    let mut times: Vec<Duration> = (0..STARTS)
        .map(|_| {
            let served = Served::start(folder);
            let ready = served.ready;
            served.end();
            ready
        })
        .collect();
    times.sort_unstable();
    let at = |n: usize| times.get(n).copied().unwrap_or_default();
    row(
        "serve: ready on 1,000,000 messages after a clean end",
        &format!("{:.1} ms (median {:.1})", ms(at(0)), ms(at(STARTS / 2))),
        "100 ms",
        Some(ms(at(0)) <= 100.0),
    );
}

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(served: &Served) -> Socket {
    let text = std::fs::read_to_string(served.folder.join("engine.json")).expect("the address");
    let address: Address = serde_json::from_str(&text).expect("the address");
    let mut request =
        format!("{}/rpc", address.url.replacen("http://", "ws://", 1)).into_client_request().expect("a url");
    let bearer = format!("Bearer {}", address.token).parse().expect("a token");
    request.headers_mut().insert("authorization", bearer);
    tokio_tungstenite::connect_async(request).await.expect("a connection").0
}

/// Asks and waits for the answer to this question.
async fn ask(socket: &mut Socket, id: u64, method: &str, params: Value) -> Value {
    let asked = json!({"id": id, "method": method, "params": params});
    socket.send(Message::Text(asked.to_string().into())).await.expect("the connection");
    loop {
        let message = socket.next().await.expect("the connection").expect("a frame");
        let Message::Text(text) = message else { continue };
        let mut frame: Value = serde_json::from_str(&text).expect("a frame");
        if frame.get("id") == Some(&json!(id)) {
            assert!(frame.get("error").is_none(), "{method}: {frame}");
            return frame["result"].take();
        }
    }
}

async fn open_thread(folder: &Path) {
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let served = Served::start(folder);
        let mut socket = connect(&served).await;
        let begun = Instant::now();
        ask(&mut socket, 1, "event/watch", json!({"threadIds": [thread()]})).await;
        let page = ask(&mut socket, 2, "thread/read", json!({"threadId": thread()})).await;
        fastest = fastest.min(begun.elapsed());
        assert_eq!(page["messages"].as_array().map(Vec::len), Some(60));
        drop(socket);
        served.end();
    }
    row(
        "open a thread of 100,000 messages over the WebSocket, just started",
        &format!("{:.1} ms", ms(fastest)),
        "300 ms",
        Some(ms(fastest) <= 300.0),
    );
}

async fn idle(folder: &Path) {
    let served = Served::start(folder);
    tokio::time::sleep(SETTLE).await;
    let processes = served.processes();
    let resident: Vec<u64> = processes.iter().map(|pid| resident(*pid)).collect();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let all = resident.iter().sum::<u64>();
    row(
        "serve: resident when idle on 1,000,000 messages, its guard included",
        &format!("{:.1} MiB (itself {:.1})", mib(all), mib(resident.first().copied().unwrap_or(0))),
        "60 MiB",
        Some(all > 0 && mib(all) <= 60.0),
    );
    // A browser is connected and shows the thread.
    let mut socket = connect(&served).await;
    ask(&mut socket, 1, "event/watch", json!({"threadIds": [thread()]})).await;
    ask(&mut socket, 2, "thread/read", json!({"threadId": thread()})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let open: u64 = processes.iter().map(|pid| self::resident(*pid)).sum();
    row("serve: the same with a browser that shows the thread", &format!("{:.1} MiB", mib(open)), "", None);
    let before = spent(&processes);
    tokio::time::sleep(IDLE).await;
    let after = spent(&processes);
    let cpu: Duration = after.0.saturating_sub(before.0);
    let percent = cpu.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    row("serve: idle, browser connected: CPU over 60 s", &format!("{percent:.3} %"), "0.1 %", Some(percent <= 0.1));
    let woken = (after.1 - before.1) as f64 / IDLE.as_secs_f64();
    match system_calls(&processes) {
        Some(calls) => {
            let rate = calls as f64 / COUNTED.as_secs_f64();
            row("serve: idle: system calls a second", &format!("{rate:.2}"), "fewer than 5", Some(rate < 5.0));
        }
        None => row(
            "serve: idle: wake-ups a second (no strace here)",
            &format!("{woken:.2}"),
            "fewer than 5",
            Some(woken < 5.0),
        ),
    }
    drop(socket);
    served.end();
}

fn tasks(pid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Bytes in memory; 0 where the system does not say.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}

/// Time on a processor, and how often a thread went to sleep.
fn spent(processes: &[u32]) -> (Duration, u64) {
    let (mut time, mut slept) = (0, 0);
    for task in processes.iter().flat_map(|pid| tasks(*pid)) {
        let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        time += read("schedstat").split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let fields: BTreeMap<String, String> = read("status")
            .lines()
            .filter_map(|line| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned())))
            .collect();
        slept += fields.get("voluntary_ctxt_switches").and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    }
    (Duration::from_nanos(time), slept)
}

/// Counts them with strace, where that is installed and allowed.
fn system_calls(processes: &[u32]) -> Option<usize> {
    let report = tempfile::NamedTempFile::new().ok()?;
    let mut strace = Command::new("timeout");
    strace.args(["-s", "INT", &COUNTED.as_secs().to_string(), "strace", "-q", "-f", "-o"]).arg(report.path());
    for pid in processes {
        strace.args(["-p", &pid.to_string()]);
    }
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    let text = std::fs::read_to_string(report.path()).ok()?;
    // Every thread waits in a call when strace comes; those it was let into show that it was. A call that returns has a value.
    (!text.is_empty()).then(|| text.lines().filter(|line| line.contains(" = ")).count())
}
