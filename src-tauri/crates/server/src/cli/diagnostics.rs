//! `changeover diagnostics`: one page for a report of a fault.

use std::process::ExitCode;

use changeover_engine::api::types::{DiagnosticsResponse, Nothing, ProviderListParams, ProviderListResponse};
use clap::Args;

use super::{Common, door, output};

#[derive(Debug, Args)]
pub(super) struct Diagnostics {
    #[command(flatten)]
    common: Common,
}

impl Diagnostics {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let session = door(&self.common).await?;
        // The page says how each was found: so each is looked for first.
        let _: ProviderListResponse =
            session.connection.ask("provider/list", &ProviderListParams { refresh: true }).await?;
        let page: DiagnosticsResponse = session.connection.ask("app/diagnostics", &Nothing {}).await?;
        if self.common.json {
            output::json(&page)?
        } else {
            output::text(&page.text)
        }
        session.close().await;
        Ok(ExitCode::SUCCESS)
    }
}
