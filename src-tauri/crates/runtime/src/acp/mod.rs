//! Any agent that speaks the Agent Client Protocol, version 1, over its standard streams.
//!
//! The SDK's own connection owns its event loop and its child; ours has lanes of its own (Stop before events) and ends trees.
//! So the message types are the SDK's, the connection is here.

mod client;
pub(crate) mod failure;
mod known;
mod lacks;
mod normalize;
mod open;
mod reader;
mod session;
pub(crate) mod wire;

pub use client::{AcpAgent, AcpRuntime, Program, Report};
pub use known::{KNOWN, Known, known_runtimes};
