//! `changeover project list|remove`.

use std::{path::PathBuf, process::ExitCode};

use changeover_engine::api::types::{Nothing, ProjectListResponse, ProjectRemoveParams, ProjectRemoveResponse};
use clap::{Args, Subcommand};

use super::{Common, output, session::Session, with};

#[derive(Debug, Args)]
pub(super) struct ProjectCommand {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The folders that were opened.
    List,
    /// Take a folder off the list. Nothing is deleted: its threads are there again when it is opened.
    Remove {
        /// The folder.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

impl ProjectCommand {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let common = self.common.clone();
        with(&common, async move |session: &mut Session| {
            let list: ProjectListResponse = session.ask("project/list", &Nothing {}).await?;
            match self.what {
                What::List if self.common.json => output::json(&list)?,
                What::List => {
                    for project in &list.projects {
                        let gone = if project.exists { "" } else { "  (the folder is gone)" };
                        output::line(format!("{}{gone}", project.path));
                    }
                }
                What::Remove { folder } => {
                    // It may be gone: then its path is compared as it was given.
                    let path = std::fs::canonicalize(&folder).or_else(|_| std::path::absolute(&folder))?;
                    let Some(project) =
                        list.projects.iter().find(|project| path.as_path() == std::path::Path::new(&project.path))
                    else {
                        anyhow::bail!("{} is no project; `changeover project list` shows them", path.display());
                    };
                    let params = ProjectRemoveParams { project_id: project.id };
                    let removed: ProjectRemoveResponse = session.ask("project/remove", &params).await?;
                    if self.common.json {
                        output::json(&removed)?;
                    } else {
                        output::note(format!(
                            "{} is off the list. Its threads ({}) are kept, and are there again when it is opened.",
                            project.path, removed.threads
                        ));
                    }
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}
