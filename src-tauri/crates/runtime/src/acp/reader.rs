//! The task that reads an agent's process: from lines to events.

use std::{sync::Arc, time::Duration};

use agent_client_protocol::v1::schema::{PermissionOptionKind, RequestPermissionRequest};
use changeover_core::{
    approval::{ApprovalRequest, ApprovalSubject},
    event::RuntimeEvent,
};
use serde_json::Value;
use tokio::{process::ChildStdout, sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    normalize::kind_of,
    session::{Question, Shared, cancelled},
    wire::{self, INVALID_PARAMS, Incoming, METHOD_NOT_FOUND, RpcError},
};
use crate::process::lines::{Line, LineReader};

/// Reads the agent's lines until there are no more.
pub(super) struct Reader {
    pub link: Arc<Shared>,
    pub events: mpsc::Sender<RuntimeEvent>,
    pub noted: mpsc::UnboundedReceiver<RuntimeEvent>,
    pub over: CancellationToken,
}

impl Reader {
    pub async fn run(mut self, stdout: ChildStdout) {
        let mut lines = LineReader::new(stdout);
        let over = self.over.clone();
        // A dropped session stops reading even in the middle of a full channel.
        let read = over.run_until_cancelled(self.read(&mut lines)).await;
        self.link.peer.hang_up();
        if read.is_none() {
            self.link.process.kill().await;
            return;
        }
        // No more lines: as a rule it is ending. If not, it cannot be talked to any more.
        if timeout(Duration::from_secs(2), self.link.process.exited()).await.is_err() {
            self.link.process.kill().await;
        }
        let failure = self.link.process.exit_failure().await;
        self.link.process.kill().await;
        let (opened, withdrawn) = {
            let mut state = self.link.state();
            state.turn = None;
            (state.session_id.is_some(), state.withdraw())
        };
        if opened {
            while let Ok(event) = self.noted.try_recv() {
                let _ = self.events.send(event).await;
            }
            for (_, event) in withdrawn {
                let _ = self.events.send(event).await;
            }
            let _ = self.events.send(RuntimeEvent::Exited { failure }).await;
        }
    }

    /// Ends with the pipe or the process, or when nobody wants the events.
    async fn read(&mut self, lines: &mut LineReader<ChildStdout>) {
        let process = Arc::clone(&self.link.process);
        let exited = process.exited();
        tokio::pin!(exited);
        let mut dead = false;
        loop {
            // A child of a dead agent can hold the pipe open: what is in it is read, and no more waited for.
            let next = async {
                match dead {
                    true => timeout(Duration::from_millis(500), lines.next()).await.unwrap_or(Ok(None)),
                    false => lines.next().await,
                }
            };
            let events = tokio::select! {
                biased;
                Some(event) = self.noted.recv() => vec![event],
                line = next => match line {
                    Ok(Some(line)) => {
                        let mut events = self.line(line).await;
                        // What came with it goes on with it, text that belongs together as one event.
                        while self.noted.is_empty()
                            && let Some(line) = lines.ready()
                        {
                            for event in self.line(line).await {
                                let apart = match events.last_mut() {
                                    Some(last) => last.join(event),
                                    None => Some(event),
                                };
                                events.extend(apart);
                            }
                        }
                        events
                    }
                    Ok(None) | Err(_) => return,
                },
                _ = &mut exited, if !dead => {
                    dead = true;
                    continue;
                }
            };
            for event in events {
                if self.events.send(event).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn line(&self, line: Line) -> Vec<RuntimeEvent> {
        let line = match line {
            Line::Text(line) => line,
            Line::TooLong { bytes } => {
                return self.if_open(RuntimeEvent::Raw { kind: format!("a line of {bytes} bytes") });
            }
        };
        if let Some(update) = wire::update(&line) {
            let mut state = self.link.state();
            return match &state.session_id {
                None => Vec::new(),
                Some(ours) if *update.session_id.0 == **ours => state.normalizer.update(update.update),
                // A sub-agent's session.
                Some(_) => vec![RuntimeEvent::Raw { kind: kind_of(&update.update) }],
            };
        }
        match wire::read(&line) {
            Incoming::Garbage => self.if_open(RuntimeEvent::Raw { kind: "no message".into() }),
            // A frame of a later protocol.
            Incoming::Notification { method, params } if method == "session/update" => {
                let kind = params.pointer("/update/sessionUpdate").and_then(Value::as_str).unwrap_or("update");
                self.if_open(RuntimeEvent::Raw { kind: kind.to_owned() })
            }
            Incoming::Notification { method, .. } => self.if_open(RuntimeEvent::Raw { kind: method }),
            Incoming::Request { id, method, params } if method == "session/request_permission" => {
                self.question(id, params).await
            }
            Incoming::Request { id, method, .. } => {
                let error = RpcError::new(METHOD_NOT_FOUND, format!("{method} is not supported"));
                // A closed pipe ends the reading by itself.
                let _ = self.link.peer.answer(&id, Err(error)).await;
                self.if_open(RuntimeEvent::Raw { kind: method })
            }
            Incoming::Response { id, result } => {
                let mut state = self.link.state();
                if state.turn == Some(id) {
                    return state.ended(result);
                }
                drop(state);
                match self.link.peer.settle(id, result) {
                    None => Vec::new(),
                    Some(_) => self.if_open(RuntimeEvent::Raw { kind: "an answer to no question".into() }),
                }
            }
        }
    }

    fn if_open(&self, event: RuntimeEvent) -> Vec<RuntimeEvent> {
        if self.link.state().session_id.is_some() { vec![event] } else { Vec::new() }
    }

    async fn question(&self, id: Value, params: Value) -> Vec<RuntimeEvent> {
        let request = match serde_json::from_value::<RequestPermissionRequest>(params) {
            Ok(request) => request,
            Err(error) => {
                let error = RpcError::new(INVALID_PARAMS, error.to_string());
                let _ = self.link.peer.answer(&id, Err(error)).await;
                return self.if_open(RuntimeEvent::Raw { kind: "session/request_permission".into() });
            }
        };
        let (events, answer) = {
            let mut state = self.link.state();
            let (mut events, item, subject) = state.normalizer.question(&request);
            let question = Question { id: id.clone(), item: item.clone(), options: request.options };
            let ours = state.edits_are_ours && matches!(subject, ApprovalSubject::Edit { .. });
            let answer = if state.cancelling || state.session_id.is_none() {
                Some(cancelled())
            } else if ours {
                question.option(PermissionOptionKind::AllowOnce)
            } else {
                None
            };
            if answer.is_none() {
                let key = id.to_string();
                let reason = None;
                events.push(RuntimeEvent::ApprovalWanted(ApprovalRequest {
                    key: key.clone(),
                    item: Some(item),
                    subject,
                    reason,
                }));
                state.questions.insert(key, question);
            }
            (events, answer)
        };
        if let Some(answer) = answer {
            let _ = self.link.peer.answer(&id, Ok(answer)).await;
        }
        events
    }
}
