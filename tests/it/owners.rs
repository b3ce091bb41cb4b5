//! U9: an engine that is only there for one command takes nobody's turn with it when that command ends; and a command outlives
//! the engine that it went through.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use changeover_tests::{
    agents::AgentHome,
    app::binary,
    fake_api::{FakeApi, PATIENCE},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

struct Bench {
    _api: FakeApi,
    home: AgentHome,
    data: PathBuf,
}

impl Bench {
    async fn new() -> Self {
        let api = FakeApi::start().await;
        let home = AgentHome::new(&api);
        let data = home.root().join("data");
        Self { _api: api, home, data }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(args)
            .arg("--data")
            .arg(&self.data)
            .current_dir(self.home.home())
            .env_clear()
            .envs(self.home.env());
        command.env("CHANGEOVER_NO_SHELL", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    fn run(&self, more: &[&str]) -> Command {
        let work = self.home.work().display().to_string();
        let mut args = vec!["run", "--project", &work, "--provider", "practice", "--approve", "all"];
        args.extend(more);
        self.command(&args)
    }

    async fn output(&self, args: &[&str]) -> Output {
        timeout(PATIENCE, self.command(args).output()).await.expect("it ends").expect("it runs")
    }

    /// A `run` of a command that waits until its gate is opened, once it really waits there.
    async fn waiting(&self, gate: &Gate) -> Talk {
        let line = format!("run: cat {}", gate.path.display());
        let mut talk = Talk::new(self.run(&["--json", &line]));
        talk.until(|event| event["body"]["part"]["body"]["status"] == "running").await;
        talk
    }
}

/// A named pipe: who reads it waits until it is opened.
struct Gate {
    path: PathBuf,
}

impl Gate {
    fn new(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        Self { path }
    }

    /// Waits for the reader, and lets it go with these words.
    async fn open(&self, words: &'static str) {
        let path = self.path.clone();
        let writing = tokio::task::spawn_blocking(move || std::fs::write(path, words));
        timeout(PATIENCE, writing).await.expect("somebody reads").expect("a thread").expect("the gate opens");
    }
}

/// A `changeover run --json` that is listened to.
struct Talk {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
}

impl Talk {
    fn new(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        Self { child, lines, seen: Vec::new() }
    }

    async fn next(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("it goes on").expect("its stdout")?;
        let line: Value = serde_json::from_str(&line).expect("JSON");
        self.seen.push(line.clone());
        Some(line)
    }

    async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.next().await {
                Some(line) if wanted(&line) => return line,
                Some(_) => {}
                None => {
                    let errors = self.errors().await;
                    panic!("it ended before what was waited for: {errors}\n{:#?}", self.seen);
                }
            }
        }
    }

    async fn done(&mut self) -> Value {
        self.until(|line| line["type"] == "done").await
    }

    async fn errors(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            timeout(PATIENCE, errors.read_to_string(&mut text)).await.expect("it ends").expect("stderr");
        }
        text
    }

    async fn code(&mut self) -> Option<i32> {
        timeout(PATIENCE, self.child.wait()).await.expect("it ends").expect("a status").code()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &pid]).status().expect("kill");
        assert!(sent.success());
    }
}

fn says(line: &Value, words: &str) -> bool {
    line.to_string().contains(words)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u9_an_engine_stays_until_the_turns_of_others_have_ended() {
    let bench = Bench::new().await;
    let (first, second) = (Gate::new(&bench.home.root(), "first"), Gate::new(&bench.home.root(), "second"));
    let mut owner = bench.waiting(&first).await;
    let mut other = bench.waiting(&second).await;
    first.open("of the owner").await;
    let done = owner.done().await;
    assert_eq!(done["status"], "completed", "{done}");
    // Its own turn is over and said; the other's goes on in its process.
    let list = bench.output(&["thread", "list", "--json"]).await;
    assert!(list.status.success(), "{list:?}");
    assert_eq!(owner.child.try_wait().expect("a look"), None, "it waits for the other's turn");
    second.open("of the other").await;
    let done = other.done().await;
    assert_eq!(done["status"], "completed", "{done}");
    assert!(other.seen.iter().any(|line| says(line, "of the other")), "{:#?}", other.seen);
    assert_eq!((other.code().await, owner.code().await), (Some(0), Some(0)));
    let errors = owner.errors().await;
    assert!(errors.contains("other terminals or windows"), "{errors}");
    assert!(!bench.data.join("engine.json").exists(), "nobody is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u9_an_owner_that_is_told_to_end_stops_the_others_turns_in_good_order() {
    let bench = Bench::new().await;
    let (first, second) = (Gate::new(&bench.home.root(), "first"), Gate::new(&bench.home.root(), "second"));
    let mut owner = bench.waiting(&first).await;
    let mut other = bench.waiting(&second).await;
    owner.signal("TERM");
    let done = owner.done().await;
    assert_eq!(done["status"], "interrupted", "{done}");
    assert_eq!(owner.code().await, Some(1));
    let done = other.done().await;
    assert_eq!(done["status"], "interrupted", "{done}");
    assert_eq!(other.code().await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u9_of_many_commands_at_once_none_loses_its_turn() {
    let bench = Bench::new().await;
    let all: Vec<_> = (0..6).map(|n| bench.run(&[&format!("run: echo words of {n}")]).output()).collect();
    for (n, output) in futures::future::join_all(all).await.into_iter().enumerate() {
        let output = output.expect("it runs");
        assert!(output.status.success(), "{n}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("exit code 0"), "{n}: {output:?}");
    }
    let list = bench.output(&["thread", "list", "--json"]).await;
    let list: Value = serde_json::from_slice(&list.stdout).expect("JSON");
    let threads = list["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 6, "no thread was made twice: {list:#}");
    assert!(threads.iter().all(|thread| thread["lastSeq"].as_u64() >= Some(2)), "{list:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u9_a_command_whose_engine_is_killed_says_what_became_of_its_turn() {
    let bench = Bench::new().await;
    let (first, second) = (Gate::new(&bench.home.root(), "first"), Gate::new(&bench.home.root(), "second"));
    let mut owner = bench.waiting(&first).await;
    let mut other = bench.waiting(&second).await;
    owner.child.kill().await.expect("it is killed");
    let done = other.done().await;
    assert_eq!(done["status"], "interrupted", "{done}");
    assert_eq!(other.code().await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u8_a_run_that_is_told_to_end_keeps_what_was_said_and_says_so() {
    let bench = Bench::new().await;
    for signal in ["TERM", "HUP", "INT"] {
        let mut child = bench.run(&["stream 100000 every 5 ms"]).spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("stdout"));
        let mut said = vec![0; 20];
        timeout(PATIENCE, out.read_exact(&mut said)).await.expect("it speaks").expect("stdout");
        let pid = child.id().expect("it runs").to_string();
        assert!(std::process::Command::new("kill").args(["-s", signal, &pid]).status().expect("kill").success());
        let mut rest = Vec::new();
        timeout(PATIENCE, out.read_to_end(&mut rest)).await.expect("it ends").expect("stdout");
        said.extend(rest);
        let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").expect("a status");
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(1), "{signal}: {errors}");
        assert!(errors.contains("topping the agent") && errors.contains("interrupted"), "{signal}: {errors}");
        // What was on the screen is in the thread.
        let thread = errors.split("thread ").nth(1).and_then(|rest| rest.split(' ').next()).expect("its id");
        let shown = bench.output(&["thread", "show", thread, "--json"]).await;
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let reply = &shown["messages"][1];
        assert_eq!(reply["state"], "interrupted", "{signal}: {reply}");
        let text = reply["parts"][0]["body"]["text"].as_str().expect("text");
        assert_eq!(text.trim_end(), String::from_utf8(said).expect("UTF-8").trim_end(), "{signal}");
    }
}
