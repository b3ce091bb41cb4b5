//! Where package and version managers put programs: looked at even if no profile names them (R6).

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::session::Environment;

/// Whose rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Linux,
    MacOs,
    Windows,
}

impl System {
    pub(super) fn this() -> Self {
        match std::env::consts::OS {
            "windows" => Self::Windows,
            "macos" => Self::MacOs,
            _ => Self::Linux,
        }
    }
}

/// The known folders that exist, most wanted first.
pub(super) fn folders(env: &Environment, system: System) -> Vec<String> {
    folders_below(Path::new("/"), env, system)
}

/// [`folders`], with the machine's own ones below `root`.
fn folders_below(root: &Path, env: &Environment, system: System) -> Vec<String> {
    let text = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut list = Vec::new();
    if let Some(home) = text("HOME").or_else(|| text("USERPROFILE")) {
        of_a_person(&home, env, system, &mut list);
    }
    match system {
        System::Windows => {
            list.extend(text("APPDATA").map(|dir| dir.join("npm")));
            let local = ["pnpm", "Volta/bin", "Microsoft/WinGet/Links", "Programs/nodejs"];
            list.extend(text("LOCALAPPDATA").into_iter().flat_map(|dir| local.map(|below| dir.join(below))));
            list.extend(text("NVM_SYMLINK"));
            list.extend(text("APPDATA").map(|dir| dir.join("fnm/aliases/default")));
            list.extend(text("ProgramFiles").map(|dir| dir.join("nodejs")));
            let choco = || text("ProgramData").map(|dir| dir.join("chocolatey"));
            list.extend(text("ChocolateyInstall").or_else(choco).map(|dir| dir.join("bin")));
        }
        System::MacOs | System::Linux => {
            let (homebrew, other): (&[&str], &[&str]) = match system {
                System::MacOs => (&["opt/homebrew/bin", "opt/homebrew/sbin"], &["opt/local/bin"]),
                _ => (&["home/linuxbrew/.linuxbrew/bin"], &["snap/bin"]),
            };
            let shared = ["usr/local/bin", "nix/var/nix/profiles/default/bin", "run/current-system/sw/bin"];
            let base = ["usr/bin", "bin", "usr/sbin", "sbin"];
            let all = homebrew.iter().chain(&shared).chain(other).chain(&base);
            list.extend(all.map(|below| root.join(below)));
        }
    }
    list.into_iter()
        .filter(|folder| folder.is_dir())
        .filter_map(|folder| folder.into_os_string().into_string().ok())
        .collect()
}

fn of_a_person(home: &Path, env: &Environment, system: System, list: &mut Vec<PathBuf>) {
    let text = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let or_home = |name: &str, below: &str| text(name).unwrap_or_else(|| home.join(below));
    list.extend([".local/bin", "bin", ".claude/local", ".opencode/bin"].map(|below| home.join(below)));
    list.push(or_home("BUN_INSTALL", ".bun").join("bin"));
    list.push(or_home("CARGO_HOME", ".cargo").join("bin"));
    list.push(or_home("VOLTA_HOME", ".volta").join("bin"));
    // asdf's shims call asdf itself, which older ones keep beside them.
    list.push(or_home("ASDF_DATA_DIR", ".asdf").join("shims"));
    list.push(or_home("ASDF_DIR", ".asdf").join("bin"));
    let mise = || text("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share")).join("mise");
    list.push(text("MISE_DATA_DIR").unwrap_or_else(mise).join("shims"));
    list.push(or_home("PNPM_HOME", if system == System::MacOs { "Library/pnpm" } else { ".local/share/pnpm" }));
    list.push(home.join(".deno/bin"));
    list.push(home.join(".nix-profile/bin"));
    list.push(or_home("SCOOP", "scoop").join("shims"));
    let below = if system == System::Windows { "" } else { "bin" };
    list.extend(npm_prefix(home, env).map(|prefix| prefix.join(below)));
    list.push(home.join(".npm-global").join(below));
    list.extend(nvm(&or_home("NVM_DIR", ".nvm")));
    let fnm = [home.join(".local/share/fnm"), home.join("Library/Application Support/fnm"), home.join(".fnm")];
    list.extend(text("FNM_DIR").into_iter().chain(fnm).map(|dir| dir.join("aliases/default").join(below)));
}

/// `prefix=` of npm's own settings: where `npm install -g` puts programs.
fn npm_prefix(home: &Path, env: &Environment) -> Option<PathBuf> {
    if let Some(prefix) = env.get("NPM_CONFIG_PREFIX").or_else(|| env.get("npm_config_prefix")) {
        return Some(PathBuf::from(prefix));
    }
    let settings = fs::read_to_string(home.join(".npmrc")).ok()?;
    let value = settings.lines().find_map(|line| line.trim().strip_prefix("prefix")?.trim_start().strip_prefix('='))?;
    let value = value.trim().trim_matches(['"', '\'']);
    let below = value.strip_prefix("~/").or_else(|| value.strip_prefix("${HOME}/"));
    Some(below.map_or_else(|| PathBuf::from(value), |rest| home.join(rest)))
}

/// nvm keeps one folder per version: the one of its default alias, else the newest.
fn nvm(dir: &Path) -> Option<PathBuf> {
    let versions = dir.join("versions/node");
    let mut have: Vec<(Vec<u64>, PathBuf)> = fs::read_dir(&versions)
        .ok()?
        .flatten()
        .filter_map(|entry| Some((numbers(entry.file_name().to_str()?)?, entry.path().join("bin"))))
        .collect();
    have.sort();
    let wanted = fs::read_to_string(dir.join("alias/default")).ok().and_then(|alias| numbers(alias.trim()));
    let default = wanted.and_then(|wanted| have.iter().rev().find(|(version, _)| version.starts_with(&wanted)));
    default.or(have.last()).map(|(_, bin)| bin.clone())
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    version.trim_start_matches('v').split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_managers_are_found_with_the_version_that_is_their_default() {
        let home = tempfile::tempdir().unwrap();
        let at = |below: &str| home.path().join(below).to_str().unwrap().to_owned();
        for folder in ["v9.1.0/bin", "v20.9.0/bin", "v20.10.0/bin", "v22.1.0/bin"] {
            fs::create_dir_all(home.path().join(".nvm/versions/node").join(folder)).unwrap();
        }
        let made = [
            ".nvm/alias",
            ".local/bin",
            ".claude/local",
            "pre fix/bin",
            ".volta/bin",
            ".local/share/mise/shims",
            ".local/share/fnm/aliases/default/bin",
            ".cargo/bin",
            ".bun/bin",
        ];
        for folder in made {
            fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        fs::write(home.path().join(".npmrc"), "registry=x\nprefix = ${HOME}/pre fix\n").unwrap();
        let env = Environment::from([("HOME".into(), home.path().to_str().unwrap().into())]);
        let folders = |env: &Environment| folders(env, System::Linux);
        let newest = folders(&env);
        for wanted in made[1..].iter().chain(&[".nvm/versions/node/v22.1.0/bin"]) {
            assert!(newest.contains(&at(wanted)), "{wanted} is not in {newest:?}");
        }
        assert!(!newest.contains(&at(".asdf/shims")), "what is not there is not named");
        fs::create_dir_all(home.path().join(".asdf/shims")).unwrap();
        assert!(folders(&env).contains(&at(".asdf/shims")));
        fs::write(home.path().join(".nvm/alias/default"), "20\n").unwrap();
        assert!(folders(&env).contains(&at(".nvm/versions/node/v20.10.0/bin")));
        fs::write(home.path().join(".nvm/alias/default"), "lts/*\n").unwrap();
        assert!(folders(&env).contains(&at(".nvm/versions/node/v22.1.0/bin")));
    }

    #[test]
    fn r036_homebrew_is_looked_at_where_the_session_names_only_usr_bin() {
        let root = tempfile::tempdir().unwrap();
        let at = |below: &str| root.path().join(below).to_str().unwrap().to_owned();
        for folder in ["opt/homebrew/bin", "home/linuxbrew/.linuxbrew/bin", "usr/local/bin", "usr/bin"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let env = Environment::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let on = |system| folders_below(root.path(), &env, system);
        assert_eq!(on(System::MacOs), [at("opt/homebrew/bin"), at("usr/local/bin"), at("usr/bin")]);
        assert_eq!(on(System::Linux), [at("home/linuxbrew/.linuxbrew/bin"), at("usr/local/bin"), at("usr/bin")]);
    }

    #[test]
    fn r044_on_windows_the_folders_hang_off_the_users_own_variables() {
        let dir = tempfile::tempdir().unwrap();
        let set = |below: &str| dir.path().join(below).to_str().unwrap().to_owned();
        let env: Environment = [
            ("USERPROFILE", "Users/ada"),
            ("APPDATA", "Users/ada/AppData/Roaming"),
            ("LOCALAPPDATA", "Users/ada/AppData/Local"),
            ("ProgramFiles", "Program Files"),
            ("ProgramData", "ProgramData"),
        ]
        .map(|(name, below)| (name.to_owned(), set(below)))
        .into();
        let wanted = [
            "Users/ada/.local/bin",
            "Users/ada/.bun/bin",
            "Users/ada/scoop/shims",
            "Users/ada/AppData/Roaming/npm",
            "Users/ada/AppData/Local/pnpm",
            "Users/ada/AppData/Local/Volta/bin",
            "Users/ada/AppData/Local/Microsoft/WinGet/Links",
            "Users/ada/AppData/Roaming/fnm/aliases/default",
            "Program Files/nodejs",
            "ProgramData/chocolatey/bin",
        ];
        assert_eq!(folders(&env, System::Windows), [""; 0]);
        for folder in wanted {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        assert_eq!(folders(&env, System::Windows), wanted.map(set));
    }
}
