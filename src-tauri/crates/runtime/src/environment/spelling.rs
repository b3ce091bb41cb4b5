//! Names on Windows: `Path` and `PATH` are one variable there, and two keys of a map.

use super::strip;

/// Names that are looked for, as Windows and its programs spell them most.
const NAMES: &[&str] = &[
    "PATH",
    "PATHEXT",
    "HOME",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "ProgramFiles",
    "ProgramData",
    "SystemRoot",
    "TEMP",
    "TMP",
    "CODEX_HOME",
    "CLAUDE_CONFIG_DIR",
    "BUN_INSTALL",
    "CARGO_HOME",
    "VOLTA_HOME",
    "MISE_DATA_DIR",
    "PNPM_HOME",
    "NPM_CONFIG_PREFIX",
    "NVM_HOME",
    "NVM_SYMLINK",
    "FNM_DIR",
    "SCOOP",
    "ChocolateyInstall",
];

/// The one spelling of a name that is looked for or taken away; any other name as it is.
pub(super) fn of(name: String) -> String {
    let same = |known: &&&str| known.eq_ignore_ascii_case(&name);
    let known = NAMES.iter().find(same).map(|known| (*known).to_owned());
    known.or_else(|| strip::names().find(|known| known.eq_ignore_ascii_case(&name)).map(str::to_owned)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r044_what_windows_spells_its_own_way_is_found() {
        for (given, known) in [
            ("Path", "PATH"),
            ("path", "PATH"),
            ("PathExt", "PATHEXT"),
            ("userprofile", "USERPROFILE"),
            ("PROGRAMFILES", "ProgramFiles"),
            ("openai_api_key", "OPENAI_API_KEY"),
            ("ClaudeCode", "CLAUDECODE"),
            ("MyOwn", "MyOwn"),
            ("ProgramFiles(x86)", "ProgramFiles(x86)"),
        ] {
            assert_eq!(of(given.to_owned()), known);
        }
    }
}
