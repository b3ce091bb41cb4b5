//! Ways on when a database cannot be used (S5, R169): its backups, and moving what is there out of the way.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    error::StoreError,
    files::{beside, io_error, mark, search, stamp},
};

/// How many backups are kept.
pub const KEPT: usize = 3;

/// A copy made before a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Where it is.
    pub path: PathBuf,
    /// The schema's number in it.
    pub version: i64,
    /// When it was made.
    pub at: changeover_core::Millis,
}

fn folder(path: &Path) -> PathBuf {
    path.with_file_name("backups")
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "database".into(), |stem| stem.to_string_lossy().into_owned())
}

/// The name of a new backup: `backups/<name>.<milliseconds>.v<schema>.db` beside the database.
pub(crate) fn backup_name(path: &Path, version: i64) -> PathBuf {
    folder(path).join(format!("{}.{:015}.v{version}.db", stem(path), stamp()))
}

/// The backups of a database, newest first.
pub fn backups(path: &Path) -> Vec<Backup> {
    let prefix = format!("{}.", stem(path));
    let mut found: Vec<Backup> = fs::read_dir(folder(path))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (at, version) = name.strip_prefix(&prefix)?.strip_suffix(".db")?.split_once(".v")?;
            Some(Backup { path: entry.path(), version: version.parse().ok()?, at: at.parse().ok()? })
        })
        .collect();
    found.sort_by_key(|backup| std::cmp::Reverse((backup.at, backup.version)));
    found
}

/// Moves a database and all that belongs to it to names of their own beside it, so that a fresh one can be made. Nothing
/// is deleted but the search index, which is made anew from any database. Returns the database's new name.
///
/// # Errors
/// A file cannot be moved.
pub fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let kept = beside(path, &format!(".set-aside-{}", stamp()));
    let pairs = ["", "-wal", "-shm"].map(|suffix| (beside(path, suffix), beside(&kept, suffix)));
    for (from, to) in pairs.into_iter().chain([(mark(path), mark(&kept))]) {
        if from.exists() {
            fs::rename(&from, &to).map_err(|error| io_error(&from, &error))?;
        }
    }
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(&search(path), suffix));
    }
    Ok(kept)
}

/// Puts a backup in the place of a database; what was there is set aside first. Returns where, if there was something.
///
/// # Errors
/// A file cannot be moved or copied.
pub fn restore(path: &Path, backup: &Path) -> Result<Option<PathBuf>, StoreError> {
    let kept = if path.exists() { Some(set_aside(path)?) } else { None };
    let unfinished = beside(path, ".part");
    let fail = |error: std::io::Error| io_error(path, &error);
    fs::copy(backup, &unfinished).map_err(fail)?;
    fs::File::open(&unfinished).and_then(|file| file.sync_all()).map_err(fail)?;
    fs::rename(&unfinished, path).map_err(fail)?;
    Ok(kept)
}
