//! The real CLIs against the fake API, and every adapter against the same scenarios.
//!
//! A fact about a CLI that a rule of ours rests on is written here as a test, so that a new version of the CLI that
//! behaves otherwise fails by name.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this crate is only ever a test: a step that does not hold must stop it loudly"
)]

mod claude;
mod claude_history;
mod codex;
mod codex_history;
mod drive;
mod fake_api;
mod history_tools;
mod mcp;
mod opencode;
mod scenarios;
mod talk;
