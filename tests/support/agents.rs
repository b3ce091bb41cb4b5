//! The real CLIs, fenced in: where they are, and an environment in which they can reach nothing but the fake API.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::fake_api::FakeApi;

/// The key that the fenced-in CLIs send; it is good for nothing.
pub const FAKE_KEY: &str = "sk-fake-0000";

/// The real CLIs that tests drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// OpenCode.
    OpenCode,
}

impl Agent {
    /// The command's name on a user's PATH.
    pub fn command(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// The real native binary: from `CHANGEOVER_TEST_CLAUDE` and its like, else where the tests' pinned packages put it.
    ///
    /// # Panics
    /// When it is missing. A test on a real CLI is never skipped in silence.
    pub fn binary(self) -> PathBuf {
        let (variable, package) = match self {
            Self::Claude => ("CHANGEOVER_TEST_CLAUDE", "@anthropic-ai/claude-code-linux-x64/claude"),
            Self::Codex => {
                ("CHANGEOVER_TEST_CODEX", "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
            }
            Self::OpenCode => ("CHANGEOVER_TEST_OPENCODE", "opencode-linux-x64/bin/opencode"),
        };
        let path = match std::env::var_os(variable) {
            Some(given) => PathBuf::from(given),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("agents/node_modules").join(package),
        };
        match path.canonicalize() {
            Ok(found) => found,
            Err(why) => panic!(
                "the real {} is not at {} ({why}): `./dev test` installs it into tests/agents, or set {variable} to its native binary",
                self.command(),
                path.display()
            ),
        }
    }
}

/// A user's home of its own, with the CLIs on its PATH and everything pointed at the fake API.
///
/// The folder is gone when this is dropped; [`AgentHome::env`] is the whole environment: start with a cleared one.
pub struct AgentHome {
    root: TempDir,
    env: BTreeMap<String, String>,
}

impl AgentHome {
    /// Makes the home, with Claude Code and Codex on its PATH; both count as logged in.
    pub fn new(api: &FakeApi) -> Self {
        let root = TempDir::with_prefix("changeover-agents-").expect("a temp folder");
        // A CLI names folders by their true path; a temp folder behind a link would look like another folder.
        let path = root.path().canonicalize().expect("a true path");
        let folder = |name: &str| {
            let folder = path.join(name);
            fs::create_dir_all(&folder).expect("a folder");
            folder
        };
        let (home, tmp, bin) = (folder("home"), folder("tmp"), folder("bin"));
        folder("work");
        for agent in [Agent::Claude, Agent::Codex] {
            std::os::unix::fs::symlink(agent.binary(), bin.join(agent.command())).expect("a link");
        }
        let base = api.base_url();
        let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
        let mut env: BTreeMap<String, String> = [
            ("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", text(&bin))),
            ("HOME", text(&home)),
            ("TMPDIR", text(&tmp)),
            ("LANG", "C.UTF-8".to_owned()),
            ("SHELL", "/bin/bash".to_owned()),
            // Whatever a CLI still tries to reach elsewhere ends at the fake API and is recorded as a stray.
            ("HTTP_PROXY", base.clone()),
            ("HTTPS_PROXY", base.clone()),
            ("http_proxy", base.clone()),
            ("https_proxy", base.clone()),
            ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
            ("no_proxy", "127.0.0.1,localhost".to_owned()),
            ("CLAUDE_CONFIG_DIR", text(&home.join(".claude"))),
            ("ANTHROPIC_BASE_URL", base.clone()),
            ("ANTHROPIC_API_KEY", FAKE_KEY.to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("DISABLE_TELEMETRY", "1".to_owned()),
            ("DISABLE_ERROR_REPORTING", "1".to_owned()),
            ("CODEX_HOME", text(&home.join(".codex"))),
            ("FAKE_API_KEY", FAKE_KEY.to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        // A run under another uid (CI in a container) must not look for a shell of its own.
        env.insert("USER".to_owned(), "tester".to_owned());
        fs::create_dir_all(home.join(".claude")).expect("a folder");
        fs::create_dir_all(home.join(".codex")).expect("a folder");
        let made = Self { root, env };
        made.write_codex_config(&format!(
            "model_provider = \"fake\"\n{CODEX_COMMON}\n[model_providers.fake]\nname = \"Fake\"\nbase_url = \"{base}/v1\"\n\
             wire_api = \"responses\"\nenv_key = \"FAKE_API_KEY\"\nrequest_max_retries = 1\nstream_max_retries = 1\n"
        ));
        made
    }

    /// With OpenCode on its PATH as well, logged in at Anthropic by the key in the environment. Not in every home: its server
    /// takes seconds to start, and an app looks for what is installed.
    pub fn with_opencode(mut self) -> Self {
        let agent = Agent::OpenCode;
        std::os::unix::fs::symlink(agent.binary(), self.bin().join(agent.command())).expect("a link");
        for name in [
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS",
            "OPENCODE_DISABLE_LSP_DOWNLOAD",
            "OPENCODE_DISABLE_SHARE",
        ] {
            self.set(name, "1");
        }
        // It installs the package for plugins there, from the registry, unless it finds it installed.
        let folder = self.opencode_home();
        fs::create_dir_all(folder.join("node_modules")).expect("a folder");
        let installed = serde_json::json!({"packages": {"": {"dependencies": {"@opencode-ai/plugin": "1.18.33"}}}});
        fs::write(folder.join("package-lock.json"), installed.to_string()).expect("a lock file");
        let base = format!("{}/v1", self.env["ANTHROPIC_BASE_URL"]);
        self.write_opencode_config(&serde_json::json!({
            "autoupdate": false,
            "share": "disabled",
            "enabled_providers": ["anthropic"],
            "provider": {"anthropic": {"options": {"baseURL": base}}},
            "model": OPENCODE_MODEL,
            "small_model": OPENCODE_MODEL,
        }));
        self
    }

    /// Replaces OpenCode's opencode.json.
    pub fn write_opencode_config(&self, config: &serde_json::Value) {
        fs::write(self.opencode_home().join("opencode.json"), config.to_string()).expect("a config file");
    }

    /// Takes the keys away: Claude Code says that it is not logged in, and Codex uses its own OpenAI provider
    /// (still pointed at the fake API) without an account.
    pub fn logged_out(mut self) -> Self {
        self.log_out();
        self
    }

    /// The same in place. What is already running keeps the keys it was started with.
    pub fn log_out(&mut self) {
        let base = self.env["ANTHROPIC_BASE_URL"].clone();
        self.env.remove("ANTHROPIC_API_KEY");
        self.env.remove("FAKE_API_KEY");
        self.write_codex_config(&format!("openai_base_url = \"{base}/v1\"\n{CODEX_COMMON}"));
    }

    /// Replaces Codex's config.toml.
    pub fn write_codex_config(&self, text: &str) {
        fs::write(self.codex_home().join("config.toml"), text).expect("a config file");
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// Takes a variable away.
    pub fn unset(&mut self, name: &str) {
        self.env.remove(name);
    }

    /// The whole environment, as a user's login shell would have it.
    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// The folder that holds all of it.
    pub fn root(&self) -> PathBuf {
        self.root.path().canonicalize().expect("a true path")
    }

    /// An empty folder to work in.
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// The user's home.
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Where the CLIs are on this PATH; remove or replace a link to play a missing or broken binary.
    pub fn bin(&self) -> PathBuf {
        self.root().join("bin")
    }

    /// Claude Code's folder.
    pub fn claude_home(&self) -> PathBuf {
        self.home().join(".claude")
    }

    /// OpenCode's folder for its configuration.
    pub fn opencode_home(&self) -> PathBuf {
        self.home().join(".config/opencode")
    }

    /// Codex's folder.
    pub fn codex_home(&self) -> PathBuf {
        self.home().join(".codex")
    }
}

/// The model that OpenCode uses here by default.
pub const OPENCODE_MODEL: &str = "anthropic/claude-sonnet-4-5";

/// What every Codex config here says. Plugins off, else it starts `git` to fetch a catalogue.
const CODEX_COMMON: &str = "model = \"gpt-5-codex\"\ncheck_for_update_on_startup = false\n\n[features]\nplugins = false\n\n[analytics]\nenabled = false\n";
