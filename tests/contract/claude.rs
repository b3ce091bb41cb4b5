//! The Claude Code adapter on the real Claude Code.

mod bench;
mod failures;
mod found;
mod sessions;
mod stops;
mod turns;
