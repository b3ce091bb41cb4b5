//! Tokens that nobody can guess, and values that nobody is shown.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;

/// Secret values by name. No keychain of the system's is used yet, so they live in this process's memory and nowhere else: for
/// this run (R7). Never in the database, a log or an answer.
#[derive(Default)]
pub(crate) struct Secrets(Mutex<BTreeMap<String, String>>);

impl Secrets {
    /// Whether the values outlive this process.
    pub(crate) const LAST: bool = false;

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, name: &str, value: String) {
        self.values().insert(name.to_owned(), value);
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.values().get(name).cloned()
    }

    pub(crate) fn remove(&self, name: &str) {
        self.values().remove(name);
    }
}

/// A new token: 244 random bits as hex, from the operating system's generator.
pub fn token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Whether two tokens are the same, in a time that does not depend on where they differ.
pub fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
}
