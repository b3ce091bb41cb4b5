//! Between Rust and SQLite: ids as blobs, numbers as 64-bit integers, small enums as words, records as JSON.

use changeover_core::{
    id::{MessageId, ThreadId},
    seq::Seq,
};
use rusqlite::Row;
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::error::{Fault, Result};

/// A number as SQLite keeps it. Ours never come near the limit; one that does is held there rather than wrapped.
pub(crate) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A number from SQLite; a negative one, which we never write, is 0.
pub(crate) fn seq(n: i64) -> Seq {
    u64::try_from(n).unwrap_or(0)
}

/// An id column.
pub(crate) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
}

pub(crate) fn thread_id(row: &Row<'_>, column: usize) -> rusqlite::Result<ThreadId> {
    id(row, column).map(ThreadId)
}

pub(crate) fn message_id(row: &Row<'_>, column: usize) -> rusqlite::Result<MessageId> {
    id(row, column).map(MessageId)
}

/// A record as JSON.
pub(crate) fn json<T: Serialize>(what: &str, value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Fault::record(what, error))
}

/// A record out of JSON.
pub(crate) fn parse<T: DeserializeOwned>(what: impl FnOnce() -> String, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Fault::record(what(), error))
}

/// An enum without fields as its wire word, without quotes.
pub(crate) fn word<T: Serialize>(value: &T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(Fault::record("a word", other)),
        Err(error) => Err(Fault::record("a word", error)),
    }
}

/// An enum out of its wire word.
pub(crate) fn unword<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}
