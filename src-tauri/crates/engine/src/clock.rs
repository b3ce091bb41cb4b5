//! The only place that reads the clock and makes ids, so that all else takes them as arguments (house rule 1).

use std::time::{SystemTime, UNIX_EPOCH};

use changeover_core::Millis;
use uuid::Uuid;

/// Now, in milliseconds since the Unix epoch.
pub fn now() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| Millis::try_from(d.as_millis()).unwrap_or(Millis::MAX))
}

/// A new id, ordered by time.
pub fn id() -> Uuid {
    Uuid::now_v7()
}
