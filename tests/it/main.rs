//! Whole-system tests, one binary: the real app, the real CLIs, the fake model API.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this crate is only ever a test: a step that does not hold must stop it loudly"
)]

mod approval;
mod changeover;
mod command;
mod crash;
mod cut;
mod full_disk;
mod gone;
mod interrupt;
mod mcp;
mod one_engine;
mod opencode;
mod owners;
mod places;
mod providers;
mod refusal;
mod reports;
mod running;
mod serve;
