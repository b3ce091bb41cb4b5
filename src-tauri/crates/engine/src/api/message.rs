//! `message/…` and `part/…`: pins, exclusion (H2), and parts that a page holds only in short.

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{EventBody, MessageSwitchParams, Nothing, PartReadParams, PartReadResponse},
};
use crate::engine::read;

impl Api<'_> {
    async fn mark(&self, params: MessageSwitchParams, pin: bool) -> Result<Nothing, ApiError> {
        let (pinned, excluded) = if pin { (Some(params.on), None) } else { (None, Some(params.on)) };
        self.inner.store.mark_message(params.thread_id, params.message_id, pinned, excluded).await?;
        let (store, thread, id) = (self.inner.store.clone(), params.thread_id, params.message_id);
        let message = read(move || store.read_message(thread, id)).await?;
        let body = EventBody::MessageFlags { message_id: id, pinned: message.pinned, excluded: message.excluded };
        self.inner.hub.publish(thread, body);
        Ok(Nothing {})
    }
}

pub(super) async fn pin(api: &Api<'_>, params: MessageSwitchParams) -> Result<Nothing, ApiError> {
    api.mark(params, true).await
}

pub(super) async fn exclude(api: &Api<'_>, params: MessageSwitchParams) -> Result<Nothing, ApiError> {
    api.mark(params, false).await
}

pub(super) async fn part(api: &Api<'_>, params: PartReadParams) -> Result<PartReadResponse, ApiError> {
    let store = api.inner.store.clone();
    let part = read(move || {
        // The message must be this thread's: a part is read through a thread that holds it.
        store.read_message(params.thread_id, params.message_id)?;
        store.read_part(params.message_id, &params.key)
    })
    .await?;
    let part = part.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "This message has no such part."))?;
    Ok(PartReadResponse { part })
}
