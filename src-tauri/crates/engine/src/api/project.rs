//! `project/…`: the folders that the user opened.

use std::path::{Path, PathBuf};

use changeover_core::id::ProjectId;
use changeover_store::Project;

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{EventBody, Nothing, ProjectListResponse, ProjectOpenParams, ProjectOpenResponse, ProjectSummary},
};
use crate::{clock, engine::read};

fn view(project: Project) -> ProjectSummary {
    let exists = Path::new(&project.path).is_dir();
    ProjectSummary { id: project.id, name: project.name, path: project.path, exists, created_at: project.created_at }
}

/// The folder's real path, or why it cannot be a project.
fn real_folder(text: &str, home: Option<&str>) -> Result<PathBuf, ApiError> {
    let bad = |message: String| ApiError::new(ErrorCode::BadRequest, message);
    if text.trim().is_empty() || text.contains('\0') || text.len() > 4096 {
        return Err(bad("Give the path of a folder.".into()));
    }
    let path = match (text.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            Path::new(home).join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(text),
    };
    if !path.is_absolute() {
        return Err(bad(format!("{text} is no absolute path."))
            .hint("Begin with / (or a drive letter on Windows), or with ~ for your home folder."));
    }
    let real = std::fs::canonicalize(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            bad(format!("There is no folder {text}.")).hint("Check the path, or make the folder first.")
        }
        _ => bad(format!("{text} cannot be opened: {error}.")),
    })?;
    if !real.is_dir() {
        return Err(bad(format!("{text} is a file, not a folder.")).hint("Open the folder that it lies in."));
    }
    Ok(real)
}

pub(super) async fn open(api: &Api<'_>, params: ProjectOpenParams) -> Result<ProjectOpenResponse, ApiError> {
    let env = api.inner.catalogue.environment().await;
    let home = env.get("HOME").or_else(|| env.get("USERPROFILE")).cloned();
    let real = tokio::task::spawn_blocking(move || real_folder(&params.path, home.as_deref()))
        .await
        .map_err(|_| ApiError::new(ErrorCode::Internal, "Looking at the folder was cut off."))??;
    let Some(path) = real.to_str() else {
        return Err(ApiError::new(ErrorCode::BadRequest, "The folder's path is not valid Unicode.")
            .hint("Rename the folder; agents get its path as text."));
    };
    let name = real.file_name().and_then(|n| n.to_str()).unwrap_or(path).to_owned();
    let new = Project { id: ProjectId(clock::id()), path: path.to_owned(), name, created_at: clock::now() };
    let project = view(api.inner.store.open_project(new).await?);
    api.inner.hub.announce(None, EventBody::Project { project: project.clone() });
    Ok(ProjectOpenResponse { project })
}

pub(super) async fn list(api: &Api<'_>, _: Nothing) -> Result<ProjectListResponse, ApiError> {
    let store = api.inner.store.clone();
    let projects = read(move || store.projects()).await?;
    Ok(ProjectListResponse { projects: projects.into_iter().map(view).collect() })
}
