//! The command line (U7, U8): the same for `changeover` and for the window's program. It speaks to the engine of the data
//! folder through the same door as the window, whoever runs it (U9).

mod approval;
mod diagnostics;
mod handoff;
mod output;
mod project;
mod provider;
mod run;
mod search;
mod serve;
mod session;
mod signals;
mod thread;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

use self::session::Session;
use crate::launch;

/// One conversation, any coding agent.
///
/// A thread belongs to you and not to an agent: ask Claude Code, go on with Codex in the same thread, come back, and what one
/// did the next one knows. `changeover serve` shows everything in a browser; the other commands do the same things here.
#[derive(Debug, Parser)]
#[command(name = "changeover", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Options that every command has.
#[derive(Debug, Args, Clone)]
struct Common {
    /// Data folder (else CHANGEOVER_DATA_DIR, else the platform's).
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// Print JSON: the API's own fields.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the UI to a browser on this machine.
    Serve(serve::Serve),
    /// Send one message and see its turn to the end.
    Run(run::Run),
    /// List the folders that were opened, or take one off the list.
    Project(project::ProjectCommand),
    /// List, show, rename, archive or delete threads.
    Thread(thread::ThreadCommand),
    /// What the next turn would tell a provider.
    Handoff(handoff::HandoffCommand),
    /// What agents ask leave for.
    Approval(approval::ApprovalCommand),
    /// The providers and how each stands.
    Providers(provider::Providers),
    /// One page for a report of a fault, without messages and keys.
    Diagnostics(diagnostics::Diagnostics),
    /// Search all threads.
    Search(search::Search),
    /// The practice agent on standard input and output (ACP).
    #[command(hide = true)]
    PracticeAgent,
    /// The guard that ends what the app leaves behind.
    #[command(hide = true)]
    Guard,
}

/// Runs the command line of this process; its exit code.
pub fn main() -> ExitCode {
    run_args(std::env::args_os())
}

/// Runs a command line given as words, the program's name first.
pub fn run_args(args: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap knows where each is printed.
            let printed = error.print();
            return output::printed(printed, ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)));
        }
    };
    // The guard is started before anything else and holds nothing: no runtime, no log.
    if matches!(cli.command, Command::Guard) {
        return match changeover_runtime::guard::run_guard() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => output::failed(&error.into()),
        };
    }
    start_log();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::failed(&error.into()),
    };
    let done = runtime.block_on(async {
        match cli.command {
            Command::Serve(command) => command.run().await,
            Command::Run(command) => command.run().await,
            Command::Project(command) => command.run().await,
            Command::Thread(command) => command.run().await,
            Command::Handoff(command) => command.run().await,
            Command::Approval(command) => command.run().await,
            Command::Providers(command) => command.run().await,
            Command::Diagnostics(command) => command.run().await,
            Command::Search(command) => command.run().await,
            Command::PracticeAgent => {
                changeover_runtime::practice::run_practice_agent(tokio::io::stdin(), tokio::io::stdout()).await?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Guard => Ok(ExitCode::SUCCESS),
        }
    });
    // A blocking read of standard input must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    output::finished(done.unwrap_or_else(|error| output::failed(&error)))
}

/// Logs to standard error, as `CHANGEOVER_LOG` asks; warnings by itself.
pub fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CHANGEOVER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

/// A thread's id from the command line, or what one looks like.
fn thread_id(text: &str) -> Result<changeover_core::id::ThreadId, String> {
    text.parse().map_err(|_| "this is no thread's id; `changeover thread list` shows them".to_owned())
}

/// A provider's id from the command line, or which there are.
fn provider_id(text: &str) -> Result<changeover_core::provider::ProviderId, String> {
    text.parse().map_err(|_| format!("this version has {}", launch::offered()))
}

/// Carries out a command that speaks to the engine. However it ends, the engine is closed in good order if it is this process's
/// own: it may have taken on turns of others.
async fn with(
    common: &Common,
    work: impl AsyncFnOnce(&mut Session) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let options = launch::Options { data: common.data.clone(), ..launch::Options::default() };
    let mut session = Session::open(&options).await?;
    let done = work(&mut session).await;
    session.close(None).await;
    done
}
