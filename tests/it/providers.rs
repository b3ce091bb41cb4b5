//! R2: what an agent cannot do is said where it is chosen, the same to a person and to a script.

use std::process::Output;

use changeover_core::power::Power;
use changeover_tests::{agents::AgentHome, app::binary, fake_api::FakeApi};
use serde_json::Value;
use tokio::process::Command;

async fn providers(home: &AgentHome, more: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.arg("providers").arg("--data").arg(home.root().join("data")).args(more).current_dir(home.home());
    command.env_clear().envs(home.env()).env("CHANGEOVER_NO_SHELL", "1").kill_on_drop(true);
    let Output { status, stdout, stderr } = command.output().await.expect("it runs");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_what_an_agent_cannot_do_is_said_in_words() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let told: Value = serde_json::from_str(&providers(&home, &["--json"]).await).expect("JSON");
    let cannot = |id: &str| {
        let all = told["providers"].as_array().expect("providers");
        let one = all.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("no {id} in {told:#}"));
        let list = one["cannot"].as_array().expect("a list").iter();
        list.map(|one| (one["power"].clone(), one["message"].clone())).collect::<Vec<_>>()
    };
    for id in ["claude", "codex"] {
        assert_eq!(cannot(id), [], "{id}");
    }
    let lacks = [("fork", Power::Fork), ("mcp", Power::Mcp)].map(|(name, power)| (name.into(), power.missing().into()));
    assert_eq!(cannot("practice"), lacks);
    let text = providers(&home, &[]).await;
    assert!(lacks.iter().all(|(_, words)| text.contains(words.as_str().expect("words"))), "{text}");
    assert_eq!(api.requests().len(), 0);
}
