//! Projects.

use changeover_core::{Millis, id::ProjectId};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// A project in the sidebar.
    pub struct ProjectSummary {
        /// Its id.
        id: ProjectId,
        /// The folder's name, or the name the user gave.
        name: String,
        /// The folder's real path.
        path: String,
        /// Whether the folder exists right now.
        exists: bool,
        /// When it was opened first.
        created_at: Millis,
    }
    /// Opens a folder as a project; the same real path is the same project.
    pub struct ProjectOpenParams {
        /// Absolute path of a folder; `~` is the home folder.
        path: String,
    }
    /// The project.
    pub struct ProjectOpenResponse {
        /// The project.
        project: ProjectSummary,
    }
    /// Takes a project off the list. Its threads are kept, and are there again when the folder is opened.
    pub struct ProjectRemoveParams {
        /// Which.
        project_id: ProjectId,
    }
    /// What stays behind.
    pub struct ProjectRemoveResponse {
        /// Threads that are kept, and listed no more.
        threads: u32,
    }
    /// All projects.
    pub struct ProjectListResponse {
        /// Newest first.
        projects: Vec<ProjectSummary>,
    }
}
