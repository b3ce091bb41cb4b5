//! Agents as processes: one trait, one folder per adapter. Adapters translate, they do not think.

pub mod process;
pub mod session;
