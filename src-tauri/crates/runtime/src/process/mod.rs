//! Agents' processes: started with a whole environment and a mark, ended with their whole tree (R5).
//!
//! The tree of a child is more than its descendants: agents run their shells in sessions of their own, and a shell whose
//! parent died hangs off init. So each child carries a second mark, its own, that everything it starts inherits.

mod child;
pub mod lines;
mod table;
mod tree;

pub use child::{Exit, Launch, Process, Spawned};
pub use table::Identity;
pub use tree::{end_marked, end_marked_within};

/// Environment variable that every process of ours carries: `<hash of the data folder>:<run id>`, put into
/// `SessionSpec::env` by the engine. The guard and the next start end what carries it (R5).
pub const MARK: &str = "CHANGEOVER_MARK";

/// Environment variable with one child's own mark, made at its start: what carries it belongs to that child's tree.
pub const SESSION_MARK: &str = "CHANGEOVER_SESSION_MARK";
