//! Changes as the core says them, as events on the wire.

use changeover_core::{
    session::SessionRecord,
    turn::{
        record::TurnRecord,
        state::{Change, Retry},
        write::Write,
    },
};

use crate::api::types::{EventBody, RetryView, SessionView, TurnView};

/// What a thread's event channel says of a change. `None`: it shows elsewhere (in the thread's summary).
pub(crate) fn event_of(change: Change) -> Option<EventBody> {
    Some(match change {
        Change::Message(message) => EventBody::Message { message: *message },
        Change::Text { message, key, text } => EventBody::Text { message_id: message, key, text },
        Change::Turn(turn) => EventBody::Turn { turn: turn.map(|(record, retry)| turn_view(&record, retry.as_ref())) },
        Change::Sessions(sessions) => EventBody::Sessions { sessions: sessions.iter().map(session_view).collect() },
        Change::Warning(message) => EventBody::Warning { message },
        Change::Wrote(write) => return event_of_write(*write),
    })
}

fn event_of_write(write: Write) -> Option<EventBody> {
    Some(match write {
        Write::MessageState { message, state, ended_at, provider } => {
            EventBody::MessageState { message_id: message, state, ended_at, provider }
        }
        Write::MessageModel { message, model } => EventBody::MessageModel { message_id: message, model },
        Write::Part { message, part } => EventBody::Part { message_id: message, part },
        Write::PartStatus { message, key, status, exit_code } => {
            EventBody::PartStatus { message_id: message, key, status, exit_code }
        }
        Write::Supersede { message, keys } => EventBody::Superseded { message_id: message, keys },
        Write::Queue(queue) => EventBody::Queue { queue },
        Write::Approval(approval) => EventBody::Approval { approval },
        Write::Append { .. }
        | Write::Chunk { .. }
        | Write::MessageSession { .. }
        | Write::Session(_)
        | Write::DropSession { .. }
        | Write::Turn { .. }
        | Write::Rule(_)
        | Write::Target(_)
        | Write::Title(_) => return None,
    })
}

pub(crate) fn turn_view(record: &TurnRecord, retry: Option<&Retry>) -> TurnView {
    TurnView {
        id: record.id,
        message_id: record.message,
        target: record.target.clone(),
        phase: record.phase,
        started_at: record.started_at,
        attempt: record.attempt,
        retry: retry.map(|r| RetryView { attempt: r.attempt, max: r.max, message: r.message.clone() }),
    }
}

pub(crate) fn session_view(session: &SessionRecord) -> SessionView {
    SessionView {
        provider: session.provider.clone(),
        session_id: session.session_id.clone(),
        incarnation: session.incarnation,
        known_upto_seq: session.known_upto_seq,
        context: session.context,
    }
}
