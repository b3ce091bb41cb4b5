//! What agents are given (R6), against real shells. A shell that is not on this machine is said so and skipped.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use changeover_core::failure::FailureKind;
use changeover_runtime::{detect, environment, session::Environment};

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("from profile/bin")).unwrap();
        Self { dir }
    }
    fn path(&self) -> &Path {
        self.dir.path()
    }
    fn wanted(&self) -> String {
        self.path().join("from profile/bin").to_str().unwrap().to_owned()
    }
    /// What a desktop session gives.
    fn bare(&self, shell: &Path) -> Environment {
        Environment::from([
            ("HOME".into(), self.path().to_str().unwrap().into()),
            ("SHELL".into(), shell.to_str().unwrap().into()),
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("DISPLAY".into(), ":7".into()),
        ])
    }
}

fn shell(name: &str) -> Option<PathBuf> {
    let found = which::which(name).ok();
    if found.is_none() {
        // `./dev test` installs all of them but nu, which few package managers have.
        assert!(name == "nu" || std::env::var_os("CI").is_none(), "{name} is not on this machine");
        eprintln!("skipped: {name} is not on this machine");
    }
    found
}

fn folders(env: &Environment) -> Vec<String> {
    env["PATH"].split(':').map(str::to_owned).collect()
}

/// Noise before and after, a value over two lines, a fake end marker, and the folder that counts.
const NOISE: &str = r#"
echo "Welcome! <abc> PATH=/evil"; printf '</'; echo noise >&2
export TWO_LINES="one
PATH=/evil"
export DISPLAY=":0"
"#;

async fn repaired_by(name: &str, files: &[&str], set: &str) {
    let Some(shell) = shell(name) else { return };
    let home = Home::new();
    for file in files {
        let file = home.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, set.replace("WANTED", &home.wanted())).unwrap();
    }
    let repaired = environment::repaired(home.bare(&shell)).await;
    assert_eq!(repaired.problem, None);
    let path = folders(&repaired.env);
    assert_eq!(path[0], home.wanted(), "{path:?}");
    assert!(path.contains(&"/usr/bin".to_owned()) && !path.iter().any(|f| f == "/evil"));
    assert!(repaired.from_shell.contains(&home.wanted()));
    assert_eq!(repaired.env["TWO_LINES"], "one\nPATH=/evil");
    assert_eq!(repaired.env["DISPLAY"], ":7", "what the session gave stays");
    for own in ["SHLVL", "PWD", "_", "TERM", "CHANGEOVER_SESSION_MARK", "CHANGEOVER_READS_ENVIRONMENT"] {
        assert!(!repaired.env.contains_key(own), "{own}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_with_a_noisy_interactive_profile() {
    let set = format!("{NOISE}\nexport PATH=\"WANTED:$PATH\"\n");
    repaired_by("bash", &[".bash_profile"], &set).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zsh_with_a_noisy_interactive_profile() {
    let set = format!("{NOISE}\nexport PATH=\"WANTED:$PATH\"\n");
    repaired_by("zsh", &[".zshrc"], &set).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fish_with_a_noisy_interactive_profile() {
    let set = "echo '<abc> PATH=/evil'\nset -gx TWO_LINES 'one\nPATH=/evil'\nset -gx PATH 'WANTED' $PATH\n";
    repaired_by("fish", &[".config/fish/config.fish"], set).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nu_with_its_own_kind_of_profile() {
    let set = "$env.TWO_LINES = \"one\\nPATH=/evil\"\n$env.PATH = ($env.PATH | prepend 'WANTED')\n";
    repaired_by("nu", &[".config/nushell/env.nu"], set).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_profile_costs_its_limit_and_leaves_nothing_behind() {
    let home = Home::new();
    fs::write(
        home.path().join(".bash_profile"),
        "trap '' TERM INT; echo $$ > \"$HOME/pid\"; setsid sleep 1000 & sleep 1000\n",
    )
    .unwrap();
    let begun = Instant::now();
    let repaired = environment::repaired_within(home.bare(Path::new("/bin/bash")), Duration::from_secs(2)).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(repaired.problem.unwrap().contains("took too long"));
    assert!(folders(&repaired.env).contains(&"/usr/bin".to_owned()));
    let pid = fs::read_to_string(home.path().join("pid")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(3);
    while fs::read_to_string(format!("/proc/{}/environ", pid.trim())).is_ok_and(|e| !e.is_empty()) {
        assert!(Instant::now() < deadline, "the shell is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_reads_or_becomes_another_program_is_got_round() {
    let home = Home::new();
    let profile =
        format!("read -r answer\ncase $- in *i*) exec cat;; esac\nexport TWO_LINES=x PATH='{}':$PATH\n", home.wanted());
    fs::write(home.path().join(".bash_profile"), profile).unwrap();
    let repaired = environment::repaired(home.bare(Path::new("/bin/bash"))).await;
    assert_eq!(repaired.problem, None);
    assert_eq!(folders(&repaired.env)[0], home.wanted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminals_path_goes_first_and_what_is_missing_is_added() {
    let home = Home::new();
    fs::write(home.path().join(".bash_profile"), format!("export PATH='{}'\n", home.wanted())).unwrap();
    fs::create_dir_all(home.path().join(".local/bin")).unwrap();
    let mut base = home.bare(Path::new("/bin/bash"));
    base.insert("PATH".into(), "/opt/mine/bin:/usr/bin".into());
    let path = folders(&environment::repaired(base).await.env);
    let local = home.path().join(".local/bin").to_str().unwrap().to_owned();
    assert_eq!(path[..4], ["/opt/mine/bin".to_owned(), "/usr/bin".into(), home.wanted(), local]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_shell_at_all_still_gives_an_environment() {
    let home = Home::new();
    let repaired = environment::repaired(home.bare(&home.path().join("no-shell"))).await;
    assert!(repaired.problem.unwrap().contains("not installed"));
    assert!(folders(&repaired.env).contains(&"/usr/bin".to_owned()));
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn on_path(folder: &Path) -> Environment {
    Environment::from([("PATH".into(), format!("{}:/usr/bin:/bin", folder.display()))])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_detected_is_what_answers_for_its_version() {
    let dir = tempfile::tempdir().unwrap();
    program(&dir.path().join("bin/agent"), "#!/bin/sh\necho; echo \"agent 1.2.3 $0\"; echo more\n");
    let env = on_path(&dir.path().join("bin"));
    let found = detect::find("agent", None, &env).unwrap();
    assert_eq!((found.path.clone(), found.how), (dir.path().join("bin/agent"), "login shell"));
    let version = detect::version(&found, &[], &env).await.unwrap();
    assert_eq!(version, format!("agent 1.2.3 {}", found.path.display()));

    let missing = detect::find("claude", None, &on_path(&dir.path().join("no"))).unwrap_err();
    assert_eq!(missing.kind, FailureKind::NotInstalled);
    assert!(missing.message.contains("claude") && missing.hint.unwrap().contains("npm install"));

    let other = dir.path().join("other/agent");
    program(&other, "#!/bin/sh\necho cannot >&2; exit 1\n");
    let picked = detect::find("agent", Some(&other), &env).unwrap();
    assert_eq!((picked.path.clone(), picked.how), (other.clone(), "picked by hand"));
    let failure = detect::version(&picked, &[], &env).await.unwrap_err();
    assert!(
        failure.kind == FailureKind::NotInstalled && failure.message.ends_with("exit code 1: cannot"),
        "{failure:?}"
    );
    fs::remove_file(&other).unwrap();
    assert_eq!(detect::find("agent", Some(&other), &env).unwrap_err().kind, FailureKind::NotInstalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_never_comes_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    program(&dir.path().join("agent"), "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n");
    let env = on_path(dir.path());
    let found = detect::find("agent", None, &env).unwrap();
    let begun = Instant::now();
    let failure = detect::version(&found, &[], &env).await.unwrap_err();
    assert!(failure.message.contains("no answer in 6 s"), "{}", failure.message);
    assert!(begun.elapsed() < Duration::from_secs(9));
}

/// The layout that npm leaves: a link to a launcher, the platform's program in a package of its own.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn npm_launchers_are_followed_to_the_platforms_program() {
    let dir = tempfile::tempdir().unwrap();
    let modules = dir.path().join("lib/node_modules");
    let bin = dir.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let link = |name: &str, to: &Path| std::os::unix::fs::symlink(to, bin.join(name)).unwrap();

    program(&modules.join("@openai/codex/bin/codex.js"), "#!/usr/bin/env node\n");
    link("codex", &modules.join("@openai/codex/bin/codex.js"));
    let launcher = detect::find("codex", None, &on_path(&bin)).unwrap();
    assert_eq!(launcher.path, bin.join("codex"), "without a platform package the launcher itself is run");
    let root = modules.join("@openai/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl");
    program(&root.join("bin/codex"), "");
    fs::create_dir_all(root.join("codex-path")).unwrap();
    let found = detect::find("codex", None, &on_path(&bin)).unwrap();
    assert_eq!(fs::canonicalize(&found.path).unwrap(), fs::canonicalize(root.join("bin/codex")).unwrap());
    assert!(found.environment(on_path(&bin))["PATH"].contains("/codex-path:"));

    program(&modules.join("@anthropic-ai/claude-code/bin/claude.exe"), "#!/bin/sh\n");
    link("claude", &modules.join("@anthropic-ai/claude-code/bin/claude.exe"));
    program(&modules.join("@anthropic-ai/claude-code-linux-x64/claude"), "");
    let found = detect::find("claude", None, &on_path(&bin)).unwrap();
    assert!(found.path.ends_with("@anthropic-ai/claude-code-linux-x64/claude"), "{found:?}");

    program(&modules.join("opencode-ai/bin/opencode.exe"), "#!/bin/sh\n");
    link("opencode", &modules.join("opencode-ai/bin/opencode.exe"));
    let launcher = detect::find("opencode", None, &on_path(&bin)).unwrap();
    assert_eq!(launcher.path, bin.join("opencode"), "its install script has put the program itself there");
    program(&modules.join("opencode-ai/node_modules/opencode-linux-x64/bin/opencode"), "");
    let found = detect::find("opencode", None, &on_path(&bin)).unwrap();
    assert!(found.path.ends_with("opencode-linux-x64/bin/opencode"), "{found:?}");
}

/// R113: what only the login shell sets reaches the child, unchanged; what belongs to other providers does not.
#[tokio::test(flavor = "multi_thread")]
async fn r113_r134_variables_of_the_login_shell_reach_the_child_intact() {
    let home = Home::new();
    let profile = "export CODEX_HOME=\"$HOME/my codex\"\nexport ODD='C:\\Users\\Ada L\\new \"x\" %PATH% & $(no)'\n\
                   export ANTHROPIC_API_KEY=sk-other OPENAI_API_KEY=sk-own\n";
    fs::write(home.path().join(".bash_profile"), profile).unwrap();
    let env = environment::repaired(home.bare(Path::new("/bin/bash"))).await.env;
    let env = environment::for_provider(env, &"codex".parse().unwrap());
    program(
        &home.path().join("from profile/bin/agent"),
        "#!/bin/sh\nprintf '%s|%s|%s|%s\\n' \"$CODEX_HOME\" \"$ODD\" \"$OPENAI_API_KEY\" \"$ANTHROPIC_API_KEY\"\n",
    );
    let mut env = env;
    env.insert("PATH".into(), format!("{}:{}", home.wanted(), env["PATH"]));
    let found = detect::find("agent", None, &env).unwrap();
    let told = detect::version(&found, &[], &env).await.unwrap();
    let odd = r#"C:\Users\Ada L\new "x" %PATH% & $(no)"#;
    assert_eq!(told, format!("{}/my codex|{odd}|sk-own|", home.path().display()));
}

/// R043: a program that reads its input to the end before it answers is not waited for.
#[tokio::test(flavor = "multi_thread")]
async fn r043_standard_input_is_closed_for_who_is_asked_something() {
    let dir = tempfile::tempdir().unwrap();
    program(&dir.path().join("agent"), "#!/bin/sh\ncat >/dev/null; echo read to the end\n");
    let env = on_path(dir.path());
    let found = detect::find("agent", None, &env).unwrap();
    let begun = Instant::now();
    assert_eq!(detect::version(&found, &[], &env).await.unwrap(), "read to the end");
    assert!(begun.elapsed() < detect::VERSION_LIMIT);
}

/// A login shell that has become another one is asked through its input.
#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_becomes_another_shell_for_good_is_asked_all_the_same() {
    let Some(fish) = shell("fish") else { return };
    let home = Home::new();
    fs::write(home.path().join(".bash_profile"), format!("export FROM=bash\nexec {}\n", fish.display())).unwrap();
    fs::create_dir_all(home.path().join(".config/fish")).unwrap();
    fs::write(home.path().join(".config/fish/config.fish"), format!("set -gx PATH '{}' $PATH\n", home.wanted()))
        .unwrap();
    let repaired = environment::repaired_within(home.bare(Path::new("/bin/bash")), Duration::from_secs(60)).await;
    assert_eq!(repaired.problem, None);
    assert_eq!(folders(&repaired.env)[0], home.wanted());
    assert_eq!(repaired.env["FROM"], "bash");
}

/// A profile that ends the shell, or fails at its first line, costs nothing but what it would have set.
#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_exits_leaves_the_known_folders() {
    let home = Home::new();
    fs::write(home.path().join(".bash_profile"), "export X=1; echo bye; exit 3\n").unwrap();
    fs::create_dir_all(home.path().join(".volta/bin")).unwrap();
    let repaired = environment::repaired(home.bare(Path::new("/bin/bash"))).await;
    assert_eq!(repaired.problem.as_deref(), Some("/bin/bash gave no answer"));
    let path = folders(&repaired.env);
    assert_eq!(path[..2], ["/usr/bin", "/bin"]);
    assert!(path.contains(&home.path().join(".volta/bin").to_str().unwrap().to_owned()));
}
