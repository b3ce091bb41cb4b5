//! The agents that are looked for by themselves (R1), and what is known of each beyond the protocol.

use changeover_core::{event::Keeps, provider::ProviderId};

use super::{AcpAgent, AcpRuntime, Program};
use crate::session::Environment;

/// An agent that is known by name: how it is started, installed and logged in to.
#[derive(Debug)]
pub struct Known {
    /// Its provider is `acp:<name>`.
    pub name: &'static str,
    /// The program that is searched for.
    pub program: &'static str,
    /// What makes it speak ACP.
    pub args: &'static [&'static str],
    /// Variables that it gets unless the user has set them: its own restarts off, its tools where the model sees them.
    pub env: &'static [(&'static str, &'static str)],
    /// How to install it, as a sentence.
    pub install: &'static str,
    /// How to log in, as a sentence.
    pub login: &'static str,
    /// What its history holds after something went wrong (T9); each line that says so is proved on the real one.
    pub keeps: Keeps,
    /// Shown even where it is not installed, with how to install it.
    pub always: bool,
}

/// What Gemini CLI 0.61 keeps (tests/contract/gemini_history.rs).
const GEMINI_KEEPS: Keeps = Keeps::UNKNOWN;

/// What Claude's adapter 0.49 keeps (tests/contract/claude_acp_history.rs).
const CLAUDE_KEEPS: Keeps = Keeps::UNKNOWN;

/// All of them, in the picker's order.
pub static KNOWN: &[Known] = &[
    Known {
        name: "gemini",
        program: "gemini",
        args: &["--acp"],
        // Else it starts itself once more and stays as its own parent.
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        install: "Install Gemini CLI with `npm install -g @google/gemini-cli`",
        login: "Run `gemini` in a terminal and log in there, or set GEMINI_API_KEY.",
        keeps: GEMINI_KEEPS,
        always: true,
    },
    Known {
        name: "qwen",
        program: "qwen",
        args: &["--acp"],
        env: &[],
        install: "Install Qwen Code with `npm install -g @qwen-code/qwen-code`",
        login: "Run `qwen` in a terminal and log in there.",
        keeps: Keeps::UNKNOWN,
        always: false,
    },
    Known {
        name: "goose",
        program: "goose",
        args: &["acp"],
        env: &[],
        install: "Install Goose (its own page says how for each system)",
        login: "Run `goose configure` in a terminal.",
        keeps: Keeps::UNKNOWN,
        always: false,
    },
    Known {
        name: "copilot",
        program: "copilot",
        args: &["--acp"],
        env: &[],
        install: "Install GitHub Copilot CLI with `npm install -g @github/copilot`",
        login: "Run `copilot` in a terminal and use /login there.",
        keeps: Keeps::UNKNOWN,
        always: false,
    },
    Known {
        name: "kimi",
        program: "kimi",
        args: &["acp"],
        env: &[],
        install: "Install Kimi CLI with `uv tool install kimi-cli`",
        login: "Run `kimi` in a terminal and use /login there.",
        keeps: Keeps::UNKNOWN,
        always: false,
    },
    Known {
        name: "claude-agent-acp",
        program: "claude-agent-acp",
        args: &[],
        // M2: else the tools of MCP servers are hidden from the model behind a search.
        env: &[("ENABLE_TOOL_SEARCH", "false")],
        install: "Install Claude's ACP adapter with `npm install -g @agentclientprotocol/claude-agent-acp`",
        login: "Run `claude` in a terminal and use /login there.",
        keeps: CLAUDE_KEEPS,
        always: false,
    },
    Known {
        name: "codex-acp",
        program: "codex-acp",
        args: &[],
        env: &[],
        install: "Install Codex's ACP adapter with `npm install -g @zed-industries/codex-acp`",
        login: "Run `codex login` in a terminal.",
        keeps: Keeps::UNKNOWN,
        always: false,
    },
    Known {
        name: "opencode",
        program: "opencode",
        args: &["acp"],
        env: &[],
        install: "Install OpenCode with `npm install -g opencode-ai`",
        login: "Run `opencode auth login` in a terminal.",
        keeps: Keeps::UNKNOWN,
        always: false,
    },
];

impl Known {
    /// By its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.name == name)
    }

    /// By its provider id.
    pub fn of(provider: &ProviderId) -> Option<&'static Self> {
        Self::named(provider.as_str().strip_prefix("acp:")?)
    }

    /// Its provider id.
    pub fn id(&self) -> Option<ProviderId> {
        format!("acp:{}", self.name).parse().ok()
    }

    /// How it is started.
    pub fn agent(&self) -> Option<AcpAgent> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Some(AcpAgent {
            id: self.id()?,
            program: Program::Search(self.program.to_owned()),
            args: self.args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: self.env.iter().map(owned).collect::<Environment>(),
            keeps: self.keeps,
        })
    }
}

/// The runtimes of all known agents, in the picker's order.
pub fn known_runtimes() -> Vec<AcpRuntime> {
    KNOWN.iter().filter_map(Known::agent).map(AcpRuntime::new).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_known_agent_has_a_provider_of_its_own_and_a_way_on() {
        let ids: BTreeSet<_> = known_runtimes().iter().map(|runtime| runtime.agent().id.clone()).collect();
        assert_eq!(ids.len(), KNOWN.len());
        for known in KNOWN {
            let id = known.id().unwrap();
            assert!(std::ptr::eq(Known::of(&id).unwrap(), known));
            assert_ne!(id.display_name(), known.name, "{id} has no name for people");
            assert!(known.install.starts_with("Install ") && known.login.starts_with("Run `"), "{id}");
        }
        assert!(Known::of(&ProviderId::claude()).is_none());
    }
}
