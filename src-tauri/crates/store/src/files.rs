//! The files of a store: the database, what lies beside it, and the mark of a clean end.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::error::StoreError;

/// `path` with something put behind its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The search index: a file of its own, so that damage to it never costs a transcript (R171).
pub(crate) fn search(path: &Path) -> PathBuf {
    path.with_extension("search.db")
}

/// Milliseconds since the epoch, for names of files only.
pub(crate) fn stamp() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis())
}

/// An error of the file system as ours.
pub(crate) fn io_error(path: &Path, error: &io::Error) -> StoreError {
    let (path, detail) = (path.to_owned(), error.to_string());
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotADirectory => {
            StoreError::Unreadable { path, detail }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path },
        _ => StoreError::Io { path, detail },
    }
}

/// What the mark of a clean end holds: the file's length and time of change when it was closed. If the file has changed
/// since, by whatever, the end counts as unclean and the integrity is checked.
fn fingerprint(path: &Path) -> io::Result<String> {
    let meta = fs::metadata(path)?;
    let changed = meta.modified()?.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_nanos());
    Ok(format!("{} {changed}\n", meta.len()))
}

/// Where the mark is.
pub(crate) fn mark(path: &Path) -> PathBuf {
    beside(path, ".closed")
}

/// Takes the mark away; whether it said that the last end was clean. A first start is clean.
pub(crate) fn take_mark(path: &Path, fresh: bool) -> bool {
    let mark = mark(path);
    let kept = fs::read_to_string(&mark);
    let clean = match (&kept, fingerprint(path)) {
        (Ok(kept), Ok(now)) => *kept == now,
        _ => false,
    };
    if kept.is_ok()
        && let Err(error) = fs::remove_file(&mark)
    {
        tracing::warn!(path = %mark.display(), %error, "the mark of a clean end cannot be removed");
    }
    clean || fresh
}

/// Leaves the mark of a clean end; the last connection is closed.
pub(crate) fn put_mark(path: &Path) {
    let put = fingerprint(path).and_then(|text| fs::write(mark(path), text));
    if let Err(error) = put {
        tracing::warn!(path = %path.display(), %error, "the mark of a clean end cannot be written");
    }
}

/// What the file is before SQLite touches it.
pub(crate) enum Found {
    /// Nothing yet.
    Fresh,
    /// A database, by its header, with this schema number in it (a log beside it may hold a newer one).
    Database { version: i64 },
}

/// Looks at the file without opening it as a database.
pub(crate) fn inspect(path: &Path) -> Result<Found, StoreError> {
    use std::io::Read;
    let nothing = || match trace(path) {
        Some(trace) => Err(StoreError::Missing { path: path.to_owned(), trace }),
        None => Ok(Found::Fresh),
    };
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return nothing(),
        Err(error) => return Err(io_error(path, &error)),
    };
    if !meta.is_file() {
        return Err(StoreError::Unreadable { path: path.to_owned(), detail: "it is not a file".into() });
    }
    if meta.len() == 0 {
        return nothing();
    }
    let mut header = Vec::with_capacity(100);
    fs::File::open(path)
        .and_then(|file| file.take(100).read_to_end(&mut header))
        .map_err(|error| io_error(path, &error))?;
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(StoreError::NotADatabase { path: path.to_owned() });
    }
    let Some(version) = header.get(60..64).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) else {
        return Err(StoreError::Damaged { path: path.to_owned(), detail: "its header is cut off".into() });
    };
    Ok(Found::Database { version: i64::from(i32::from_be_bytes(version)) })
}

/// What tells that there was a database where now there is none.
fn trace(path: &Path) -> Option<String> {
    let wal = beside(path, "-wal");
    if fs::metadata(&wal).is_ok_and(|meta| meta.len() > 0) {
        return Some(format!("{} holds what was not yet written to it", wal.display()));
    }
    let mark = mark(path);
    mark.exists().then(|| format!("{} is from when it was last closed", mark.display()))
}

/// Makes the folder and an empty file that only its user can read.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| io_error(path, &error))?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        // Someone else was first, or an empty file was there: as good.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(io_error(path, &error)),
    }
}
