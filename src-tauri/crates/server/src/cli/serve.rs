//! `changeover serve`: the UI in a browser.

use std::process::ExitCode;

use changeover_engine::lock::Address;
use clap::Args;

use super::{Common, Session, output, signals::Signals};
use crate::{door::Door, launch};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Attempts of a turn that ends by a passing error before the agent answered.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
    max_attempts: Option<u32>,
    #[command(flatten)]
    common: Common,
}

impl Serve {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let options = launch::Options {
            data: self.common.data.clone(),
            max_attempts: self.max_attempts,
            look: true,
            ..launch::Options::default()
        };
        let session = Session::open(&options).await?;
        let mut signals = Signals::new()?;
        match &session.door {
            Door::Own(running) => {
                output::line(running.server().browser_address());
                output::note("Open this address in a browser. It works once. Ctrl-C ends Changeover.");
                signals.next().await;
                running.close().await;
            }
            Door::Other(address) => {
                output::line(address_of(address).await?);
                output::note("Changeover is running already; this address leads to it. It works once.");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks the engine that runs for an address.
async fn address_of(address: &Address) -> anyhow::Result<String> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.post(format!("{}/code", address.url)).bearer_auth(&address.token).send().await?;
    let answer: serde_json::Value = answer.error_for_status()?.json().await?;
    let text = answer.get("address").and_then(serde_json::Value::as_str);
    Ok(text.ok_or_else(|| anyhow::anyhow!("the running Changeover gave no address"))?.to_owned())
}
