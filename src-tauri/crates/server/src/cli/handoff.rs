//! `changeover handoff preview`: the exact bytes that the next turn would tell.

use std::process::ExitCode;

use changeover_core::{
    id::ThreadId,
    provider::{ProviderId, Target},
};
use changeover_engine::api::types::{
    HandoffPreviewParams, HandoffPreviewResponse, PageAt, ThreadReadParams, ThreadReadResponse,
};
use clap::{Args, Subcommand};

use super::{Common, output, session::Session, with};

#[derive(Debug, Args)]
pub(super) struct HandoffCommand {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What the next turn would tell a provider: the exact bytes on standard output.
    Preview {
        /// The thread.
        #[arg(value_parser = super::thread_id)]
        thread: ThreadId,
        /// For whom; else the thread's own choice.
        #[arg(long, value_parser = super::provider_id)]
        provider: Option<ProviderId>,
        /// Its model.
        #[arg(long)]
        model: Option<String>,
    },
}

impl HandoffCommand {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let What::Preview { thread, provider, model } = self.what;
        let common = self.common.clone();
        with(&common, async move |session: &mut Session| {
            let read = ThreadReadParams { thread_id: thread, at: PageAt::Newest, limit: Some(1) };
            let page: ThreadReadResponse = session.ask("thread/read", &read).await?;
            let own = page.thread.target;
            let target = match provider {
                Some(provider) => Target { provider, model, effort: None, mode: own.mode },
                None => Target { model: model.or(own.model.clone()), ..own },
            };
            let params =
                HandoffPreviewParams { thread_id: thread, target: Some(target), message_id: None, with_text: true };
            let preview: HandoffPreviewResponse = session.ask("handoff/preview", &params).await?;
            if self.common.json {
                output::json(&preview)?;
            } else {
                output::exact(preview.text.as_deref().unwrap_or_default());
                match &preview.handover {
                    None => output::note(format!("{}: nothing to tell", preview.target.provider.display_name())),
                    Some(h) => output::note(format!(
                        "{}: {} of {} messages, {} of {} bytes",
                        preview.target.provider.display_name(),
                        h.messages_told,
                        h.messages_total,
                        h.used,
                        h.budget
                    )),
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}
