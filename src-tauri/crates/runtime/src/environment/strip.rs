//! What a child must not be given: other providers' keys, and what an outer session left in the environment.

use std::{fs::File, io::Read as _, path::PathBuf};

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
    (Owner::Alibaba, &["DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY", "MODELSCOPE_API_KEY"]),
    (Owner::Moonshot, &["MOONSHOT_API_KEY", "KIMI_API_KEY"]),
    (
        Owner::Nobody,
        &[
            "OPENROUTER_API_KEY",
            "MISTRAL_API_KEY",
            "GROQ_API_KEY",
            "DEEPSEEK_API_KEY",
            "XAI_API_KEY",
            "ZAI_API_KEY",
            "ZHIPU_API_KEY",
            "MINIMAX_API_KEY",
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
    Alibaba,
    Moonshot,
    /// Agents that can use any of them take these; Claude Code and Codex do not.
    Nobody,
}

/// The names of all keys that are known, by whomever they belong to.
pub fn provider_keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|(_, names)| names.iter().copied())
}

/// All names that this file takes away from somebody.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    provider_keys().chain(LEFTOVERS.iter().copied())
}

/// Whose keys a provider's child may have. Agents that serve several vendors (OpenCode, Goose, Copilot CLI, any that the user
/// named) take them all.
fn keeps(provider: &str) -> &'static [Owner] {
    match provider {
        "claude" | "acp:claude-agent-acp" => &[Owner::Anthropic],
        "codex" | "acp:codex-acp" => &[Owner::OpenAi],
        "acp:gemini" => &[Owner::Google],
        // Qwen Code speaks to any endpoint of OpenAI's kind, under OpenAI's names.
        "acp:qwen" => &[Owner::OpenAi, Owner::Alibaba],
        "acp:kimi" => &[Owner::Moonshot],
        "practice" => &[],
        _ => &[Owner::Anthropic, Owner::OpenAi, Owner::Google, Owner::Alibaba, Owner::Moonshot, Owner::Nobody],
    }
}

/// The environment for `provider`'s child: `env` without the keys of providers it is not, and without what an outer session
/// left. A key that Codex's own configuration names (`env_key`) is Codex's own; the practice agent needs none.
#[must_use]
pub fn for_provider(mut env: Environment, provider: &ProviderId) -> Environment {
    let keeps = keeps(provider.as_str());
    let named = if matches!(provider.as_str(), "codex" | "acp:codex-acp") { named_by_codex(&env) } else { Vec::new() };
    for (_, names) in KEYS.iter().filter(|(owner, _)| !keeps.contains(owner)) {
        for name in names.iter().filter(|name| !named.iter().any(|own| own == *name)) {
            env.remove(*name);
        }
    }
    for name in LEFTOVERS {
        env.remove(*name);
    }
    env
}

/// The variables that Codex's configuration takes keys from.
fn named_by_codex(env: &Environment) -> Vec<String> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder =
        set("CODEX_HOME").or_else(|| set("HOME").or_else(|| set("USERPROFILE")).map(|home| home.join(".codex")));
    let Some(Ok(file)) = folder.map(|folder| File::open(folder.join("config.toml"))) else { return Vec::new() };
    let mut text = String::new();
    // What cannot be read names nothing; Codex will say what is wrong with it.
    if file.take(1024 * 1024).read_to_string(&mut text).is_err() {
        return Vec::new();
    }
    let value = |line: &str| {
        let value = line.trim().strip_prefix("env_key")?.trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        value[1..].split_once(quote).map(|(name, _)| name.to_owned())
    };
    text.lines().filter_map(value).collect()
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
        assert_eq!(names("acp:my-own"), with(&["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"]));
    }

    #[test]
    fn r113_a_key_that_codex_is_configured_with_is_its_own() {
        let home = tempfile::tempdir().unwrap();
        let config = "model_provider = \"or\"\n[model_providers.or]\n  env_key = \"OPENROUTER_API_KEY\" # mine\n";
        std::fs::write(home.path().join("config.toml"), config).unwrap();
        let env = Environment::from([
            ("CODEX_HOME".into(), home.path().to_str().unwrap().into()),
            ("OPENROUTER_API_KEY".into(), "x".into()),
            ("GROQ_API_KEY".into(), "x".into()),
        ]);
        let of = |provider: &str| for_provider(env.clone(), &provider.parse().unwrap()).into_keys().collect::<Vec<_>>();
        assert_eq!(of("codex"), ["CODEX_HOME", "OPENROUTER_API_KEY"]);
        assert_eq!(of("claude"), ["CODEX_HOME"]);
    }

    #[test]
    fn r044_what_windows_programs_need_goes_through() {
        let env: Environment = ["USERPROFILE", "APPDATA", "LOCALAPPDATA", "TEMP", "SystemRoot", "ComSpec", "PATHEXT"]
            .map(|name| (name.to_owned(), r"C:\Users\Ada L\x".to_owned()))
            .into();
        for provider in ["claude", "codex", "practice", "acp:gemini", "opencode"] {
            assert_eq!(for_provider(env.clone(), &provider.parse().unwrap()), env, "{provider}");
        }
    }
}
