//! `changeover providers`: what can answer, what is missing, and how to get on (R2).

use std::process::ExitCode;

use changeover_core::provider::ProviderId;
use changeover_engine::api::types::{
    AgentListResponse, Nothing, ProviderListParams, ProviderListResponse, ProviderState, ProviderTestParams,
    ProviderTestResponse,
};
use clap::Args;

use super::{Common, output, session::Session, with};

#[derive(Debug, Args)]
pub(super) struct Providers {
    /// Start this one as a thread would, without asking a model, and say what happened.
    #[arg(long, value_name = "PROVIDER")]
    test: Option<ProviderId>,
    #[command(flatten)]
    common: Common,
}

impl Providers {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let common = self.common.clone();
        with(&common, async move |session: &mut Session| match &self.test {
            Some(provider) => self.try_one(session, provider).await,
            None => self.list(session).await,
        })
        .await
    }

    async fn list(&self, session: &mut Session) -> anyhow::Result<ExitCode> {
        let mut list: ProviderListResponse =
            session.ask("provider/list", &ProviderListParams { refresh: true }).await?;
        // The list that one picks from leaves out agents that are known and not there; whoever asks what is missing is told.
        let known: AgentListResponse = session.ask("agent/list", &Nothing {}).await?;
        let more = known.agents.into_iter().map(|agent| agent.provider);
        list.providers
            .extend(more.filter(|one| !list.providers.iter().any(|listed| listed.id == one.id)).collect::<Vec<_>>());
        if self.common.json {
            output::json(&list)?;
            return Ok(ExitCode::SUCCESS);
        }
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
            if let Some(path) = &provider.path {
                let found = provider.found.as_deref().unwrap_or("found");
                output::line(format!("             {path} ({found})"));
            }
            if let Some(problem) = &provider.problem {
                said(&problem.message, problem.hint.as_deref());
            }
            for cannot in &provider.cannot {
                said(&cannot.message, None);
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn try_one(&self, session: &mut Session, provider: &ProviderId) -> anyhow::Result<ExitCode> {
        let params = ProviderTestParams { provider: provider.clone() };
        let test: ProviderTestResponse = session.ask("provider/test", &params).await?;
        if self.common.json {
            output::json(&test)?;
        } else {
            let path = test.path.as_deref().unwrap_or("no program");
            let what = if test.problem.is_none() { "starts" } else { "cannot be used" };
            output::line(format!("{provider} {what} ({path}, {} ms)", test.took));
            if let Some(problem) = &test.problem {
                said(&problem.message, problem.hint.as_deref());
            }
        }
        Ok(if test.problem.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn said(message: &str, hint: Option<&str>) {
    for line in [Some(message), hint].into_iter().flatten() {
        output::line(format!("             {line}"));
    }
}
