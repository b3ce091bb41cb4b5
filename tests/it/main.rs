//! Whole-system tests, one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this crate is only ever a test: a step that does not hold must stop it loudly"
)]

mod mcp;
