//! Every way a turn can end, and what the session then still holds (T3, T5, T9, T10).

use std::collections::BTreeMap;

use crate::{
    event::Kept,
    failure::{Failure, FailureKind},
    message::MessageState,
    notice::Notice,
    part::WorkStatus,
    provider::ProviderId,
    seq::Seq,
    session::SessionRecord,
    turn::{
        attempt::{self, again_or_refuse, gone},
        record::TurnPhase,
        state::{Change, Effect, OpenTurn, Progress},
        step::{Step, withdraw_open},
        write::Write,
    },
};

/// How the CLI ended a turn. What its history then holds goes by this; what becomes of the turn also by who stopped it.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// By itself.
    Completed,
    /// By our interrupt, or its own.
    Interrupted,
    /// By an error.
    Failed(Failure),
    /// Its process is gone.
    Exited(Failure),
}

/// Who stopped a turn before it ended.
enum Stop {
    /// Nobody.
    Nobody,
    /// A person: the last word, whatever the CLI says after it.
    Person,
    /// We, for a reason that the person did not give (R10).
    Us(Failure),
}

impl OpenTurn {
    fn stop(&self) -> Stop {
        match (&self.abort, self.record.phase) {
            (Some(failure), _) => Stop::Us(failure.clone()),
            (None, TurnPhase::Interrupting) => Stop::Person,
            (None, _) => Stop::Nobody,
        }
    }
}

/// Ends the open turn.
pub(super) fn end(step: &mut Step<'_>, end: End) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    if turn.record.phase == TurnPhase::Preparing {
        return match end {
            End::Failed(failure) if failure.kind == FailureKind::SessionGone => gone(step, failure),
            End::Completed | End::Interrupted => finish(step, TurnPhase::Interrupted, None),
            End::Failed(failure) | End::Exited(failure) => finish(step, TurnPhase::Refused, Some(failure)),
        };
    }
    if turn.answered { answered(step, end) } else { unanswered(step, end) }
}

/// The model had made nothing in this attempt.
fn unanswered(step: &mut Step<'_>, end: End) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let (provider, stop) = (turn.record.target.provider.clone(), turn.stop());
    let keeps = step.state.keeps_of(&provider);
    let session = step.state.sessions.get(&provider);
    let kept = match &end {
        // What it holds then is anybody's guess; where it can be brought back, that does not matter.
        End::Completed => Kept::PromptOnly,
        End::Interrupted => keeps.interrupted_unanswered,
        End::Failed(_) => keeps.failed_unanswered,
        // R058: it was brought back once and ends without a word again. In doubt, drop (T10).
        End::Exited(_) if session.is_some_and(|s| s.rewind) => Kept::Unknown,
        End::Exited(_) => Kept::PromptOnly,
    };
    match (stop, end) {
        (Stop::Person, _) => {
            forget(step, kept);
            finish(step, TurnPhase::Interrupted, None);
        }
        (Stop::Us(failure), _) => {
            forget(step, kept);
            again_or_refuse(step, failure);
        }
        (Stop::Nobody, End::Completed) => {
            // R058: an agent that ends without a word: the session is dropped, and the turn tried once afresh.
            let failure = Failure::new(FailureKind::Protocol, "The agent ended its turn without an answer.")
                .hint("Send the message again, or go on with another provider.");
            if turn.record.reply.is_some() {
                forget(step, kept);
                finish(step, TurnPhase::Failed, Some(failure));
            } else if session.is_some() {
                gone(step, failure);
            } else {
                drop_session(step, &provider);
                finish(step, TurnPhase::Refused, Some(failure));
            }
        }
        (Stop::Nobody, End::Interrupted) => {
            forget(step, kept);
            finish(step, TurnPhase::Interrupted, None);
        }
        (Stop::Nobody, End::Failed(failure)) if failure.kind == FailureKind::SessionGone => gone(step, failure),
        (Stop::Nobody, End::Failed(failure) | End::Exited(failure)) => {
            forget(step, kept);
            again_or_refuse(step, failure);
        }
    }
}

/// The model had begun its reply, or gone on with it.
fn answered(step: &mut Step<'_>, end: End) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let (provider, reply, stop) = (turn.record.target.provider.clone(), turn.record.reply, turn.stop());
    let keeps = step.state.keeps_of(&provider);
    let kept = match &end {
        End::Completed => Kept::Everything,
        End::Interrupted => keeps.interrupted_answered,
        End::Failed(_) => keeps.failed_answered,
        // Its turn may have ended just before, in any way and unheard, or begun its reply anew: nothing is certain (T10).
        End::Exited(_) => Kept::Unknown,
    };
    let cut = match (&stop, &end) {
        (_, End::Completed) | (Stop::Person, _) | (Stop::Nobody, End::Interrupted) => None,
        (Stop::Us(failure), _) | (Stop::Nobody, End::Failed(failure) | End::Exited(failure)) => Some(failure.clone()),
    };
    let kept = if cut.is_some() { attempt::held(step, kept) } else { kept };
    if cut.as_ref().is_some_and(|failure| attempt::after_a_cut(step, kept, failure)) {
        return;
    }
    if let (End::Completed, Some(reply)) = (&end, reply) {
        step.keep_late(&provider, reply.id);
    }
    hold(step, kept);
    match (end, cut) {
        // It was quicker than whoever stopped it: the reply is whole.
        (End::Completed, _) => finish(step, TurnPhase::Completed, None),
        (_, None) => finish(step, TurnPhase::Interrupted, None),
        (_, failure) => finish(step, TurnPhase::Failed, failure),
    }
}

/// Ends the provider's process; no `Exited` comes of it, so what still ran in it ends here.
fn close(step: &mut Step<'_>, provider: &ProviderId) {
    end_late(step, Some(provider));
    step.out.push(Effect::Close { provider: provider.clone() });
}

/// Drops a session: the next turn there is a handoff (T10).
pub(super) fn drop_session(step: &mut Step<'_>, provider: &ProviderId) {
    let_go(step, provider);
    close(step, provider);
}

/// The same, its process left to what it still runs (S2): the next turn there begins a new one.
pub(super) fn let_go(step: &mut Step<'_>, provider: &ProviderId) {
    if step.state.sessions.remove(provider).is_some() {
        let at = step.now;
        step.state.pending.writes.retain(|w| !matches!(w, Write::Session(s) if s.provider == *provider));
        step.state.pending.writes.push(Write::DropSession { provider: provider.clone(), at });
    }
}

/// Has a session brought back to a place before the next prompt (T9). `known` is what it holds there.
fn bring_back(step: &mut Step<'_>, provider: &ProviderId, anchor: Option<String>, known: Seq) {
    let Some(session) = step.state.sessions.get(provider) else { return };
    let back = session.brought_back(anchor, known);
    put_back(step, back);
}

/// Puts a session that is to be brought back; what its process has in memory is not that.
fn put_back(step: &mut Step<'_>, back: SessionRecord) {
    let provider = back.provider.clone();
    step.state.pending.writes.push(Write::Session(back.clone()));
    step.state.sessions.insert(provider.clone(), back);
    close(step, &provider);
}

/// A prompt that was not answered: brings the session to before it, so that never a second prompt stands on top of an
/// unanswered one (T9). `known_upto_seq` has not moved, so nothing else changes.
pub(super) fn forget(step: &mut Step<'_>, kept: Kept) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let provider = turn.record.target.provider.clone();
    if turn.record.compacted {
        return drop_session(step, &provider);
    }
    let (anchor, before) = (turn.record.anchor_before.clone(), turn.record.known_before);
    let rewinds = step.state.keeps_of(&provider).rewinds && anchor.is_some();
    match kept {
        Kept::Nothing => {}
        Kept::PromptOnly | Kept::Everything if rewinds => bring_back(step, &provider, anchor, before),
        Kept::PromptOnly | Kept::Everything | Kept::Unknown => drop_session(step, &provider),
    }
}

/// A prompt that was answered: what the session holds from here on (T3).
pub(super) fn hold(step: &mut Step<'_>, kept: Kept) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let Some(reply) = turn.record.reply else { return };
    let (provider, id, anchor) = (turn.record.target.provider.clone(), turn.record.id, turn.anchor.clone());
    if turn.record.compacted {
        // What a compaction has left in it nobody knows (T10).
        return let_go(step, &provider);
    }
    // Of a reply in more than one attempt the session holds a part, which no mark can say: back to before the whole turn.
    let kept = if turn.record.go_on && kept != Kept::Everything { Kept::Unknown } else { kept };
    let Some(session) = step.state.sessions.get(&provider) else { return };
    let told = session.turns.iter().find(|told| told.turn == id);
    let (before, anchor_before) = match told {
        Some(told) => (told.known_before, told.anchor_before.clone()),
        None => (turn.record.known_before, turn.record.anchor_before.clone()),
    };
    let rewinds = step.state.keeps_of(&provider).rewinds && anchor_before.is_some();
    if kept == Kept::Unknown && !rewinds {
        return drop_session(step, &provider);
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
        Kept::Nothing => {
            session.turns.retain(|told| told.turn != id);
            session.incarnation += 1;
            session.known_upto_seq = before;
            session.anchor = anchor_before;
        }
        // Not proved what it holds, but it can be brought back to before the turn, where it is certain.
        Kept::Unknown => {
            session.turns.retain(|told| told.turn != id);
            return bring_back(step, &provider, anchor_before, before);
        }
    }
    let write = Write::Session(session.clone());
    step.state.pending.writes.push(write);
}

/// A message that this session was asked before is asked again (T8), see [`ThreadState::asked_before`].
///
/// [`ThreadState::asked_before`]: crate::turn::state::ThreadState::asked_before
pub(super) fn take_back(step: &mut Step<'_>, provider: &ProviderId, message: Seq) {
    match step.state.asked_before(provider, message) {
        None => {}
        Some(Some(back)) => put_back(step, back),
        Some(None) => drop_session(step, provider),
    }
}

/// Closes the turn: everything final in one transaction, then the queue's head if it ended well.
pub(super) fn finish(step: &mut Step<'_>, phase: TurnPhase, failure: Option<Failure>) {
    let now = step.now;
    let Some(turn) = step.state.turn.as_mut() else { return };
    // Refused is what nobody answered; a later attempt that was refused leaves the reply as it was cut off.
    let answered = turn.record.reply.is_some();
    let phase = if answered && phase == TurnPhase::Refused { TurnPhase::Failed } else { phase };
    let provider = turn.record.target.provider.clone();
    let mut writes = Vec::new();
    let completed = phase == TurnPhase::Completed;
    // Who pressed stop does not want the next message to leave by itself, even if the reply was quicker.
    let goes_on = completed && !matches!(turn.stop(), Stop::Person);
    if let Some(reply) = turn.record.reply {
        if !completed {
            let running = turn.parts.iter().filter(|(_, live)| live.is_running());
            let (message, status) = (reply.id, WorkStatus::Interrupted);
            writes.extend(running.map(|(key, _)| Write::PartStatus {
                message,
                key: key.clone(),
                status,
                exit_code: None,
            }));
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
    if goes_on {
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
        end(step, End::Exited(failure));
    } else {
        step.commit(Vec::new());
    }
}

/// Work that went on after its turn ended with its process; written with the next commit.
fn end_late(step: &mut Step<'_>, provider: Option<&ProviderId>) {
    let late = std::mem::take(&mut step.state.late);
    let (gone, kept): (BTreeMap<_, _>, _) =
        late.into_iter().partition(|((whose, _), _)| provider.is_none_or(|p| p == whose));
    step.state.late = kept;
    for (_, late) in gone {
        step.put_status(late.message, late.key, WorkStatus::Interrupted, None);
    }
}

/// The app starts and finds the thread as an earlier run left it: no process of it lives (R5).
pub(super) fn recover(step: &mut Step<'_>) {
    end_late(step, None);
    let now = step.now;
    let Some(turn) = step.state.turn.as_mut() else { return step.commit(Vec::new()) };
    turn.progress = Progress { at: now, ..Progress::default() };
    match turn.record.phase {
        // Begun in some attempt: it stands as it was cut off, whatever the next one was about to do.
        _ if turn.record.reply.is_some() => {
            hold(step, Kept::Unknown);
            finish(step, TurnPhase::Interrupted, None);
        }
        TurnPhase::Preparing => {
            step.commit(Vec::new());
            step.prepare();
        }
        // T10: whether the prompt was taken is not known, so the session goes back to before it, or is dropped.
        TurnPhase::Sent => {
            forget(step, Kept::PromptOnly);
            if !attempt::another(step, None) {
                finish(step, TurnPhase::Refused, Some(cut()));
            }
        }
        TurnPhase::Taken => {
            forget(step, Kept::PromptOnly);
            finish(step, TurnPhase::Refused, Some(cut()));
        }
        _ => {
            forget(step, Kept::PromptOnly);
            finish(step, TurnPhase::Interrupted, None);
        }
    }
}

fn cut() -> Failure {
    Failure::new(FailureKind::Exited, "Changeover ended before the agent answered.").hint("Send the message again.")
}
