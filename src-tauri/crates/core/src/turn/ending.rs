//! Every way a turn can end, and what the session then still holds (T3, T5, T9, T10).

use crate::{
    event::Kept,
    failure::{Failure, FailureKind},
    message::MessageState,
    notice::Notice,
    part::{PartBody, WorkStatus},
    provider::ProviderId,
    turn::{
        record::TurnPhase,
        state::{Change, Effect, LiveKind, Progress},
        step::{Step, withdraw_open},
        write::Write,
    },
};

/// How a turn ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// By itself.
    Completed,
    /// By the user.
    Interrupted,
    /// By an error.
    Failed(Failure),
    /// Stopped by us, for a reason that the user did not give (R10).
    Aborted(Failure),
    /// Its process is gone.
    Exited(Failure),
}

/// Ends the open turn.
pub(super) fn end(step: &mut Step<'_>, end: End) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let phase = turn.record.phase;
    let stopped_by_user = phase == TurnPhase::Interrupting && turn.abort.is_none();
    if phase == TurnPhase::Preparing {
        return match end {
            End::Failed(failure) if failure.kind == FailureKind::SessionGone => gone(step, failure),
            End::Completed | End::Interrupted => finish(step, TurnPhase::Interrupted, None),
            End::Failed(failure) | End::Aborted(failure) | End::Exited(failure) => {
                finish(step, TurnPhase::Refused, Some(failure));
            }
        };
    }
    let end = match end {
        End::Exited(_) if stopped_by_user => {
            // The tree was killed because the CLI did not stop in time (R5).
            return after_kill(step, TurnPhase::Interrupted, None);
        }
        other => other,
    };
    if turn.record.reply.is_some() { answered(step, end) } else { unanswered(step, end) }
}

/// The model had made nothing.
fn unanswered(step: &mut Step<'_>, end: End) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let keeps = step.state.keeps_of(&turn.record.target.provider);
    match end {
        End::Completed => {
            // R058: an agent that ends without a word. What its history holds is anybody's guess: drop it, try once afresh.
            let had_session = turn.record.session.is_some() && turn.record.known_before > 0;
            drop_session(step);
            let failure = Failure::new(FailureKind::Protocol, "The agent ended its turn without an answer.")
                .hint("Send the message again, or go on with another provider.");
            if had_session && !step.state.turn.as_ref().is_some_and(|t| t.record.gone) {
                gone(step, failure);
            } else {
                finish(step, TurnPhase::Refused, Some(failure));
            }
        }
        End::Interrupted => {
            forget(step, keeps.interrupted_unanswered);
            finish(step, TurnPhase::Interrupted, None);
        }
        End::Failed(failure) if failure.kind == FailureKind::SessionGone => gone(step, failure),
        End::Failed(failure) => {
            forget(step, keeps.failed_unanswered);
            again_or_refuse(step, failure);
        }
        End::Aborted(failure) => {
            forget(step, keeps.interrupted_unanswered);
            again_or_refuse(step, failure);
        }
        End::Exited(failure) => after_kill(step, TurnPhase::Refused, Some(failure)),
    }
}

/// The model had begun its reply.
fn answered(step: &mut Step<'_>, end: End) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let provider = turn.record.target.provider.clone();
    let keeps = step.state.keeps_of(&provider);
    match end {
        End::Completed => {
            if let Some(reply) = turn.record.reply {
                step.keep_late(&provider, reply.id);
            }
            hold(step, Kept::Everything);
            finish(step, TurnPhase::Completed, None);
        }
        End::Interrupted => {
            hold(step, keeps.interrupted_answered);
            finish(step, TurnPhase::Interrupted, None);
        }
        End::Failed(failure) => {
            hold(step, keeps.failed_answered);
            finish(step, TurnPhase::Failed, Some(failure));
        }
        End::Aborted(failure) => {
            hold(step, keeps.interrupted_answered);
            finish(step, TurnPhase::Failed, Some(failure));
        }
        End::Exited(failure) => after_kill(step, TurnPhase::Failed, Some(failure)),
    }
}

/// The process is gone in the middle of a turn: with an answer its history holds what the adapter proved of a kill; without
/// one the prompt may or may not stand there (T10), so the session goes back to before it, or is dropped.
fn after_kill(step: &mut Step<'_>, phase: TurnPhase, failure: Option<Failure>) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    if turn.record.reply.is_some() {
        let kept = step.state.keeps_of(&turn.record.target.provider).killed_answered;
        hold(step, kept);
    } else {
        forget(step, Kept::PromptOnly);
    }
    finish(step, phase, failure);
}

fn again_or_refuse(step: &mut Step<'_>, failure: Failure) {
    let max = step.state.max_attempts;
    let now = step.now;
    let again = failure.kind.is_retryable();
    match step.state.turn.as_mut() {
        Some(turn) if again && turn.record.attempt < max => {
            turn.record.attempt += 1;
            restart(step, now);
        }
        _ => finish(step, TurnPhase::Refused, Some(failure)),
    }
}

/// The same turn, prepared again.
fn restart(step: &mut Step<'_>, now: crate::Millis) {
    let Some(turn) = step.state.turn.as_mut() else { return };
    turn.record.phase = TurnPhase::Preparing;
    turn.record.prompt = None;
    turn.record.handover = None;
    turn.handover_text = None;
    turn.early_context = None;
    turn.kill_at = None;
    turn.killed = false;
    turn.abort = None;
    turn.retry = None;
    turn.progress = Progress { at: now, ..Progress::default() };
    let writes = step.turn_write();
    step.commit(writes);
    step.show_turn();
    step.prepare();
}

/// The CLI does not know its session (T5): once per turn it goes on by itself as a handoff.
fn gone(step: &mut Step<'_>, failure: Failure) {
    let Some(turn) = step.state.turn.as_mut() else { return };
    if turn.record.gone {
        return finish(step, TurnPhase::Refused, Some(failure));
    }
    turn.record.gone = true;
    turn.record.attempt += 1;
    let provider = turn.record.target.provider.clone();
    drop_session(step);
    let message = step.notice_message(Notice::SessionGone { provider, reason: failure.message });
    step.commit(vec![Write::Append { message: Box::new(message), text: None }]);
    let now = step.now;
    restart(step, now);
}

/// Drops the turn's session: the next turn there is a handoff (T10).
fn drop_session(step: &mut Step<'_>) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let provider = turn.record.target.provider.clone();
    if step.state.sessions.remove(&provider).is_some() {
        let at = step.now;
        step.state.pending.writes.retain(|w| !matches!(w, Write::Session(s) if s.provider == provider));
        step.state.pending.writes.push(Write::DropSession { provider: provider.clone(), at });
    }
    step.out.push(Effect::Close { provider });
}

/// A prompt that was not answered: brings the session to before it, so that never a second prompt stands on top of an
/// unanswered one (T9). `known_upto_seq` has not moved, so nothing else changes.
fn forget(step: &mut Step<'_>, kept: Kept) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let provider = turn.record.target.provider.clone();
    let rewinds = step.state.keeps_of(&provider).rewinds;
    match kept {
        Kept::Nothing => {}
        Kept::PromptOnly | Kept::Everything if rewinds && turn.record.anchor_before.is_some() => {
            let anchor = turn.record.anchor_before.clone();
            if let Some(session) = step.state.sessions.get_mut(&provider) {
                session.anchor = anchor;
                session.rewind = true;
                session.incarnation += 1;
                let write = Write::Session(session.clone());
                step.state.pending.writes.push(write);
            }
            step.out.push(Effect::Close { provider });
        }
        Kept::PromptOnly | Kept::Everything | Kept::Unknown => drop_session(step),
    }
}

/// A prompt that was answered: what the session holds from here on (T3).
fn hold(step: &mut Step<'_>, kept: Kept) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let Some(reply) = turn.record.reply else { return };
    let (provider, id, anchor) = (turn.record.target.provider.clone(), turn.record.id, turn.anchor.clone());
    let before = turn.record.known_before;
    let anchor_before = turn.record.anchor_before.clone();
    let rewinds = step.state.keeps_of(&provider).rewinds && anchor_before.is_some();
    if kept == Kept::Unknown && !rewinds {
        return drop_session(step);
    }
    let Some(session) = step.state.sessions.get_mut(&provider) else { return };
    match kept {
        Kept::Everything => {
            session.known_upto_seq = session.known_upto_seq.max(reply.seq);
            session.anchor = anchor;
        }
        Kept::PromptOnly => {
            session.incarnation += 1;
            session.anchor = anchor;
        }
        // Not proved what it holds, but it can be brought back to before the turn, where it is certain.
        Kept::Nothing | Kept::Unknown => {
            session.incarnation += 1;
            session.known_upto_seq = before;
            session.turns.retain(|told| told.turn != id);
            session.anchor = anchor_before;
            session.rewind = kept == Kept::Unknown;
        }
    }
    let (write, rewind) = (Write::Session(session.clone()), session.rewind);
    step.state.pending.writes.push(write);
    if rewind {
        step.out.push(Effect::Close { provider });
    }
}

/// Closes the turn: everything final in one transaction, then the queue's head if it ended well.
fn finish(step: &mut Step<'_>, phase: TurnPhase, failure: Option<Failure>) {
    let now = step.now;
    let Some(turn) = step.state.turn.as_mut() else { return };
    let provider = turn.record.target.provider.clone();
    let mut writes = Vec::new();
    let completed = phase == TurnPhase::Completed;
    if let Some(reply) = turn.record.reply {
        if !completed {
            for (key, live) in turn.parts.iter().filter(|(_, live)| live.is_running()) {
                let status = WorkStatus::Interrupted;
                writes.push(match &live.kind {
                    LiveKind::Other(part) => {
                        let mut part = part.clone();
                        match &mut part.body {
                            PartBody::Tool { status, .. } | PartBody::FileChange { status, .. } => {
                                *status = WorkStatus::Interrupted;
                            }
                            _ => {}
                        }
                        step.out.push(Effect::Show(Change::Wrote(Box::new(Write::Part {
                            message: reply.id,
                            part: part.clone(),
                        }))));
                        Write::Part { message: reply.id, part }
                    }
                    _ => Write::PartStatus { message: reply.id, key: key.clone(), status, exit_code: None },
                });
            }
        }
        let state = match phase {
            TurnPhase::Completed => MessageState::Done,
            TurnPhase::Interrupted => MessageState::Interrupted,
            _ => MessageState::Failed,
        };
        writes.push(Write::MessageState {
            message: reply.id,
            state,
            ended_at: Some(now),
            provider: Some(provider.clone()),
        });
    } else {
        writes.push(Write::MessageState {
            message: turn.record.message,
            state: MessageState::NotAnswered,
            ended_at: None,
            provider: Some(provider.clone()),
        });
    }
    writes.extend(withdraw_open(turn, now));
    turn.record.phase = phase;
    turn.record.ended_at = Some(now);
    turn.record.failure.clone_from(&failure);
    writes.push(Write::Turn { turn: Box::new(turn.record.clone()), text: None });
    if let Some(failure) = failure {
        let message = step.notice_message(Notice::Error { provider, failure });
        writes.push(Write::Append { message: Box::new(message), text: None });
    }
    step.commit(writes);
    step.state.turn = None;
    step.out.push(Effect::Show(Change::Turn(None)));
    step.show_sessions();
    if completed {
        step.next_queued();
    }
}

/// A session's process is gone.
pub(super) fn exited(step: &mut Step<'_>, provider: &ProviderId, failure: Failure) {
    end_late(step, Some(provider));
    let concerned = step
        .state
        .turn
        .as_ref()
        .is_some_and(|t| t.record.target.provider == *provider && t.record.phase != TurnPhase::Preparing);
    if concerned {
        let abort = step.state.turn.as_mut().and_then(|t| t.abort.clone());
        end(step, End::Exited(abort.unwrap_or(failure)));
    }
}

/// Commands that went on after their turn ended with their process.
fn end_late(step: &mut Step<'_>, provider: Option<&ProviderId>) {
    let late = std::mem::take(&mut step.state.late);
    let (gone, kept) = late.into_iter().partition(|((whose, _), _)| provider.is_none_or(|p| p == whose));
    step.state.late = kept;
    let writes: Vec<Write> = std::collections::BTreeMap::into_iter(gone)
        .map(|((_, key), late)| Write::PartStatus {
            message: late.message,
            key,
            status: WorkStatus::Interrupted,
            exit_code: None,
        })
        .collect();
    if !writes.is_empty() {
        step.commit(writes);
    }
}

/// The app starts and finds the thread as an earlier run left it: no process of it lives (R5).
pub(super) fn recover(step: &mut Step<'_>) {
    end_late(step, None);
    let now = step.now;
    let Some(turn) = step.state.turn.as_mut() else { return };
    turn.progress = Progress { at: now, ..Progress::default() };
    match turn.record.phase {
        TurnPhase::Preparing => step.prepare(),
        TurnPhase::Sent => {
            // T10: whether the prompt was taken is not known, so the session goes back to before it, or is dropped.
            forget(step, Kept::PromptOnly);
            restart(step, now);
        }
        TurnPhase::Taken => after_kill(step, TurnPhase::Refused, Some(cut())),
        _ => after_kill(step, TurnPhase::Interrupted, None),
    }
}

fn cut() -> Failure {
    Failure::new(FailureKind::Exited, "Changeover ended before the agent answered.").hint("Send the message again.")
}
