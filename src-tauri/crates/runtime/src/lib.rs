//! Agents as processes: one trait, one folder per adapter. Adapters translate, they do not think.

pub mod acp;
pub mod claude;
pub mod codex;
pub mod detect;
pub mod environment;
pub mod guard;
pub mod opencode;
pub mod practice;
pub mod process;
pub mod session;
