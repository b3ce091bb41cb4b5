//! A reply as server-sent events, written piece by piece.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Shared;
use super::script::{Failure, Plan};

/// Why a stream ended before its end: the client left, or the script says so.
pub(super) struct Ended;

/// What the first piece of text led to.
pub(super) enum AfterFirst {
    GoOn,
    /// The wire's own in-band error comes next, then the end.
    Midstream,
}

pub(super) struct Events(mpsc::Sender<Result<Bytes, io::Error>>);

impl Events {
    /// The two ends: what a task writes to, and the response that carries it.
    pub(super) fn open(n: usize) -> (Self, Response) {
        // One event at a time: what a gate holds back is then not in a buffer ahead of it.
        let (tx, rx) = mpsc::channel(1);
        let mut response = Response::new(Body::from_stream(ReceiverStream::new(rx)));
        let headers = response.headers_mut();
        headers.insert("content-type", HeaderValue::from_static("text/event-stream"));
        headers.insert("cache-control", HeaderValue::from_static("no-cache"));
        for name in ["request-id", "x-request-id"] {
            headers.insert(HeaderName::from_static(name), request_id(n));
        }
        (Self(tx), response)
    }

    /// Sends one event under its own `type` as the event's name.
    pub(super) async fn send(&self, event: Value) -> Result<(), Ended> {
        let name = event["type"].as_str().expect("an event has a type");
        let bytes = Bytes::from(format!("event: {name}\ndata: {event}\n\n"));
        self.0.send(Ok(bytes)).await.map_err(|_| Ended)
    }

    /// Cuts the connection in the middle of the body.
    async fn cut(&self) -> Ended {
        let _ = self.0.send(Err(io::ErrorKind::ConnectionReset.into())).await;
        Ended
    }

    /// What the plan wants after the first piece of text: wait at a gate, say nothing more, fail.
    pub(super) async fn after_first(&self, shared: &Shared, plan: &Plan) -> Result<AfterFirst, Ended> {
        if let Some(gate) = &plan.gate {
            tokio::select! {
                () = shared.gates.pass(gate) => {}
                () = self.0.closed() => return Err(Ended),
            }
        }
        if plan.hang {
            self.0.closed().await;
            return Err(Ended);
        }
        match plan.error {
            Some(Failure::Drop) => Err(self.cut().await),
            Some(Failure::End) => Err(Ended),
            Some(Failure::Midstream) => Ok(AfterFirst::Midstream),
            _ => Ok(AfterFirst::GoOn),
        }
    }
}

pub(super) fn request_id(n: usize) -> HeaderValue {
    HeaderValue::from_str(&format!("req_fake_{n}")).expect("a header value")
}
