//! One actor per thread, the driver of effects, the event hub and the API list.

mod agent;
pub mod api;
mod catalogue;
mod clock;
mod diagnostic;
mod engine;
pub mod fault;
mod hub;
pub mod lock;
pub mod secret;
mod thread;
mod work;

pub use engine::{Engine, EngineOptions};
pub use hub::{Hub, Subscription};
