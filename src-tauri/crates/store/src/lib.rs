//! The transcript on disk: SQLite, one writer thread with a bounded mailbox, a pool of readers, migrations.
//!
//! Writes are asynchronous: a batch of [`Write`](changeover_core::turn::write::Write)s is one transaction on the writer's
//! thread, and its answer is awaited. Reads block: run them off the async threads. No times or ids are made here but
//! the names of backups.

mod codec;
mod commit;
mod error;
mod files;
mod index;
mod load;
mod message;
mod migrate;
mod open;
mod page;
mod pool;
mod project;
pub mod recovery;
mod search;
mod setting;
mod sizes;
mod thread;
mod writer;

pub use commit::Committed;
pub use error::StoreError;
pub use load::{OpenTurn, ThreadOnDisk};
pub use open::{OpenOptions, Store};
pub use page::{Cut, Page, PageAt};
pub use project::Project;
pub use search::{Found, Hit};
pub use setting::Settings;
pub use sizes::StoredSizes;
pub use thread::{NewThread, ThreadSummary};
