//! Context, window, and Codex's own compaction, which stays off (G2, G3).

use changeover_core::event::RuntimeEvent;
use changeover_core::failure::FailureKind;
use changeover_core::usage::ContextFigure;
use changeover_runtime::session::{AgentRuntime, SessionSpec};

use super::bench::Bench;
use crate::drive::said;

fn figures(events: &[RuntimeEvent]) -> Vec<ContextFigure> {
    let figure = |event: &RuntimeEvent| match event {
        RuntimeEvent::Context(figure) => Some(*figure),
        _ => None,
    };
    events.iter().filter_map(figure).collect()
}

fn figure(used: u64, window: u64) -> ContextFigure {
    ContextFigure { used, window: Some(window) }
}

/// Far above every line at which Codex would compact, and then on.
async fn never_compacts(bench: &Bench, model: Option<&str>, window: u64) {
    let spec = SessionSpec { model: model.map(str::to_owned), ..bench.spec() };
    let mut open = bench.open(spec).await;
    let first = open.turn("one[[usage:500000:7]]").await;
    assert_eq!(figures(&first), [figure(500_007, window)]);
    let rounds = open.turn("two[[tool:bash:true]][[usage:600000:7]]").await;
    assert_eq!(figures(&rounds), [figure(600_007, window); 2], "the last request, never a sum");
    let requests = bench.api.requests().len();
    open.turn("three").await;
    assert_eq!(bench.api.requests().len(), requests + 1);
    assert!(!open.seen.contains(&RuntimeEvent::Compacted));
    let told: Vec<_> = bench.told().into_iter().filter(|(role, _)| role == "user").collect();
    let prompts = ["one[[usage:500000:7]]", "two[[tool:bash:true]][[usage:600000:7]]", "three"];
    assert_eq!(told, said(&prompts.map(|prompt| ("user", prompt))), "all of it is still there");
    open.close().await;
}

#[tokio::test]
async fn compaction_is_off_for_models_in_the_catalogue_and_for_others() {
    let bench = Bench::new().await;
    let config = std::fs::read_to_string(bench.home.codex_home().join("config.toml")).expect("a config");
    never_compacts(&bench, Some("gpt-5.5"), 258_400).await;
    never_compacts(&bench, None, 258_400).await;
    never_compacts(&bench, Some("nobody-knows-it"), 258_400).await;
    let after = std::fs::read_to_string(bench.home.codex_home().join("config.toml")).expect("a config");
    assert_eq!(after, config, "the user's own configuration is never written");
}

#[tokio::test]
async fn a_window_of_the_users_own_is_the_true_one_and_compacts_nothing() {
    let bench = Bench::new().await;
    let config = std::fs::read_to_string(bench.home.codex_home().join("config.toml")).expect("a config");
    let smaller = format!("model_context_window = 100000\nmodel_auto_compact_token_limit = 50000\n{config}");
    bench.home.write_codex_config(&smaller);
    never_compacts(&bench, Some("gpt-5.5"), 95_000).await;
    let models = bench.runtime.models(&bench.env()).await.expect("models");
    let listed = models.iter().find(|model| model.id == "gpt-5.5").expect("listed");
    assert_eq!(listed.window, Some(95_000));
}

#[tokio::test]
async fn after_an_overflow_a_session_brought_back_does_not_compact() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    let id = open.id().await;
    let anchor = open.answered("one[[usage:200000:5]]").await;
    let events = open.turn("two[[error:toolong]]").await;
    assert!(
        matches!(events.last(), Some(RuntimeEvent::Ended(changeover_core::event::Ended::Failed(failure))) if failure.kind == FailureKind::Overflow)
    );
    let told = figures(&events);
    assert!(told.iter().all(|told| *told == figure(200_005, 258_400)), "a full window is no figure: {told:?}");
    open.close().await;
    let mut open = bench.open(bench.resuming(&id, Some(&anchor))).await;
    let requests = bench.api.requests().len();
    open.answered("three").await;
    assert_eq!(bench.api.requests().len(), requests + 1);
    let expected = said(&[("user", "one[[usage:200000:5]]"), ("assistant", "echo: one"), ("user", "three")]);
    assert_eq!(bench.told(), expected);
    open.close().await;
}

#[tokio::test]
async fn a_compaction_that_happens_all_the_same_is_told() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    open.failed("one[[error:toolong]]").await;
    // Not brought back: Codex then makes room by itself.
    let events = open.turn("two").await;
    assert!(events.contains(&RuntimeEvent::Compacted), "{events:#?}");
    open.close().await;
}
