//! Search.

use changeover_core::{Millis, id::ThreadId, seq::Seq};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// Searches all threads.
    pub struct SearchParams {
        /// Words; all must occur. 1 to 256 characters.
        words: String,
        /// At most so many (1 to 100; default 50).
        #[serde(default)] limit: Option<u32>,
    }
    /// One hit.
    pub struct SearchHit {
        /// In which thread.
        thread_id: ThreadId,
        /// Which message.
        seq: Seq,
        /// The text around the hit.
        excerpt: String,
        /// When it was written.
        at: Millis,
    }
    /// Hits, newest first.
    pub struct SearchResponse {
        /// The hits.
        hits: Vec<SearchHit>,
        /// What was not searched, in words, if anything.
        not_searched: Option<String>,
    }
}
