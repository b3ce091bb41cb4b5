//! `changeover thread list|show|rename|archive|delete`.

use std::process::ExitCode;

use changeover_core::{
    id::ThreadId,
    message::{Message, Role},
    notice::Notice,
    part::PartBody,
};
use changeover_engine::api::types::{
    Nothing, PageAt, ThreadListParams, ThreadListResponse, ThreadParams, ThreadReadParams, ThreadReadResponse,
    ThreadRenameParams, ThreadResponse, ThreadSessionsResponse, ThreadSwitchParams,
};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::{Common, door, output};

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
        thread: ThreadId,
    },
    /// Name a thread.
    Rename {
        /// The thread.
        thread: ThreadId,
        /// Its title.
        title: String,
    },
    /// Put a thread away, or take it back.
    Archive {
        /// The thread.
        thread: ThreadId,
        /// Take it back.
        #[arg(long)]
        undo: bool,
    },
    /// Delete a thread, or take that back. Its worktree and branches are not touched.
    Delete {
        /// The thread.
        thread: ThreadId,
        /// Take it back.
        #[arg(long)]
        undo: bool,
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
        let session = door(&self.common).await?;
        let (ask, json) = (&session.connection, self.common.json);
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
                    for message in &shown.messages {
                        output::line(plain(message));
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
            What::Archive { thread, undo } => {
                let params = ThreadSwitchParams { thread_id: thread, on: !undo };
                let changed: ThreadResponse = ask.ask("thread/archive", &params).await?;
                if json {
                    output::json(&changed)?;
                }
            }
            What::Delete { thread, undo: true } => {
                let restored: ThreadResponse = ask.ask("thread/restore", &ThreadParams { thread_id: thread }).await?;
                if json {
                    output::json(&restored)?;
                }
            }
            What::Delete { thread, undo: false } => {
                let done: Nothing = ask.ask("thread/delete", &ThreadParams { thread_id: thread }).await?;
                if json {
                    output::json(&done)?;
                } else {
                    eprintln!("Deleted. `changeover thread delete {thread} --undo` takes it back.");
                }
            }
        }
        session.close().await;
        Ok(ExitCode::SUCCESS)
    }
}

async fn show(ask: &crate::door::Connection, thread: ThreadId) -> anyhow::Result<Shown> {
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
            text.push_str(&failure.message);
            text.push('\n');
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
