//! EA3 and the reports on PATH, shims and processes, on the real app: what only a login shell knows is found, what is missing
//! is said with a way on, a broken profile harms nothing; and what was found is what runs (R6).

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use changeover_core::provider::ProviderId;
use changeover_engine::api::types::{ProviderListResponse, ProviderState, ProviderTestResponse, ProviderView};
use changeover_tests::{
    agents::{Agent, AgentHome},
    app::{App, binary},
    fake_api::FakeApi,
    talk::Talk,
};
use serde::de::DeserializeOwned;
use tokio::process::Command;

/// A person's home with a login shell of their own, and nothing else.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::TempDir::with_prefix("changeover-places-").expect("a temp folder");
        for folder in ["home", "only shell/bin", "data", "work"] {
            fs::create_dir_all(dir.path().join(folder)).expect("a folder");
        }
        Self { dir }
    }

    fn at(&self, below: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("a true path").join(below)
    }

    fn profile(&self, text: &str) {
        fs::write(self.at("home/.bash_profile"), text).expect("a profile");
    }

    /// A program that stands for an agent's: it says its version and from where it was started.
    fn agent(&self, path: &str) -> PathBuf {
        let file = self.at(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(&file, "#!/bin/sh\ncase $1 in --version) echo \"9.8.7 (Claude Code)\";; *) exit 1;; esac\n")
            .expect("it");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it can be run");
        file
    }

    /// The app as a graphical session starts it: `PATH=/usr/bin:/bin` and the login shell's name.
    async fn changeover(&self, args: &[&str]) -> (Output, Duration) {
        let begun = Instant::now();
        let mut command = Command::new(binary());
        command.args(args).arg("--data").arg(self.at("data")).current_dir("/").env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.at("home")).env("SHELL", "/bin/bash");
        command.env("TMPDIR", self.dir.path()).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await;
        (output.expect("it ends").expect("it runs"), begun.elapsed())
    }

    async fn json<R: DeserializeOwned>(&self, args: &[&str]) -> (R, Duration) {
        let (output, took) = self.changeover(&[args, &["--json"]].concat()).await;
        let text = String::from_utf8(output.stdout).expect("text");
        let complaints = String::from_utf8_lossy(&output.stderr);
        (serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{complaints}")), took)
    }

    async fn claude(&self) -> (ProviderView, Duration) {
        let (list, took): (ProviderListResponse, _) = self.json(&["providers"]).await;
        let claude = list.providers.into_iter().find(|one| one.id == ProviderId::claude()).expect("claude");
        (claude, took)
    }
}

/// What a profile does that is no business of ours: prints to both streams, lays false markers, sets odd values.
const NOISE: &str =
    "printf 'Welcome </x> PATH=/evil\\n\\033[2J'; echo broken >&2; set -v; export ODD=$'a\\nPATH=/evil'\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ea3_an_agent_that_only_the_login_shell_knows_is_found_through_a_noisy_profile() {
    let home = Home::new();
    let agent = home.agent("only shell/bin/claude");
    let folder = home.at("only shell/bin");
    home.profile(&format!("{NOISE}export PATH=\"{}:$PATH\"\n{NOISE}", folder.display()));
    let (claude, took) = home.claude().await;
    assert_eq!(claude.path.as_deref(), agent.to_str(), "{claude:?}");
    assert_eq!((claude.found.as_deref(), claude.version.as_deref()), (Some("login shell"), Some("9.8.7")));
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// R036: a bare PATH, the agent and its Node in a folder of a version manager that no profile names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r036_an_agent_and_its_node_in_a_usual_folder_run_under_a_bare_path() {
    let home = Home::new();
    let node = home.at("home/.volta/bin/node");
    let agent = home.agent("home/.volta/bin/claude");
    // Started as npm's launchers are, by `env`. Beside the Node, by a name that no system folder has: a Node may be there too.
    let beside = home.at("home/.volta/bin/node-of-volta");
    fs::write(&agent, "#!/usr/bin/env node-of-volta\nsay\n").expect("a launcher");
    for file in [&node, &beside] {
        fs::write(file, "#!/bin/sh\necho \"9.8.7 by $0\"\n").expect("a node");
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }
    let (claude, _) = home.claude().await;
    assert_eq!((claude.path.as_deref(), claude.found.as_deref()), (agent.to_str(), Some("usual folder")));
    assert_eq!(claude.version, Some(format!("9.8.7 by {}", beside.display())));
}

/// R038, EA3: nothing anywhere, and a profile that hangs for good: said within 10 s, with a way on, by the JSON and in words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ea3_r038_what_is_missing_is_said_within_ten_seconds_though_the_profile_hangs() {
    let home = Home::new();
    home.profile("trap '' TERM INT HUP; echo $$ > \"$HOME/pid\"; while :; do sleep 100; done\n");
    let (claude, took) = home.claude().await;
    assert_eq!((claude.state, claude.path), (ProviderState::NotFound, None));
    let problem = claude.problem.expect("a problem");
    assert!(problem.message.starts_with("claude is not installed"), "{problem:?}");
    let hint = problem.hint.expect("a way on");
    assert!(hint.contains("npm install -g") && hint.contains("by hand"), "{hint}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let pid = fs::read_to_string(home.at("home/pid")).expect("the profile ran");
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "the hanging shell was ended");

    let (output, _) = home.changeover(&["providers"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("not found") && text.contains(&hint), "{text}");
}

/// A profile that hangs harms nobody who is found without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ea3_a_hanging_profile_hides_no_agent_of_a_usual_folder() {
    let home = Home::new();
    let agent = home.agent("home/.local/bin/claude");
    home.profile("sleep 1000\n");
    let (claude, _) = home.claude().await;
    assert_eq!((claude.path.as_deref(), claude.version.as_deref()), (agent.to_str(), Some("9.8.7")));
}

/// R039: sent all the same, the message names the program and how to get it; nothing was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r039_sending_to_a_missing_agent_names_it_and_the_way_on() {
    let home = Home::new();
    let work = home.at("work");
    let args = ["run", "--project", work.to_str().expect("a path"), "--provider", "claude", "hello"];
    let (output, _) = home.changeover(&args).await;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success());
    assert!(said.contains("claude is not installed") && said.contains("npm install -g"), "{said}");
}

/// A test says what happened without asking a model: of a missing one, of one that does not speak, of one that works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_a_test_starts_the_agent_and_says_what_happened() {
    let home = Home::new();
    home.agent("home/.local/bin/claude");
    let (codex, _): (ProviderTestResponse, _) = home.json(&["providers", "--test", "codex"]).await;
    assert!(codex.problem.expect("missing").message.starts_with("codex is not installed"));
    let (claude, _): (ProviderTestResponse, _) = home.json(&["providers", "--test", "claude"]).await;
    assert!(claude.problem.is_some() && claude.path.is_some(), "it only says its version: {claude:?}");
    let (practice, _): (ProviderTestResponse, _) = home.json(&["providers", "--test", "practice"]).await;
    assert_eq!(practice.problem, None);

    let api = FakeApi::start().await;
    let agents = AgentHome::new(&api);
    let app = App::start(&agents).await;
    for provider in [ProviderId::claude(), ProviderId::codex()] {
        let params = serde_json::json!({"provider": provider});
        let test: ProviderTestResponse = app.get("provider/test", &params).await;
        assert_eq!(test.problem, None, "{provider}");
    }
    let asked = api.requests().into_iter().filter(|request| !request.user_text.is_empty()).count();
    assert_eq!((asked, api.strays()), (0, Vec::new()), "no model was asked");
    assert_eq!(app.agent_pids(Agent::Claude, &app_folder(&agents)), [0; 0], "what was started has ended");
    app.stop().await;
}

fn app_folder(home: &AgentHome) -> PathBuf {
    home.root().join("data/try")
}

/// R041, R045: the exact text goes through standard input, whatever it holds; and the program that was found is the one that
/// runs.
async fn exact_text(agent: Agent, provider: ProviderId) {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = Talk::new(&api, App::start(&home).await, &home.work()).await;
    let odd = "a \"quoted\" 'word', %PATH% & $(echo no) `no` ^ ! \\ <x> | y;\nand a second line\ttab";
    let gate = "[[gate_before:odd]]";
    let (_, mark) = talk.begin(&provider, &format!("{odd}\n{gate}")).await;
    api.wait_gate("odd").await;
    let pids = talk.app.agent_pids(agent, &home.work());
    let running = fs::read_link(format!("/proc/{}/exe", pids[0])).expect("its program");
    let view = talk.app.provider(&provider).await;
    assert_eq!(fs::canonicalize(view.path.expect("a path")).expect("a true path"), running);
    let line = fs::read(format!("/proc/{}/cmdline", pids[0])).expect("its arguments");
    assert!(!String::from_utf8_lossy(&line).contains("second line"), "no word of it is an argument");
    api.open_gate("odd");
    talk.sent(mark).await;
    let got = api.requests().into_iter().filter(|request| request.user_text.contains(odd)).count();
    assert!(got > 0, "the model got other text than was sent");
    talk.app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r041_r045_claude_gets_the_exact_text_from_the_program_that_was_found() {
    exact_text(Agent::Claude, ProviderId::claude()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r041_r045_codex_gets_the_exact_text_from_the_program_that_was_found() {
    exact_text(Agent::Codex, ProviderId::codex()).await;
}

/// The page for a report of a fault: everything that helps, and no secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diagnostics_name_everything_and_keep_four_characters_of_a_key() {
    let home = Home::new();
    let agent = home.agent("only shell/bin/claude");
    let secrets = ["sk-ant-0123456789", "hunter2hunter2", "tok_abcdefgh"];
    home.profile(&format!(
        "export PATH=\"{}:$PATH\" ANTHROPIC_API_KEY={} ANTHROPIC_BASE_URL=https://ada:{}@proxy.example/v1 MY_TOKEN={} \
         ANTHROPIC_CUSTOM_HEADERS=x\n",
        home.at("only shell/bin").display(),
        secrets[0],
        secrets[1],
        secrets[2],
    ));
    let (output, _) = home.changeover(&["diagnostics"]).await;
    let page = String::from_utf8(output.stdout).expect("text");
    for wanted in [
        concat!("- version: ", env!("CARGO_PKG_VERSION")),
        "- login shell: /bin/bash answered and named ",
        "- ANTHROPIC_API_KEY: sk-a…",
        "- ANTHROPIC_BASE_URL: https://…@proxy.example/v1",
        "version 9.8.7",
        "(login shell)",
        "- Codex (codex): not found",
        "npm install -g",
        "## Frames that no adapter knows",
        "## Last errors",
    ] {
        assert!(page.contains(wanted), "{wanted:?} is not in\n{page}");
    }
    assert!(page.contains(agent.to_str().expect("a path")), "{page}");
    assert!(page.contains("data folder: ") && page.contains(home.at("data").to_str().expect("a path")), "{page}");
    for secret in secrets {
        assert!(!page.contains(secret), "{secret} is in\n{page}");
    }
}
