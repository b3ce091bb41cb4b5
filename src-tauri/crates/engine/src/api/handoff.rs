//! `handoff/…`: what the next turn will tell, and what an earlier one told, byte for byte (H1, X1).

use std::sync::Arc;

use changeover_core::{
    id::ThreadId,
    message::Role,
    notice::{Handover, LeftOut, Notice},
};

use super::{
    Api,
    error::{ApiError, ErrorCode},
    turn,
    types::{HandoffPreviewParams, HandoffPreviewResponse, HandoffTextResponse, LeftOutRow, MessageParams},
};
use crate::{
    engine::{Inner, read},
    thread::actor::{Preview, Request},
};

/// Rows of what stayed behind, at most.
const ROWS: usize = 200;
/// Characters of a row's line, at most.
const LINE: usize = 120;

pub(super) async fn preview(api: &Api<'_>, params: HandoffPreviewParams) -> Result<HandoffPreviewResponse, ApiError> {
    let target = match params.target {
        Some(target) => target,
        None => {
            let (store, id) = (api.inner.store.clone(), params.thread_id);
            let summary = read(move || store.thread(id)).await?;
            api.inner.summary_view(summary).target
        }
    };
    let again = match params.message_id {
        None => None,
        Some(id) => Some(turn::failed_message(api, params.thread_id, id).await?.seq),
    };
    let preview = api.inner.ask(params.thread_id, |reply| Request::Preview(target.clone(), again, reply)).await??;
    view(api.inner, params.thread_id, preview, params.with_text).await
}

/// A preview as the wire has it.
pub(super) async fn view(
    inner: &Arc<Inner>,
    thread: ThreadId,
    preview: Preview,
    with_text: bool,
) -> Result<HandoffPreviewResponse, ApiError> {
    let (handover, text) = preview.handover.unzip();
    let left_out = match &handover {
        Some(handover) => rows(inner, thread, handover).await?,
        None => Vec::new(),
    };
    Ok(HandoffPreviewResponse {
        target: preview.target,
        kind: preview.transition.kind,
        handover,
        text: text.filter(|_| with_text),
        left_out,
        hash: preview.hash,
    })
}

pub(super) async fn text(api: &Api<'_>, params: MessageParams) -> Result<HandoffTextResponse, ApiError> {
    let (store, thread, id) = (api.inner.store.clone(), params.thread_id, params.message_id);
    let (message, text) = read(move || Ok((store.read_message(thread, id)?, store.handover_text(id)?))).await?;
    match (message.notice, text) {
        (Some(Notice::Handover(handover)), Some(text)) => {
            let left_out = rows(api.inner, thread, &handover).await?;
            Ok(HandoffTextResponse { text, left_out })
        }
        _ => Err(ApiError::new(ErrorCode::BadRequest, "This message is no changeover.")),
    }
}

/// What stayed behind, newest first.
async fn rows(inner: &Arc<Inner>, thread: ThreadId, handover: &Handover) -> Result<Vec<LeftOutRow>, ApiError> {
    let store = inner.store.clone();
    let mut left: Vec<LeftOut> = handover.left_out.clone();
    left.sort_by_key(|l| std::cmp::Reverse(l.range.from));
    let told = handover.told.clone();
    let rows = read(move || {
        let mut rows = Vec::new();
        for stretch in left {
            let mut at = stretch.range.to + 1;
            while at > stretch.range.from && rows.len() < ROWS {
                let page = store.read_page(thread, changeover_store::PageAt::Before(at), 50, 256 * 1024)?;
                if page.messages.is_empty() {
                    break;
                }
                for message in page.messages.iter().rev().filter(|m| m.seq >= stretch.range.from && m.is_content()) {
                    if told.iter().any(|r| r.from <= message.seq && message.seq <= r.to) || rows.len() >= ROWS {
                        continue;
                    }
                    let text = message.text();
                    rows.push(LeftOutRow {
                        seq: message.seq,
                        user: message.role == Role::User,
                        line: line_of(&text),
                        bytes: text.len() as u64,
                        reason: stretch.reason,
                    });
                }
                at = page.first_seq;
            }
        }
        Ok(rows)
    })
    .await?;
    Ok(rows)
}

/// The first line that says something, shortened.
fn line_of(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or_default();
    let mut short: String = line.chars().take(LINE).collect();
    if line.chars().nth(LINE).is_some() {
        short.push('…');
    }
    short
}
