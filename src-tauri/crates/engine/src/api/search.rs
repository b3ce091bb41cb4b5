//! `search/…`: words in all threads (S3).

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{SearchHit, SearchParams, SearchResponse},
};
use crate::engine::read;

pub(super) async fn messages(api: &Api<'_>, params: SearchParams) -> Result<SearchResponse, ApiError> {
    let words = params.words.trim().to_owned();
    if words.is_empty() || words.len() > 256 {
        return Err(ApiError::new(ErrorCode::BadRequest, "Give 1 to 256 characters to search for."));
    }
    let limit = params.limit.unwrap_or(50).clamp(1, 100) as usize;
    let store = api.inner.store.clone();
    let found = read(move || store.search(&words, None, limit)).await?;
    let hits = found
        .hits
        .into_iter()
        .map(|hit| SearchHit { thread_id: hit.thread, seq: hit.seq, excerpt: hit.excerpt, at: hit.at })
        .collect();
    Ok(SearchResponse { hits, not_searched: found.not_searched })
}
