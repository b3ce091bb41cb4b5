//! An open Codex session: one app server with one thread.

use std::{io, sync::Arc, time::Duration};

use changeover_core::failure::{Failure, FailureKind};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{
    client::{CallError, Client},
    normalize::Phase,
};
use crate::{
    process::Process,
    session::{Answer, Prompt, Session},
};

/// How long a small question to the app server may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an interrupt waits for a turn to begin, and for its answer; R5's three seconds are the engine's.
const INTERRUPT: Duration = Duration::from_millis(1500);
/// How long the app server has to end by itself, then its tree before it is killed.
const GRACE: Duration = Duration::from_secs(1);

/// A session with the process that is its own.
pub(super) struct CodexSession {
    pub client: Arc<Client>,
    pub process: Arc<Process>,
    pub reader: JoinHandle<()>,
    pub effort: Option<String>,
}

impl Drop for CodexSession {
    fn drop(&mut self) {
        // The reader holds the process too; with the last of both the tree ends.
        self.reader.abort();
    }
}

/// Whether the provider wants an account and there is none: then nothing may be sent, Codex would send it all the same.
pub(super) fn logged_out(account: &Value) -> bool {
    account["requiresOpenaiAuth"] == true && account["account"].is_null()
}

pub(super) fn not_logged_in() -> Failure {
    Failure::new(FailureKind::NotLoggedIn, "Codex is not logged in")
        .hint("Run `codex login` in a terminal, then try again.")
}

impl CodexSession {
    async fn written(&self, result: io::Result<()>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(_) => Err(self.process.exit_failure().await),
        }
    }

    async fn prompt(&self, prompt: Prompt) -> Result<(), Failure> {
        match self.client.call("account/read", json!({}), PATIENCE).await {
            Ok(account) if logged_out(&account) => return Err(not_logged_in()),
            Ok(_) => {}
            Err(CallError::Gone) => return Err(self.process.exit_failure().await),
            // The turn itself will tell.
            Err(error) => tracing::warn!(%error, "codex does not say whether it is logged in"),
        }
        let id = prompt.id.to_string();
        // Written all the same, it would steer the turn that runs (R8).
        if self.client.with(|normalizer| normalizer.sent(id.clone())) == Some(false) {
            return Err(Failure::new(FailureKind::Protocol, "A prompt is still out: Codex takes one at a time."));
        }
        let params = json!({
            "threadId": self.client.thread(),
            "input": [{"type": "text", "text": prompt.text}],
            "clientUserMessageId": id,
            "effort": self.effort,
        });
        let written = self.client.prompt(params).await;
        if written.is_err() {
            self.client.with(|normalizer| normalizer.unsent());
        }
        self.written(written).await
    }

    async fn stop(&self) -> Result<(), Failure> {
        self.client.with(|normalizer| normalizer.interrupting());
        // Before the turn has begun an interrupt is lost: "no active turn".
        let mut phases = self.client.phase();
        let begun = async { phases.wait_for(|phase| *phase != Phase::Sent).await.map(|phase| phase.clone()) };
        let phase = match tokio::time::timeout(INTERRUPT, begun).await {
            Ok(Ok(phase)) => phase,
            _ => Phase::Idle,
        };
        if let Phase::Running(turn) = phase {
            let params = json!({"threadId": self.client.thread(), "turnId": turn});
            match self.client.call("turn/interrupt", params, INTERRUPT).await {
                // An error says that it ended just now.
                Ok(_) | Err(CallError::Refused(_)) => {}
                Err(CallError::Gone) => return Err(self.process.exit_failure().await),
                Err(CallError::Late) => tracing::warn!("codex does not answer an interrupt"),
            }
        }
        // The interrupt alone leaves a running command alive.
        self.client.end_commands().await;
        Ok(())
    }
}

impl Session for CodexSession {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<(), Failure>> {
        self.prompt(prompt).boxed()
    }

    fn answer(&self, key: String, answer: Answer) -> BoxFuture<'_, Result<(), Failure>> {
        async move {
            let open = self.client.with(|normalizer| normalizer.answer(&key, answer)).flatten();
            let Some((id, result)) = open else { return Ok(()) };
            let written = self.client.respond(&id, &result).await;
            self.written(written).await
        }
        .boxed()
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), Failure>> {
        self.stop().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.client.close().await;
            if tokio::time::timeout(GRACE, self.process.exited()).await.is_err() {
                tracing::debug!("codex does not end by itself");
            }
            self.process.end(GRACE).await;
        }
        .boxed()
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        self.process.kill().boxed()
    }
}
