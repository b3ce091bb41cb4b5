//! Where package and version managers put programs: looked at even if no profile names them (R6).

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::session::Environment;

/// The known folders that exist, most wanted first.
pub(super) fn folders(env: &Environment) -> Vec<String> {
    let text = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(home) = text("HOME").or_else(|| text("USERPROFILE")) else { return Vec::new() };
    let or_home = |name: &str, below: &str| text(name).unwrap_or_else(|| home.join(below));
    let mut list =
        vec![home.join(".local/bin"), home.join("bin"), home.join(".claude/local"), home.join(".opencode/bin")];
    list.push(or_home("BUN_INSTALL", ".bun").join("bin"));
    list.push(or_home("CARGO_HOME", ".cargo").join("bin"));
    list.push(or_home("VOLTA_HOME", ".volta").join("bin"));
    list.push(or_home("ASDF_DATA_DIR", ".asdf").join("shims"));
    list.push(or_home("MISE_DATA_DIR", ".local/share/mise").join("shims"));
    list.push(or_home("PNPM_HOME", if cfg!(target_os = "macos") { "Library/pnpm" } else { ".local/share/pnpm" }));
    list.push(home.join(".deno/bin"));
    list.extend(npm_prefix(&home, env).map(|prefix| if cfg!(windows) { prefix } else { prefix.join("bin") }));
    list.push(home.join(".npm-global/bin"));
    list.extend(nvm(&or_home("NVM_DIR", ".nvm")));
    let fnm = [home.join(".local/share/fnm"), home.join("Library/Application Support/fnm"), home.join(".fnm")];
    list.extend(text("FNM_DIR").into_iter().chain(fnm).map(|dir| dir.join("aliases/default/bin")));
    if cfg!(windows) {
        list.extend(text("APPDATA").map(|dir| dir.join("npm")));
        list.extend(text("LOCALAPPDATA").map(|dir| dir.join("Volta/bin")));
        list.extend(text("ProgramFiles").map(|dir| dir.join("nodejs")));
    } else {
        list.extend(
            ["/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/local/bin", "/usr/bin", "/bin"]
                .map(PathBuf::from),
        );
        list.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    }
    list.into_iter()
        .filter(|folder| folder.is_dir())
        .filter_map(|folder| folder.into_os_string().into_string().ok())
        .collect()
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
        for folder in [".nvm/alias", ".local/bin", ".claude/local", "pre fix/bin", ".volta/bin"] {
            fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        fs::write(home.path().join(".npmrc"), "registry=x\nprefix = ${HOME}/pre fix\n").unwrap();
        let env = Environment::from([("HOME".into(), home.path().to_str().unwrap().into())]);
        let newest = folders(&env);
        for wanted in [".local/bin", ".claude/local", "pre fix/bin", ".volta/bin", ".nvm/versions/node/v22.1.0/bin"] {
            assert!(newest.contains(&at(wanted)), "{wanted} is not in {newest:?}");
        }
        assert!(!newest.contains(&at(".asdf/shims")));
        fs::write(home.path().join(".nvm/alias/default"), "20\n").unwrap();
        assert!(folders(&env).contains(&at(".nvm/versions/node/v20.10.0/bin")));
        fs::write(home.path().join(".nvm/alias/default"), "lts/*\n").unwrap();
        assert!(folders(&env).contains(&at(".nvm/versions/node/v22.1.0/bin")));
    }
}
