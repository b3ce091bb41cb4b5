//! Reading connections: opened when first needed, a bounded number, lent one at a time.

use std::{
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use crate::error::Result;

/// How long a connection waits for another's lock before it gives up.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

pub(crate) struct Pool {
    path: PathBuf,
    max: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    open: usize,
}

impl Pool {
    pub(crate) fn new(path: &Path, max: usize) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), max: max.max(1), state: Mutex::default(), returned: Condvar::new() })
    }

    /// A connection; waits while all are lent.
    pub(crate) fn get(self: &Arc<Self>) -> Result<Reader> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let conn = loop {
            if let Some(conn) = state.idle.pop() {
                break conn;
            }
            if state.open < self.max {
                state.open += 1;
                drop(state);
                match connect(&self.path) {
                    Ok(conn) => break conn,
                    Err(error) => {
                        self.state.lock().unwrap_or_else(PoisonError::into_inner).open -= 1;
                        self.returned.notify_one();
                        return Err(error);
                    }
                }
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        Ok(Reader { conn: Some(conn), pool: Arc::clone(self) })
    }

    /// Closes every idle connection.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open -= state.idle.len();
        state.idle.clear();
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// A lent connection.
pub(crate) struct Reader {
    conn: Option<Connection>,
    pool: Arc<Pool>,
}

impl Deref for Reader {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        match &self.conn {
            Some(conn) => conn,
            None => unreachable!("a reader holds its connection until it is dropped"),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(conn) = self.conn.take() else { return };
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        if conn.is_autocommit() {
            state.idle.push(conn);
        } else {
            // A transaction was left open: such a connection is not lent again.
            state.open -= 1;
        }
        self.pool.returned.notify_one();
    }
}
