//! An open session, and what it shares with the task that reads its process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_client_protocol::v1::schema::{PermissionOption, PermissionOptionKind, PromptResponse, StopReason};
use changeover_core::{
    event::{Ended, RuntimeEvent},
    failure::{Failure, FailureKind},
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::DropGuard;

use super::{
    failure,
    normalize::Normalizer,
    wire::{Peer, RpcError},
};
use crate::{
    process::Process,
    session::{Answer, Prompt, Session},
};

/// What the session's methods and its reader share.
pub(super) struct Shared {
    pub state: Mutex<State>,
    pub peer: Peer,
    pub process: Arc<Process>,
    /// Events that the session's methods make themselves; a handful, read by the reader before the pipe.
    pub notes: mpsc::UnboundedSender<RuntimeEvent>,
}

#[derive(Default)]
pub(super) struct State {
    /// Absent while the session opens: whatever comes then (a replayed history) is no event.
    pub session_id: Option<String>,
    pub normalizer: Normalizer,
    /// The id of the open prompt's request.
    pub turn: Option<u64>,
    pub cancelling: bool,
    pub edits_are_ours: bool,
    pub questions: HashMap<String, Question>,
    pub login: Option<String>,
}

pub(super) struct Question {
    pub id: Value,
    pub item: String,
    pub options: Vec<PermissionOption>,
}

impl Question {
    pub fn option(&self, kind: PermissionOptionKind) -> Option<Value> {
        let option = self.options.iter().find(|option| option.kind == kind)?;
        Some(json!({"outcome": {"outcome": "selected", "optionId": option.option_id}}))
    }
}

pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

impl Shared {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// All open questions are void.
    pub fn withdraw(&mut self) -> Vec<(Question, RuntimeEvent)> {
        let mut open: Vec<_> = self.questions.drain().collect();
        open.sort_by(|a, b| a.0.cmp(&b.0));
        open.into_iter().map(|(key, question)| (question, RuntimeEvent::ApprovalWithdrawn { key })).collect()
    }

    /// The prompt was answered.
    pub fn ended(&mut self, result: Result<Value, RpcError>) -> Vec<RuntimeEvent> {
        let answered = self.normalizer.answered();
        let mut warning = None;
        let void = result.as_ref().err().and_then(|error| self.normalizer.void(&error.message));
        let ended = match result {
            Err(error) => Ended::Failed(failure::failure(&error, self.login.as_deref())),
            Ok(value) => match serde_json::from_value::<PromptResponse>(value) {
                Err(error) => {
                    let message = format!("the agent ended its turn with something else than a reason: {error}");
                    Ended::Failed(Failure::new(FailureKind::Protocol, message))
                }
                Ok(response) => match response.stop_reason {
                    StopReason::Cancelled => Ended::Interrupted,
                    StopReason::Refusal => {
                        Ended::Failed(Failure::new(FailureKind::Rejected, "The model refused to answer."))
                    }
                    // Gemini says so without asking its model when the context is full.
                    StopReason::MaxTokens if !answered => Ended::Failed(Failure::new(
                        FailureKind::Overflow,
                        "The prompt does not fit the model's window.",
                    )),
                    StopReason::MaxTokens => {
                        warning = Some("The reply reached the model's limit and was cut off there.");
                        Ended::Completed
                    }
                    StopReason::MaxTurnRequests => {
                        warning = Some("The agent stopped at its own limit of requests for one turn.");
                        Ended::Interrupted
                    }
                    _ => Ended::Completed,
                },
            },
        };
        self.turn = None;
        self.cancelling = false;
        let mut events: Vec<_> = self.withdraw().into_iter().map(|(_, event)| event).collect();
        events.extend(void);
        events.extend(self.normalizer.end(ended != Ended::Completed));
        events.extend(warning.map(|message| RuntimeEvent::Warning { message: message.into() }));
        events.push(RuntimeEvent::Ended(ended));
        events
    }
}

/// An open session: one process.
pub(super) struct AcpSession {
    pub shared: Arc<Shared>,
    pub session_id: String,
    /// The agent has `session/close`.
    pub closes: bool,
    pub _over: DropGuard,
}

impl AcpSession {
    async fn gone(&self) -> Failure {
        match timeout(Duration::from_secs(1), self.shared.process.exit_failure()).await {
            Ok(failure) => failure,
            Err(_) => Failure::new(FailureKind::Exited, "the agent does not read any more"),
        }
    }

    async fn write_prompt(&self, prompt: Prompt) -> Result<(), Failure> {
        if self.shared.process.exit().is_some() {
            return Err(self.gone().await);
        }
        let id = self.shared.peer.reserve();
        {
            let mut state = self.shared.state();
            if state.turn.is_some() {
                return Err(Failure::new(FailureKind::Protocol, "a prompt is already open in this session"));
            }
            state.turn = Some(id);
            state.cancelling = false;
            state.normalizer.begin();
        }
        let params = json!({"sessionId": self.session_id, "prompt": [{"type": "text", "text": prompt.text}]});
        if self.shared.peer.ask(id, "session/prompt", &params).await.is_err() {
            self.shared.state().turn = None;
            return Err(self.gone().await);
        }
        Ok(())
    }

    async fn write_answer(&self, key: String, answer: Answer) -> Result<(), Failure> {
        let (id, outcome, note) = {
            let mut state = self.shared.state();
            let Some(question) = state.questions.get(&key) else { return Ok(()) };
            let outcome = match answer {
                Answer::Allow => question.option(PermissionOptionKind::AllowOnce),
                Answer::Deny => question
                    .option(PermissionOptionKind::RejectOnce)
                    .or_else(|| question.option(PermissionOptionKind::RejectAlways))
                    .or_else(|| Some(cancelled())),
            };
            let Some(outcome) = outcome else {
                // Only "always" is on offer, which would hold for more than was asked for.
                let message = "This agent cannot be allowed something once, only for good.";
                return Err(
                    Failure::new(FailureKind::Rejected, message).hint("Deny it, or allow it in the agent itself.")
                );
            };
            let Some(question) = state.questions.remove(&key) else { return Ok(()) };
            let note = if answer == Answer::Deny { state.normalizer.declined(&question.item) } else { None };
            (question.id, outcome, note)
        };
        if let Some(note) = note {
            let _ = self.shared.notes.send(note);
        }
        match self.shared.peer.answer(&id, Ok(outcome)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone().await),
        }
    }

    async fn cancel(&self) -> Result<(), Failure> {
        let open = {
            let mut state = self.shared.state();
            if state.turn.is_none() {
                return Ok(());
            }
            state.cancelling = true;
            state.withdraw()
        };
        // Said before it is asked to stop: its end may come at once, and is the last word.
        let mut questions = Vec::with_capacity(open.len());
        for (question, event) in open {
            let _ = self.shared.notes.send(event);
            questions.push(question);
        }
        let params = json!({"sessionId": self.session_id});
        let mut written = self.shared.peer.tell("session/cancel", &params).await;
        for question in questions {
            // Gemini does not cancel while a question of its waits.
            written = written.and(self.shared.peer.answer(&question.id, Ok(cancelled())).await);
        }
        match written {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone().await),
        }
    }

    async fn close_in_order(&self) {
        if self.closes {
            let params = json!({"sessionId": self.session_id});
            // Out of politeness only: what follows ends it in any case.
            let _ = timeout(Duration::from_secs(1), self.shared.peer.call("session/close", &params)).await;
        }
        self.shared.peer.close().await;
        let _ = timeout(Duration::from_secs(1), self.shared.process.exited()).await;
        self.shared.process.end(Duration::from_secs(1)).await;
    }
}

impl Session for AcpSession {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.write_prompt(prompt))
    }

    fn answer(&self, key: String, answer: Answer) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.write_answer(key, answer))
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.cancel())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close_in_order())
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.process.kill())
    }
}
