//! What is known of the providers: found or not, models, windows, and the environment that they are run with.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use changeover_core::{
    failure::FailureKind,
    power::Cannot,
    provider::{ApprovalMode, ProviderId, Target},
};
use changeover_runtime::{
    acp::Known as KnownAgent,
    environment::{Repaired, repaired},
    session::{Description, Environment, Login, ModelInfo},
};
use tokio::sync::OnceCell;

use crate::api::types::{ModelView, ProviderState, ProviderView};

/// The environment that agents are found and run in, and how it came about.
pub(crate) type Ground = Repaired;

/// The providers as last looked at.
pub(crate) struct Catalogue {
    base: Environment,
    repair: bool,
    ground: Mutex<Arc<OnceCell<Ground>>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The picker's order.
    order: Vec<ProviderId>,
    descriptions: BTreeMap<ProviderId, Description>,
    cannot: BTreeMap<ProviderId, Vec<Cannot>>,
    models: BTreeMap<ProviderId, Vec<ModelInfo>>,
    windows: HashMap<(ProviderId, Option<String>), u64>,
}

impl Catalogue {
    pub(crate) fn new(order: Vec<ProviderId>, base: Environment, repair: bool) -> Self {
        let known = Mutex::new(Known { order, ..Known::default() });
        Self { base, repair, ground: Mutex::default(), known }
    }

    /// The providers on offer from now on; what is known of others is forgotten.
    pub(crate) fn set_order(&self, order: Vec<ProviderId>) {
        let mut known = self.known();
        known.descriptions.retain(|id, _| order.contains(id));
        known.models.retain(|id, _| order.contains(id));
        known.order = order;
    }

    /// Nothing is known of a provider any more: it is another one under the same name.
    pub(crate) fn forget(&self, provider: &ProviderId) {
        let mut known = self.known();
        known.descriptions.remove(provider);
        known.models.remove(provider);
        known.windows.retain(|(whose, _), _| whose != provider);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user's home folder.
    pub(crate) fn home(&self) -> Option<String> {
        self.base.get("HOME").or_else(|| self.base.get("USERPROFILE")).cloned()
    }

    /// The user's environment, repaired from the login shell (R6), and how it came about: asked for once, and again after
    /// [`Self::forget_environment`].
    pub(crate) async fn ground(&self) -> Ground {
        let cell = Arc::clone(&self.ground.lock().unwrap_or_else(PoisonError::into_inner));
        let ground = cell.get_or_init(|| async {
            if !self.repair {
                return Ground { env: self.base.clone(), from_shell: Vec::new(), shell: None, problem: None };
            }
            let ground = repaired(self.base.clone()).await;
            if let Some(problem) = &ground.problem {
                tracing::info!(%problem, "the login shell's environment could not be read");
            }
            ground
        });
        ground.await.clone()
    }

    /// The environment alone.
    pub(crate) async fn environment(&self) -> Environment {
        self.ground().await.env
    }

    /// The next who needs the environment has the login shell asked anew.
    pub(crate) fn forget_environment(&self) {
        *self.ground.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    pub(crate) fn put_description(&self, provider: &ProviderId, description: Description, cannot: Vec<Cannot>) {
        let mut known = self.known();
        known.descriptions.insert(provider.clone(), description);
        known.cannot.insert(provider.clone(), cannot);
    }

    pub(crate) fn put_models(&self, provider: &ProviderId, models: Vec<ModelInfo>) {
        self.known().models.insert(provider.clone(), models);
    }

    pub(crate) fn is_ready(&self, provider: &ProviderId) -> bool {
        self.known().descriptions.get(provider).is_some_and(|d| d.problem.is_none())
    }

    /// Takes back that a provider gave no answer in time; whether that was said.
    pub(crate) fn was_only_slow(&self, provider: &ProviderId) -> bool {
        let mut known = self.known();
        let slow = |d: &&mut Description| d.problem.as_ref().is_some_and(|p| p.kind == FailureKind::NoProgress);
        let found = known.descriptions.get_mut(provider).filter(slow);
        found.map(|description| description.problem = None).is_some()
    }

    pub(crate) fn learn_window(&self, provider: &ProviderId, model: Option<&str>, window: u64) {
        self.known().windows.insert((provider.clone(), model.map(str::to_owned)), window);
    }

    pub(crate) fn window_of(&self, provider: &ProviderId, model: Option<&str>) -> Option<u64> {
        let known = self.known();
        let reported = known.windows.get(&(provider.clone(), model.map(str::to_owned))).copied();
        reported.or_else(|| {
            let models = known.models.get(provider)?;
            models.iter().find(|m| model.map_or(m.default, |id| m.id == id))?.window
        })
    }

    /// Who answers in a thread that nobody has chosen for: the first agent that is ready, else the practice agent.
    pub(crate) fn default_target(&self) -> Target {
        let known = self.known();
        let ready = |id: &&ProviderId| known.descriptions.get(*id).is_some_and(|d| d.problem.is_none());
        let provider = known.order.iter().find(ready).cloned().unwrap_or_else(ProviderId::practice);
        Target { provider, model: None, effort: None, mode: ApprovalMode::Ask }
    }

    /// All providers as the picker shows them: of the agents that are known by name only those that are there.
    pub(crate) fn views(&self) -> Vec<ProviderView> {
        let order = self.known().order.clone();
        let quiet = |id: &ProviderId| KnownAgent::of(id).is_some_and(|known| !known.always);
        let views = order.iter().map(|id| self.view(id));
        views
            .filter(|view| !(quiet(&view.id) && matches!(view.state, ProviderState::Looking | ProviderState::NotFound)))
            .collect()
    }

    /// One provider, as it stands.
    pub(crate) fn view(&self, id: &ProviderId) -> ProviderView {
        let known = self.known();
        let models = known.models.get(id).map(Vec::as_slice).unwrap_or_default();
        view(id, known.descriptions.get(id), models, known.cannot.get(id).cloned().unwrap_or_default())
    }
}

fn view(id: &ProviderId, description: Option<&Description>, models: &[ModelInfo], cannot: Vec<Cannot>) -> ProviderView {
    let problem = description.and_then(|d| d.problem.clone());
    let state = match (description, &problem) {
        (None, _) => ProviderState::Looking,
        (Some(_), None) => ProviderState::Ready,
        (Some(_), Some(p)) => match p.kind {
            FailureKind::NotInstalled => ProviderState::NotFound,
            FailureKind::NotLoggedIn => ProviderState::NotLoggedIn,
            _ => ProviderState::Broken,
        },
    };
    ProviderView {
        id: id.clone(),
        name: id.display_name().to_owned(),
        state,
        version: description.and_then(|d| d.version.clone()),
        path: description.and_then(|d| d.path.as_ref()).map(|p| p.display().to_string()),
        found: description.and_then(|d| d.found.clone()),
        login: description.and_then(|d| match &d.login {
            Login::In { method } => Some(method.clone()),
            Login::Out { .. } | Login::Unknown => None,
        }),
        problem,
        cannot,
        models: model_views(models),
    }
}

/// Models as the wire has them.
pub(crate) fn model_views(models: &[ModelInfo]) -> Vec<ModelView> {
    let view = |m: &ModelInfo| ModelView {
        id: m.id.clone(),
        name: m.name.clone(),
        window: m.window,
        efforts: m.efforts.clone(),
        default: m.default,
    };
    models.iter().map(view).collect()
}
