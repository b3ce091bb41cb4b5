//! The one writer: a thread that owns the writing connection and works off a bounded mailbox.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::mpsc;

use crate::{
    error::{Result, StoreError},
    files,
    search::SearchIndex,
};

/// How many jobs wait before whoever brings the next one waits too.
pub(crate) const MAILBOX: usize = 256;

pub(crate) type Job = Box<dyn FnOnce(&mut Writer) + Send>;

pub(crate) struct Writer {
    conn: Connection,
    path: PathBuf,
    search: SearchIndex,
    full_sync: Option<bool>,
    sound: Arc<AtomicBool>,
}

impl Writer {
    /// `sound`: whether the database is known to be, when it is closed.
    pub(crate) fn new(conn: Connection, path: &Path, sound: Arc<AtomicBool>) -> Self {
        Self { conn, path: path.to_owned(), search: SearchIndex::new(path), full_sync: None, sound }
    }

    /// One transaction: all of it or nothing.
    ///
    /// `durable` commits survive a power cut, the others a crash of the program only. S1 needs a user message, and the
    /// fact that a prompt is about to leave us, on disk before anything is sent; for them the log is synced (FULL). The
    /// chunks of a reply are not synced four times a second: what a power cut may take of them is the end of the newest
    /// reply, never the order or soundness of what is there (NORMAL in WAL mode), and the next FULL commit syncs them too.
    pub(crate) fn transaction<T>(
        &mut self,
        durable: bool,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.full_sync != Some(durable) {
            self.full_sync = None;
            self.conn.pragma_update(None, "synchronous", if durable { "FULL" } else { "NORMAL" })?;
            self.full_sync = Some(durable);
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&tx)?;
        tx.commit()?;
        Ok(value)
    }

    pub(crate) fn limit_pages(&self, pages: u32) -> Result<()> {
        Ok(self.conn.pragma_update(None, "max_page_count", pages)?)
    }

    /// Brings a little more into the search index; whether there may be more to do.
    pub(crate) fn index_some(&mut self) -> Result<bool> {
        self.search.index_some(&self.conn)
    }

    /// Makes the search index anew.
    pub(crate) fn rebuild_search(&mut self) -> Result<()> {
        self.search.rebuild(&self.conn)
    }

    /// The error as callers see it.
    pub(crate) fn explain(&self, fault: crate::error::Fault) -> StoreError {
        fault.at(&self.path)
    }
}

/// The thread's body: jobs first; while there are none, the search index is brought up to date in small batches.
pub(crate) fn run(mut writer: Writer, mut jobs: mpsc::Receiver<Job>, indexing: bool) {
    let mut behind = indexing;
    loop {
        let job = match jobs.try_recv() {
            Ok(job) => Some(job),
            Err(mpsc::error::TryRecvError::Disconnected) => break,
            Err(mpsc::error::TryRecvError::Empty) if behind => None,
            Err(mpsc::error::TryRecvError::Empty) => match jobs.blocking_recv() {
                Some(job) => Some(job),
                None => break,
            },
        };
        match job {
            Some(job) => {
                job(&mut writer);
                behind = indexing;
            }
            None => {
                behind = writer.index_some().unwrap_or_else(|fault| {
                    // A full disk or a lock: tried again after the next job.
                    tracing::warn!(error = %writer.explain(fault), "the search index is behind");
                    false
                });
            }
        }
    }
    close(writer);
}

/// Closes in good order: the log is folded into the database, and the mark of a clean end stands beside it, unless it is still
/// to be checked after an unclean one.
fn close(writer: Writer) {
    let Writer { conn, path, search, sound, .. } = writer;
    drop(search);
    // Fails while another process reads; the log then simply stays.
    let folded = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    match (folded, conn.close()) {
        (Ok(0), Ok(())) if !sound.load(Ordering::SeqCst) => {
            tracing::info!(path = %path.display(), "closed before it was checked: the next start checks it");
        }
        (Ok(0), Ok(())) => files::put_mark(&path),
        (folded, closed) => {
            tracing::warn!(path = %path.display(), ?folded, closed = closed.is_ok(), "the database did not close cleanly");
        }
    }
}
