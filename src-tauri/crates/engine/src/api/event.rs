//! `event/…`: what a connection wants to hear.

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{EventWatchParams, Nothing},
};

/// Threads that one connection may watch.
const WATCHED: usize = 16;

pub(super) async fn watch(api: &Api<'_>, params: EventWatchParams) -> Result<Nothing, ApiError> {
    let Some(subscriber) = api.caller.subscriber else {
        return Err(ApiError::new(ErrorCode::BadRequest, "This connection has no events.")
            .hint("Ask over the WebSocket, or over the window's channel."));
    };
    if params.thread_ids.len() > WATCHED {
        return Err(ApiError::new(ErrorCode::BadRequest, format!("A connection watches at most {WATCHED} threads.")));
    }
    api.inner.hub.watch(subscriber, params.thread_ids.into_iter().collect());
    Ok(Nothing {})
}
