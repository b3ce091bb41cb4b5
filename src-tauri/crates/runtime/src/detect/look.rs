//! Where a program stands: the first on a search path. Windows' own rules are written out here, so that they can be tested
//! anywhere.

use std::path::{Path, PathBuf};

/// What Windows takes for a program when nothing else is said.
pub(super) const ENDINGS: &str = ".COM;.EXE;.BAT;.CMD";

/// The first `program` in `folders` by Windows' rules: each folder with each ending of `endings` (`PATHEXT`), in that order. A
/// name that has such an ending already is taken as it is. Folders that are not absolute are passed over: what lies in the
/// current one is nobody's choice.
pub(super) fn on_windows(program: &str, folders: &[PathBuf], endings: &str) -> Option<PathBuf> {
    let tries =
        |folder: &PathBuf| names(program, endings).into_iter().map(|name| folder.join(name)).collect::<Vec<_>>();
    let absolute = folders.iter().filter(|folder| folder.is_absolute());
    absolute.flat_map(tries).find(|file| file.is_file())
}

/// The file that was picked by hand: itself if it ends as a program does, else with an ending. npm puts a script for Unix
/// shells beside each shim, with no ending; who picks that means the shim.
pub(super) fn picked_on_windows(file: &Path, endings: &str) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    on_windows(name, &[file.parent()?.to_owned()], endings)
}

fn names(program: &str, endings: &str) -> Vec<String> {
    let endings = endings.split(';').map(str::trim).filter(|ending| ending.starts_with('.'));
    let lower = program.to_ascii_lowercase();
    let mut names = Vec::new();
    for ending in endings {
        if lower.ends_with(&ending.to_ascii_lowercase()) {
            return vec![program.to_owned()];
        }
        names.push(format!("{program}{}", ending.to_ascii_lowercase()));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn r045_only_a_cmd_shim_on_the_path_is_found_as_that_file() {
        let dir = tempfile::tempdir().unwrap();
        let (npm, other) = (dir.path().join("npm"), dir.path().join("other"));
        for folder in [&npm, &other] {
            fs::create_dir_all(folder).unwrap();
        }
        let folders = [PathBuf::from("relative"), npm.clone(), other.clone()];
        assert_eq!(on_windows("gemini", &folders, ENDINGS), None);
        fs::write(other.join("gemini.exe"), "").unwrap();
        assert_eq!(on_windows("gemini", &folders, ENDINGS), Some(other.join("gemini.exe")));
        // A bare name is what a shell of Unix takes; Windows cannot run it.
        fs::write(npm.join("gemini"), "#!/bin/sh").unwrap();
        assert_eq!(on_windows("gemini", &folders, ENDINGS), Some(other.join("gemini.exe")));
        fs::write(npm.join("gemini.cmd"), "").unwrap();
        assert_eq!(on_windows("gemini", &folders, ENDINGS), Some(npm.join("gemini.cmd")), "the first folder wins");
        assert_eq!(on_windows("gemini.CMD", &folders, ENDINGS), None, "a whole name is taken as it is");
        assert_eq!(on_windows("gemini.cmd", &folders, ENDINGS), Some(npm.join("gemini.cmd")));
        fs::write(npm.join("gemini.exe"), "").unwrap();
        assert_eq!(on_windows("gemini", &folders, ENDINGS), Some(npm.join("gemini.exe")), "as PATHEXT orders them");
        assert_eq!(picked_on_windows(&npm.join("gemini"), ".CMD;.EXE"), Some(npm.join("gemini.cmd")));
    }
}
