//! `changeover diagnostics`: one page for a report of a fault.

use std::process::ExitCode;

use changeover_engine::api::types::{DiagnosticsResponse, Nothing, ProviderListParams, ProviderListResponse};
use clap::Args;

use super::{Common, output, session::Session, with};

#[derive(Debug, Args)]
pub(super) struct Diagnostics {
    #[command(flatten)]
    common: Common,
}

impl Diagnostics {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let common = self.common.clone();
        with(&common, async move |session: &mut Session| {
            // The page says how each was found: so each is looked for first.
            let _: ProviderListResponse = session.ask("provider/list", &ProviderListParams { refresh: true }).await?;
            let page: DiagnosticsResponse = session.ask("app/diagnostics", &Nothing {}).await?;
            if self.common.json {
                output::json(&page)?;
            } else {
                output::text(&page.text);
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}
