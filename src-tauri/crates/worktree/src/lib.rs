//! Workspaces: what a folder is before an agent is let into it. Git worktrees come here next.

use std::path::Path;

use changeover_core::failure::{Failure, FailureKind};

/// Whether an agent can be started in this folder (R9): an absolute path to a folder that exists right now. Codex and
/// OpenCode accept one that does not, and fail at every command afterwards.
///
/// # Errors
/// `FolderGone`, with what to do.
pub fn check(folder: &Path) -> Result<(), Failure> {
    let gone = |what: String| {
        Failure::new(FailureKind::FolderGone, what)
            .hint("Put the folder back, or open the project at its new place. Your message was kept and not sent.")
    };
    if !folder.is_absolute() {
        return Err(gone(format!("{} is no absolute path.", folder.display())));
    }
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => match enter(folder) {
            Ok(()) => Ok(()),
            Err(error) => Err(Failure::new(
                FailureKind::FolderGone,
                format!("The folder {} cannot be entered: {error}.", folder.display()),
            )
            .hint("Give yourself the right to read and enter it. Your message was kept and not sent.")),
        },
        Ok(_) => Err(gone(format!("{} is no longer a folder.", folder.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(gone(format!("The folder {} does not exist.", folder.display())))
        }
        Err(error) => Err(gone(format!("The folder {} cannot be opened: {error}.", folder.display()))),
    }
}

/// Whether this user may list the folder and go into it: an agent that is started there needs both, and the system would blame
/// the agent's program.
///
/// # Errors
/// Why not.
pub fn enter(folder: &Path) -> std::io::Result<()> {
    std::fs::read_dir(folder)?;
    std::fs::metadata(folder.join(".")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_only_a_folder_that_is_there() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(check(place.path()), Ok(()));
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, said) in [
            (place.path().join("missing"), "does not exist"),
            (file, "no longer a folder"),
            ("relative".into(), "no absolute path"),
        ] {
            let failure = check(&path).unwrap_err();
            assert_eq!(failure.kind, FailureKind::FolderGone);
            assert!(failure.message.contains(said), "{}", failure.message);
            assert!(failure.hint.is_some());
        }
    }
}
