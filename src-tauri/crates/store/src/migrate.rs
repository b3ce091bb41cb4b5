//! Schema changes (S5): numbered SQL files, append-only, run once each in a transaction of its own, after a backup.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, TransactionBehavior, backup};

use crate::{
    error::{Fault, Result, StoreError},
    recovery,
};

/// Every migration in order; the n-th brings the schema to number n.
pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../../../../migrations/0001_first.sql")];

/// The schema's number as the database says it.
pub(crate) fn version(conn: &Connection) -> Result<i64> {
    Ok(conn.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Refuses what must not be touched: a newer schema, and tables without a number (R012).
pub(crate) fn check(conn: &Connection, path: &Path, migrations: &[&str]) -> Result<i64> {
    let found = version(conn)?;
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    if found > known || found < 0 {
        return Err(StoreError::NewerVersion { path: path.to_owned(), found, known }.into());
    }
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    // Another opener may have made the tables and their number between the two looks (R078): only a number that is still
    // missing is none.
    if found == 0 && tables > 0 && version(conn)? == 0 {
        return Err(StoreError::Unnumbered { path: path.to_owned() }.into());
    }
    Ok(found)
}

/// Brings the schema up to date. Returns how many migrations ran.
pub(crate) fn run(conn: &mut Connection, path: &Path, migrations: &[&str]) -> Result<usize> {
    let found = check(conn, path, migrations)?;
    let done = usize::try_from(found).unwrap_or(0);
    if done == migrations.len() {
        return Ok(0);
    }
    if found > 0 {
        back_up(conn, path, found)?;
    }
    let mut ran = 0;
    for (at, sql) in migrations.iter().enumerate().skip(done) {
        let number = i64::try_from(at + 1).unwrap_or(i64::MAX);
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been here while we waited for the lock (R078).
        if version(&tx)? >= number {
            continue;
        }
        tx.execute_batch(sql)?;
        tx.pragma_update(None, "user_version", number)?;
        tx.commit()?;
        ran += 1;
    }
    Ok(ran)
}

/// A backup through SQLite's own API, whole before it gets its name; the newest three are kept.
fn back_up(conn: &Connection, path: &Path, version: i64) -> Result<()> {
    let name = recovery::backup_name(path, version);
    let unfinished = crate::files::beside(&name, ".part");
    let fail = |error: &std::io::Error| Fault::Store(crate::files::io_error(&name, error));
    if let Some(folder) = name.parent() {
        std::fs::create_dir_all(folder).map_err(|error| fail(&error))?;
    }
    let _ = std::fs::remove_file(&unfinished);
    crate::files::create(&unfinished)?;
    {
        let mut copy = Connection::open(&unfinished)?;
        backup::Backup::new(conn, &mut copy)?.run_to_completion(1024, Duration::ZERO, None)?;
    }
    std::fs::File::open(&unfinished).and_then(|file| file.sync_all()).map_err(|error| fail(&error))?;
    std::fs::rename(&unfinished, &name).map_err(|error| fail(&error))?;
    for old in recovery::backups(path).into_iter().skip(recovery::KEPT) {
        if let Err(error) = std::fs::remove_file(&old.path) {
            tracing::warn!(path = %old.path.display(), %error, "an old backup cannot be removed");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "CREATE TABLE a (x TEXT);";
    const TWO: &str = "ALTER TABLE a ADD COLUMN y TEXT;";
    const BROKEN: &str = "UPDATE a SET x = 'changed'; ALTER TABLE missing ADD COLUMN y TEXT;";

    fn open(path: &Path) -> Connection {
        Connection::open(path).unwrap()
    }

    #[test]
    fn s5_a_backup_before_each_migration_and_three_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let mut conn = open(&path);
        assert_eq!(run(&mut conn, &path, &[ONE]).unwrap(), 1);
        conn.execute("INSERT INTO a VALUES ('kept')", []).unwrap();
        assert!(recovery::backups(&path).is_empty(), "nothing to lose before the first one");
        assert_eq!(run(&mut conn, &path, &[ONE, TWO]).unwrap(), 1);
        assert_eq!(run(&mut conn, &path, &[ONE, TWO]).unwrap(), 0);
        let backups = recovery::backups(&path);
        assert_eq!(backups.len(), 1);
        assert_eq!(backups[0].version, 1);
        let old = open(&backups[0].path);
        assert_eq!(version(&old).unwrap(), 1);
        assert_eq!(old.query_row("SELECT x FROM a", [], |row| row.get::<_, String>(0)).unwrap(), "kept");

        let many = [ONE, TWO, "SELECT 1;", "SELECT 1;", "SELECT 1;", "SELECT 1;"];
        for upto in 3..=many.len() {
            run(&mut conn, &path, &many[..upto]).unwrap();
        }
        let versions: Vec<i64> = recovery::backups(&path).iter().map(|backup| backup.version).collect();
        assert_eq!(versions, [5, 4, 3]);
    }

    #[test]
    fn s5_a_migration_that_fails_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let mut conn = open(&path);
        run(&mut conn, &path, &[ONE]).unwrap();
        conn.execute("INSERT INTO a VALUES ('kept')", []).unwrap();
        assert!(run(&mut conn, &path, &[ONE, BROKEN]).is_err());
        assert_eq!(version(&conn).unwrap(), 1);
        assert_eq!(conn.query_row("SELECT x FROM a", [], |row| row.get::<_, String>(0)).unwrap(), "kept");
    }
}
