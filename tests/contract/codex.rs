//! The Codex adapter on the real Codex, against the fake API.

mod approvals;
pub mod bench;
mod failures;
mod limits;
mod mcp;
mod sessions;
mod stops;
pub mod turns;
