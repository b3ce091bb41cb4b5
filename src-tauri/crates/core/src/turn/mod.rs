//! One turn as a pure state machine (DESIGN 2b): `step(state, input) → effects`. The driver alone does I/O.

pub mod record;
pub mod write;
