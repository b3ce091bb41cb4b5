//! Named fault points: places where the driver can be told to die, as by kill -9. `CHANGEOVER_FAULT=<name>[:<n>]` names the
//! point and the n-th time it is passed (1 if absent). Without the variable a point costs one look at a static.

use std::{
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// The variable.
pub const VARIABLE: &str = "CHANGEOVER_FAULT";

/// Every point, in the order in which a turn passes them; tests go through this list.
pub const POINTS: &[&str] = &[
    "before-commit-preparing",
    "after-commit-preparing",
    "before-open",
    "after-open",
    "before-commit-sent",
    "after-commit-sent",
    "before-write",
    "after-write",
    "before-commit-taken",
    "after-commit-taken",
    "before-commit-streaming",
    "after-commit-streaming",
    "before-chunk",
    "after-chunk",
    "before-commit-waiting",
    "after-commit-waiting",
    "before-commit-interrupting",
    "after-commit-interrupting",
    "before-commit-completed",
    "after-commit-completed",
];

struct Armed {
    name: String,
    left: AtomicU32,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

fn armed() -> Option<&'static Armed> {
    ARMED
        .get_or_init(|| {
            let value = std::env::var(VARIABLE).ok()?;
            let (name, n) = value.rsplit_once(':').map_or((value.as_str(), "1"), |(name, n)| (name, n));
            Some(Armed { name: name.to_owned(), left: AtomicU32::new(n.parse().unwrap_or(1)) })
        })
        .as_ref()
}

/// Dies here if told to.
pub fn point(name: &str) {
    let Some(armed) = armed() else { return };
    if armed.name == name && armed.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        die();
    }
}

/// The variable that names a file with a number in it: so many pages of 4 KiB the database may have from the next commit on. A
/// disk that is full until somebody makes room (S1).
pub const DISK: &str = "CHANGEOVER_DISK_PAGES";

static PAGES: OnceLock<Option<PathBuf>> = OnceLock::new();

/// The disk's size in pages, if it was given one.
pub fn disk_pages() -> Option<u32> {
    let file = PAGES.get_or_init(|| std::env::var_os(DISK).map(PathBuf::from)).as_ref()?;
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Ends this process as kill -9 does: nothing is flushed, no destructor runs.
#[cfg(unix)]
fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

#[cfg(not(unix))]
fn die() -> ! {
    std::process::abort()
}
