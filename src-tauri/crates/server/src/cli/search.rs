//! `changeover search`.

use std::process::ExitCode;

use changeover_engine::api::types::{SearchParams, SearchResponse};
use clap::Args;

use super::{Common, output, session::Session, with};

#[derive(Debug, Args)]
pub(super) struct Search {
    /// Words; all must occur.
    #[arg(required = true)]
    words: Vec<String>,
    #[command(flatten)]
    common: Common,
}

impl Search {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let common = self.common.clone();
        with(&common, async move |session: &mut Session| {
            let params = SearchParams { words: self.words.join(" "), limit: None };
            let found: SearchResponse = session.ask("search/messages", &params).await?;
            if self.common.json {
                output::json(&found)?;
            } else {
                for hit in &found.hits {
                    output::line(format!("{} #{}  {}", hit.thread_id, hit.seq, hit.excerpt.replace('\n', " ")));
                }
                if let Some(not) = &found.not_searched {
                    output::note(not);
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}
