//! The handover's text in three (DESIGN hop 4): sizes are read, `select` chooses, the chosen bodies are read, `render` frames
//! them. Preview and turn both come through here, so that they are the same bytes (H1).

use changeover_core::{
    failure::{Failure, FailureKind},
    handoff::{
        budget,
        items::Scope,
        render::{self, Frame, Takeover},
        select,
    },
    id::ThreadId,
    notice::Handover,
    provider::{ProviderId, Target},
    transition::{Transition, TransitionKind},
};

use crate::engine::Inner;

/// Name of the setting for the handoff budget in bytes (B1).
pub(crate) const BUDGET_SETTING: &str = "handoff.budget";

/// Makes the handover for a transition; `None` for fresh and reuse, which tell nothing.
pub(crate) async fn handover(
    inner: &Inner,
    thread: ThreadId,
    target: &Target,
    transition: Transition,
    scope: Scope,
    from: Option<ProviderId>,
) -> Result<Option<(Handover, String)>, Failure> {
    if matches!(transition.kind, TransitionKind::Fresh | TransitionKind::Reuse) {
        return Ok(None);
    }
    let setting = inner.setting_u64(BUDGET_SETTING).await.unwrap_or(budget::DEFAULT);
    let budget = budget::bytes(inner.window_of(target), setting);
    let frame = Frame { kind: transition.kind, thread_read: inner.offers_thread_read(&target.provider).then_some(thread) };
    let takeover =
        Takeover { provider: target.provider.clone(), model: target.model.clone(), from, kind: transition.kind };
    let store = inner.store.clone();
    let made = tokio::task::spawn_blocking(move || {
        let mut sizes = store.item_sizes(thread, scope)?;
        let selection = select::select(&mut sizes, budget, None)?;
        let places: Vec<_> = selection.chosen.iter().map(|item| item.place).collect();
        let items = store.content(thread, &places)?;
        let text = render::render(&frame, &selection, None, &items);
        let notice = render::notice(takeover, &selection, &text);
        Ok::<_, changeover_store::StoreError>((notice, text))
    })
    .await;
    match made {
        Ok(Ok(made)) => Ok(Some(made)),
        Ok(Err(error)) => Err(Failure::new(FailureKind::Protocol, format!("The history could not be read: {error}"))
            .hint("Nothing was sent. Send the message again.")),
        Err(_) => Err(Failure::new(FailureKind::Protocol, "Making the handover was cut off.")
            .hint("Nothing was sent. Send the message again.")),
    }
}

/// What `turn/start` compares (H1): the transition and the exact text.
pub(crate) fn preview_hash(target: &Target, kind: TransitionKind, handover: Option<&Handover>) -> String {
    let model = target.model.as_deref().unwrap_or("");
    let text = handover.map_or("", |h| h.hash.as_str());
    render::hash(&format!("{}\n{model}\n{kind:?}\n{text}", target.provider))
}
