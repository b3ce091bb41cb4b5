//! `changeover providers`.

use std::process::ExitCode;

use changeover_engine::api::types::{ProviderListParams, ProviderListResponse, ProviderState};
use clap::Args;

use super::{Common, output, session::Session, with};

#[derive(Debug, Args)]
pub(super) struct Providers {
    #[command(flatten)]
    common: Common,
}

impl Providers {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let common = self.common.clone();
        with(&common, async move |session: &mut Session| {
            let list: ProviderListResponse =
                session.ask("provider/list", &ProviderListParams { refresh: true }).await?;
            if self.common.json {
                output::json(&list)?;
            } else {
                for provider in &list.providers {
                    let state = match provider.state {
                        ProviderState::Looking => "looking",
                        ProviderState::Ready => "ready",
                        ProviderState::NotFound => "not found",
                        ProviderState::NotLoggedIn => "not logged in",
                        ProviderState::Broken => "broken",
                    };
                    let version = provider.version.as_deref().unwrap_or("");
                    output::line(format!("{:<12} {:<14} {:<14} {version}", provider.id.as_str(), provider.name, state));
                    if let Some(problem) = &provider.problem {
                        output::line(format!("             {}", problem.message));
                        if let Some(hint) = &problem.hint {
                            output::line(format!("             {hint}"));
                        }
                    }
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}
