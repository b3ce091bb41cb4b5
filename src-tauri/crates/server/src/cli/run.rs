//! `changeover run`: one message, to the end of its turn (U8). Exit code 0 only when it completed.

use std::{
    io::{IsTerminal as _, Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use changeover_core::{
    approval::ApprovalDecision,
    id::{MessageId, ThreadId},
    message::{Message, MessageState, Role},
    notice::Notice,
    part::PartBody,
    provider::{ApprovalMode, ProviderId, Target},
    turn::record::{Approval, ApprovalState},
};
use changeover_engine::api::types::{
    ApprovalAnswerParams, EventBody, EventWatchParams, Nothing, PageAt, ProjectOpenParams, ProjectOpenResponse,
    ThreadParams, ThreadReadParams, ThreadReadResponse, ThreadResponse, ThreadStartParams, TurnStartParams,
    TurnStartResponse,
};
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::sync::mpsc;

use super::{Common, Session, approval::subject, output};
use crate::{door::Connection, launch};

/// The longest message on standard input, in bytes.
const STDIN_BYTES: u64 = 8 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The project's folder.
    #[arg(long, value_name = "DIR")]
    project: PathBuf,
    /// An earlier thread to go on with; else a new one.
    #[arg(long, value_name = "ID")]
    thread: Option<ThreadId>,
    /// Who answers: claude, codex, practice, …
    #[arg(long)]
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
    /// Ask for every command and edit.
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
        let text = if self.text == "-" {
            let mut text = String::new();
            std::io::stdin().take(STDIN_BYTES + 1).read_to_string(&mut text)?;
            text
        } else {
            self.text.clone()
        };
        let options = launch::Options {
            data: self.common.data.clone(),
            max_attempts: self.max_attempts,
            ..launch::Options::default()
        };
        let mut session = Session::open(&options).await?;
        let done = self.turn(&mut session, text).await;
        session.close().await;
        let (thread, outcome) = done?;
        if self.common.json {
            output::json(&json!({
                "type": "done", "threadId": thread, "seq": outcome.seq, "replySeq": outcome.reply,
                "status": outcome.status, "error": outcome.error,
            }))?;
        } else {
            output::line("");
            if let Some(error) = &outcome.error {
                eprintln!("{error}");
            }
            eprintln!("thread {thread} · {}", outcome.status);
        }
        Ok(if outcome.status == "completed" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn turn(&self, session: &mut Session, text: String) -> anyhow::Result<(ThreadId, Outcome)> {
        let ask = session.connection.clone();
        let path = std::path::absolute(&self.project)?.display().to_string();
        let opened: ProjectOpenResponse = ask.ask("project/open", &ProjectOpenParams { path }).await?;
        let mode = match self.approve {
            Approve::Ask => ApprovalMode::Ask,
            Approve::Edits => ApprovalMode::Edits,
            Approve::All => ApprovalMode::All,
        };
        let target = Target { provider: self.provider.clone(), model: self.model.clone(), effort: None, mode };
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
                let params = ThreadStartParams { project_id: opened.project.id, target: Some(target.clone()) };
                let started: ThreadResponse = ask.ask("thread/start", &params).await?;
                started.thread.id
            }
        };
        let _: Nothing = ask.ask("event/watch", &EventWatchParams { thread_ids: vec![thread] }).await?;
        let params = TurnStartParams {
            thread_id: thread,
            client_turn_id: changeover_engine::secret::token(),
            text,
            target: Some(target),
            preview_hash: None,
        };
        let started: TurnStartResponse = ask.ask("turn/start", &params).await?;
        let mut watch = Watch::new(ask, thread, self.common.json, self.text == "-");
        match started {
            TurnStartResponse::Started { message_id, .. } => watch.message = Some(message_id),
            TurnStartResponse::Queued { queued_id } => watch.queued = Some(queued_id),
            TurnStartResponse::Changed { .. } => anyhow::bail!("the engine compared a preview that was not given"),
        }
        let outcome = watch.until_end(&mut session.events).await?;
        Ok((thread, outcome))
    }
}

/// Follows a turn to its end.
struct Watch {
    ask: Connection,
    thread: ThreadId,
    json: bool,
    may_ask: bool,
    queued: Option<changeover_core::id::QueuedId>,
    message: Option<MessageId>,
    reply: Option<MessageId>,
    shown: std::collections::HashSet<String>,
    asked: std::collections::HashSet<changeover_core::id::ApprovalId>,
}

impl Watch {
    fn new(ask: Connection, thread: ThreadId, json: bool, stdin_taken: bool) -> Self {
        let may_ask = !stdin_taken && std::io::stdin().is_terminal();
        Self {
            ask,
            thread,
            json,
            may_ask,
            queued: None,
            message: None,
            reply: None,
            shown: std::collections::HashSet::new(),
            asked: std::collections::HashSet::new(),
        }
    }

    async fn until_end(
        &mut self,
        events: &mut mpsc::Receiver<Vec<changeover_engine::api::types::Event>>,
    ) -> anyhow::Result<Outcome> {
        // The turn may have ended before the first event was looked at.
        if let Some(outcome) = self.outcome().await? {
            return Ok(outcome);
        }
        let mut stopping = false;
        loop {
            let batch = tokio::select! {
                batch = events.recv() => batch,
                _ = tokio::signal::ctrl_c() => {
                    if stopping {
                        anyhow::bail!("stopped without waiting for the agent");
                    }
                    stopping = true;
                    eprintln!("Stopping the agent. Ctrl-C again does not wait for it.");
                    let _: Nothing = self.ask.ask("turn/interrupt", &ThreadParams { thread_id: self.thread }).await?;
                    continue;
                }
            };
            let Some(batch) = batch else {
                if let Some(outcome) = self.outcome().await? {
                    return Ok(outcome);
                }
                anyhow::bail!("the connection to Changeover ended");
            };
            let mut ended = false;
            let thread = self.thread;
            for event in batch.into_iter().filter(|e| e.thread_id == Some(thread)) {
                if self.json && event.n > 0 {
                    output::json(&event)?;
                }
                ended |= self.event(event.body).await?;
            }
            if ended && let Some(outcome) = self.outcome().await? {
                return Ok(outcome);
            }
        }
    }

    /// Takes one event; true when a turn may have ended.
    async fn event(&mut self, body: EventBody) -> anyhow::Result<bool> {
        match body {
            EventBody::Queue { queue } if self.queued.is_some_and(|id| !queue.iter().any(|q| q.id == id)) => {
                self.queued = None;
            }
            EventBody::Turn { turn: Some(turn) } => {
                if self.queued.is_none() && self.message.is_none() {
                    self.message = Some(turn.message_id);
                }
                if let Some(retry) = turn.retry.filter(|_| !self.json) {
                    eprintln!("{}", retry.message);
                }
            }
            EventBody::Turn { turn: None } => return Ok(true),
            EventBody::Message { message } if message.role == Role::Assistant && self.queued.is_none() => {
                self.reply = Some(message.id);
            }
            EventBody::Part { message_id, part } if Some(message_id) == self.reply && !self.json => {
                self.part(&part.key, &part.body);
            }
            EventBody::Text { message_id, key, text }
                if Some(message_id) == self.reply && !self.json && self.shown.contains(&key) =>
            {
                output::text(&text);
            }
            EventBody::Approval { approval } if approval.state == ApprovalState::Open => {
                self.approval(approval).await?;
            }
            EventBody::Warning { message } if !self.json => eprintln!("{message}"),
            _ => {}
        }
        Ok(false)
    }

    fn part(&mut self, key: &str, body: &PartBody) {
        match body {
            PartBody::Text { text } if self.shown.insert(key.to_owned()) => {
                if self.shown.len() > 1 {
                    output::text("\n\n");
                }
                output::text(text);
            }
            PartBody::Command { command, .. } if self.asked_line(key) => eprintln!("$ {command}"),
            _ => {}
        }
    }

    fn asked_line(&mut self, key: &str) -> bool {
        self.shown.insert(format!("command {key}"))
    }

    async fn approval(&mut self, approval: Approval) -> anyhow::Result<()> {
        if !self.asked.insert(approval.id) || self.json && !self.may_ask {
            return Ok(());
        }
        eprintln!("The agent wants to {}", subject(&approval.request.subject));
        if !self.may_ask {
            eprintln!("Answer in the window, or with `changeover approval answer {} once|thread|deny`.", approval.id);
            return Ok(());
        }
        let answer = tokio::task::spawn_blocking(|| {
            loop {
                eprint!("Allow it? [o]nce, in this [t]hread, [d]eny: ");
                let _ = std::io::stderr().flush();
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
        })
        .await?;
        if let Some(decision) = answer {
            let params = ApprovalAnswerParams { thread_id: self.thread, approval_id: approval.id, decision };
            // It may have been settled elsewhere meanwhile: that answer stands.
            if let Err(error) = self.ask.ask::<_, Nothing>("approval/answer", &params).await {
                eprintln!("{error}");
            }
        }
        Ok(())
    }

    /// How the message's turn ended, if it has.
    async fn outcome(&mut self) -> anyhow::Result<Option<Outcome>> {
        let Some(message) = self.message else { return Ok(None) };
        let read = ThreadReadParams { thread_id: self.thread, at: PageAt::Newest, limit: Some(50) };
        let page: ThreadReadResponse = self.ask.ask("thread/read", &read).await?;
        if page.turn.is_some_and(|t| t.message_id == message) {
            return Ok(None);
        }
        let Some(at) = page.messages.iter().position(|m| m.id == message) else {
            anyhow::bail!("the message is no longer in its thread");
        };
        let (sent, after) = (&page.messages[at], &page.messages[at + 1..]);
        let of_turn: Vec<&Message> = after.iter().take_while(|m| m.role != Role::User).collect();
        let reply = of_turn.iter().rev().find(|m| m.role == Role::Assistant);
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
        if !self.json
            && let Some(reply) = reply
        {
            // What came before this process listened, or was never streamed.
            for part in &reply.parts {
                if !part.superseded && matches!(part.body, PartBody::Text { .. }) {
                    self.part(&part.key, &part.body);
                }
            }
        }
        Ok(Some(Outcome { status, seq: sent.seq, reply: reply.map(|r| r.seq), error }))
    }
}
