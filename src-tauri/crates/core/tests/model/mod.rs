//! The world in which the property test of T6 lives: simulated CLIs, a plain store, a driver that can die, and what must hold.

pub mod check;
pub mod setup;
pub mod sim;
pub mod store;
pub mod world;
