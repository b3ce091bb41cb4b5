//! `changeover run`: one message, to the end of its turn (U8). Exit code 0 only when it completed.

use std::{
    collections::{HashMap, HashSet},
    io::{IsTerminal as _, Read as _},
    path::PathBuf,
    process::ExitCode,
};

use changeover_core::{
    approval::ApprovalDecision,
    id::{ApprovalId, MessageId, QueuedId, ThreadId},
    message::{Message, MessageState, Role},
    notice::Notice,
    part::PartBody,
    provider::{ApprovalMode, ProviderId, Target},
    turn::record::{Approval, ApprovalState},
};
use changeover_engine::api::types::{
    ApprovalAnswerParams, EventBody, EventWatchParams, Nothing, PageAt, ProjectOpenParams, ProjectOpenResponse,
    ProviderCheckParams, QueueEditParams, QueueGoParams, ThreadParams, ThreadReadParams, ThreadReadResponse,
    ThreadResponse, ThreadStartParams, TurnStartParams, TurnStartResponse,
};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{
    Common,
    approval::subject,
    output,
    session::{ENGINES, Session, is_lost},
    signals::{Signal, Signals},
};
use crate::{door::Connection, launch};

/// The longest message on standard input, in bytes.
const STDIN_BYTES: u64 = 8 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The project's folder.
    #[arg(long, value_name = "DIR")]
    project: PathBuf,
    /// An earlier thread to go on with; else a new one.
    #[arg(long, value_name = "ID", value_parser = super::thread_id)]
    thread: Option<ThreadId>,
    #[arg(long, value_parser = super::provider_id, help = format!("Who answers: {}", launch::offered()))]
    provider: ProviderId,
    /// Its model.
    #[arg(long)]
    model: Option<String>,
    /// What goes without asking.
    #[arg(long, value_enum, default_value_t = Approve::Ask)]
    approve: Approve,
    /// Attempts of a turn that ends by an error which may pass.
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// The message; `-` reads it from standard input.
    text: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Approve {
    /// Ask before every edit and every command that could change something (Claude Code runs what only reads).
    Ask,
    /// Edits go through, commands ask.
    Edits,
    /// Everything goes through.
    All,
}

/// What became of the turn.
struct Outcome {
    status: &'static str,
    seq: u64,
    reply: Option<u64>,
    error: Option<String>,
}

impl Run {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let text = self.message()?;
        let options = launch::Options {
            data: self.common.data.clone(),
            max_attempts: self.max_attempts,
            ..launch::Options::default()
        };
        let mut signals = Signals::new()?;
        let mut session = tokio::select! {
            session = Session::open(&options) => session?,
            _ = signals.next() => anyhow::bail!("stopped before the message was sent"),
        };
        let mut sent = Sent::new(&self, text);
        let done = sent.see_out(&mut session, &mut signals).await;
        let code = match done {
            Ok(outcome) => self.tell(&sent, &outcome)?,
            Err(error) => output::failed(&error),
        };
        // What was said is out before others are waited for.
        session.close(sent.stopping).await;
        Ok(code)
    }

    /// The message, looked at before anything is made for it.
    fn message(&self) -> anyhow::Result<String> {
        if self.text != "-" {
            anyhow::ensure!(!self.text.trim().is_empty(), "the message is empty: write something to send");
            return Ok(self.text.clone());
        }
        let mut bytes = Vec::new();
        std::io::stdin().take(STDIN_BYTES + 1).read_to_end(&mut bytes)?;
        anyhow::ensure!(bytes.len() as u64 <= STDIN_BYTES, "the message on standard input has more than 8 MiB");
        let text = String::from_utf8(bytes)
            .map_err(|_| anyhow::anyhow!("standard input is no text (UTF-8): name a file in the message instead"))?;
        anyhow::ensure!(!text.trim().is_empty(), "the message on standard input is empty: nothing was sent");
        Ok(text)
    }

    fn tell(&self, sent: &Sent<'_>, outcome: &Outcome) -> anyhow::Result<ExitCode> {
        if self.common.json {
            output::json(&json!({
                "type": "done", "threadId": sent.thread, "seq": outcome.seq, "replySeq": outcome.reply,
                "status": outcome.status, "error": outcome.error,
            }))?;
        } else {
            output::line("");
            if let Some(error) = &outcome.error {
                output::note(error);
            }
            if let Some(thread) = sent.thread {
                output::note(format!("thread {thread} · {}", outcome.status));
            }
        }
        Ok(if outcome.status == "completed" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A message on its way, and its turn to the end, whatever engine carries it out.
struct Sent<'a> {
    run: &'a Run,
    text: String,
    /// The same however often it is sent: it is taken once.
    client_turn_id: String,
    may_ask: bool,
    thread: Option<ThreadId>,
    queued: Option<QueuedId>,
    message: Option<MessageId>,
    reply: Option<MessageId>,
    /// How many bytes of each part were printed.
    printed: HashMap<String, usize>,
    commands: HashSet<String>,
    asked: HashSet<ApprovalId>,
    /// The text of events up to this one is in what was read.
    read: u64,
    /// The engine that took it first is gone, or events were missed.
    lost: bool,
    stopping: Option<Signal>,
}

impl<'a> Sent<'a> {
    fn new(run: &'a Run, text: String) -> Self {
        Self {
            run,
            text,
            client_turn_id: changeover_engine::secret::token(),
            may_ask: run.text != "-" && std::io::stdin().is_terminal(),
            thread: run.thread,
            queued: None,
            message: None,
            reply: None,
            printed: HashMap::new(),
            commands: HashSet::new(),
            asked: HashSet::new(),
            read: 0,
            lost: false,
            stopping: None,
        }
    }

    fn json(&self) -> bool {
        self.run.common.json
    }

    /// Sends the message and follows its turn; through the next engine, where one ends on the way (U9).
    async fn see_out(&mut self, session: &mut Session, signals: &mut Signals) -> anyhow::Result<Outcome> {
        let mut engines = 1;
        loop {
            match self.through(session, signals).await {
                Err(error) if is_lost(&error) && engines < ENGINES => {
                    session.reopen().await?;
                    self.lost = true;
                }
                done => return done,
            }
            engines += 1;
        }
    }

    /// Through one engine.
    async fn through(&mut self, session: &mut Session, signals: &mut Signals) -> anyhow::Result<Outcome> {
        let ask = session.connection.clone();
        let stopping = {
            let mut sending = std::pin::pin!(self.send(&ask));
            let mut stopping = None;
            loop {
                tokio::select! {
                    sent = &mut sending => {
                        sent?;
                        break stopping;
                    }
                    signal = signals.next() => {
                        anyhow::ensure!(stopping.is_none(), "stopped while the message was being sent");
                        stopping = Some(signal);
                    }
                }
            }
        };
        self.stopping = self.stopping.or(stopping);
        if let Some(outcome) = self.look(&ask).await? {
            return Ok(outcome);
        }
        if let Some(signal) = self.stopping
            && let Some(outcome) = self.stop(&ask, signal).await?
        {
            return Ok(outcome);
        }
        loop {
            let batch = tokio::select! {
                batch = session.events.recv() => batch,
                signal = signals.next() => {
                    anyhow::ensure!(self.stopping.is_none(), "stopped without waiting for the agent");
                    if let Some(outcome) = self.stop(&ask, signal).await? {
                        return Ok(outcome);
                    }
                    continue;
                }
            };
            // Too slow for the events, or the engine is gone: what was missed is read.
            let Some(batch) = batch else { return Err(crate::remote::gone().into()) };
            let mut ended = false;
            let thread = self.thread;
            for event in batch.into_iter().filter(|e| e.thread_id == thread) {
                if self.json() && event.n > 0 {
                    output::json(&event)?;
                }
                ended |= self.event(&ask, signals, event.n, event.body).await?;
            }
            if ended && let Some(outcome) = self.look(&ask).await? {
                return Ok(outcome);
            }
        }
    }

    /// Everything up to the message being taken. Each step may be taken again: none has a second effect.
    async fn send(&mut self, ask: &Connection) -> anyhow::Result<()> {
        let path = std::path::absolute(&self.run.project)?;
        let Some(path) = path.to_str().map(str::to_owned) else {
            anyhow::bail!("the folder's name is not valid Unicode (UTF-8): rename it; agents get its path as text");
        };
        let opened: ProjectOpenResponse = ask.ask("project/open", &ProjectOpenParams { path }).await?;
        let mode = match self.run.approve {
            Approve::Ask => ApprovalMode::Ask,
            Approve::Edits => ApprovalMode::Edits,
            Approve::All => ApprovalMode::All,
        };
        let target = Target { provider: self.run.provider.clone(), model: self.run.model.clone(), effort: None, mode };
        let thread = match self.thread {
            Some(thread) => {
                let read = ThreadReadParams { thread_id: thread, at: PageAt::Newest, limit: Some(1) };
                let page: ThreadReadResponse = ask.ask("thread/read", &read).await?;
                if page.thread.project_id != opened.project.id {
                    anyhow::bail!("thread {thread} belongs to another project than {}", opened.project.path);
                }
                thread
            }
            None => {
                // No thread is made for a message that nobody here could take.
                let check = ProviderCheckParams { provider: self.run.provider.clone() };
                let _: Nothing = ask.ask("provider/check", &check).await?;
                let params = ThreadStartParams { project_id: opened.project.id, target: Some(target.clone()) };
                let started: ThreadResponse = ask.ask("thread/start", &params).await?;
                started.thread.id
            }
        };
        self.thread = Some(thread);
        let _: Nothing = ask.ask("event/watch", &EventWatchParams { thread_ids: vec![thread] }).await?;
        let params = TurnStartParams {
            thread_id: thread,
            client_turn_id: self.client_turn_id.clone(),
            text: self.text.clone(),
            target: Some(target),
            preview_hash: None,
        };
        let started: TurnStartResponse = ask.ask("turn/start", &params).await?;
        match started {
            TurnStartResponse::Started { message_id, .. } => {
                (self.message, self.queued) = (Some(message_id), None);
            }
            TurnStartResponse::Queued { queued_id } => self.queued = Some(queued_id),
            TurnStartResponse::Changed { .. } => anyhow::bail!("the engine compared a preview that was not given"),
        }
        Ok(())
    }

    fn thread(&self) -> anyhow::Result<ThreadId> {
        self.thread.ok_or_else(|| anyhow::anyhow!("the message has no thread yet"))
    }

    /// Stops the turn; a message that still waits for its own is taken back instead.
    async fn stop(&mut self, ask: &Connection, signal: Signal) -> anyhow::Result<Option<Outcome>> {
        self.stopping = Some(signal);
        let thread_id = self.thread()?;
        if let Some(queued_id) = self.queued {
            let _: Nothing = ask.ask("queue/edit", &QueueEditParams { thread_id, queued_id, text: None }).await?;
            let error = Some("The message was taken back before it was sent.".to_owned());
            return Ok(Some(Outcome { status: "interrupted", seq: 0, reply: None, error }));
        }
        output::note(match signal {
            Signal::Interrupt => "Stopping the agent. Ctrl-C again does not wait for it.",
            Signal::Terminate | Signal::HangUp => "Asked to end: stopping the agent.",
        });
        let _: Nothing = ask.ask("turn/interrupt", &ThreadParams { thread_id }).await?;
        Ok(None)
    }

    /// Takes one event; true when a turn may have ended.
    async fn event(
        &mut self,
        ask: &Connection,
        signals: &mut Signals,
        n: u64,
        body: EventBody,
    ) -> anyhow::Result<bool> {
        match body {
            EventBody::Queue { queue } if self.queued.is_some_and(|id| !queue.iter().any(|q| q.id == id)) => {
                self.queued = None;
            }
            EventBody::Turn { turn: Some(turn) } => {
                if self.queued.is_none() && self.message.is_none() {
                    self.message = Some(turn.message_id);
                }
                if let Some(retry) = turn.retry.filter(|_| !self.json()) {
                    output::note(&retry.message);
                }
            }
            EventBody::Turn { turn: None } => return Ok(true),
            EventBody::Message { message } if message.role == Role::Assistant && self.queued.is_none() => {
                self.reply = Some(message.id);
            }
            EventBody::Part { message_id, part } if Some(message_id) == self.reply && !self.json() => {
                self.part(&part.key, &part.body);
            }
            EventBody::Text { message_id, key, text }
                if Some(message_id) == self.reply && !self.json() && n > self.read =>
            {
                if let Some(printed) = self.printed.get_mut(&key) {
                    *printed += text.len();
                    output::text(&text);
                }
            }
            EventBody::Approval { approval } if approval.state == ApprovalState::Open => {
                self.approval(ask, signals, approval).await?;
            }
            EventBody::Warning { message } if !self.json() => output::note(message),
            _ => {}
        }
        Ok(false)
    }

    /// Prints what was not printed yet of a part.
    fn part(&mut self, key: &str, body: &PartBody) {
        match body {
            PartBody::Text { text } => {
                let first = !self.printed.contains_key(key);
                if first && !self.printed.is_empty() {
                    output::text("\n\n");
                }
                let printed = self.printed.entry(key.to_owned()).or_default();
                if let Some(more) = text.get(*printed..).filter(|more| !more.is_empty()) {
                    output::text(more);
                    *printed = text.len();
                }
            }
            PartBody::Command { command, .. } if self.commands.insert(key.to_owned()) => {
                output::note(format!("$ {command}"));
            }
            _ => {}
        }
    }

    async fn approval(&mut self, ask: &Connection, signals: &mut Signals, approval: Approval) -> anyhow::Result<()> {
        if !self.asked.insert(approval.id) || self.json() && !self.may_ask {
            return Ok(());
        }
        output::note(format!("The agent wants to {}", subject(&approval.request.subject)));
        if !self.may_ask {
            output::note(format!(
                "Answer in the window, or with `changeover approval answer {} once|thread|deny`.",
                approval.id
            ));
            return Ok(());
        }
        let mut answering = tokio::task::spawn_blocking(|| {
            loop {
                output::ask("Allow it? [o]nce, in this [t]hread, [d]eny: ");
                let mut line = String::new();
                if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
                    return None;
                }
                match line.trim() {
                    "o" | "once" => return Some(ApprovalDecision::Once),
                    "t" | "thread" => return Some(ApprovalDecision::Thread),
                    "d" | "deny" => return Some(ApprovalDecision::Deny),
                    _ => {}
                }
            }
        });
        let answer = tokio::select! {
            answer = &mut answering => answer?,
            signal = signals.next() => {
                self.may_ask = false;
                self.stop(ask, signal).await?;
                return Ok(());
            }
        };
        if let Some(decision) = answer {
            let params = ApprovalAnswerParams { thread_id: self.thread()?, approval_id: approval.id, decision };
            // It may have been settled elsewhere meanwhile: that answer stands.
            if let Err(error) = ask.ask::<_, Nothing>("approval/answer", &params).await {
                output::note(error);
            }
        }
        Ok(())
    }

    /// How the message's turn ended, if it has; what was missed meanwhile is printed.
    async fn look(&mut self, ask: &Connection) -> anyhow::Result<Option<Outcome>> {
        let thread_id = self.thread()?;
        let read = ThreadReadParams { thread_id, at: PageAt::Newest, limit: Some(50) };
        let page: ThreadReadResponse = ask.ask("thread/read", &read).await?;
        if let Some(queued) = self.queued {
            // A queue that an engine left behind is held; ours at its head goes on.
            if page.turn.is_none() && page.queue.first().is_some_and(|head| head.id == queued) && self.lost {
                let _: Nothing = ask.ask("queue/go", &QueueGoParams { thread_id }).await?;
            }
            return Ok(None);
        }
        let Some(message) = self.message else { return Ok(None) };
        let runs = page.turn.is_some_and(|t| t.message_id == message);
        if runs && !self.lost {
            return Ok(None);
        }
        let Some(at) = page.messages.iter().position(|m| m.id == message) else {
            anyhow::bail!("the message is no longer in its thread");
        };
        let (sent, after) = (&page.messages[at], &page.messages[at + 1..]);
        let of_turn: Vec<&Message> = after.iter().take_while(|m| m.role != Role::User).collect();
        let reply = of_turn.iter().rev().find(|m| m.role == Role::Assistant);
        if !self.json()
            && let Some(reply) = reply
        {
            // What came before this process listened, or was never streamed.
            for part in &reply.parts {
                if !part.superseded && matches!(part.body, PartBody::Text { .. } | PartBody::Command { .. }) {
                    self.part(&part.key, &part.body);
                }
            }
        }
        if runs {
            (self.reply, self.read) = (reply.map(|r| r.id), page.event);
            return Ok(None);
        }
        let error = of_turn.iter().rev().find_map(|m| match &m.notice {
            Some(Notice::Error { failure, .. }) => Some(
                failure.hint.as_ref().map_or(failure.message.clone(), |hint| format!("{}\n{hint}", failure.message)),
            ),
            _ => None,
        });
        let status = match (reply.map(|r| r.state), &error) {
            (Some(MessageState::Done), _) => "completed",
            (Some(MessageState::Failed), _) => "failed",
            (Some(_), _) | (None, None) => "interrupted",
            (None, Some(_)) => "refused",
        };
        Ok(Some(Outcome { status, seq: sent.seq, reply: reply.map(|r| r.seq), error }))
    }
}
