//! Another attempt of the same turn (G16), and what must be true of the session before it (T9).
//!
//! A turn that was cut off before an answer is asked again. One that was cut off in the middle of its reply is continued where
//! the CLI's history holds what it had said; else the session goes back to before it and the turn is asked again, or it is
//! dropped and the turn is handed over. All attempts grow the same reply: what was asked for anew is folded away (S2), and what
//! the agent has done, commands and changes, is never asked for twice by itself.

use std::collections::BTreeMap;

use crate::{
    event::Kept,
    failure::Failure,
    notice::Notice,
    part::PartBody,
    turn::{
        ending::{drop_session, finish, forget, hold},
        record::TurnPhase,
        state::{LiveKind, LivePart, Progress, Retry},
        step::{Step, withdraw_open},
        write::Write,
    },
};

/// The prompt that has a reply continued which was cut off (T9). Fixed, and no message.
pub const GO_ON: &str =
    "Your last answer was cut off. Go on from where it stopped; do not repeat what you have already said.";

impl LivePart {
    /// Something that the agent has done, or is about to.
    fn is_work(&self) -> bool {
        match &self.kind {
            LiveKind::Command { .. } => true,
            LiveKind::Other(part) => matches!(part.body, PartBody::Tool { .. } | PartBody::FileChange { .. }),
            LiveKind::Text | LiveKind::Reasoning => false,
        }
    }

    /// Something that stands in a history as an answer. Reasoning alone does not.
    fn answers(&self) -> bool {
        self.kind == LiveKind::Text || self.is_work()
    }
}

/// What the CLI's history holds of a reply that was cut off: nothing whole of it is no answer to go on from (T9).
pub(super) fn held(step: &Step<'_>, kept: Kept) -> Kept {
    let answers = step.state.turn.as_ref().is_some_and(|turn| turn.parts.values().any(LivePart::answers));
    if kept == Kept::Everything && !answers { Kept::Unknown } else { kept }
}

/// Another attempt where that can help and some are left (G16), else the turn is refused.
pub(super) fn again_or_refuse(step: &mut Step<'_>, failure: Failure) {
    if !failure.kind.is_retryable() || !another(step, Some(&failure)) {
        finish(step, TurnPhase::Refused, Some(failure));
    }
}

/// Begins the next attempt on the session as it now is, if the turn has one left.
pub(super) fn another(step: &mut Step<'_>, why: Option<&Failure>) -> bool {
    let Some(turn) = step.state.turn.as_ref() else { return false };
    let lost = turn.record.go_on && !step.state.sessions.contains_key(&turn.record.target.provider);
    if !attempt_left(step) || (lost && !afresh(step)) {
        return false;
    }
    restart(step, Vec::new(), why);
    true
}

fn attempt_left(step: &Step<'_>) -> bool {
    step.state.turn.as_ref().is_some_and(|turn| turn.record.attempt < step.state.max_attempts)
}

/// A reply was cut off by a failure. False: the turn has failed with it.
pub(super) fn after_a_cut(step: &mut Step<'_>, kept: Kept, failure: &Failure) -> bool {
    let Some(turn) = step.state.turn.as_ref() else { return false };
    if !failure.kind.is_retryable() || !attempt_left(step) {
        return false;
    }
    let Some(reply) = turn.record.reply else { return false };
    let (provider, go_on) = (turn.record.target.provider.clone(), turn.record.go_on);
    let live = step.state.sessions.contains_key(&provider);
    if kept == Kept::Everything && live && !turn.record.compacted {
        hold(step, kept);
        step.keep_late(&provider, reply.id);
        if let Some(turn) = step.state.turn.as_mut() {
            turn.record.go_on = true;
        }
        return another(step, Some(failure));
    }
    let back = live && step.state.keeps_of(&provider).rewinds && turn.record.anchor_before.is_some();
    let stays = !turn.record.compacted && (back || kept == Kept::Nothing);
    if done(&turn.parts) || (!stays && done(&turn.earlier)) {
        return false;
    }
    fold(step, false);
    // The prompt that goes on is no message: taken back, the message is told still. The message's own takes that back too.
    match (go_on, kept == Kept::Nothing) {
        (true, true) => forget(step, Kept::Nothing),
        (true, false) => forget(step, Kept::PromptOnly),
        (false, true) => hold(step, Kept::Nothing),
        (false, false) => hold(step, Kept::Unknown),
    }
    another(step, Some(failure))
}

/// Whether the agent has done something among these.
fn done(parts: &BTreeMap<String, LivePart>) -> bool {
    parts.values().any(LivePart::is_work)
}

/// Folds away what this attempt has said, or all of them (S2).
fn fold(step: &mut Step<'_>, all: bool) {
    let Some(turn) = step.state.turn.as_mut() else { return };
    let Some(reply) = turn.record.reply else { return };
    let mut keys: Vec<String> = std::mem::take(&mut turn.parts).into_keys().collect();
    if all {
        keys.extend(std::mem::take(&mut turn.earlier).into_keys());
    }
    step.fold(reply.id, keys);
}

/// Has the message asked anew from the beginning, in a fresh session; false where that would do something twice.
fn afresh(step: &mut Step<'_>) -> bool {
    let Some(turn) = step.state.turn.as_mut() else { return false };
    if done(&turn.parts) || done(&turn.earlier) {
        return false;
    }
    turn.record.go_on = false;
    fold(step, true);
    true
}

/// The same turn, prepared again; `writes` go with it. `why` is shown until something moves (R10).
fn restart(step: &mut Step<'_>, mut writes: Vec<Write>, why: Option<&Failure>) {
    let (now, max) = (step.now, step.state.max_attempts);
    let Some(turn) = step.state.turn.as_mut() else { return };
    turn.record.attempt += 1;
    turn.record.phase = TurnPhase::Preparing;
    turn.record.prompt = None;
    turn.record.handover = None;
    turn.handover_text = None;
    turn.answered = false;
    turn.early_context = None;
    turn.kill_at = None;
    turn.killed = false;
    turn.abort = None;
    turn.retry =
        why.map(|failure| Retry { attempt: turn.record.attempt, max: Some(max), message: failure.message.clone() });
    turn.progress = Progress { at: now, ..Progress::default() };
    let parts = std::mem::take(&mut turn.parts);
    turn.earlier.extend(parts);
    writes.extend(withdraw_open(turn, now));
    writes.extend(step.turn_write());
    step.commit(writes);
    step.show_turn();
    step.prepare();
}

/// The CLI does not know its session (T5): once per turn it goes on by itself as a handoff.
pub(super) fn gone(step: &mut Step<'_>, failure: Failure) {
    let Some(turn) = step.state.turn.as_ref() else { return };
    let provider = turn.record.target.provider.clone();
    drop_session(step, &provider);
    let Some(turn) = step.state.turn.as_mut() else { return };
    if std::mem::replace(&mut turn.record.gone, true) || (turn.record.reply.is_some() && !afresh(step)) {
        return finish(step, TurnPhase::Refused, Some(failure));
    }
    let message = step.notice_message(Notice::SessionGone { provider, reason: failure.message });
    restart(step, vec![Write::Append { message: Box::new(message), text: None }], None);
}
