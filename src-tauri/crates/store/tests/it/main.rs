//! The store through its public interface, on real files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commit;
mod common;
mod crash;
mod opening;
mod reading;
mod searching;
mod sizes;
mod upgrade;
