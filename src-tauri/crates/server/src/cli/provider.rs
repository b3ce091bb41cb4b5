//! `changeover providers`.

use std::process::ExitCode;

use changeover_engine::api::types::{ProviderListParams, ProviderListResponse, ProviderState};
use clap::Args;

use super::{Common, door, output};

#[derive(Debug, Args)]
pub(super) struct Providers {
    #[command(flatten)]
    common: Common,
}

impl Providers {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let session = door(&self.common).await?;
        let list: ProviderListResponse =
            session.connection.ask("provider/list", &ProviderListParams { refresh: true }).await?;
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
                for cannot in &provider.cannot {
                    output::line(format!("             {}", cannot.message));
                }
            }
        }
        session.close().await;
        Ok(ExitCode::SUCCESS)
    }
}
