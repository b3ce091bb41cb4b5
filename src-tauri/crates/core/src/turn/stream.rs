//! What a runtime reports while a turn runs, and of work that outlives it.

use crate::{
    approval::{ApprovalRequest, ApprovalSubject},
    event::{Ended, RuntimeEvent},
    failure::{Failure, FailureKind},
    id::{ApprovalId, MessageId},
    message::{Message, MessageState, Role, SessionStamp},
    notice::{Handover, Notice},
    part::{Part, PartBody, WorkStatus},
    provider::{ApprovalMode, ProviderId},
    session::{SessionRecord, Told},
    turn::{
        attempt,
        ending::{self, End},
        record::{Approval, ApprovalState, ReplyRef, TurnPhase},
        state::{Change, Effect, FLUSH_MS, Late, LiveKind, LivePart, OpenTurn, Progress, Retry},
        step::{Step, no_progress},
        write::Write,
    },
};

/// Takes one event of `provider`'s session. Events that belong to no open turn are of late work, or are let go.
pub(super) fn event(step: &mut Step<'_>, provider: &ProviderId, event: RuntimeEvent) {
    if late(step, provider, &event) {
        return;
    }
    let Some(turn) = step.state.turn.as_mut().filter(|t| t.record.target.provider == *provider) else {
        return idle(step, provider, event);
    };
    if turn.record.phase == TurnPhase::Preparing {
        // The session is being opened: only its identity is of use before the prompt has left.
        if let RuntimeEvent::SessionKnown { session_id, model } = event {
            turn.session_id = Some(session_id);
            turn.model = model.or(turn.model.take());
        } else if let RuntimeEvent::Warning { message } = event {
            step.out.push(Effect::Show(Change::Warning(message)));
        } else if event == RuntimeEvent::Compacted {
            compacted_before(step, provider);
        }
        return;
    }
    // What a reply was begun with stands under its own names.
    let begun = turn.record.reply.is_some() && (!turn.answered || turn.continued);
    match event.of_attempt(begun.then_some(turn.record.attempt)) {
        RuntimeEvent::SessionKnown { session_id, model } => {
            turn.session_id = Some(session_id);
            turn.model = model.or(turn.model.take());
            step.learn_model();
        }
        RuntimeEvent::Taken => {
            if turn.record.phase == TurnPhase::Sent {
                turn.record.phase = TurnPhase::Taken;
                if let Some(known) = &turn.session_id {
                    turn.record.session = Some(known.clone());
                }
                let writes = step.turn_write();
                step.commit(writes);
                step.show_turn();
            }
        }
        RuntimeEvent::Requested => {
            turn.progress.requests += 1;
            step.check_progress();
        }
        RuntimeEvent::Text { item, delta } => step.text(item, &delta, false),
        RuntimeEvent::Reasoning { item, delta } => step.text(item, &delta, true),
        RuntimeEvent::Whole { item, reasoning, text } => step.whole(item, reasoning, text),
        RuntimeEvent::Command { item, command, status, exit_code, output } => {
            step.command(item, command, status, exit_code, output);
        }
        RuntimeEvent::CommandOutput { item, delta } => step.append(item, &delta),
        RuntimeEvent::Tool { item, name, input, output, status } => {
            step.other(item, PartBody::Tool { name, input, output, status });
        }
        RuntimeEvent::FileChange { item, files, status } => step.other(item, PartBody::FileChange { files, status }),
        RuntimeEvent::Plan { item, entries } => step.other(item, PartBody::Plan { entries }),
        RuntimeEvent::Superseded { items } => step.superseded(&items),
        RuntimeEvent::ApprovalWanted(request) => step.approval(request),
        RuntimeEvent::ApprovalWithdrawn { key } => step.withdrawn(&key),
        RuntimeEvent::Context(figure) => {
            if let Some(session) = step.state.sessions.get_mut(provider) {
                let window = figure.window.or(session.context.and_then(|c| c.window));
                session.context = Some(crate::usage::ContextFigure { window, ..figure });
                let write = Write::Session(session.clone());
                step.queue_session(write);
                step.show_sessions();
            } else {
                turn.early_context = Some(figure);
            }
        }
        RuntimeEvent::Retrying { attempt, max, message } => {
            turn.progress.retries += 1;
            turn.retry = Some(Retry { attempt, max, message });
            step.show_turn();
            step.check_progress();
        }
        RuntimeEvent::Warning { message } => step.out.push(Effect::Show(Change::Warning(message))),
        RuntimeEvent::Anchor { anchor } => turn.anchor = Some(anchor),
        RuntimeEvent::Compacted => {
            if !std::mem::replace(&mut turn.record.compacted, true) {
                let writes = step.turn_write();
                step.append_notice(Notice::Compacted { provider: provider.clone() }, writes);
            }
        }
        RuntimeEvent::Raw { .. } | RuntimeEvent::Exited { .. } => {}
        RuntimeEvent::Ended(ended) => {
            let end = match ended {
                Ended::Completed => End::Completed,
                Ended::Interrupted => End::Interrupted,
                Ended::Failed(failure) => End::Failed(failure),
            };
            ending::end(step, end);
        }
    }
}

/// An event of a session while no turn of its runs.
fn idle(step: &mut Step<'_>, provider: &ProviderId, event: RuntimeEvent) {
    match event {
        RuntimeEvent::Context(figure) => {
            if let Some(session) = step.state.sessions.get_mut(provider) {
                let window = figure.window.or(session.context.and_then(|c| c.window));
                session.context = Some(crate::usage::ContextFigure { window, ..figure });
                let write = Write::Session(session.clone());
                step.queue_session(write);
                step.show_sessions();
            }
        }
        // There is no turn to ask for, and nothing is denied by itself (R4): it waits unanswered while its process lives.
        RuntimeEvent::ApprovalWanted(ApprovalRequest { subject, .. }) => {
            let what = match subject {
                ApprovalSubject::Command { command, .. } => format!("the command {command}"),
                ApprovalSubject::Edit { .. } => "a change of files".into(),
                ApprovalSubject::Tool { name, .. } => format!("the tool {name}"),
            };
            let name = provider.display_name();
            let warning = format!("{name} asked for leave for {what} after its turn had ended. It was not answered.");
            step.out.push(Effect::Show(Change::Warning(warning)));
        }
        RuntimeEvent::Warning { message } => step.out.push(Effect::Show(Change::Warning(message))),
        RuntimeEvent::Compacted if step.state.sessions.contains_key(provider) => {
            ending::let_go(step, provider);
            step.append_notice(Notice::Compacted { provider: provider.clone() }, Vec::new());
            step.show_sessions();
        }
        _ => {}
    }
}

/// The CLI compacted its history while a turn of its was prepared (G2): what that was prepared on is not so any more.
fn compacted_before(step: &mut Step<'_>, provider: &ProviderId) {
    ending::drop_session(step, provider);
    step.append_notice(Notice::Compacted { provider: provider.clone() }, Vec::new());
    if !attempt::another(step, None) {
        let failure =
            Failure::new(FailureKind::Protocol, "The agent compacted its history while the turn was prepared.")
                .hint("Send the message again.");
        ending::finish(step, TurnPhase::Refused, Some(failure));
    }
}

/// Work that outlived its turn (S2): true if the event was for it.
fn late(step: &mut Step<'_>, provider: &ProviderId, event: &RuntimeEvent) -> bool {
    let (item, ends) = match event {
        RuntimeEvent::CommandOutput { item, .. } => (item, false),
        RuntimeEvent::Command { item, status, .. }
        | RuntimeEvent::Tool { item, status, .. }
        | RuntimeEvent::FileChange { item, status, .. } => (item, *status != WorkStatus::Running),
        _ => return false,
    };
    let place = (provider.clone(), item.clone());
    let Some(late) = step.state.late.get(&place).cloned() else { return false };
    let Late { message, key, command: line } = late;
    match event.clone() {
        RuntimeEvent::CommandOutput { delta, .. } => step.chunk(message, key, &delta),
        RuntimeEvent::Command { command, status, exit_code, output, .. } => {
            let command = if command.is_empty() { line } else { command };
            step.put_command(message, key, command, status, exit_code, output);
        }
        RuntimeEvent::Tool { name, input, output, status, .. } => {
            step.put(message, Part { key, superseded: false, body: PartBody::Tool { name, input, output, status } });
        }
        RuntimeEvent::FileChange { files, status, .. } => {
            step.put(message, Part { key, superseded: false, body: PartBody::FileChange { files, status } });
        }
        _ => {}
    }
    if ends {
        step.state.late.remove(&place);
    }
    true
}

impl OpenTurn {
    /// The open turn, new.
    pub fn new(record: super::record::TurnRecord, message_text: String, now: crate::Millis) -> Self {
        Self {
            answered: record.reply.is_some(),
            continued: false,
            before: None,
            noticed: None,
            record,
            message_text,
            handover_text: None,
            transition: crate::transition::Transition { kind: crate::transition::TransitionKind::Fresh, after_seq: 0 },
            session_id: None,
            model: None,
            anchor: None,
            parts: std::collections::BTreeMap::new(),
            earlier: std::collections::BTreeMap::new(),
            approvals: Vec::new(),
            progress: Progress { at: now, ..Progress::default() },
            kill_at: None,
            killed: false,
            abort: None,
            retry: None,
            early_context: None,
        }
    }

    /// Whether R10's clock runs: a prompt is out, and neither a command nor an approval is awaited.
    pub fn clock_runs(&self) -> bool {
        matches!(self.record.phase, TurnPhase::Sent | TurnPhase::Taken | TurnPhase::Streaming)
            && !self.parts.values().any(LivePart::is_running)
    }

    /// Whether R10 ends the turn now.
    pub(super) fn stalled(&self, now: crate::Millis) -> bool {
        use super::state::{NO_PROGRESS_MS, NO_PROGRESS_REQUESTS, NO_PROGRESS_RETRIES};
        self.clock_runs()
            && (now - self.progress.at >= NO_PROGRESS_MS
                || self.progress.retries > NO_PROGRESS_RETRIES
                || self.progress.requests >= NO_PROGRESS_REQUESTS)
    }
}

impl LivePart {
    /// Work that goes on.
    pub(super) fn is_running(&self) -> bool {
        match &self.kind {
            LiveKind::Command { status, .. } => *status == WorkStatus::Running,
            LiveKind::Other(part) => matches!(
                part.body,
                PartBody::Tool { status: WorkStatus::Running, .. }
                    | PartBody::FileChange { status: WorkStatus::Running, .. }
            ),
            LiveKind::Text | LiveKind::Reasoning => false,
        }
    }
}

fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

impl Step<'_> {
    /// T2 "answered": session, mark, notice and empty reply in one transaction. Returns the reply. A later attempt goes on in
    /// the reply that is there.
    fn accept(&mut self) -> Option<ReplyRef> {
        let turn = self.state.turn.as_mut()?;
        if turn.answered {
            return turn.record.reply;
        }
        turn.answered = true;
        turn.continued = turn.record.reply.is_some();
        let record = turn.record.clone();
        let provider = record.target.provider.clone();
        let known = turn.session_id.clone().or_else(|| record.session.clone());
        let mut writes = Vec::new();
        if record.reply.is_none() {
            writes.push(Write::MessageState {
                message: record.message,
                state: MessageState::Done,
                ended_at: None,
                provider: Some(provider.clone()),
            });
        }
        let stamp = known.map(|session_id| self.accept_session(session_id, &mut writes));
        if let Some(handover) = record.handover {
            let turn = self.state.turn.as_mut()?;
            let text = turn.handover_text.take();
            if turn.noticed.replace(handover.hash.clone()).as_ref() != Some(&handover.hash) {
                let message = self.notice_message(Notice::Handover(handover));
                writes.push(Write::Append { message: Box::new(message), text });
            }
        }
        let reply = match record.reply {
            Some(reply) => {
                writes.push(Write::MessageSession { message: reply.id, session: stamp });
                reply
            }
            None => self.begin_reply(stamp, &mut writes)?,
        };
        let turn = self.state.turn.as_mut()?;
        if turn.record.phase != TurnPhase::Interrupting {
            turn.record.phase = TurnPhase::Streaming;
        }
        writes.extend(self.turn_write());
        self.commit(writes);
        self.show_turn();
        self.show_sessions();
        Some(reply)
    }

    /// The reply, new and empty.
    fn begin_reply(&mut self, stamp: Option<SessionStamp>, writes: &mut Vec<Write>) -> Option<ReplyRef> {
        let reply = ReplyRef { id: MessageId(self.ids.next()), seq: self.take_seq() };
        let now = self.now;
        let turn = self.state.turn.as_mut()?;
        let provider = turn.record.target.provider.clone();
        writes.push(Write::Append {
            message: Box::new(Message {
                id: reply.id,
                seq: reply.seq,
                role: Role::Assistant,
                state: MessageState::Open,
                provider: Some(provider.clone()),
                model: turn.model.clone().or_else(|| turn.record.target.model.clone()),
                session: stamp,
                created_at: now,
                ended_at: None,
                pinned: false,
                excluded: false,
                parts: Vec::new(),
                notice: None,
            }),
            text: None,
        });
        turn.record.reply = Some(reply);
        self.state.note_content(reply.seq);
        self.state.answered_by = Some(provider);
        Some(reply)
    }

    fn accept_session(&mut self, session_id: String, writes: &mut Vec<Write>) -> SessionStamp {
        let Some(turn) = self.state.turn.as_ref() else { return SessionStamp { id: session_id, incarnation: 0 } };
        let record = &turn.record;
        let provider = record.target.provider.clone();
        let folder = self.state.folder.clone();
        let (told, left_out) =
            record.handover.as_ref().map_or((vec![], vec![]), |h: &Handover| (h.told.clone(), h.left_out.clone()));
        let session = self.state.sessions.entry(provider.clone()).or_insert_with(|| SessionRecord {
            provider,
            session_id: session_id.clone(),
            folder,
            model: None,
            incarnation: 0,
            known_upto_seq: 0,
            turns: Vec::new(),
            anchor: None,
            rewind: false,
            context: None,
        });
        session.session_id = session_id.clone();
        // It was opened at its anchor, and from here on what it holds is this turn on top of that.
        session.rewind = false;
        session.model.clone_from(&record.target.model);
        // Going on with a reply that was cut off tells nothing new.
        if session.turns.iter().all(|told| told.turn != record.id) {
            session.turns.push(Told {
                turn: record.id,
                message_seq: record.message_seq,
                known_before: record.known_before,
                told,
                left_out,
                anchor_before: record.anchor_before.clone(),
            });
        }
        // T3: only ever forward within an incarnation.
        session.known_upto_seq = session.known_upto_seq.max(record.upto);
        if let Some(figure) = turn.early_context {
            session.context = Some(figure);
        }
        writes.push(Write::Session(session.clone()));
        SessionStamp { id: session_id, incarnation: session.incarnation }
    }

    /// A system row with the next number.
    pub(super) fn notice_message(&mut self, notice: Notice) -> Message {
        Message {
            id: MessageId(self.ids.next()),
            seq: self.take_seq(),
            role: Role::System,
            state: MessageState::Done,
            provider: None,
            model: None,
            session: None,
            created_at: self.now,
            ended_at: None,
            pinned: false,
            excluded: false,
            parts: Vec::new(),
            notice: Some(notice),
        }
    }

    /// Appends a notice; `writes` go with it.
    fn append_notice(&mut self, notice: Notice, mut writes: Vec<Write>) {
        let message = self.notice_message(notice);
        writes.push(Write::Append { message: Box::new(message), text: None });
        self.commit(writes);
    }

    fn learn_model(&mut self) {
        let Some(turn) = self.state.turn.as_ref() else { return };
        if let (Some(reply), Some(model)) = (turn.record.reply, turn.model.clone()) {
            self.commit(vec![Write::MessageModel { message: reply.id, model }]);
        }
    }

    /// Queues a write for the next flush.
    pub(super) fn later(&mut self, write: Write) {
        self.state.pending.writes.push(write);
        if self.state.pending.due.is_none() {
            self.state.pending.due = Some(self.now + FLUSH_MS);
        }
    }

    fn queue_session(&mut self, write: Write) {
        // Only the newest of a session matters.
        if let Write::Session(new) = &write {
            self.state.pending.writes.retain(|w| !matches!(w, Write::Session(old) if old.provider == new.provider));
        }
        self.later(write);
    }

    fn moved(&mut self) {
        let now = self.now;
        let Some(turn) = self.state.turn.as_mut() else { return };
        turn.progress = Progress { at: now, ..Progress::default() };
        if turn.retry.take().is_some() {
            self.show_turn();
        }
    }

    fn check_progress(&mut self) {
        let now = self.now;
        if self.state.turn.as_ref().is_some_and(|t| t.stalled(now)) {
            self.begin_interrupt(Some(no_progress()));
        }
    }

    fn text(&mut self, item: String, delta: &str, reasoning: bool) {
        if delta.is_empty() {
            return;
        }
        let Some(reply) = self.accept() else { return };
        self.moved();
        let Some(turn) = self.state.turn.as_mut() else { return };
        // A place in the history is where to go back to only while no text has come after it.
        turn.anchor = None;
        if let Some(live) = turn.parts.get_mut(&item) {
            live.len += delta.len() as u64;
            live.hash = fnv(live.hash, delta.as_bytes());
            return self.chunk(reply.id, item, delta);
        }
        let kind = if reasoning { LiveKind::Reasoning } else { LiveKind::Text };
        turn.parts
            .insert(item.clone(), LivePart { kind, len: delta.len() as u64, hash: fnv(FNV_START, delta.as_bytes()) });
        let body = text_body(reasoning, delta.to_owned());
        self.put(reply.id, Part { key: item, superseded: false, body });
    }

    fn whole(&mut self, item: String, reasoning: bool, text: String) {
        if text.is_empty() {
            return;
        }
        let Some(reply) = self.accept() else { return };
        self.moved();
        let Some(turn) = self.state.turn.as_mut() else { return };
        let (len, hash) = (text.len() as u64, fnv(FNV_START, text.as_bytes()));
        if turn.parts.get(&item).is_some_and(|live| live.len == len && live.hash == hash) {
            return;
        }
        turn.anchor = None;
        let kind = if reasoning { LiveKind::Reasoning } else { LiveKind::Text };
        turn.parts.insert(item.clone(), LivePart { kind, len, hash });
        self.put(reply.id, Part { key: item, superseded: false, body: text_body(reasoning, text) });
    }

    fn command(
        &mut self,
        item: String,
        command: String,
        status: WorkStatus,
        exit_code: Option<i32>,
        output: Option<String>,
    ) {
        let Some(reply) = self.accept() else { return };
        self.moved();
        let Some(turn) = self.state.turn.as_mut() else { return };
        let known = match turn.parts.get(&item).map(|p| &p.kind) {
            Some(LiveKind::Command { command, .. }) => Some(command.clone()),
            _ => None,
        };
        let line = if command.is_empty() { known.clone().unwrap_or_default() } else { command };
        turn.parts.insert(
            item.clone(),
            LivePart { kind: LiveKind::Command { command: line.clone(), status }, len: 0, hash: FNV_START },
        );
        let begins = known.as_deref() != Some(line.as_str());
        let output = if begins { Some(output.unwrap_or_default()) } else { output };
        self.put_command(reply.id, item, line, status, exit_code, output);
    }

    /// A command as it now is; without output only its status changes, the bytes stay.
    fn put_command(
        &mut self,
        message: MessageId,
        key: String,
        command: String,
        status: WorkStatus,
        exit_code: Option<i32>,
        output: Option<String>,
    ) {
        match output {
            Some(output) => {
                let body = PartBody::Command { command, status, exit_code, output };
                self.put(message, Part { key, superseded: false, body });
            }
            None => self.put_status(message, key, status, exit_code),
        }
    }

    /// Shows and queues a part's new status, its bytes as they are.
    pub(super) fn put_status(&mut self, message: MessageId, key: String, status: WorkStatus, exit_code: Option<i32>) {
        let write = Write::PartStatus { message, key, status, exit_code };
        self.out.push(Effect::Show(Change::Wrote(Box::new(write.clone()))));
        self.later(write);
    }

    fn append(&mut self, item: String, delta: &str) {
        if delta.is_empty() {
            return;
        }
        let Some(reply) = self.state.reply() else { return };
        if self.state.turn.as_ref().is_some_and(|t| t.parts.contains_key(&item)) {
            self.moved();
            self.chunk(reply.id, item, delta);
        }
    }

    fn other(&mut self, item: String, body: PartBody) {
        let Some(reply) = self.accept() else { return };
        self.moved();
        let part = Part { key: item.clone(), superseded: false, body };
        if let Some(turn) = self.state.turn.as_mut() {
            turn.parts.insert(item, LivePart { kind: LiveKind::Other(part.clone()), len: 0, hash: FNV_START });
        }
        self.put(reply.id, part);
    }

    /// Shows and queues a part, new or replaced.
    pub(super) fn put(&mut self, message: MessageId, part: Part) {
        let write = Write::Part { message, part };
        self.out.push(Effect::Show(Change::Wrote(Box::new(write.clone()))));
        self.later(write);
    }

    /// Shows and queues text to append; neighbours are joined, so that a flush holds one chunk a part.
    fn chunk(&mut self, message: MessageId, key: String, delta: &str) {
        self.out.push(Effect::Show(Change::Text { message, key: key.clone(), text: delta.to_owned() }));
        match self.state.pending.writes.last_mut() {
            Some(Write::Chunk { message: m, key: k, text }) if *m == message && *k == key => text.push_str(delta),
            _ => self.later(Write::Chunk { message, key, text: delta.to_owned() }),
        }
    }

    fn superseded(&mut self, items: &[String]) {
        let Some(reply) = self.state.reply() else { return };
        let Some(turn) = self.state.turn.as_mut() else { return };
        let keys: Vec<String> = items.iter().filter(|i| turn.parts.remove(*i).is_some()).cloned().collect();
        self.fold(reply.id, keys);
    }

    /// Folds parts away (S2).
    pub(super) fn fold(&mut self, message: MessageId, keys: Vec<String>) {
        if keys.is_empty() {
            return;
        }
        let write = Write::Supersede { message, keys };
        self.out.push(Effect::Show(Change::Wrote(Box::new(write.clone()))));
        self.later(write);
    }

    fn approval(&mut self, request: ApprovalRequest) {
        // Asking is not answering, but an agent asks only for what its model wanted: the reply exists from here on.
        if self.accept().is_none() {
            return;
        }
        let (now, id) = (self.now, ApprovalId(self.ids.next()));
        let rule = request.subject.rule();
        let Some(turn) = self.state.turn.as_mut() else { return };
        let stopping = turn.record.phase == TurnPhase::Interrupting;
        let allowed = turn.record.target.mode == ApprovalMode::All || self.state.rules.contains(&rule);
        let state = match (stopping, allowed) {
            (true, _) => ApprovalState::Withdrawn,
            (false, true) => ApprovalState::Rule,
            (false, false) => ApprovalState::Open,
        };
        let settled_at = (state != ApprovalState::Open).then_some(now);
        let approval = Approval { id, turn: turn.record.id, request, state, asked_at: now, settled_at };
        turn.approvals.push(approval.clone());
        if state == ApprovalState::Open {
            turn.record.phase = TurnPhase::Waiting;
        }
        turn.progress = Progress { at: now, ..Progress::default() };
        let provider = turn.record.target.provider.clone();
        let key = approval.request.key.clone();
        let mut writes = vec![Write::Approval(approval)];
        writes.extend(self.turn_write());
        self.commit(writes);
        self.show_turn();
        if state == ApprovalState::Rule {
            self.out.push(Effect::Answer { provider, key, allow: true });
        }
    }

    fn withdrawn(&mut self, key: &str) {
        let now = self.now;
        let Some(turn) = self.state.turn.as_mut() else { return };
        let Some(approval) = turn.approvals.iter_mut().find(|a| a.request.key == key && a.state == ApprovalState::Open)
        else {
            return;
        };
        approval.state = ApprovalState::Withdrawn;
        approval.settled_at = Some(now);
        let mut writes = vec![Write::Approval(approval.clone())];
        if turn.record.phase == TurnPhase::Waiting && !turn.approvals.iter().any(|a| a.state == ApprovalState::Open) {
            turn.record.phase = TurnPhase::Streaming;
        }
        writes.extend(self.turn_write());
        self.commit(writes);
        self.show_turn();
    }

    /// Work that goes on after its turn (S2). The runtime knows it by its own name, which in a later attempt is not the part's.
    pub(super) fn keep_late(&mut self, provider: &ProviderId, message: MessageId) {
        let Some(turn) = self.state.turn.as_ref() else { return };
        let prefix = if turn.continued { format!("{}:", turn.record.attempt) } else { String::new() };
        for (key, live) in turn.parts.iter().filter(|(_, live)| live.is_running()) {
            let command = match &live.kind {
                LiveKind::Command { command, .. } => command.clone(),
                _ => String::new(),
            };
            let item = key.strip_prefix(&prefix).unwrap_or(key).to_owned();
            self.state.late.insert((provider.clone(), item), Late { message, key: key.clone(), command });
        }
    }
}

fn text_body(reasoning: bool, text: String) -> PartBody {
    if reasoning { PartBody::Reasoning { text } } else { PartBody::Text { text } }
}
