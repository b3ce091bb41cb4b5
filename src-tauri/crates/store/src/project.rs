//! Projects: folders that the user opened, known by their real path.

use changeover_core::{Millis, id::ProjectId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    Store, codec,
    error::{Fault, Result, StoreError},
};

/// A folder that the user opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its real path.
    pub path: String,
    /// Its name.
    pub name: String,
    /// When it was opened first.
    pub created_at: Millis,
}

fn project(row: &Row<'_>) -> rusqlite::Result<Project> {
    Ok(Project { id: codec::id(row, 0).map(ProjectId)?, path: row.get(1)?, name: row.get(2)?, created_at: row.get(3)? })
}

/// The inner key of a project.
pub(crate) fn key_of(conn: &Connection, id: ProjectId) -> Result<i64> {
    conn.prepare_cached("SELECT key FROM project WHERE id = ?1")?
        .query_row([id.0.as_bytes()], |row| row.get(0))
        .optional()?
        .ok_or(Fault::Store(StoreError::NoSuchProject(id)))
}

impl Store {
    /// Opens a project: the one that stands for this real path, or a new one with the given id, name and time. The caller
    /// resolves the path.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn open_project(&self, new: Project) -> Result<Project, StoreError> {
        self.write(move |writer| {
            writer.transaction(true, |tx| {
                tx.execute(
                    "INSERT INTO project (id, path, name, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (path) DO NOTHING",
                    params![new.id.0.as_bytes(), new.path, new.name, new.created_at],
                )?;
                Ok(tx.query_row(
                    "SELECT id, path, name, created_at FROM project WHERE path = ?1",
                    [&new.path],
                    project,
                )?)
            })
        })
        .await
    }

    /// All projects, newest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn projects(&self) -> Result<Vec<Project>, StoreError> {
        self.read(|conn| {
            let mut sql = conn
                .prepare_cached("SELECT id, path, name, created_at FROM project ORDER BY created_at DESC, key DESC")?;
            let rows = sql.query_map([], project)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// One project.
    ///
    /// # Errors
    /// `NoSuchProject`; the database cannot be read.
    pub fn project(&self, id: ProjectId) -> Result<Project, StoreError> {
        self.read(|conn| {
            conn.prepare_cached("SELECT id, path, name, created_at FROM project WHERE id = ?1")?
                .query_row([id.0.as_bytes()], project)
                .optional()?
                .ok_or(Fault::Store(StoreError::NoSuchProject(id)))
        })
    }
}
