//! Providers.

use changeover_core::{failure::Failure, power::Cannot, provider::ProviderId};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// A provider as the picker and settings show it (R2).
    pub struct ProviderView {
        /// Its id.
        id: ProviderId,
        /// The name that people read.
        name: String,
        /// How it stands.
        state: ProviderState,
        /// Its version.
        version: Option<String>,
        /// The program that is run.
        path: Option<String>,
        /// How it was found.
        found: Option<String>,
        /// How it is logged in.
        login: Option<String>,
        /// What keeps it from being used, and the way on.
        problem: Option<Failure>,
        /// What it cannot do, each in a sentence (R2).
        cannot: Vec<Cannot>,
        /// Its models, once known.
        models: Vec<ModelView>,
    }
    /// A model on offer.
    pub struct ModelView {
        /// The provider's own name.
        id: String,
        /// The name that people read.
        name: String,
        /// Its window in tokens, if known.
        window: Option<u64>,
        /// Reasoning efforts, weakest first.
        efforts: Vec<String>,
        /// The provider's default.
        default: bool,
    }
    /// Lists providers.
    pub struct ProviderListParams {
        /// Look again.
        #[serde(default)] refresh: bool,
    }
    /// All providers.
    pub struct ProviderListResponse {
        /// In the picker's order.
        providers: Vec<ProviderView>,
    }
    /// Starts an agent to see whether it can be used; no model is asked.
    pub struct ProviderTestParams {
        /// Which.
        provider: ProviderId,
    }
    /// What came of it.
    pub struct ProviderTestResponse {
        /// What kept it from starting, and the way on; absent: it started, shook hands and ended.
        problem: Option<Failure>,
        /// The program that was started.
        path: Option<String>,
        /// How long it took, in milliseconds.
        took: u64,
    }
    /// Asks whether a provider can take a message now; an error says why not.
    pub struct ProviderCheckParams {
        /// Which provider.
        provider: ProviderId,
    }
    /// Picks a provider's program by hand.
    pub struct ProviderPickParams {
        /// Which provider.
        provider: ProviderId,
        /// Absolute path of its program; absent: find it again.
        #[serde(default)] path: Option<String>,
    }
}

/// Whether a provider can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ProviderState {
    /// Being looked for.
    Looking,
    /// Ready.
    Ready,
    /// Not installed.
    NotFound,
    /// Installed, not logged in.
    NotLoggedIn,
    /// Installed, but broken; `problem` says how.
    Broken,
}
