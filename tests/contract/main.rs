//! The real CLIs against the fake API, and every adapter against the same scenarios.
//!
//! A fact about a CLI that a rule of ours rests on is written here as a test, so that a new version of the CLI that
//! behaves otherwise fails by name.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests: the lint knows only the test functions themselves"
)]

mod claude_history;
mod codex_history;
mod drive;
mod fake_api;
