//! Detection and models (R2, R6).

use changeover_core::failure::FailureKind;
use changeover_runtime::{
    claude::Claude,
    session::{AgentRuntime, Login, SessionSpec},
};
use changeover_tests::{
    agents::{Agent, AgentHome, FAKE_KEY},
    fake_api::FakeApi,
};

use super::bench::{open_with, spec};

#[tokio::test]
async fn it_is_found_with_version_login_and_models_or_told_why_not() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let claude = Claude::default();
    let found = claude.describe(home.env()).await;
    assert_eq!(found.problem, None);
    assert_eq!(found.login, Login::In { method: "API key".into() });
    let version = found.version.expect("a version");
    assert!(version.split('.').count() == 3 && version.bytes().all(|b| b.is_ascii_digit() || b == b'.'), "{version}");
    assert_eq!(found.path.and_then(|p| p.canonicalize().ok()), Some(Agent::Claude.binary()));
    let models = claude.models(home.env()).await.expect("models");
    assert_eq!(models.iter().filter(|m| m.default).count(), 1);
    let opus = models.iter().find(|m| m.id == "opus").expect("opus");
    assert_eq!((opus.name.as_str(), opus.efforts.first().map(String::as_str)), ("Opus", Some("low")));
    // Each is taken as it was offered.
    let chosen = SessionSpec { model: Some("haiku".into()), effort: Some("high".into()), ..spec(&home) };
    let mut talk = open_with(chosen).await;
    talk.completed("one [[say:r1]]").await;
    let turns = api.turns();
    assert!(turns[0].body["model"].as_str().is_some_and(|model| model.contains("haiku")), "{}", turns[0].body["model"]);
    assert_eq!(turns[0].body["output_config"]["effort"], "high");
    assert_eq!(turns[0].auth.as_deref(), Some(FAKE_KEY));
    assert!(turns[0].body["tools"].as_array().expect("tools").iter().all(|t| t["name"] != "AskUserQuestion"));

    let out = AgentHome::new(&api).logged_out();
    let described = claude.describe(out.env()).await;
    assert!(matches!(described.login, Login::Out { .. }), "{described:?}");
    let refused = claude.open(spec(&out)).await.err().expect("it is not logged in");
    assert_eq!(refused.kind, FailureKind::NotLoggedIn);
    std::fs::remove_file(out.bin().join("claude")).expect("a link");
    let missing = claude.describe(out.env()).await;
    assert_eq!((missing.path, missing.problem.map(|p| p.kind)), (None, Some(FailureKind::NotInstalled)));
    let refused = claude.open(spec(&out)).await.err().expect("it is not there");
    assert_eq!(refused.kind, FailureKind::NotInstalled);
    claude.pick(Some(Agent::Claude.binary()));
    assert_eq!(claude.describe(out.env()).await.found.as_deref(), Some("picked by hand"));
}
