//! One suite of scenarios over every runtime, on the real agents against the fake model API: `scenarios::RUNTIME::SCENARIO`.
//!
//! A scenario asserts whole outcomes: what the adapter told, what the model was sent, what is left of it. What the product
//! says that a runtime cannot do (`AgentRuntime::cannot`) is asserted as well: that it really is so. What a run has shown is
//! the table in the README.

mod failures;
mod limits;
mod sessions;
mod stand;
mod turns;

use std::path::PathBuf;

use changeover_tests::scenarios::{Cell, Shown};

use failures::{api_401, api_429, api_529, cut_stream, folder_gone};
use limits::{compaction_off, mcp_tool, overflow, usage_and_window};
use sessions::{fork, resume_after_restart, session_gone};
use stand::{Kind, Stand};
use turns::{approve, command_exit_0, command_exit_3, deny, interrupt, second_prompt_while_busy, start, stream};

/// Where what was shown is left for `scenario-table`.
fn results() -> PathBuf {
    let given = std::env::var_os("CHANGEOVER_SCENARIOS").map(PathBuf::from);
    given.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("scenarios"))
}

/// Runs one scenario on one runtime, and leaves behind what it has shown.
async fn run(kind: Kind, scenario: &str, act: impl AsyncFnOnce(&Stand) -> Cell) {
    let stand = Stand::new(kind).await;
    let mut shown = Shown {
        runtime: kind.name().to_owned(),
        title: stand.runtime.id().display_name().to_owned(),
        scenario: scenario.to_owned(),
        cannot: None,
    };
    shown.forget(&results());
    let cell = act(&stand).await;
    stand.over().await;
    if let Cell::Cannot(words) = cell {
        shown.cannot = Some(words);
    }
    shown.keep(&results());
}

macro_rules! cells {
    ($runtime:ident: $kind:ident; $($scenario:ident),* $(,)?) => {
        mod $runtime {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    super::run(super::Kind::$kind, stringify!($scenario), super::$scenario).await;
                }
            )*
        }
    };
}

macro_rules! scenarios {
    ($($runtime:ident: $kind:ident),* $(,)?) => {
        $(
            cells!($runtime: $kind;
                start, stream, command_exit_0, command_exit_3, approve, deny, interrupt, resume_after_restart, session_gone,
                fork, usage_and_window, mcp_tool, compaction_off, overflow, api_401, api_429, api_529, cut_stream,
                second_prompt_while_busy, folder_gone,
            );
        )*
    };
}

scenarios!(claude: Claude, codex: Codex, opencode: OpenCode, practice: Practice);
