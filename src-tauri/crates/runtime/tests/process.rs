//! Real processes, started, lost and ended (R5). Each test touches only what it started: it looks by a mark of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use changeover_core::failure::FailureKind;
use changeover_runtime::{
    process::{
        Launch, MARK, Spawned, end_marked_within,
        lines::{Line, LineReader},
    },
    session::Environment,
};

fn env(mark: &str) -> Environment {
    let path = std::env::var("PATH").unwrap();
    Environment::from([("PATH".into(), path), (MARK.into(), mark.into())])
}

fn bash(script: &str, folder: &Path, env: Environment) -> Spawned {
    let args = vec!["-c".into(), script.into()];
    Launch { program: PathBuf::from("/bin/bash"), args, folder: folder.into(), env }.spawn().unwrap()
}

fn mark() -> String {
    format!("test-{}:run", uuid::Uuid::new_v4())
}

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

async fn line(reader: &mut LineReader<tokio::process::ChildStdout>) -> String {
    match tokio::time::timeout(Duration::from_secs(10), reader.next()).await.unwrap().unwrap() {
        Some(Line::Text(text)) => text,
        other => panic!("no line: {other:?}"),
    }
}

/// A shell that ignores SIGTERM, a child in a session of its own that does too, one that lost its parent, and one that lost
/// both its parent and its environment while its session still tells.
const STUBBORN: &str = r#"
trap '' TERM
setsid bash -c 'trap "" TERM; sleep 1000 & echo one; wait' &
(setsid bash -c 'trap "" TERM; (sleep 1000 &) ; echo two; sleep 1001' & )
(env -i /bin/sleep UNIQUE & )
wait
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_ignores_sigterm_is_gone_within_three_seconds_and_nothing_else_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (mark(), mark());
    let bystander = bash("trap '' TERM; echo up; read -r x", folder.path(), env(&other));
    let mut up = LineReader::new(bystander.stdout);
    assert_eq!(line(&mut up).await, "up");

    let unique = format!("{}", 2_000_000_000 + u64::from(std::process::id()));
    let spawned = bash(&STUBBORN.replace("UNIQUE", &unique), folder.path(), env(&ours));
    let mut out = LineReader::new(spawned.stdout);
    let mut words = vec![line(&mut out).await, line(&mut out).await];
    words.sort();
    assert_eq!(words, ["one", "two"]);
    let bare = || {
        fs::read_dir("/proc").unwrap().flatten().any(|e| {
            fs::read(e.path().join("cmdline")).is_ok_and(|line| line == format!("/bin/sleep\0{unique}\0").as_bytes())
        })
    };
    let deadline = Instant::now() + Duration::from_secs(3);
    // Both words may be there before the last of its processes is.
    while !bare() || carrying(&ours).len() < 5 {
        assert!(Instant::now() < deadline, "{:?}", carrying(&ours));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let begun = Instant::now();
    spawned.process.end(Duration::from_secs(1)).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(carrying(&ours), Vec::<u32>::new());
    assert!(!bare());
    assert!(!spawned.process.lives().await);
    assert_eq!(spawned.process.exited().await.signal, Some(9));
    assert_eq!(carrying(&other), [bystander.process.pid()]);
    bystander.process.kill().await;
    assert_eq!(carrying(&other), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_reference_kills_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let ours = mark();
    let spawned = bash("setsid sleep 1000 & echo up; wait", folder.path(), env(&ours));
    let mut out = LineReader::new(spawned.stdout);
    assert_eq!(line(&mut out).await, "up");
    drop(spawned.process);
    let deadline = Instant::now() + Duration::from_secs(3);
    while !carrying(&ours).is_empty() {
        assert!(Instant::now() < deadline, "still alive: {:?}", carrying(&ours));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_in_their_own_session_end_and_the_agent_lives() {
    let folder = tempfile::tempdir().unwrap();
    let ours = mark();
    let script =
        "setsid bash -c 'trap \"\" TERM; sleep 1000 & echo up; wait' & sleep 1000 & read -r x; echo still here";
    let mut spawned = bash(script, folder.path(), env(&ours));
    let mut out = LineReader::new(spawned.stdout);
    assert_eq!(line(&mut out).await, "up");
    spawned.process.end_commands(Duration::from_millis(200)).await;
    let left = carrying(&ours);
    assert_eq!(left.len(), 2, "the agent and its own child: {left:?}");
    tokio::io::AsyncWriteExt::write_all(&mut spawned.stdin, b"go\n").await.unwrap();
    assert_eq!(line(&mut out).await, "still here");
    spawned.process.kill().await;
    assert_eq!(carrying(&ours), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_run_left_is_ended_by_the_data_folders_mark_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (mark(), mark());
    let first = bash("setsid sleep 1000 & echo up; trap '' TERM; while :; do wait; done", folder.path(), env(&ours));
    let mut out = LineReader::new(first.stdout);
    assert_eq!(line(&mut out).await, "up");
    let second = bash("echo up; read -r x", folder.path(), env(&other));
    let mut out = LineReader::new(second.stdout);
    assert_eq!(line(&mut out).await, "up");

    let prefix = ours.split_once(':').unwrap().0.to_owned() + ":";
    let ended =
        tokio::task::spawn_blocking(move || end_marked_within(&prefix, Duration::from_millis(300))).await.unwrap();
    assert!(ended >= 2, "{ended}");
    assert_eq!(carrying(&ours), Vec::<u32>::new());
    assert_eq!(carrying(&other), [second.process.pid()]);
    assert_eq!(end_marked_within("", Duration::ZERO), 0);
    second.process.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_child_gets_exactly_the_environment_and_folder_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let ours = mark();
    let spawned = bash("pwd; env | sort", folder.path(), env(&ours));
    let mut out = LineReader::new(spawned.stdout);
    assert_eq!(line(&mut out).await, fs::canonicalize(folder.path()).unwrap().to_str().unwrap());
    let mut names = Vec::new();
    while let Some(Line::Text(text)) = out.next().await.unwrap() {
        names.push(text.split_once('=').unwrap().0.to_owned());
    }
    // The last three are bash's own.
    assert_eq!(names, ["CHANGEOVER_MARK", "CHANGEOVER_SESSION_MARK", "PATH", "PWD", "SHLVL", "_"]);
    assert!(spawned.process.exited().await.is_success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_folder_a_missing_program_and_a_missing_interpreter_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let launch = |program: PathBuf, folder: PathBuf| {
        let failure = Launch { program, args: vec![], folder, env: env("x") }.spawn().unwrap_err();
        (failure.kind, failure.message)
    };
    let gone = launch("/bin/bash".into(), folder.path().join("no"));
    assert_eq!(gone.0, FailureKind::FolderGone);
    let missing = launch(folder.path().join("claude"), folder.path().into());
    assert_eq!(missing.0, FailureKind::NotInstalled);
    assert!(missing.1.ends_with("claude is not installed"), "{}", missing.1);
    let script = folder.path().join("agent");
    fs::write(&script, "#!/no/such/node\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let broken = launch(script, folder.path().into());
    assert_eq!(broken.0, FailureKind::NotInstalled);
    assert!(broken.1.contains("needs a program"), "{}", broken.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_error_is_drained_and_its_tail_stands_in_the_failure() {
    let folder = tempfile::tempdir().unwrap();
    let script = "for i in $(seq 20000); do echo line $i >&2; done; echo the last words >&2; exit 3";
    let spawned = bash(script, folder.path(), env(&mark()));
    let failure = tokio::time::timeout(Duration::from_secs(20), spawned.process.exit_failure()).await.unwrap();
    assert_eq!(failure.kind, FailureKind::Exited);
    assert_eq!(failure.message, "bash ended: exit code 3: the last words");
    let tail = spawned.process.stderr_tail();
    assert!(tail.len() <= 64 * 1024 && tail.ends_with("the last words\n"));
}
