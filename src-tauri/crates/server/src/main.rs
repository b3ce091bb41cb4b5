//! The command line without a window.
fn main() {}
