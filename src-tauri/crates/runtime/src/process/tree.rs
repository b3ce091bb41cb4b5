//! Ending trees of processes: ask, then kill, look again until nothing is left (R5).

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use super::{
    MARK, SESSION_MARK,
    table::{Force, Identity, Row, Table, signal},
};

/// How long a killed tree is looked at before it is given up as unkillable (a process stuck in the kernel).
const GIVE_UP: Duration = Duration::from_secs(10);
/// Between two looks at the process table.
const LOOK: Duration = Duration::from_millis(20);

/// What belongs together.
#[derive(Debug, Clone)]
pub(super) enum Whose {
    /// One child's tree: its descendants, the members of its session while it lives, and all that carry its mark.
    Child { root: Identity, mark: String },
    /// The same without the root and what shares its session: the shells that an agent runs in sessions of their own.
    Commands { root: Identity, mark: String },
    /// All that carry a mark with this beginning, and their descendants; not this process and not what it descends from.
    Marked { prefix: String },
}

/// Who of them is alive now. `seen` holds who belonged before: a process that lost its parent in between still does.
pub(super) fn members(table: &mut Table, whose: &Whose, seen: &mut HashSet<Identity>) -> Vec<Identity> {
    let rows = table.rows();
    let me = std::process::id();
    let mut inside: HashSet<Identity> = rows
        .iter()
        .filter(|row| row.id.pid != me)
        .filter(|row| seen.contains(&row.id) || belongs(table, whose, row, &rows))
        .map(|row| row.id)
        .collect();
    if let Whose::Child { root, .. } | Whose::Commands { root, .. } = whose {
        inside.extend(rows.iter().find(|row| row.id == *root).map(|row| row.id));
    }
    // Descendants, until a pass finds no more. A parent that is younger than its child only has the pid of the real one.
    loop {
        let parents: HashSet<(u32, u64)> = inside.iter().map(|id| (id.pid, id.started)).collect();
        let older = |row: &Row| parents.iter().any(|(pid, started)| *pid == row.parent && *started <= row.id.started);
        let more: Vec<Identity> = rows
            .iter()
            .filter(|row| row.id.pid != me && !inside.contains(&row.id) && older(row))
            .map(|r| r.id)
            .collect();
        if more.is_empty() {
            break;
        }
        inside.extend(more);
    }
    if let Whose::Commands { root, .. } = whose {
        let home = rows.iter().find(|row| row.id == *root).map_or(0, |row| row.session);
        inside.retain(|id| *id != *root && rows.iter().any(|row| row.id == *id && (home == 0 || row.session != home)));
    }
    seen.extend(inside.iter().copied());
    let mut list: Vec<_> = inside.into_iter().collect();
    list.sort_unstable();
    list
}

fn belongs(table: &Table, whose: &Whose, row: &Row, rows: &[Row]) -> bool {
    match whose {
        Whose::Child { root, mark } | Whose::Commands { root, mark } => {
            // While the root lives its pid cannot be another session's id.
            let in_session = row.session == root.pid && row.session != 0 && rows.iter().any(|r| r.id == *root);
            in_session || table.variable(row.id, SESSION_MARK).as_deref() == Some(mark)
        }
        Whose::Marked { prefix } => table.variable(row.id, MARK).is_some_and(|m| m.starts_with(prefix.as_str())),
    }
}

/// Asks them to end, kills what is left after `grace`, and comes back when a look at the table finds none. Returns how many
/// there were. Blocks its thread. What the system cannot kill within 10 s is logged and left.
pub(super) fn end(whose: &Whose, grace: Duration) -> usize {
    let mut table = Table::new();
    let mut seen = HashSet::new();
    let mut asked = HashSet::new();
    let begun = Instant::now();
    loop {
        let left = members(&mut table, whose, &mut seen);
        if left.is_empty() {
            return seen.len();
        }
        let spent = begun.elapsed();
        if spent < grace {
            for id in left {
                if asked.insert(id) {
                    signal(id, Force::Ask);
                }
            }
        } else if spent < grace + GIVE_UP {
            for id in left {
                signal(id, Force::Kill);
            }
        } else {
            tracing::warn!(processes = ?left, "could not be killed");
            return seen.len();
        }
        thread::sleep(LOOK.min(grace.saturating_sub(spent)).max(Duration::from_millis(5)));
    }
}

/// Ends every process whose [`MARK`] begins with `prefix`, and all their descendants: asked first, killed after 2 s. Used at
/// start with the data folder's hash to end what an earlier run left behind (R5). This process is never ended. Blocks its
/// thread until nothing is left; returns how many there were.
pub fn end_marked(prefix: &str) -> usize {
    end_marked_within(prefix, Duration::from_secs(2))
}

/// [`end_marked`] with another time between asking and killing.
pub fn end_marked_within(prefix: &str, grace: Duration) -> usize {
    // An empty prefix would match the mark of every other run on this machine.
    if prefix.is_empty() { 0 } else { end(&Whose::Marked { prefix: prefix.to_owned() }, grace) }
}
