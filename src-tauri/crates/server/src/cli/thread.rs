//! `changeover thread list|show|rename|archive|delete`.

use std::{io::IsTerminal as _, process::ExitCode};

use changeover_core::{
    id::ThreadId,
    message::{Message, MessageState, Role},
    notice::Notice,
    part::PartBody,
};
use changeover_engine::api::error::{ApiError, ErrorCode};
use changeover_engine::api::types::{
    Nothing, PageAt, ThreadArchiveParams, ThreadDeleteParams, ThreadListParams, ThreadListResponse, ThreadParams,
    ThreadReadParams, ThreadReadResponse, ThreadRenameParams, ThreadResponse, ThreadSessionsResponse,
};
use clap::{Args, Subcommand};
use serde::{Serialize, de::DeserializeOwned};

use super::{Common, output, session::Session, with};

#[derive(Debug, Args)]
pub(super) struct ThreadCommand {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum What {
    /// All threads, newest first.
    List {
        /// Archived ones too.
        #[arg(long)]
        archived: bool,
    },
    /// A thread with all its messages and what each session knows.
    Show {
        /// The thread.
        #[arg(value_parser = super::thread_id)]
        thread: ThreadId,
    },
    /// Name a thread.
    Rename {
        /// The thread.
        #[arg(value_parser = super::thread_id)]
        thread: ThreadId,
        /// Its title.
        title: String,
    },
    /// Put a thread away, or take it back.
    Archive {
        /// The thread.
        #[arg(value_parser = super::thread_id)]
        thread: ThreadId,
        /// Take it back.
        #[arg(long)]
        undo: bool,
        /// Stop its agent, if it works, without asking.
        #[arg(long)]
        stop: bool,
    },
    /// Delete a thread, or take that back. Its worktree and branches are not touched.
    Delete {
        /// The thread.
        #[arg(value_parser = super::thread_id)]
        thread: ThreadId,
        /// Take it back.
        #[arg(long)]
        undo: bool,
        /// Stop its agent, if it works, without asking.
        #[arg(long)]
        stop: bool,
    },
}

/// `thread show --json`.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    thread: ThreadResponse,
    messages: Vec<Message>,
    #[serde(flatten)]
    sessions: ThreadSessionsResponse,
}

impl ThreadCommand {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let common = self.common.clone();
        with(&common, async move |session: &mut Session| {
            let json = self.common.json;
            let ask = session;
            match self.what {
                What::List { archived } => {
                    let params = ThreadListParams { project_id: None, archived };
                    let list: ThreadListResponse = ask.ask("thread/list", &params).await?;
                    if json {
                        output::json(&list)?;
                    } else {
                        for thread in &list.threads {
                            let title = if thread.title.is_empty() { "New thread" } else { &thread.title };
                            output::line(format!("{}  {:<10}  {title}", thread.id, thread.target.provider.as_str()));
                        }
                    }
                }
                What::Show { thread } => {
                    let shown = show(ask, thread).await?;
                    if json {
                        output::json(&shown)?;
                    } else {
                        for (n, message) in shown.messages.iter().enumerate() {
                            // What a turn ended with stands right after its message or reply.
                            let why = shown.messages[n + 1..].iter().take_while(|m| m.role == Role::System);
                            output::line(plain(message) + &standing(message, why));
                        }
                    }
                }
                What::Rename { thread, title } => {
                    let params = ThreadRenameParams { thread_id: thread, title };
                    let renamed: ThreadResponse = ask.ask("thread/rename", &params).await?;
                    if json {
                        output::json(&renamed)?;
                    }
                }
                What::Archive { thread, undo, stop } => {
                    let params = |stop| ThreadArchiveParams { thread_id: thread, on: !undo, stop };
                    let changed: ThreadResponse = stopping(ask, "thread/archive", params, stop).await?;
                    if json {
                        output::json(&changed)?;
                    }
                }
                What::Delete { thread, undo: true, .. } => {
                    let restored: ThreadResponse =
                        ask.ask("thread/restore", &ThreadParams { thread_id: thread }).await?;
                    if json {
                        output::json(&restored)?;
                    }
                }
                What::Delete { thread, undo: false, stop } => {
                    let params = |stop| ThreadDeleteParams { thread_id: thread, stop };
                    let done: Nothing = stopping(ask, "thread/delete", params, stop).await?;
                    if json {
                        output::json(&done)?;
                    } else {
                        output::note(format!("Deleted. `changeover thread delete {thread} --undo` takes it back."));
                    }
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}

/// Asks for what stops a running agent; the person is asked first (S4).
async fn stopping<P: Serialize, R: DeserializeOwned>(
    ask: &mut Session,
    method: &str,
    params: impl Fn(bool) -> P,
    stop: bool,
) -> anyhow::Result<R> {
    let answer: anyhow::Result<R> = ask.ask(method, &params(stop)).await;
    let Err(error) = answer else { return answer };
    let Some(running) = error.downcast_ref::<ApiError>().filter(|e| e.code == ErrorCode::Running) else {
        return Err(error);
    };
    if !std::io::stdin().is_terminal() {
        let told = ApiError { hint: Some("`--stop` stops it first.".into()), ..running.clone() };
        return Err(told.into());
    }
    output::note(&running.message);
    let answer = tokio::task::spawn_blocking(|| {
        output::ask("Stop it? [y]es, [n]o: ");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    })
    .await??;
    anyhow::ensure!(matches!(answer.trim(), "y" | "yes"), "nothing was changed");
    ask.ask(method, &params(true)).await
}

async fn show(ask: &mut Session, thread: ThreadId) -> anyhow::Result<Shown> {
    let mut messages: Vec<Message> = Vec::new();
    let mut at = PageAt::After { seq: 0 };
    loop {
        let read = ThreadReadParams { thread_id: thread, at, limit: Some(200) };
        let page: ThreadReadResponse = ask.ask("thread/read", &read).await?;
        let last = page.messages.last().map(|m| m.seq);
        messages.extend(page.messages);
        match last.filter(|_| page.has_after) {
            Some(seq) => at = PageAt::After { seq },
            None => {
                let params = ThreadParams { thread_id: thread };
                let sessions: ThreadSessionsResponse = ask.ask("thread/sessions", &params).await?;
                return Ok(Shown { thread: ThreadResponse { thread: page.thread }, messages, sessions });
            }
        }
    }
}

/// How a message stands, where it is not whole.
fn standing<'a>(message: &Message, mut after: impl Iterator<Item = &'a Message>) -> String {
    let why = after.find_map(|m| match &m.notice {
        Some(Notice::Error { failure, .. }) => Some(format!(": {}", failure.message)),
        _ => None,
    });
    let stands = match (message.role, message.state) {
        (Role::System, _) | (_, MessageState::Done) => return String::new(),
        (_, MessageState::NotAnswered) => "not answered",
        (_, MessageState::Interrupted) => "interrupted",
        (_, MessageState::Failed) => "failed",
        (Role::User, MessageState::Open) => "not answered yet",
        (Role::Assistant, MessageState::Open) => "still being written",
    };
    let why = why.filter(|_| message.state != MessageState::Open).unwrap_or_default();
    format!("({stands}{why})\n")
}

/// A message as a terminal shows it.
fn plain(message: &Message) -> String {
    let who = match (message.role, &message.provider) {
        (Role::User, _) => "You",
        (Role::Assistant, Some(provider)) => provider.display_name(),
        (Role::Assistant, None) => "Agent",
        (Role::System, _) => "Changeover",
    };
    let mut text = format!("#{} {who}\n", message.seq);
    match &message.notice {
        Some(Notice::Handover(h)) => {
            text.push_str(&format!(
                "{} took over: {} of {} messages, {} bytes\n",
                h.provider.display_name(),
                h.messages_told,
                h.messages_total,
                h.bytes
            ));
        }
        Some(Notice::SessionGone { provider, reason }) => {
            text.push_str(&format!("{}'s session was gone: {reason}\n", provider.display_name()));
        }
        Some(Notice::Error { failure, .. }) => {
            for words in std::iter::once(&failure.message).chain(&failure.hint) {
                text.push_str(words);
                text.push('\n');
            }
        }
        Some(Notice::Compacted { provider }) => {
            text.push_str(&format!("{} compacted its own history\n", provider.display_name()));
        }
        None => {}
    }
    for part in message.parts.iter().filter(|p| !p.superseded) {
        match &part.body {
            PartBody::Text { text: prose } => {
                text.push_str(prose);
                text.push('\n');
            }
            PartBody::Command { .. } => {
                if let Some(body) = changeover_core::handoff::items::command_body(&part.body) {
                    text.push_str(&body);
                    text.push('\n');
                }
            }
            PartBody::FileChange { files, .. } => {
                for file in files {
                    text.push_str(&format!("Changed {}\n", file.path));
                }
            }
            PartBody::Attachment { name, .. } => text.push_str(&format!("Attached {name}\n")),
            PartBody::Reasoning { .. } | PartBody::Tool { .. } | PartBody::Plan { .. } => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use changeover_core::{
        failure::{Failure, FailureKind},
        provider::ProviderId,
    };

    use super::*;

    fn message(role: Role, state: MessageState, notice: Option<Notice>) -> Message {
        Message {
            id: "00000000-0000-0000-0000-000000000000".parse().unwrap(),
            seq: 1,
            role,
            state,
            provider: None,
            model: None,
            session: None,
            created_at: 0,
            ended_at: None,
            pinned: false,
            excluded: false,
            parts: Vec::new(),
            notice,
        }
    }

    #[test]
    fn a_message_that_is_not_whole_says_so_and_why() {
        let failure = Failure::new(FailureKind::NotLoggedIn, "You are not logged in.");
        let notice = Notice::Error { provider: ProviderId::claude(), failure };
        let notice = message(Role::System, MessageState::Done, Some(notice));
        let said = |role, state| standing(&message(role, state, None), std::iter::once(&notice));
        assert_eq!(said(Role::User, MessageState::NotAnswered), "(not answered: You are not logged in.)\n");
        assert_eq!(said(Role::Assistant, MessageState::Failed), "(failed: You are not logged in.)\n");
        assert_eq!(said(Role::User, MessageState::Done), "");
        assert_eq!(standing(&message(Role::Assistant, MessageState::Interrupted, None), [].iter()), "(interrupted)\n");
    }
}
