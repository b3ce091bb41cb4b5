//! The loopback server, MCP and the command line; bin `changeover`.
//!
//! `launch` starts an engine with all that belongs to it, or finds the one that runs already (U9); `door` is how the window
//! and the command line speak to either; `http` serves the browser; `cli` is the command line.

pub mod cli;
mod clients;
pub mod door;
pub mod guarded;
pub mod http;
pub mod launch;
pub mod mcp;
mod page;
mod remote;
