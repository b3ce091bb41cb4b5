//! The rules, pure: no disk, clock, processes or randomness. Times, ids and sizes come in as arguments.

pub mod approval;
pub mod document;
pub mod event;
pub mod failure;
pub mod handoff;
pub mod id;
pub mod message;
pub mod notice;
pub mod part;
pub mod power;
pub mod provider;
pub mod seq;
pub mod session;
pub mod transition;
pub mod turn;
pub mod usage;

/// Milliseconds since the Unix epoch, as on the wire (`*At` fields).
pub type Millis = i64;
