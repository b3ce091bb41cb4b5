//! Ending trees of processes: ask, then kill, look again until nothing is left (R5).

use std::{
    collections::{HashMap, HashSet},
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

/// What earlier looks at the table have told.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Who belonged: a process that lost its parent in between still does.
    ours: HashSet<Identity>,
    /// Whose environment says that it does not, which it will say for ever (an agent's children have its mark from their fork
    /// on): reading everybody's again at each look is most of what a look costs, and on a busy machine there is no time for
    /// that (R5).
    strangers: HashSet<Identity>,
}

/// Who of them is alive now.
pub(super) fn members(table: &mut Table, whose: &Whose, known: &mut Known) -> Vec<Identity> {
    let rows = table.rows();
    let me = std::process::id();
    let above = if matches!(whose, Whose::Marked { .. }) { ancestors(me, &rows) } else { HashSet::new() };
    let mut inside: HashSet<Identity> = rows
        .iter()
        .filter(|row| row.id.pid != me && !above.contains(&row.id.pid))
        .filter(|row| known.ours.contains(&row.id) || belongs(table, whose, row, &rows, &mut known.strangers))
        .map(|row| row.id)
        .collect();
    if let Whose::Child { root, .. } | Whose::Commands { root, .. } = whose {
        inside.extend(rows.iter().find(|row| row.id == *root).map(|row| row.id));
    }
    // Descendants, until a pass finds no more. A parent that is younger than its child only has the pid of the real one.
    let outside = |row: &&Row| row.id.pid != me && !above.contains(&row.id.pid);
    loop {
        let parents: HashMap<u32, u64> = inside.iter().map(|id| (id.pid, id.started)).collect();
        let child_of = |row: &&Row| parents.get(&row.parent).is_some_and(|started| *started <= row.id.started);
        let more: Vec<Identity> = rows
            .iter()
            .filter(outside)
            .filter(|row| !inside.contains(&row.id))
            .filter(child_of)
            .map(|row| row.id)
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
    known.ours.extend(inside.iter().copied());
    let mut list: Vec<_> = inside.into_iter().collect();
    list.sort_unstable();
    list
}

fn ancestors(of: u32, rows: &[Row]) -> HashSet<u32> {
    let mut above = HashSet::new();
    let mut at = of;
    while let Some(row) = rows.iter().find(|row| row.id.pid == at) {
        at = row.parent;
        if !above.insert(at) {
            break;
        }
    }
    above
}

fn belongs(table: &Table, whose: &Whose, row: &Row, rows: &[Row], strangers: &mut HashSet<Identity>) -> bool {
    match whose {
        Whose::Child { root, mark } | Whose::Commands { root, mark } => {
            // While the root lives its pid cannot be another session's id.
            if row.session == root.pid && row.session != 0 && rows.iter().any(|r| r.id == *root) {
                return true;
            }
            if strangers.contains(&row.id) {
                return false;
            }
            let Some(marks) = table.variable(row.id, SESSION_MARK) else { return false };
            let carried = marks.is_some_and(|marks| marks.split('/').any(|m| m == mark));
            if !carried {
                strangers.insert(row.id);
            }
            carried
        }
        // Not remembered: a child that the app was just starting when it was killed carries the mark only once its program runs.
        Whose::Marked { prefix } => {
            table.variable(row.id, MARK).flatten().is_some_and(|m| m.starts_with(prefix.as_str()))
        }
    }
}

/// Asks them to end, kills what is left after `grace`, and comes back when a look at the table finds none. Returns how many
/// there were. Blocks its thread. What the system cannot kill within 10 s is logged and left.
pub(super) fn end(whose: &Whose, grace: Duration) -> usize {
    let mut table = Table::new();
    let mut known = Known::default();
    let mut asked = HashSet::new();
    let begun = Instant::now();
    loop {
        let left = members(&mut table, whose, &mut known);
        if left.is_empty() {
            return known.ours.len();
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
            return known.ours.len();
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
