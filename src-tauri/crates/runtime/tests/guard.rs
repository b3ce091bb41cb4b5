//! The guard, with real processes and a parent that is killed without a chance to tidy up (R5).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use changeover_runtime::{
    guard::start_guard,
    process::{Launch, MARK},
    session::Environment,
};
use rustix::process::{Pid, Signal, kill_process};

const PARTS: &str = env!("CARGO_BIN_EXE_changeover-parts");
const ROLE: &str = "GUARD_TEST_MARK";

/// Pids that carry the mark, zombies left out.
fn carrying(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == wanted.as_bytes())
    })
    .collect()
}

fn lives(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| !environ.is_empty())
}

fn eventually(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Not a test: the app's part in the test below, in a process of its own that can be killed.
#[test]
#[ignore = "the parent process of another test"]
fn parent_role() {
    let Ok(mark) = std::env::var(ROLE) else { return };
    let guard = start_guard(Path::new(PARTS), &["guard"], &mark).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let entered = runtime.enter();
    let env = Environment::from([("PATH".into(), std::env::var("PATH").unwrap()), (MARK.into(), mark)]);
    let script = "trap '' TERM; setsid bash -c 'trap \"\" TERM; (sleep 1000 &); exec sleep 1001' & (sleep 1002 &); while :; do wait; done";
    let args = vec!["-c".into(), script.into()];
    let child = Launch { program: PathBuf::from("/bin/bash"), args, folder: "/".into(), env }.spawn().unwrap();
    println!("\nguard {}", guard.pid());
    drop(entered);
    // Until it is killed, or told to go by the end of its input.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop((child, guard));
}

fn parent(mark: &str) -> (std::process::Child, u32) {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "parent_role", "--ignored", "--nocapture"])
        .env(ROLE, mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let guard = lines.find_map(|line| line.unwrap().strip_prefix("guard ")?.parse().ok()).unwrap();
    // The rest of its output goes nowhere; the pipe must stay open.
    std::thread::spawn(move || lines.count());
    (parent, guard)
}

/// Ended even if its test fails.
struct Bystander(std::process::Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn after_kill_9_of_the_app_nothing_that_carries_its_mark_is_left_within_five_seconds() {
    let (mark, other) = (format!("{}:1", uuid::Uuid::new_v4()), format!("{}:1", uuid::Uuid::new_v4()));
    let bystander =
        Bystander(Command::new("sleep").arg("1000").env(MARK, &other).stdout(Stdio::null()).spawn().unwrap());
    let (mut parent, guard) = parent(&mark);
    eventually("the agent's whole tree runs", Duration::from_secs(10), || carrying(&mark).len() >= 4);

    let raw = Pid::from_raw(i32::try_from(guard).unwrap()).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        kill_process(raw, signal).unwrap();
    }
    assert!(!carrying(&mark).contains(&guard) && lives(guard));
    let shown = fs::read_to_string(format!("/proc/{guard}/cmdline")).unwrap();
    assert!(shown.ends_with("\0guard\0") && !shown.contains(&mark), "{shown:?}");
    let session = rustix::process::getsid(Some(raw)).unwrap();
    assert_eq!(session, raw, "away from the terminal's session");

    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("nothing marked is left", Duration::from_secs(5), || carrying(&mark).is_empty());
    eventually("the guard is gone too", Duration::from_secs(3), || !lives(guard));
    assert_eq!(carrying(&other), [bystander.0.id()]);
}

#[test]
fn after_an_orderly_end_the_guard_goes_by_itself() {
    let mark = format!("{}:2", uuid::Uuid::new_v4());
    let (mut parent, guard) = parent(&mark);
    eventually("the agent runs", Duration::from_secs(10), || !carrying(&mark).is_empty());
    drop(parent.stdin.take());
    assert!(parent.wait().unwrap().success());
    eventually("nothing marked is left", Duration::from_secs(5), || carrying(&mark).is_empty());
    eventually("the guard is gone too", Duration::from_secs(3), || !lives(guard));
}

#[test]
fn a_guard_that_cannot_stand_is_an_error_at_once() {
    assert!(start_guard(Path::new("/no/such/program"), &["guard"], "mark").is_err());
    assert!(start_guard(Path::new("/bin/true"), &[], "mark").is_err());
    assert!(start_guard(Path::new(PARTS), &["guard"], "").is_err());
    let mut guard = start_guard(Path::new(PARTS), &["guard"], &uuid::Uuid::new_v4().to_string()).unwrap();
    assert!(guard.is_running());
    guard.finish().unwrap();
}
