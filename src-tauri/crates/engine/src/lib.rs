//! One actor per thread, the driver of effects, the event hub and the API list.

pub mod api;
