//! The OpenCode adapter on the real OpenCode, against the fake API. Its server takes seconds to start, so that what goes
//! together shares one.

mod bench;
mod failures;
mod mcp;
mod sessions;
mod stops;
mod turns;
