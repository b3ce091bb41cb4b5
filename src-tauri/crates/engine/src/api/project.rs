//! `project/…`: the folders that the user opened.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use changeover_core::id::ProjectId;
use changeover_store::Project;
use serde_json::Value;

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{
        EventBody, Nothing, ProjectListResponse, ProjectOpenParams, ProjectOpenResponse, ProjectRemoveParams,
        ProjectRemoveResponse, ProjectSummary,
    },
};
use crate::{
    clock,
    engine::{Inner, read},
};

fn view(project: Project) -> ProjectSummary {
    let exists = Path::new(&project.path).is_dir();
    ProjectSummary { id: project.id, name: project.name, path: project.path, exists, created_at: project.created_at }
}

/// The folder's real path, or why it cannot be a project.
fn real_folder(text: &str, home: Option<&str>) -> Result<PathBuf, ApiError> {
    let bad = |message: String| ApiError::new(ErrorCode::BadRequest, message);
    if text.trim().is_empty() || text.contains('\0') {
        return Err(bad("Give the path of a folder.".into()));
    }
    let long =
        || bad("The path is too long for a folder.".into()).hint("Check it, or open a folder nearer to the root.");
    if text.len() > 4096 {
        return Err(long());
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
        std::io::ErrorKind::InvalidFilename => long(),
        _ => bad(format!("{text} cannot be opened: {error}.")),
    })?;
    if !real.is_dir() {
        return Err(bad(format!("{text} is a file, not a folder.")).hint("Open the folder that it lies in."));
    }
    changeover_worktree::enter(&real).map_err(|error| {
        bad(format!("The folder {text} cannot be entered: {error}."))
            .hint("Give yourself the right to read and enter it, or open another.")
    })?;
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
    // Only the name that is shown: the path stays what it is.
    let name = real.file_name().and_then(|n| n.to_str()).unwrap_or(path).replace(char::is_control, " ");
    let name = name.trim().to_owned();
    let new = Project { id: ProjectId(clock::id()), path: path.to_owned(), name, created_at: clock::now() };
    let project = view(api.inner.store.open_project(new).await?);
    let removed = {
        let _telling = api.inner.telling.lock().await;
        let mut removed = removed(api.inner).await?;
        let was = removed.remove(&project.id);
        if was {
            put_removed(api.inner, removed).await?;
        }
        was
    };
    api.inner.hub.announce(None, EventBody::Project { project: project.clone() });
    if removed {
        // Its threads are listed again.
        let (store, id) = (api.inner.store.clone(), project.id);
        for thread in read(move || store.threads(Some(id))).await? {
            api.inner.announce_thread(thread.id).await;
        }
    }
    Ok(ProjectOpenResponse { project })
}

pub(super) async fn list(api: &Api<'_>, _: Nothing) -> Result<ProjectListResponse, ApiError> {
    let removed = removed(api.inner).await?;
    let store = api.inner.store.clone();
    let projects = read(move || store.projects()).await?;
    Ok(ProjectListResponse { projects: projects.into_iter().filter(|p| !removed.contains(&p.id)).map(view).collect() })
}

/// The setting that holds the projects that were taken off the list.
const REMOVED: &str = "projects.removed";

/// The projects that were taken off the list: their threads are on disk as ever, for when the folder is opened again.
pub(super) async fn removed(inner: &Inner) -> Result<HashSet<ProjectId>, ApiError> {
    let store = inner.store.clone();
    let value = read(move || store.setting(REMOVED)).await?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default())
}

async fn put_removed(inner: &Inner, removed: HashSet<ProjectId>) -> Result<(), ApiError> {
    let value = if removed.is_empty() { Value::Null } else { serde_json::json!(removed) };
    Ok(inner.store.put_setting(REMOVED.to_owned(), value).await?)
}

pub(super) async fn remove(api: &Api<'_>, params: ProjectRemoveParams) -> Result<ProjectRemoveResponse, ApiError> {
    let (store, id) = (api.inner.store.clone(), params.project_id);
    let threads = read(move || {
        store.project(id)?;
        store.threads(Some(id))
    })
    .await?;
    let open = api.inner.work.watch();
    if threads.iter().any(|thread| open.borrow().contains(&thread.id)) {
        return Err(ApiError::new(ErrorCode::Running, "An agent is working in this project.")
            .hint("Stop it, or wait for its end."));
    }
    let _telling = api.inner.telling.lock().await;
    let mut removed = removed(api.inner).await?;
    removed.insert(id);
    put_removed(api.inner, removed).await?;
    api.inner.hub.announce(None, EventBody::ProjectRemoved { project_id: id });
    let kept = threads.iter().filter(|thread| thread.deleted_at.is_none()).count();
    Ok(ProjectRemoveResponse { threads: u32::try_from(kept).unwrap_or(u32::MAX) })
}
