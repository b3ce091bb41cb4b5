//! What can go wrong with a store: a kind that code branches on, and words with the file's path and a way on (S5).

use std::path::{Path, PathBuf};

use changeover_core::id::{MessageId, ProjectId, ThreadId};
use rusqlite::ErrorCode;

/// An error of the store. The kinds about the file as a whole carry its path; [`StoreError::hint`] is the way on.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer version of Changeover wrote the database. It was not touched.
    #[error("{} was written by a newer version of Changeover (schema {found}, this version knows up to {known})", path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its schema's number.
        found: i64,
        /// The newest this version knows.
        known: i64,
    },
    /// The database is damaged.
    #[error("{} is damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// The file, or its folder, cannot be read or written (permissions, a folder in its place).
    #[error("{} cannot be read: {detail}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        detail: String,
    },
    /// The file is something else than a database.
    #[error("{} is not a database", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is gone, or empty, while traces of it are there: never taken for a first start (R014).
    #[error("{} is missing, though there was one: {trace}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What says so.
        trace: String,
    },
    /// The database holds tables but no schema number (R012). It was not touched.
    #[error("{} holds tables but no schema number, so it cannot be told what wrote them", path.display())]
    Unnumbered {
        /// The file.
        path: PathBuf,
    },
    /// Another process has held the database for too long.
    #[error("{} is locked by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// There is no room on the disk. Nothing of the batch was written; the same batch may be tried again (S1).
    #[error("the disk that holds {} is full", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The system failed to read or write. Nothing of the batch was written.
    #[error("{}: {detail}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        detail: String,
    },
    /// A batch that breaks a rule of the data. A bug of the caller: nothing of the batch was written.
    #[error("refused: {0}")]
    Invariant(String),
    /// There is no such project.
    #[error("there is no project {0}")]
    NoSuchProject(ProjectId),
    /// There is no such thread.
    #[error("there is no thread {0}")]
    NoSuchThread(ThreadId),
    /// There is no such message.
    #[error("there is no message {0}")]
    NoSuchMessage(MessageId),
    /// One record cannot be read; everything else can (R003, R011).
    #[error("the record of {what} cannot be read: {detail}")]
    BadRecord {
        /// Which.
        what: String,
        /// Why.
        detail: String,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// SQLite refused for another reason: a bug of ours.
    #[error("{}: {detail}", path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
}

impl StoreError {
    /// What to do about it, in one sentence; `None` where the caller has to know.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NewerVersion { .. } => {
                "Update Changeover, or use another data folder with --data. Nothing was changed.".into()
            }
            Self::Damaged { path, .. } | Self::NotADatabase { path } | Self::Missing { path, .. } => {
                match crate::recovery::backups(path).first() {
                    Some(backup) => format!(
                        "Put the backup {} in its place (move {} and what begins with its name away first), or use another data \
                         folder with --data.",
                        backup.path.display(),
                        path.display()
                    ),
                    None => format!(
                        "There is no backup. Put a copy of your own in its place, move {} and what begins with its name \
                         away to start afresh, or use another data folder with --data.",
                        path.display()
                    ),
                }
            }
            Self::Unreadable { .. } => {
                "Give yourself the right to read and write the file and its folder, then start again.".into()
            }
            Self::Unnumbered { .. } => {
                "Put a backup in its place, move the file away to start afresh, or use another data folder with --data. \
                 Nothing was changed.".into()
            }
            Self::Locked { .. } => "End the other process that uses this data folder, then start again.".into(),
            Self::Full { .. } => "Make room on the disk; it goes on by itself.".into(),
            Self::Io { .. } => "Look at the disk and its connection, then try again.".into(),
            _ => return None,
        })
    }

    /// The database's file, where the error is about it as a whole.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::NewerVersion { path, .. }
            | Self::Damaged { path, .. }
            | Self::Unreadable { path, .. }
            | Self::NotADatabase { path }
            | Self::Missing { path, .. }
            | Self::Unnumbered { path }
            | Self::Locked { path }
            | Self::Full { path }
            | Self::Io { path, .. }
            | Self::Sql { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether the same batch may be tried again later: nothing of it was written, and nothing is wrong with it.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Locked { .. } | Self::Io { .. })
    }
}

/// An error inside the crate, before the file's path is put to it.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Store(StoreError),
}

pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    /// A batch that breaks a rule.
    pub(crate) fn invariant(text: impl Into<String>) -> Self {
        Self::Store(StoreError::Invariant(text.into()))
    }

    /// A record that cannot be read.
    pub(crate) fn record(what: impl Into<String>, detail: impl std::fmt::Display) -> Self {
        Self::Store(StoreError::BadRecord { what: what.into(), detail: detail.to_string() })
    }

    /// The error as callers see it.
    pub(crate) fn at(self, path: &Path) -> StoreError {
        let error = match self {
            Self::Store(error) => return error,
            Self::Sql(error) => error,
        };
        let (path, detail) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, detail },
            Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            // A write that the system cut short, or a log that could not be extended, is a full disk under another name.
            Some(ErrorCode::SystemIoFailure) if is_out_of_room(&error) => StoreError::Full { path },
            Some(ErrorCode::SystemIoFailure) => StoreError::Io { path, detail },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                StoreError::Unreadable { path, detail }
            }
            _ => StoreError::Sql { path, detail },
        }
    }

    /// Whether SQLite says that what it reads is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Sql(error)
            if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)))
    }
}

fn is_out_of_room(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if matches!(
        failure.extended_code,
        rusqlite::ffi::SQLITE_IOERR_WRITE | rusqlite::ffi::SQLITE_IOERR_SHMSIZE
    ))
}
