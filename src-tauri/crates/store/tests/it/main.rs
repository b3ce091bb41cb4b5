//! The store through its public interface, on real files.

mod commit;
mod common;
mod crash;
mod opening;
mod reading;
mod searching;
mod sizes;
mod upgrade;
