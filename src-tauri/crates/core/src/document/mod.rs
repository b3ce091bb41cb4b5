//! When a session's context is nearly full (G): the figures and what an overflow looks like.

pub mod figures;
pub mod overflow;
