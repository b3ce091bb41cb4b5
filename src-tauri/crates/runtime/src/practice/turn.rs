//! One turn of the practice agent: it really streams, asks, runs and writes.

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Diff, MessageId, PermissionOption, PermissionOptionKind, Plan, PlanEntry,
    PlanEntryPriority, PlanEntryStatus, RequestPermissionRequest, SessionNotification, SessionUpdate, ToolCall,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, time::Instant};
use tokio_util::sync::CancellationToken;

use super::output::Output;
use super::rules::{Act, Failing, HELP};
use crate::{
    acp::wire::{AUTH_REQUIRED, CallError, Peer, RpcError},
    process::Launch,
};

/// How long output waits for more of it.
const JOINED: Duration = Duration::from_millis(50);
/// How long a command's shell may be gone before what holds its pipe is no more waited for.
const GRACE: Duration = Duration::from_millis(200);
/// Reads of what is left in a pipe then, each of at most 64 KiB: a pipe holds no more than a few.
const PIPE: usize = 16;

/// How a turn ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// `session/cancel`.
    Cancelled,
    /// With an error as answer.
    Error(RpcError),
    /// The process is to end on the spot.
    Crash,
    /// No answer, ever; deaf to `session/cancel` as well.
    Hang,
    /// With an answer that is none.
    Nonsense,
    /// The client is gone.
    Gone,
}

/// A turn under way.
pub(super) struct Turn {
    pub peer: Peer,
    pub session: String,
    pub folder: PathBuf,
    pub cancel: CancellationToken,
    /// Edits go without asking.
    pub edits: bool,
    /// What is told of the prompt, for the default answer.
    pub told_bytes: usize,
    pub message: String,
    /// All prompts that the session has seen, this one last.
    pub prompts: Vec<String>,
    /// What was said so far.
    pub said: String,
    /// Asked for by `fill`.
    pub filled: Option<u64>,
    pub tools: u32,
    pub texts: u32,
}

impl Turn {
    /// Does what the message asks for.
    pub async fn perform(&mut self, acts: &[Act]) -> Result<(), Stop> {
        if acts.is_empty() {
            return self.talk().await;
        }
        for act in acts {
            match act {
                Act::Help => self.say(&format!("I am the practice agent, no model.\n\n{HELP}\n")).await?,
                Act::Stream { words, every } => self.stream(*words, *every).await?,
                Act::Run(command) => self.run(command).await?,
                Act::Edit(path) => self.edit(path).await?,
                Act::Think => self.think().await?,
                Act::Plan => self.plan().await?,
                Act::Fail(failing) => self.fail(*failing).await?,
                Act::Fill(tokens) => {
                    self.filled = Some(*tokens);
                    self.say(&format!("My context now counts {tokens} tokens.\n")).await?;
                }
                Act::Recall { whole } => self.recall(*whole).await?,
            }
        }
        Ok(())
    }

    async fn talk(&mut self) -> Result<(), Stop> {
        let asked: String = self.message.chars().take(400).collect();
        let more = if asked.len() < self.message.len() { "…" } else { "" };
        let quoted = asked.replace('\n', "\n> ");
        let told = match self.told_bytes {
            0 => String::new(),
            bytes => format!("Before it I was told {bytes} bytes of the conversation so far.\n\n"),
        };
        self.say(
            "Hello! I am the practice agent that comes with Changeover. I am no model: I answer by plain rules.\n\n",
        )
        .await?;
        self.say(&format!("You wrote:\n\n> {quoted}{more}\n\n{told}")).await?;
        self.say(&format!("{HELP}\n")).await
    }

    async fn recall(&mut self, whole: bool) -> Result<(), Stop> {
        let mut text = format!("This session has seen {} messages:\n", self.prompts.len());
        for (index, prompt) in self.prompts.iter().enumerate() {
            let (told, message) = super::rules::split(prompt);
            let number = index + 1;
            text += &match (whole, told.len()) {
                (true, _) => format!("\n--- {number}\n{prompt}\n"),
                (false, 0) => format!("{number}. {message}\n"),
                (false, bytes) => format!("{number}. {message} (after {bytes} bytes told)\n"),
            };
        }
        self.say(&text).await
    }

    async fn update(&self, update: SessionUpdate) -> Result<(), Stop> {
        let note = SessionNotification::new(self.session.clone(), update);
        self.peer.tell("session/update", &note).await.map_err(|_| Stop::Gone)
    }

    /// Text, unless the turn is cancelled.
    async fn say(&mut self, text: &str) -> Result<(), Stop> {
        if self.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.said += text;
        let chunk = ContentChunk::new(ContentBlock::from(text)).message_id(MessageId::new(format!("m{}", self.texts)));
        self.update(SessionUpdate::AgentMessageChunk(chunk)).await
    }

    async fn pause(&self, time: Duration) -> Result<(), Stop> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::Cancelled),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }

    async fn stream(&mut self, words: u32, every: Duration) -> Result<(), Stop> {
        for number in 1..=words {
            if number > 1 {
                self.pause(every).await?;
            }
            self.say(&format!("word{number} ")).await?;
        }
        self.say("\n").await
    }

    async fn think(&mut self) -> Result<(), Stop> {
        for text in ["A model would think here. ", "I only count to two: one, two."] {
            let chunk = ContentChunk::new(ContentBlock::from(text));
            self.update(SessionUpdate::AgentThoughtChunk(chunk)).await?;
        }
        self.say("I have thought about it.\n").await
    }

    async fn plan(&mut self) -> Result<(), Stop> {
        let steps = ["Read the message", "Follow the rules", "Say what was done"];
        for done in 0..=steps.len() {
            let entries = steps.iter().enumerate().map(|(index, step)| {
                let status = match index.cmp(&done) {
                    std::cmp::Ordering::Less => PlanEntryStatus::Completed,
                    std::cmp::Ordering::Equal => PlanEntryStatus::InProgress,
                    std::cmp::Ordering::Greater => PlanEntryStatus::Pending,
                };
                PlanEntry::new(*step, PlanEntryPriority::Medium, status)
            });
            self.update(SessionUpdate::Plan(Plan::new(entries.collect()))).await?;
            self.pause(Duration::ZERO).await?;
        }
        self.say("The plan is done.\n").await
    }

    async fn fail(&mut self, failing: Failing) -> Result<(), Stop> {
        let error = |code, message: &str| Err(Stop::Error(RpcError::new(code, message)));
        match failing {
            Failing::Auth => error(AUTH_REQUIRED, "Authentication required (as asked for)"),
            Failing::Limit => Err(Stop::Error(RpcError {
                data: Some(json!({"retryAfter": 60})),
                ..RpcError::new(429, "Usage limit reached (as asked for)")
            })),
            Failing::Overload => error(529, "Overloaded (as asked for)"),
            Failing::Overflow => error(400, "The prompt exceeds the maximum number of tokens (as asked for)"),
            Failing::Cut => {
                self.say("This reply is cut off in the mid").await?;
                error(503, "The stream was cut off (as asked for)")
            }
            Failing::Crash => {
                self.say("This reply ends with my pro").await?;
                Err(Stop::Crash)
            }
            Failing::Hang => Err(Stop::Hang),
            Failing::Protocol => {
                self.say("Now I break the protocol.\n").await?;
                let odd = json!({"jsonrpc": "2.0", "method": "session/update", "params": {
                    "sessionId": self.session, "update": {"sessionUpdate": "from_the_future", "x": 1}}});
                for line in [odd, json!("no message"), json!({"id": 987_654_321, "result": {}})] {
                    self.peer.break_protocol(&line).await.map_err(|_| Stop::Gone)?;
                }
                Err(Stop::Nonsense)
            }
        }
    }

    /// Asks for leave. `false`: the answer is no.
    async fn may(&self, call: ToolCallUpdate) -> Result<bool, Stop> {
        let options = vec![
            PermissionOption::new("yes", "Yes, this once", PermissionOptionKind::AllowOnce),
            PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
        ];
        let request = RequestPermissionRequest::new(self.session.clone(), call, options);
        // The question stays open until it is answered: the client answers "cancelled" when it cancels the turn.
        let answer = self.peer.call("session/request_permission", &request).await.map_err(|error| match error {
            CallError::Refused(error) => Stop::Error(error),
            CallError::Closed => Stop::Gone,
        })?;
        match answer.pointer("/outcome/outcome").and_then(Value::as_str) {
            Some("selected") => Ok(answer.pointer("/outcome/optionId").and_then(Value::as_str) == Some("yes")),
            _ => Err(Stop::Cancelled),
        }
    }

    async fn begin_tool(&mut self, title: &str, kind: ToolKind, fields: ToolCallUpdateFields) -> Result<String, Stop> {
        self.tools += 1;
        self.texts += 1;
        let id = format!("tool-{}-{}", self.prompts.len(), self.tools);
        let mut call = ToolCall::new(id.clone(), title).kind(kind).status(ToolCallStatus::Pending);
        call.update(fields);
        self.update(SessionUpdate::ToolCall(call)).await?;
        Ok(id)
    }

    async fn tool(&self, id: &str, fields: ToolCallUpdateFields) -> Result<(), Stop> {
        self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields))).await
    }

    async fn run(&mut self, command: &str) -> Result<(), Stop> {
        let input = json!({"command": command});
        let fields = || ToolCallUpdateFields::new().raw_input(input.clone());
        let id = self.begin_tool(command, ToolKind::Execute, fields()).await?;
        let asked = fields().title(command.to_owned()).kind(ToolKind::Execute).status(ToolCallStatus::Pending);
        if !self.may(ToolCallUpdate::new(id.clone(), asked)).await? {
            self.tool(&id, ToolCallUpdateFields::new().status(ToolCallStatus::Failed)).await?;
            return self.say("You said no, so I did not run it.\n").await;
        }
        self.tool(&id, ToolCallUpdateFields::new().status(ToolCallStatus::InProgress)).await?;
        let (output, exit) = self.command(&id, command).await?;
        let done = if exit == Some(0) { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        let result = json!({"output": output.kept(), "metadata": {"exit": exit}});
        self.tool(&id, ToolCallUpdateFields::new().status(done).raw_output(result)).await?;
        let code = exit.map_or("without an exit code".into(), |code| format!("with exit code {code}"));
        self.say(&format!("The command ended {code} and {} bytes of output.\n", output.total())).await
    }

    /// Really runs it, its output told as it grows. It ends with its shell: what that left in the background may hold the pipe
    /// for ever and is the user's own. A cancelled turn ends its whole tree first.
    async fn command(&self, id: &str, command: &str) -> Result<(Output, Option<i32>), Stop> {
        let mut output = Output::default();
        let (program, args) = shell(command);
        let env = std::env::vars().collect();
        let launch = Launch { program, args, folder: self.folder.clone(), env };
        let mut child = match launch.spawn() {
            Ok(child) => child,
            Err(failure) => {
                output.push(failure.message.as_bytes());
                return Ok((output, None));
            }
        };
        drop(child.stdin);
        let process = std::sync::Arc::clone(&child.process);
        let mut exited = std::pin::pin!(process.exited());
        let mut buffer = vec![0; 64 * 1024];
        let mut exit = None;
        let (mut pending, mut due, mut last) = (String::new(), None, None);
        loop {
            let read = tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    self.told(id, pending).await?;
                    process.kill().await;
                    return Err(Stop::Cancelled);
                }
                () = until(due) => {
                    self.told(id, std::mem::take(&mut pending)).await?;
                    due = None;
                    continue;
                }
                status = &mut exited, if exit.is_none() => {
                    exit = Some(status);
                    last = Some(Instant::now() + GRACE);
                    continue;
                }
                () = until(last) => break,
                read = child.stdout.read(&mut buffer) => read,
            };
            match read {
                Ok(n @ 1..) => {
                    pending += &output.push(&buffer[..n]);
                    due = due.or_else(|| Some(Instant::now() + JOINED));
                }
                Ok(0) | Err(_) => break,
            }
        }
        // What is in the pipe already was written in time, however late we are.
        for _ in 0..PIPE {
            let Some(Ok(n @ 1..)) = child.stdout.read(&mut buffer).now_or_never() else { break };
            pending += &output.push(&buffer[..n]);
        }
        pending += &output.end();
        self.told(id, pending).await?;
        let exit = match exit {
            Some(exit) => exit,
            None => tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    process.kill().await;
                    return Err(Stop::Cancelled);
                }
                exit = exited => exit,
            },
        };
        process.leave_running();
        Ok((output, exit.code))
    }

    /// More of a command's output, as an addition: an update's content would be the whole of it each time.
    async fn told(&self, id: &str, data: String) -> Result<(), Stop> {
        if data.is_empty() {
            return Ok(());
        }
        let mut meta = serde_json::Map::new();
        meta.insert("terminal_output".into(), json!({"terminal_id": id, "data": data}));
        let update = ToolCallUpdate::new(id.to_owned(), ToolCallUpdateFields::new()).meta(meta);
        self.update(SessionUpdate::ToolCallUpdate(update)).await
    }

    async fn edit(&mut self, path: &str) -> Result<(), Stop> {
        let relative = Path::new(path);
        if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return self.say(&format!("I only write inside this folder, and {path} is not.\n")).await;
        }
        let file = self.folder.join(relative);
        let old = tokio::fs::read_to_string(&file).await.ok();
        let line =
            if old.is_some() { "Another line by the practice agent.\n" } else { "Written by the practice agent.\n" };
        let new = format!("{}{line}", old.as_deref().unwrap_or(""));
        let diff = || vec![ToolCallContent::Diff(Diff::new(&file, new.clone()).old_text(old.clone()))];
        let title = format!("Edit {path}");
        let id = self.begin_tool(&title, ToolKind::Edit, ToolCallUpdateFields::new().content(diff())).await?;
        let asked = ToolCallUpdateFields::new().title(title).kind(ToolKind::Edit).content(diff());
        if !self.edits && !self.may(ToolCallUpdate::new(id.clone(), asked)).await? {
            self.tool(&id, ToolCallUpdateFields::new().status(ToolCallStatus::Failed)).await?;
            return self.say("You said no, so I did not write it.\n").await;
        }
        let written = async {
            if let Some(folder) = file.parent() {
                tokio::fs::create_dir_all(folder).await?;
            }
            tokio::fs::write(&file, &new).await
        };
        match written.await {
            Ok(()) => {
                self.tool(&id, ToolCallUpdateFields::new().status(ToolCallStatus::Completed)).await?;
                self.say(&format!("I wrote {} bytes into {path}.\n", new.len())).await
            }
            Err(error) => {
                self.tool(&id, ToolCallUpdateFields::new().status(ToolCallStatus::Failed)).await?;
                self.say(&format!("{path} could not be written: {error}\n")).await
            }
        }
    }
}

/// Standard error goes where standard output goes, in the order it was written.
#[cfg(unix)]
fn shell(command: &str) -> (PathBuf, Vec<std::ffi::OsString>) {
    let bash = Path::new("/bin/bash");
    let program = if bash.exists() { bash } else { Path::new("/bin/sh") };
    (program.to_owned(), vec!["-c".into(), format!("exec 2>&1\n{command}").into()])
}

#[cfg(windows)]
fn shell(command: &str) -> (PathBuf, Vec<std::ffi::OsString>) {
    let program = std::env::var_os("ComSpec").map_or_else(|| PathBuf::from("cmd.exe"), PathBuf::from);
    (program, vec!["/D".into(), "/C".into(), format!("({command}) 2>&1").into()])
}

/// Never, without a time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
