//! One turn as a pure state machine (DESIGN 2b): `step(state, input) → effects`. The driver alone does I/O.
//!
//! `record` and `write` are what is on disk; `state` is what decides; `step` takes commands and the driver's answers,
//! `stream` what a runtime reports, `ending` every way a turn can end and what the session then still holds (T9, T10), `attempt` what comes after a failed one.

mod attempt;
mod ending;
pub mod record;
pub mod state;
mod step;
mod stream;
pub mod write;

pub use attempt::GO_ON;
pub use step::step;
