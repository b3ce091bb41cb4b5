//! What a child must not be given: other providers' keys, and what an outer session left in the environment.

use changeover_core::provider::ProviderId;

use crate::session::Environment;

/// Keys by whom they belong to. Only credentials: base URLs and configuration folders stay (R6).
const KEYS: &[(Owner, &[&str])] = &[
    (
        Owner::Anthropic,
        &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_REFRESH_TOKEN"],
    ),
    (Owner::OpenAi, &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "AZURE_OPENAI_API_KEY"]),
    (Owner::Google, &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"]),
    (
        Owner::Nobody,
        &[
            "OPENROUTER_API_KEY",
            "MISTRAL_API_KEY",
            "GROQ_API_KEY",
            "DEEPSEEK_API_KEY",
            "XAI_API_KEY",
            "MOONSHOT_API_KEY",
            "DASHSCOPE_API_KEY",
            "CEREBRAS_API_KEY",
            "TOGETHER_API_KEY",
            "FIREWORKS_API_KEY",
            "PERPLEXITY_API_KEY",
            "COHERE_API_KEY",
        ],
    ),
];

/// Left by a session that this app, or a test of it, was itself started from.
const LEFTOVERS: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_EXECPATH",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_THREAD_ID",
    "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
    "OPENCODE",
    "GEMINI_CLI",
    "AI_AGENT",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Anthropic,
    OpenAi,
    Google,
    /// Agents that can use any of them take these; Claude Code and Codex do not.
    Nobody,
}

/// The environment for `provider`'s child: `env` without the keys of providers it is not, and without what an outer session
/// left. Codex's `env_key` can name any variable, so nothing is removed but the known names. Agents that serve several
/// providers (OpenCode, ACP agents) keep all keys; the practice agent needs none.
#[must_use]
pub fn for_provider(mut env: Environment, provider: &ProviderId) -> Environment {
    let keeps: &[Owner] = match provider.as_str() {
        "claude" => &[Owner::Anthropic],
        "codex" => &[Owner::OpenAi],
        "practice" => &[],
        "acp:gemini" => &[Owner::Google],
        "acp:claude-agent-acp" => &[Owner::Anthropic],
        "acp:codex-acp" => &[Owner::OpenAi],
        _ => &[Owner::Anthropic, Owner::OpenAi, Owner::Google, Owner::Nobody],
    };
    for (_, names) in KEYS.iter().filter(|(owner, _)| !keeps.contains(owner)) {
        for name in *names {
            env.remove(*name);
        }
    }
    for name in LEFTOVERS {
        env.remove(*name);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(provider: &str) -> Vec<String> {
        let all = [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "CLAUDECODE",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "GEMINI_API_KEY",
            "MY_OWN_KEY",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
        ];
        let env = all.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
        for_provider(env, &provider.parse().unwrap()).into_keys().collect()
    }

    #[test]
    fn a_child_gets_its_own_keys_and_no_others() {
        let shared = ["ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "MY_OWN_KEY", "OPENAI_BASE_URL"];
        let with = |key: &[&str]| {
            let mut list: Vec<_> = shared.iter().chain(key).map(|name| (*name).to_owned()).collect();
            list.sort();
            list
        };
        assert_eq!(names("claude"), with(&["ANTHROPIC_API_KEY"]));
        assert_eq!(names("codex"), with(&["OPENAI_API_KEY"]));
        assert_eq!(names("practice"), with(&[]));
        assert_eq!(names("acp:gemini"), with(&["GEMINI_API_KEY"]));
        assert_eq!(names("acp:claude-agent-acp"), with(&["ANTHROPIC_API_KEY"]));
        assert_eq!(names("acp:codex-acp"), with(&["OPENAI_API_KEY"]));
        assert_eq!(names("acp:goose"), with(&["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"]));
    }
}
