//! `changeover approval list|answer`.

use std::process::ExitCode;

use changeover_core::{
    approval::{ApprovalDecision, ApprovalSubject},
    id::ApprovalId,
};
use changeover_engine::api::types::{ApprovalAnswerParams, ApprovalListResponse, Nothing};
use clap::{Args, Subcommand, ValueEnum};

use super::{Common, output, session::Session, with};

#[derive(Debug, Args)]
pub(super) struct ApprovalCommand {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What agents ask leave for right now.
    List,
    /// Answer one.
    Answer {
        /// Its id, from `approval list`.
        id: ApprovalId,
        /// The answer.
        decision: Decision,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Decision {
    /// Yes, this once.
    Once,
    /// Yes, and the same in this thread from now on.
    Thread,
    /// No.
    Deny,
}

/// What is asked, in full.
pub(super) fn subject(subject: &ApprovalSubject) -> String {
    match subject {
        ApprovalSubject::Command { command, cwd: Some(cwd) } => format!("run in {cwd}: {command}"),
        ApprovalSubject::Command { command, cwd: None } => format!("run: {command}"),
        ApprovalSubject::Edit { files } => {
            let files: Vec<String> = files.iter().map(|f| format!("{}\n{}", f.path, f.diff)).collect();
            format!("change {}", files.join("\n"))
        }
        ApprovalSubject::Tool { name, input } => format!("use {name}: {input}"),
    }
}

impl ApprovalCommand {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let common = self.common.clone();
        with(&common, async move |session: &mut Session| {
            let list: ApprovalListResponse = session.ask("approval/list", &Nothing {}).await?;
            match self.what {
                What::List if self.common.json => output::json(&list)?,
                What::List => {
                    for entry in &list.approvals {
                        let asked = subject(&entry.approval.request.subject);
                        output::line(format!("{}  thread {}\n  {asked}", entry.approval.id, entry.thread_id));
                    }
                }
                What::Answer { id, decision } => {
                    let Some(entry) = list.approvals.iter().find(|e| e.approval.id == id) else {
                        anyhow::bail!("no open question has the id {id}; see `changeover approval list`");
                    };
                    let decision = match decision {
                        Decision::Once => ApprovalDecision::Once,
                        Decision::Thread => ApprovalDecision::Thread,
                        Decision::Deny => ApprovalDecision::Deny,
                    };
                    let params = ApprovalAnswerParams { thread_id: entry.thread_id, approval_id: id, decision };
                    let done: Nothing = session.ask("approval/answer", &params).await?;
                    if self.common.json {
                        output::json(&done)?;
                    }
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}
