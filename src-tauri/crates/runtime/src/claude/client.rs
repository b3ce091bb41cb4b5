//! The process of one session: its pipes, its reader, its end.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use changeover_core::{
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncSeekExt},
    process::ChildStdout,
    sync::mpsc,
    task::AbortHandle,
    time::timeout,
};

use super::{
    failure,
    normalize::{Conversation, Effect},
    wire::{self, Inbound},
};
use crate::{
    process::{
        Launch, Process, Spawned,
        lines::{JsonWriter, Line, LineReader},
    },
    session::{Answer, EVENTS_BOUND, Opened, Prompt, Resume, Session},
};

/// How long the CLI may take to be ready. It starts the user's MCP servers first.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long an idle CLI may take to end by itself, once its input is closed.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// Between asking its processes to end and killing them.
const GRACE: Duration = Duration::from_secs(1);
/// How long its output is read on after it has ended: a process it left behind may hold the pipe for ever.
const LAST_LINES: Duration = Duration::from_millis(500);
/// How much of a background command's output is read, from its end, in bytes.
const OUTPUT_BOUND: u64 = 1024 * 1024;

/// A CLI that answers, with what it said when asked who it is.
pub(super) struct Ready {
    writer: JsonWriter,
    reader: LineReader<ChildStdout>,
    process: Arc<Process>,
    /// What came before the answer.
    early: Vec<Inbound>,
    /// The answer to `initialize`: models, account, version.
    pub hello: Value,
}

/// Starts the CLI and waits until it is ready.
pub(super) async fn start(launch: Launch, resume: Option<&Resume>) -> Result<Ready, Failure> {
    let Spawned { stdin, stdout, process } = launch.spawn()?;
    let (writer, mut reader) = (JsonWriter::new(stdin), LineReader::new(stdout));
    // A CLI that ended at once does not read any more; why is told below.
    let _ = writer.write(&wire::control_request(HELLO, &json!({"subtype": "initialize"}))).await;
    let mut early = Vec::new();
    let answer = timeout(READY_LIMIT, hello(&mut reader, &mut early)).await;
    match answer {
        Ok(Some(Ok(hello))) => Ok(Ready { writer, reader, process, early, hello }),
        Ok(Some(Err(error))) => {
            process.kill().await;
            Err(Failure::new(FailureKind::Protocol, format!("Claude Code did not open a session: {error}")))
        }
        Ok(None) => {
            let gone = resume.and_then(|resume| gone(&early, resume));
            // Its output has ended; if it lives on, nobody can talk to it.
            if timeout(LAST_LINES, process.exited()).await.is_err() {
                process.kill().await;
            }
            Err(match gone {
                Some(gone) => gone,
                None => process.exit_failure().await,
            })
        }
        Err(_) => {
            process.kill().await;
            let message = format!("Claude Code was not ready after {} s", READY_LIMIT.as_secs());
            Err(Failure::new(FailureKind::NoProgress, message))
        }
    }
}

const HELLO: &str = "hello";

/// Whether it ended because it does not know what it was to resume.
fn gone(said: &[Inbound], resume: &Resume) -> Option<Failure> {
    for frame in said {
        let Inbound::Result(result) = frame else { continue };
        for line in result.errors.iter().filter_map(Value::as_str) {
            let gone = failure::not_opened(line, &resume.session_id, resume.anchor.as_deref());
            if gone.is_some() {
                return gone;
            }
        }
    }
    None
}

/// Reads on to the answer; `None` when the output ends before it.
async fn hello(reader: &mut LineReader<ChildStdout>, early: &mut Vec<Inbound>) -> Option<Result<Value, String>> {
    loop {
        let Ok(Some(line)) = reader.next().await else { return None };
        match inbound(line) {
            Inbound::ControlResponse { id, answer } if id == HELLO => return Some(answer),
            frame => early.push(frame),
        }
    }
}

fn inbound(line: Line) -> Inbound {
    match line {
        Line::Text(text) if text.trim().is_empty() => Inbound::Nothing,
        Line::Text(text) => wire::parse(&text),
        Line::TooLong { bytes } => Inbound::Unknown { kind: format!("a line of {bytes} bytes") },
    }
}

impl Ready {
    /// Ends a CLI that was only asked who it is.
    pub async fn dismiss(self) {
        self.writer.close().await;
        self.process.end(GRACE).await;
    }
}

/// Opens a session.
pub(super) async fn open(launch: Launch, resume: Option<&Resume>) -> Result<Opened, Failure> {
    let ready = start(launch, resume).await?;
    if is_logged_out(&ready.hello) {
        ready.dismiss().await;
        return Err(Failure::new(FailureKind::NotLoggedIn, "Claude Code is not logged in").hint(failure::LOGIN_HINT));
    }
    let Ready { writer, reader, process, early, .. } = ready;
    let (events, stream) = mpsc::channel(EVENTS_BOUND);
    let conversation = Arc::new(Mutex::new(Conversation::default()));
    let pump =
        Pump { writer: writer.clone(), process: Arc::clone(&process), conversation: Arc::clone(&conversation), events };
    let reading = tokio::spawn(pump.run(reader, early)).abort_handle();
    Ok(Opened { session: Arc::new(ClaudeSession { writer, process, conversation, reading }), events: stream })
}

/// Whether it says that it has nothing to log in with. Other clouds' credentials are their own business.
fn is_logged_out(hello: &Value) -> bool {
    let account = |key: &str| hello.get("account").and_then(|account| account.get(key)).and_then(Value::as_str);
    account("apiProvider") == Some("firstParty")
        && account("tokenSource") == Some("none")
        && account("apiKeySource").is_none_or(|source| source == "none")
}

/// An open session.
struct ClaudeSession {
    writer: JsonWriter,
    process: Arc<Process>,
    conversation: Arc<Mutex<Conversation>>,
    reading: AbortHandle,
}

impl ClaudeSession {
    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        lock(&self.conversation)
    }

    async fn write(&self, line: &Value) -> Result<(), Failure> {
        self.writer
            .write(line)
            .await
            .map_err(|error| Failure::new(FailureKind::Exited, format!("Claude Code does not read any more: {error}")))
    }
}

impl Session for ClaudeSession {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            // First, so that no frame about it comes unexpected.
            self.conversation().writing(prompt.id.to_string())?;
            let written = self.write(&wire::prompt(prompt.id.0, &prompt.text)).await;
            if written.is_err() {
                self.conversation().unwritten();
            }
            written
        })
    }

    fn answer(&self, key: String, answer: Answer) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let line = self.conversation().answer(&key, answer);
            match line {
                Some(line) => self.write(&line).await,
                None => Ok(()),
            }
        })
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let line = self.conversation().interrupt();
            self.write(&line).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let busy = self.conversation().is_busy();
            self.writer.close().await;
            if !busy {
                // Told to end, it writes what it still holds. Busy, it would first go on to the end of its turn.
                let _ = timeout(LEAVE_LIMIT, self.process.exited()).await;
            }
            self.process.end(GRACE).await;
        })
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.process.kill())
    }
}

impl Drop for ClaudeSession {
    fn drop(&mut self) {
        // The reader holds the process too; with both gone, its tree is ended.
        self.reading.abort();
    }
}

fn lock(conversation: &Mutex<Conversation>) -> MutexGuard<'_, Conversation> {
    conversation.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads frames and tells events, in order. When nobody takes them, the pipe is not read further.
struct Pump {
    writer: JsonWriter,
    process: Arc<Process>,
    conversation: Arc<Mutex<Conversation>>,
    events: mpsc::Sender<RuntimeEvent>,
}

/// Nobody listens any more.
struct Unheard;

impl Pump {
    async fn run(self, reader: LineReader<ChildStdout>, early: Vec<Inbound>) {
        if self.read(reader, early).await.is_err() {
            tracing::debug!(pid = self.process.pid(), "nobody listens to a session any more");
        }
        // What it left running has nobody who would tell of it.
        self.process.end(Duration::ZERO).await;
    }

    async fn read(&self, mut reader: LineReader<ChildStdout>, early: Vec<Inbound>) -> Result<(), Unheard> {
        for frame in early {
            self.take(frame).await?;
        }
        let ended = async {
            self.process.exited().await;
            tokio::time::sleep(LAST_LINES).await;
        };
        tokio::pin!(ended);
        loop {
            let line = tokio::select! {
                biased;
                line = reader.next() => line,
                () = &mut ended => Ok(None),
            };
            match line {
                Ok(Some(line)) => self.take(inbound(line)).await?,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, pid = self.process.pid(), "Claude Code's output cannot be read");
                    break;
                }
            }
        }
        if timeout(LAST_LINES, self.process.exited()).await.is_err() {
            self.process.kill().await;
        }
        let failure = self.process.exit_failure().await;
        let last = lock(&self.conversation).exited();
        for event in last {
            self.tell(event).await?;
        }
        self.tell(RuntimeEvent::Exited { failure }).await
    }

    async fn take(&self, frame: Inbound) -> Result<(), Unheard> {
        if let Inbound::ControlResponse { id, answer: Err(error) } = &frame {
            tracing::warn!(id, error, "Claude Code refused a request");
        }
        let effects = lock(&self.conversation).frame(frame);
        for effect in effects {
            match effect {
                Effect::Event(event) => self.tell(event).await?,
                Effect::Write(line) => {
                    if let Err(error) = self.writer.write(&line).await {
                        // It has ended or is about to; that is told next.
                        tracing::debug!(%error, "a line to Claude Code was lost");
                    }
                }
                Effect::CommandEnd { item, command, status, exit_code, output_file } => {
                    let output = match output_file {
                        Some(file) => output(Path::new(&file)).await.map(|text| printed(text, exit_code)),
                        None => None,
                    };
                    self.tell(RuntimeEvent::Command { item, command, status, exit_code, output }).await?;
                }
            }
        }
        Ok(())
    }

    async fn tell(&self, event: RuntimeEvent) -> Result<(), Unheard> {
        self.events.send(event).await.map_err(|_| Unheard)
    }
}

/// The output without the line that the CLI puts under it, sooner or later: the command did not print that.
fn printed(text: String, exit_code: Option<i32>) -> String {
    let Some(code) = exit_code else { return text };
    match text.strip_suffix(&format!("\n[exited with code {code}]\n")) {
        Some(printed) => printed.to_owned(),
        None => text,
    }
}

/// What a command in the background has printed: the end of it, and how much came before.
async fn output(file: &Path) -> Option<String> {
    let read = async {
        let mut file = tokio::fs::File::open(file).await?;
        let before = file.metadata().await?.len().saturating_sub(OUTPUT_BOUND);
        file.seek(std::io::SeekFrom::Start(before)).await?;
        let mut bytes = Vec::new();
        file.take(OUTPUT_BOUND).read_to_end(&mut bytes).await?;
        let text = String::from_utf8_lossy(&bytes);
        Ok::<_, std::io::Error>(if before > 0 { format!("[{before} bytes before]\n{text}") } else { text.into_owned() })
    };
    match read.await {
        Ok(text) => Some(text),
        Err(error) => {
            tracing::warn!(%error, file = %file.display(), "the output of a command in the background cannot be read");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clis_own_line_under_an_output_is_not_the_commands() {
        let with = "late\n\n[exited with code 4]\n".to_owned();
        assert_eq!(printed(with.clone(), Some(4)), "late\n");
        assert_eq!(printed(with.clone(), Some(0)), with);
        assert_eq!(printed("late\n".into(), Some(4)), "late\n");
    }
}
