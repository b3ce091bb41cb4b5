//! `turn/…` and `queue/…`: sending, stopping, waiting.

use changeover_core::{
    id::{MessageId, ThreadId},
    message::{Message, MessageState, Role},
    turn::{
        record::TurnRecord,
        state::{Input, Refusal, Response},
    },
};

use super::{
    Api,
    error::{ApiError, ErrorCode},
    handoff,
    types::{
        Nothing, QueueEditParams, QueueGoParams, ThreadParams, TurnAgainParams, TurnStartParams, TurnStartResponse,
    },
};
use crate::{
    engine::read,
    thread::actor::{Request, Start, Started},
};

/// The largest message, in bytes.
const MESSAGE_BYTES: usize = 8 * 1024 * 1024;

pub(crate) fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::QueueFull => ApiError::new(ErrorCode::Overloaded, refusal.to_string()),
        other => ApiError::new(ErrorCode::Refused, other.to_string()),
    }
}

fn check(client_id: &str, text: &str) -> Result<(), ApiError> {
    if client_id.is_empty() || client_id.len() > 64 {
        return Err(ApiError::new(ErrorCode::BadRequest, "`clientTurnId` has 1 to 64 characters."));
    }
    if text.trim().is_empty() {
        return Err(ApiError::new(ErrorCode::BadRequest, "The message is empty.").hint("Write something first."));
    }
    if text.len() > MESSAGE_BYTES {
        return Err(ApiError::new(ErrorCode::BadRequest, "The message has more than 8 MiB.")
            .hint("Put the text in a file of the project and name it in the message."));
    }
    Ok(())
}

impl Api<'_> {
    /// The answer to a request that was already taken (a client that asks twice gets the same turn).
    async fn known(&self, thread: ThreadId, client_id: &str) -> Result<Option<TurnStartResponse>, ApiError> {
        let store = self.inner.store.clone();
        let client = client_id.to_owned();
        let known: Option<TurnRecord> = read(move || store.turn_by_client_id(thread, &client)).await?;
        Ok(known.map(|turn| TurnStartResponse::Started {
            turn_id: turn.id,
            message_id: turn.message,
            seq: turn.message_seq,
        }))
    }

    async fn begin(&self, thread: ThreadId, start: impl Fn() -> Start) -> Result<TurnStartResponse, ApiError> {
        let started = self.inner.ask(thread, |reply| Request::Start(start(), reply)).await??;
        if !matches!(started, Started::Changed(_) | Started::Response(Response::Refused(_))) {
            self.unarchive(thread).await?;
        }
        Ok(match started {
            Started::Changed(preview) => TurnStartResponse::Changed {
                preview: Box::new(handoff::view(self.inner, thread, *preview, true).await?),
            },
            Started::Response(Response::Started { turn, message, seq }) => {
                TurnStartResponse::Started { turn_id: turn, message_id: message, seq }
            }
            Started::Response(Response::Queued(queued_id)) => TurnStartResponse::Queued { queued_id },
            Started::Response(Response::Refused(refusal)) => return Err(refused(refusal)),
            Started::Response(Response::Done) => {
                return Err(ApiError::new(ErrorCode::Internal, "The thread did not say what became of the message."));
            }
        })
    }
}

pub(super) async fn start(api: &Api<'_>, params: TurnStartParams) -> Result<TurnStartResponse, ApiError> {
    check(&params.client_turn_id, &params.text)?;
    if let Some(known) = api.known(params.thread_id, &params.client_turn_id).await? {
        return Ok(known);
    }
    api.begin(params.thread_id, || Start {
        client_id: params.client_turn_id.clone(),
        text: params.text.clone(),
        target: params.target.clone(),
        preview_hash: params.preview_hash.clone(),
        again: None,
    })
    .await
}

/// A message that can be sent again (T8): refused, or failed, which is one whose reply did not end well.
///
/// # Errors
/// `Refused` where it cannot; the store's.
pub(super) async fn failed_message(api: &Api<'_>, thread: ThreadId, id: MessageId) -> Result<Message, ApiError> {
    let store = api.inner.store.clone();
    let (message, next) = read(move || {
        let message = store.read_message(thread, id)?;
        let next = store.content_after(thread, message.seq)?;
        Ok((message, next))
    })
    .await?;
    let unanswered = message.state == MessageState::NotAnswered;
    let failed = next.is_some_and(|reply| {
        reply.role == Role::Assistant && matches!(reply.state, MessageState::Failed | MessageState::Interrupted)
    });
    if message.role != Role::User || !(unanswered || failed) {
        return Err(ApiError::new(ErrorCode::Refused, "Only a message that was refused or failed can be sent again.")
            .hint("Write a new message instead."));
    }
    Ok(message)
}

pub(super) async fn again(api: &Api<'_>, params: TurnAgainParams) -> Result<TurnStartResponse, ApiError> {
    check(&params.client_turn_id, "again")?;
    if let Some(known) = api.known(params.thread_id, &params.client_turn_id).await? {
        return Ok(known);
    }
    let thread = params.thread_id;
    let message = failed_message(api, thread, params.message_id).await?;
    let text = message.text();
    api.begin(thread, || Start {
        client_id: params.client_turn_id.clone(),
        text: text.clone(),
        target: params.target.clone(),
        preview_hash: params.preview_hash.clone(),
        again: Some((message.id, message.seq)),
    })
    .await
}

impl Api<'_> {
    async fn input(&self, thread: ThreadId, input: Input) -> Result<Nothing, ApiError> {
        match self.inner.ask(thread, |reply| Request::Input(input.clone(), reply)).await? {
            Response::Refused(refusal) => Err(refused(refusal)),
            _ => Ok(Nothing {}),
        }
    }
}

pub(super) async fn interrupt(api: &Api<'_>, params: ThreadParams) -> Result<Nothing, ApiError> {
    api.input(params.thread_id, Input::Interrupt).await
}

pub(super) async fn queue_edit(api: &Api<'_>, params: QueueEditParams) -> Result<Nothing, ApiError> {
    if let Some(text) = &params.text {
        check("edit", text)?;
    }
    api.input(params.thread_id, Input::QueueEdit { id: params.queued_id, text: params.text }).await
}

pub(super) async fn queue_go(api: &Api<'_>, params: QueueGoParams) -> Result<Nothing, ApiError> {
    api.input(params.thread_id, Input::QueueGo).await
}
