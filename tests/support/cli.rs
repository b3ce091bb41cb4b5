//! A real CLI driven directly: JSON lines in, JSON lines out, nothing of ours in between.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::agents::{Agent, AgentHome};
use crate::fake_api::PATIENCE;

/// A running CLI. Dropped, it is killed.
pub struct Cli {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    stderr: Option<JoinHandle<String>>,
    seen: Vec<Value>,
    unread: VecDeque<Value>,
    next_id: u64,
}

impl Cli {
    /// Starts a CLI with exactly the home's environment, in the folder `cwd`.
    pub fn start(agent: Agent, home: &AgentHome, cwd: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(home.bin().join(agent.command()))
            .args(arguments)
            .current_dir(cwd)
            .env_clear()
            .envs(home.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .expect("the CLI starts");
        let mut errors = child.stderr.take().expect("stderr");
        let stderr = tokio::spawn(async move {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text).await;
            String::from_utf8_lossy(&text).into_owned()
        });
        Self {
            stdin: child.stdin.take(),
            lines: BufReader::new(child.stdout.take().expect("stdout")).lines(),
            stderr: Some(stderr),
            child,
            seen: Vec::new(),
            unread: VecDeque::new(),
            next_id: 1,
        }
    }

    /// Claude Code as a conversation in stream-json both ways, with `more` arguments.
    pub fn claude(home: &AgentHome, cwd: &Path, more: &[&str]) -> Self {
        let mut arguments = vec!["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        arguments.extend(["--include-partial-messages", "--permission-prompt-tool", "stdio"]);
        arguments.extend(more);
        Self::start(Agent::Claude, home, cwd, &arguments)
    }

    /// Codex's app server, past its handshake.
    pub async fn codex(home: &AgentHome, cwd: &Path) -> Self {
        let mut cli = Self::start(Agent::Codex, home, cwd, &["app-server", "--strict-config"]);
        let info = json!({"name": "contract", "title": "Contract", "version": "0"});
        cli.call("initialize", json!({"clientInfo": info, "capabilities": {"experimentalApi": true}}))
            .await
            .expect("initialize");
        cli.send(&json!({"method": "initialized"})).await;
        cli
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Writes one line.
    pub async fn send(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(format!("{line}\n").as_bytes()).await.expect("the CLI reads");
        stdin.flush().await.expect("the CLI reads");
    }

    /// Writes a Claude Code prompt under this uuid.
    pub async fn prompt(&mut self, uuid: &str, text: &str) {
        let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
        self.send(
            &json!({"type": "user", "uuid": uuid, "message": message, "parent_tool_use_id": null, "session_id": ""}),
        )
        .await;
    }

    /// Claude Code's control request, answered.
    pub async fn control(&mut self, request: Value) -> Value {
        let id = format!("req_{}", self.next_id);
        self.next_id += 1;
        self.send(&json!({"type": "control_request", "request_id": id, "request": request})).await;
        self.until(|line| line["type"] == "control_response" && line["response"]["request_id"] == id.as_str()).await
    }

    /// A JSON-RPC request and its result, or its error. What comes in between is kept for [`Cli::until`].
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params})).await;
        let mut between = VecDeque::new();
        let answer = loop {
            let line = match self.unread.pop_front() {
                Some(line) => line,
                None => self.read().await.unwrap_or_else(|| panic!("no answer to {method}; {}", self.tail())),
            };
            if line["id"] == id && line.get("method").is_none() {
                break line;
            }
            between.push_back(line);
        };
        between.append(&mut self.unread);
        self.unread = between;
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Reads on to the first line that `wanted` accepts.
    ///
    /// # Panics
    /// When the CLI ends or is silent before that.
    pub async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = match self.unread.pop_front() {
                Some(line) => line,
                None => match self.read().await {
                    Some(line) => line,
                    None => {
                        let errors = self.stderr_text().await;
                        panic!("the CLI ended before what was waited for; stderr: {errors}; {}", self.tail());
                    }
                },
            };
            if wanted(&line) {
                return line;
            }
        }
    }

    /// Reads on to the end of a Claude Code turn.
    pub async fn result(&mut self) -> Value {
        self.until(|line| line["type"] == "result").await
    }

    /// Reads on to the end of a Codex turn.
    pub async fn turn_completed(&mut self) -> Value {
        let line = self.until(|line| line["method"] == "turn/completed").await;
        line["params"]["turn"].clone()
    }

    /// Every line so far.
    pub fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Closes stdin and waits for the end: the exit status, and what it wrote to stderr.
    pub async fn close(mut self) -> (ExitStatus, String) {
        self.stdin = None;
        while self.read().await.is_some() {}
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends").expect("a status");
        (status, self.stderr_text().await)
    }

    /// SIGKILL, as a crash.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it is killed");
    }

    async fn stderr_text(&mut self) -> String {
        match self.stderr.take() {
            Some(task) => timeout(PATIENCE, task).await.expect("stderr ends").expect("it is read"),
            None => String::new(),
        }
    }

    async fn read(&mut self) -> Option<Value> {
        let line = match timeout(PATIENCE, self.lines.next_line()).await {
            Ok(read) => read.expect("stdout is read")?,
            Err(_) => panic!("the CLI is silent; {}", self.tail()),
        };
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| json!({"not_json": line}));
        self.seen.push(line.clone());
        Some(line)
    }

    fn tail(&self) -> String {
        let short = |line: &Value| line.to_string().chars().take(600).collect::<String>();
        let from = self.seen.len().saturating_sub(12);
        let lines: Vec<String> = self.seen[from..].iter().map(|line| format!("  {}", short(line))).collect();
        format!("its last lines:\n{}", lines.join("\n"))
    }
}
