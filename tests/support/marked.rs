//! The processes of an app under test, seen from outside: by the mark that its children carry, and by descent (R5).

use std::{
    collections::BTreeSet,
    fmt, fs,
    path::Path,
    time::{Duration, Instant},
};

use changeover_core::handoff::render;
use changeover_runtime::process::MARK;

/// One process for as long as it lives: a pid that is used again has another start time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// Its process id.
    pub pid: u32,
    /// When it was started, in clock ticks since boot.
    pub started: u64,
    /// Its command line.
    pub command: String,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.pid, self.command)
    }
}

struct Stat {
    parent: u32,
    started: u64,
}

/// Of a process that is alive: a zombie is gone, it only waits for its parent.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some(Stat { parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn seen(pid: u32) -> Option<Seen> {
    let started = stat(pid)?.started;
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned();
    Some(Seen { pid, started, command })
}

/// Everything alive that carries a mark of this data folder's engine, of whatever run.
pub fn marked(data: &Path) -> Vec<Seen> {
    let begins = format!("{MARK}={}.", &render::hash(&data.display().to_string())[..16]);
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(begins.as_bytes()))
    };
    pids().into_iter().filter(carries).filter_map(seen).collect()
}

/// A process and all its descendants.
pub fn family(root: u32) -> Vec<Seen> {
    let all: Vec<(u32, u32)> = pids().into_iter().filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut inside = BTreeSet::from([root]);
    loop {
        let before = inside.len();
        let more: Vec<u32> = all.iter().filter(|(_, parent)| inside.contains(parent)).map(|(pid, _)| *pid).collect();
        inside.extend(more);
        if inside.len() == before {
            return inside.into_iter().filter_map(seen).collect();
        }
    }
}

/// Who of these is still alive.
pub fn alive(of: &[Seen]) -> Vec<Seen> {
    of.iter().filter(|one| stat(one.pid).is_some_and(|now| now.started == one.started)).cloned().collect()
}

/// Everything of this app that lives: what carries the folder's mark, and what descends from the app (its guard does not carry it).
pub fn all_of(app: u32, data: &Path) -> Vec<Seen> {
    let mut all = family(app);
    all.extend(marked(data));
    all.sort();
    all.dedup();
    all
}

/// Waits until none of `before` and nothing that carries the mark is left; how long that took.
///
/// # Panics
/// When something is left after `limit`.
pub async fn gone_within(limit: Duration, data: &Path, before: &[Seen]) -> Duration {
    let begun = Instant::now();
    loop {
        let mut left = alive(before);
        left.extend(marked(data));
        let spent = begun.elapsed();
        if left.is_empty() {
            return spent;
        }
        assert!(spent < limit, "{} ms later these are left: {left:#?}", spent.as_millis());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
