//! Fakes and harnesses that tests share.
//!
//! Everything here stands in for what a test may not use (a paid model API) or must fence in (a real CLI):
//! never for the thing a test is about.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this crate is only ever part of a test: a broken harness must stop it loudly"
)]

pub mod agents;
pub mod app;
pub mod cli;
pub mod fake_api;
pub mod family;
pub mod marked;
pub mod scenarios;
pub mod silent;
pub mod talk;
