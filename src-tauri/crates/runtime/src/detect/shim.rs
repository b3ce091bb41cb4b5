//! npm's shims on Windows: a batch file that starts Node with a script. Batch files take no argument with quotes, `%` or line
//! ends unharmed, and `cmd.exe` stands between us and the agent; so what the shim would start is started instead (R6).

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

/// What a shim starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A program, with these arguments before the caller's.
    Program(PathBuf, Vec<OsString>),
    /// A script for Node: the Node beside the shim if there is one, and the arguments up to and with the script.
    Script(Option<PathBuf>, Vec<OsString>),
}

/// Reads a shim of npm, pnpm or yarn. `None`: it is none of these, or what it names is not there; it is run as it is.
pub(super) fn read(shim: &Path, text: &str) -> Option<Target> {
    let folder = shim.parent()?;
    // The line that hands all arguments on; in the forms with two of them both name the same script.
    let line = text.lines().rev().find(|line| line.contains("%*"))?;
    let before = line.get(..line.rfind("%*")?)?.trim_end().strip_suffix('"')?;
    let (head, quoted) = before.rsplit_once('"')?;
    let target = below(folder, quoted)?;
    if !target.is_file() {
        return None;
    }
    let ending = target.extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        "exe" => Some(Target::Program(target, Vec::new())),
        "js" | "mjs" | "cjs" => {
            // Between the program and the script stand the switches of the script's first line.
            let switches = head.trim_end().rsplit_once('"').map_or("", |(_, rest)| rest);
            let switches = switches.split_whitespace().filter(|word| word.starts_with('-'));
            let args = switches.map(OsString::from).chain([target.into_os_string()]).collect();
            Some(Target::Script(Some(folder.join("node.exe")).filter(|node| node.is_file()), args))
        }
        _ => None,
    }
}

/// `%dp0%\a\..\b` or `%~dp0\a`, without the detours.
fn below(folder: &Path, quoted: &str) -> Option<PathBuf> {
    let rest = quoted.strip_prefix("%dp0%").or_else(|| quoted.strip_prefix("%~dp0"))?;
    let mut path = folder.to_owned();
    for step in rest.split(['\\', '/']) {
        match step {
            "" | "." => {}
            ".." => {
                if !path.pop() {
                    return None;
                }
            }
            name if Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) => path.push(name),
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As npm 10 and 11 write it.
    fn npm(target: &str, switches: &str) -> String {
        format!(
            "@ECHO off\r\nGOTO start\r\n:find_dp0\r\nSET dp0=%~dp0\r\nEXIT /b\r\n:start\r\nSETLOCAL\r\nCALL :find_dp0\r\n\r\n\
             IF EXIST \"%dp0%\\node.exe\" (\r\n  SET \"_prog=%dp0%\\node.exe\"\r\n) ELSE (\r\n  SET \"_prog=node\"\r\n  \
             SET PATHEXT=%PATHEXT:;.JS;=;%\r\n)\r\n\r\nendLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & \
             \"%_prog%\" {switches} \"%dp0%\\{target}\" %*\r\n"
        )
    }

    fn args(list: &[&str], script: &Path) -> Vec<OsString> {
        list.iter().map(OsString::from).chain([script.as_os_str().to_owned()]).collect()
    }

    #[test]
    fn r041_an_npm_shim_is_followed_to_what_it_starts() {
        let dir = tempfile::tempdir().unwrap();
        let (shim, script) =
            (dir.path().join("gemini.cmd"), dir.path().join("node_modules/@google/gemini-cli/index.js"));
        let text = npm("node_modules\\@google\\gemini-cli\\index.js", "--no-warnings=DEP0040");
        assert_eq!(read(&shim, &text), None, "what is not there is not run");
        fs::create_dir_all(script.parent().unwrap()).unwrap();
        fs::write(&script, "").unwrap();
        assert_eq!(read(&shim, &text), Some(Target::Script(None, args(&["--no-warnings=DEP0040"], &script))));
        fs::write(dir.path().join("node.exe"), "").unwrap();
        let own = Some(dir.path().join("node.exe"));
        assert_eq!(read(&shim, &text), Some(Target::Script(own.clone(), args(&["--no-warnings=DEP0040"], &script))));

        let program = dir.path().join("node_modules/opencode-ai/bin/opencode.exe");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        let direct = "@SETLOCAL\r\n@\"%~dp0\\node_modules\\opencode-ai\\bin\\opencode.exe\"   %*\r\n";
        assert_eq!(read(&shim, direct), Some(Target::Program(program, Vec::new())));

        // pnpm: two lines, the detour up and down again.
        let pnpm = "@SETLOCAL\r\n@IF EXIST \"%~dp0\\node.exe\" (\r\n  \"%~dp0\\node.exe\"  \
             \"%~dp0\\x\\..\\node_modules\\@google\\gemini-cli\\index.js\" %*\r\n) ELSE (\r\n  \
             @SET PATHEXT=%PATHEXT:;.JS;=;%\r\n  node  \"%~dp0\\x\\..\\node_modules\\@google\\gemini-cli\\index.js\" %*\r\n)";
        assert_eq!(read(&shim, pnpm), Some(Target::Script(own, args(&[], &script))));
    }

    #[test]
    fn r041_another_batch_file_is_run_as_it_is() {
        let shim = Path::new("/somewhere/agent.cmd");
        for text in ["", "@echo off\r\ncall \"C:\\tools\\agent.exe\" %*", "node script.js", "\"%dp0%\\agent.py\" %*"] {
            assert_eq!(read(shim, text), None, "{text}");
        }
    }
}
