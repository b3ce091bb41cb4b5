//! The driver of effects: the only place where a decision becomes I/O. Effects are carried out in order; what takes long
//! runs beside and comes back as a report, so that the actor is never deaf to Stop.

use std::{path::PathBuf, sync::Arc, time::Duration};

use changeover_core::{
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
    notice::Notice,
    provider::{ProviderId, Target},
    turn::{
        record::TurnPhase,
        state::{Change, Effect, Input, ResumeAt},
        write::Write,
    },
};
use changeover_runtime::session::{Answer, Opened, Prompt, Resume, SessionSpec};
use tokio::sync::mpsc;

use super::{actor::Actor, prepare, show};
use crate::{clock, fault};

/// How long a commit waits before it is tried again on a full disk (S1).
const RETRY: Duration = Duration::from_secs(1);

/// What came of an effect that ran beside the actor.
pub(super) enum Report {
    /// An input for `step`.
    Input(Input),
    /// A session was opened, for this target.
    Opened { target: Target, resume: Option<String>, token: Option<String>, opened: Opened, input: Input },
}

impl Actor {
    pub(super) async fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Commit(writes) => {
                    if !self.commit(writes).await {
                        return;
                    }
                }
                Effect::Show(change) => self.show(change),
                Effect::Respond(response) => self.response = Some(response),
                Effect::Prepare { turn, attempt, target, transition, scope, from } => {
                    let (inner, thread, folder) = (Arc::clone(&self.inner), self.thread, self.state.folder.clone());
                    self.beside(async move {
                        let result = match ready(&inner, &target, &folder).await {
                            Ok(()) => prepare::handover(&inner, thread, &target, transition, scope, from).await,
                            Err(failure) => Err(failure),
                        };
                        Report::Input(Input::Prepared { turn, attempt, result })
                    });
                }
                Effect::Open { turn, attempt, target, resume } => {
                    let done = move |result| Input::Opened { turn, attempt, result };
                    if !self.lives.usable(&target, resume.as_ref())
                        && let Some(live) = self.lives.close(&target.provider)
                    {
                        // What still ran in the process that makes way ends with it (S2).
                        self.inner.revoke(live.token.as_deref());
                        Box::pin(self.input(gone(target.provider.clone()))).await;
                    }
                    self.open(target, resume, done);
                }
                Effect::Write { turn, provider, prompt, text } => {
                    fault::point("before-write");
                    let Some(live) = self.lives.get(&provider) else {
                        self.exited(&provider);
                        continue;
                    };
                    let session = Arc::clone(&live.session);
                    self.beside(async move {
                        let result = session.send(Prompt { id: prompt, text }).await;
                        fault::point("after-write");
                        Report::Input(Input::Written { turn, prompt, result })
                    });
                }
                Effect::Answer { provider, key, allow } => {
                    if let Some(live) = self.lives.get(&provider) {
                        let session = Arc::clone(&live.session);
                        let answer = if allow { Answer::Allow } else { Answer::Deny };
                        tokio::spawn(async move {
                            if let Err(failure) = session.answer(key, answer).await {
                                tracing::warn!(reason = %failure.message, "an answer did not reach the agent");
                            }
                        });
                    }
                }
                Effect::Interrupt { provider } => match self.lives.get(&provider) {
                    Some(live) => {
                        let session = Arc::clone(&live.session);
                        tokio::spawn(async move {
                            if let Err(failure) = session.interrupt().await {
                                tracing::warn!(reason = %failure.message, "the agent could not be asked to stop");
                            }
                        });
                    }
                    None => self.exited(&provider),
                },
                Effect::Kill { provider } => match self.lives.take(&provider) {
                    Some(live) => {
                        self.inner.revoke(live.token.as_deref());
                        self.beside(async move {
                            live.session.kill().await;
                            Report::Input(gone(provider))
                        });
                    }
                    None => self.exited(&provider),
                },
                Effect::Close { provider } => {
                    if let Some(live) = self.lives.close(&provider) {
                        self.inner.revoke(live.token.as_deref());
                    }
                }
            }
        }
    }

    /// Runs something beside the actor; its report comes back in the lane before events.
    fn beside(&self, work: impl Future<Output = Report> + Send + 'static) {
        let reports: mpsc::Sender<Report> = self.reports.clone();
        tokio::spawn(async move {
            let report = work.await;
            if let Err(mpsc::error::SendError(Report::Opened { opened, .. })) = reports.send(report).await {
                // The actor has ended meanwhile: nobody will ever close this session.
                opened.session.close().await;
            }
        });
    }

    fn exited(&self, provider: &ProviderId) {
        let provider = provider.clone();
        self.beside(async move { Report::Input(gone(provider)) });
    }

    pub(super) async fn report(&mut self, report: Report) {
        match report {
            Report::Input(input) => self.input(input).await,
            Report::Opened { target, resume, token, opened, input } => {
                fault::point("after-open");
                if !self.awaits(&input) {
                    // Stopped while it opened, and perhaps opened anew since: what nobody waits for must not take the
                    // place of what somebody uses.
                    self.inner.revoke(token.as_deref());
                    tokio::spawn(async move { opened.session.close().await });
                    return;
                }
                self.inner.provider_opened(&target.provider);
                self.lives.add(&target, opened, resume, token, clock::now());
                self.input(input).await;
            }
        }
    }

    /// Whether the open turn still waits for this session.
    fn awaits(&self, input: &Input) -> bool {
        let Input::Opened { turn, attempt, .. } = input else { return false };
        self.state.turn.as_ref().is_some_and(|open| {
            open.record.id == *turn && open.record.attempt == *attempt && open.record.phase == TurnPhase::Preparing
        })
    }

    fn open(
        &mut self,
        target: Target,
        resume: Option<ResumeAt>,
        done: impl FnOnce(Result<(), Failure>) -> Input + Send + 'static,
    ) {
        fault::point("before-open");
        if self.lives.usable(&target, resume.as_ref()) {
            return self.beside(async move { Report::Input(done(Ok(()))) });
        }
        let provider = target.provider.clone();
        let closing = self.lives.closing(&provider);
        let (inner, thread, folder) = (Arc::clone(&self.inner), self.thread, self.state.folder.clone());
        self.beside(async move {
            if let Some(closing) = closing {
                let _ = closing.await;
            }
            let Some(runtime) = inner.runtimes.get(&provider) else {
                return Report::Input(done(Err(unknown(&provider))));
            };
            let (mcp, token) = inner.mcp_access(thread, runtime.capabilities().mcp);
            let session_id = resume.as_ref().map(|r| r.session_id.clone());
            let spec = SessionSpec {
                folder: folder.into(),
                resume: resume.map(|r| Resume {
                    session_id: r.session_id,
                    anchor: r.anchor,
                    rewind: r.rewind,
                    fork: false,
                }),
                model: target.model.clone(),
                effort: target.effort.clone(),
                mode: target.mode,
                mcp,
                env: inner.child_environment(&provider).await,
            };
            match runtime.open(spec).await {
                Ok(opened) => Report::Opened { target, resume: session_id, token, opened, input: done(Ok(())) },
                Err(failure) => {
                    inner.revoke(token.as_deref());
                    Report::Input(done(Err(failure)))
                }
            }
        });
    }

    /// One transaction. On a full disk it waits until there is room: nothing after it happens, no pipe is read further
    /// (S1). False: the store will never take it, and the actor ends.
    async fn commit(&mut self, writes: Vec<Write>) -> bool {
        let phase = writes.iter().rev().find_map(phase_of);
        let chunks = writes.iter().any(|w| matches!(w, Write::Chunk { .. }));
        let summary = writes.iter().any(concerns_summary);
        if chunks {
            fault::point("before-chunk");
        }
        if let Some(phase) = phase {
            fault::point(&format!("before-commit-{phase}"));
        }
        let mut told = false;
        loop {
            if let Some(pages) = fault::disk_pages()
                && let Err(error) = self.inner.store.limit_pages(pages).await
            {
                tracing::warn!(%error, "the disk keeps its size");
            }
            match self.inner.store.commit(self.thread, writes.clone()).await {
                Ok(_) => break,
                Err(error) if error.is_retryable() => {
                    if !told {
                        told = true;
                        tracing::warn!(%error, "waiting for the disk");
                        self.inner.storage_problem(Some(error.to_string()));
                    }
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => {
                    tracing::error!(%error, thread = %self.thread, "the store refused a step");
                    self.inner.storage_problem(Some(format!("{error} This thread was read again from disk.")));
                    self.broken = true;
                    return false;
                }
            }
        }
        if told {
            self.inner.storage_problem(None);
        }
        if chunks {
            fault::point("after-chunk");
        }
        if let Some(phase) = phase {
            fault::point(&format!("after-commit-{phase}"));
        }
        if summary {
            self.inner.announce_thread(self.thread).await;
        }
        true
    }

    fn show(&self, change: Change) {
        if let Change::Message(message) = &change
            && let Some(Notice::Error { provider, failure }) = &message.notice
        {
            self.inner.trouble.failed(provider.as_str(), failure);
        }
        if let Some(body) = show::event_of(change) {
            self.inner.hub.publish(self.thread, body);
        }
    }
}

/// The folder exists (R9) and the provider can be used; else why not.
async fn ready(inner: &crate::engine::Inner, target: &Target, folder: &str) -> Result<(), Failure> {
    let folder = PathBuf::from(folder);
    tokio::task::spawn_blocking(move || changeover_worktree::check(&folder))
        .await
        .map_err(|_| Failure::new(FailureKind::FolderGone, "Looking at the workspace was cut off."))??;
    inner.provider_ready(&target.provider).await
}

fn unknown(provider: &ProviderId) -> Failure {
    Failure::new(FailureKind::NotInstalled, format!("{} is not set up here.", provider.display_name()))
        .hint("Choose another provider.")
}

pub(super) fn gone(provider: ProviderId) -> Input {
    let failure = Failure::new(FailureKind::Exited, format!("{}'s process ended.", provider.display_name()));
    Input::Event { provider, event: RuntimeEvent::Exited { failure } }
}

fn phase_of(write: &Write) -> Option<&'static str> {
    let Write::Turn { turn, .. } = write else { return None };
    Some(match turn.phase {
        TurnPhase::Preparing => "preparing",
        TurnPhase::Sent => "sent",
        TurnPhase::Taken => "taken",
        TurnPhase::Streaming => "streaming",
        TurnPhase::Waiting => "waiting",
        TurnPhase::Interrupting => "interrupting",
        TurnPhase::Completed => "completed",
        TurnPhase::Interrupted => "interrupted",
        TurnPhase::Failed => "failed",
        TurnPhase::Refused => "refused",
    })
}

fn concerns_summary(write: &Write) -> bool {
    matches!(write, Write::Append { .. } | Write::Turn { .. } | Write::Title(_) | Write::Target(_))
}
