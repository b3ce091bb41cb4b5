//! Commands and the driver's answers: what a person asks, and how a turn comes to be sent.

use crate::{
    Millis,
    approval::ApprovalDecision,
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
    handoff::render,
    id::{ApprovalId, MessageId, PromptId, QueuedId, TurnId},
    message::{Message, MessageState, Role},
    notice::Handover,
    part::Part,
    provider::Target,
    seq::Seq,
    turn::{
        attempt::GO_ON,
        ending::{self, End},
        record::{ApprovalState, Queued, TurnPhase, TurnRecord},
        state::{
            Change, Effect, INTERRUPT_MS, Ids, Input, OpenTurn, Outlook, Progress, QUEUE_BOUND, Refusal, Response,
            ResumeAt, ThreadState,
        },
        stream,
        write::Write,
    },
};

/// A step in the making: the state, the moment, and what goes out.
pub(super) struct Step<'a> {
    pub state: &'a mut ThreadState,
    pub now: Millis,
    pub ids: &'a mut dyn Ids,
    pub out: Vec<Effect>,
}

/// Decides what happens on one input. Deterministic: the same state, input, time and ids give the same effects.
///
/// An input that does not fit the state (a late answer of the driver for a turn that has ended, an event of a session that
/// was dropped) changes nothing.
pub fn step(state: &mut ThreadState, input: Input, now: Millis, ids: &mut dyn Ids) -> Vec<Effect> {
    let mut step = Step { state, now, ids, out: Vec::new() };
    match input {
        Input::Send { client_id, text, target } => step.send(client_id, text, target),
        Input::Again { client_id, message, seq, text, target } => step.again(client_id, message, seq, text, target),
        Input::Interrupt => step.interrupt(),
        Input::QueueEdit { id, text } => step.queue_edit(id, text),
        Input::QueueGo => step.queue_go(),
        Input::Answer { id, decision } => step.answer(id, decision),
        Input::Target(target) => {
            step.state.target = target.clone();
            step.commit(vec![Write::Target(target)]);
            step.respond(Response::Done);
        }
        Input::Prepared { turn, attempt, result } => step.prepared(turn, attempt, result),
        Input::Opened { turn, attempt, result } => step.opened(turn, attempt, result),
        Input::Written { turn, prompt, result } => step.written(turn, prompt, result),
        Input::Event { provider, event: RuntimeEvent::Exited { failure } } => {
            ending::exited(&mut step, &provider, failure)
        }
        Input::Event { provider, event } => stream::event(&mut step, &provider, event),
        Input::Tick => step.tick(),
        Input::Flush => step.commit(Vec::new()),
        Input::Recover => ending::recover(&mut step),
    }
    step.out
}

impl Step<'_> {
    /// Commits what is pending and these writes in one transaction, then shows them.
    pub(super) fn commit(&mut self, writes: Vec<Write>) {
        let pending = std::mem::take(&mut self.state.pending);
        let mut batch = pending.writes;
        let shown: Vec<Change> = writes.iter().filter_map(shows).collect();
        batch.extend(writes);
        if batch.is_empty() {
            return;
        }
        self.out.push(Effect::Commit(batch));
        self.out.extend(shown.into_iter().map(Effect::Show));
    }

    pub(super) fn respond(&mut self, response: Response) {
        self.out.push(Effect::Respond(response));
    }

    pub(super) fn show_turn(&mut self) {
        let view = self.state.turn.as_ref().map(|t| (Box::new(t.record.clone()), t.retry.clone()));
        self.out.push(Effect::Show(Change::Turn(view)));
    }

    pub(super) fn show_sessions(&mut self) {
        let sessions = self.state.sessions.values().cloned().collect();
        self.out.push(Effect::Show(Change::Sessions(sessions)));
    }

    /// A write of the open turn as it now is.
    pub(super) fn turn_write(&self) -> Vec<Write> {
        let Some(turn) = self.state.turn.as_ref() else { return Vec::new() };
        // Only while the prompt is under way does the text stand beside the turn; on acceptance it becomes the notice's.
        let text = if turn.answered { None } else { turn.handover_text.clone() };
        vec![Write::Turn { turn: Box::new(turn.record.clone()), text }]
    }

    pub(super) fn take_seq(&mut self) -> Seq {
        let seq = self.state.next_seq;
        self.state.next_seq += 1;
        seq
    }

    /// The answer to a request that was taken already and has no ended turn yet: a client that heard no answer asks again.
    fn known(&self, client_id: &str) -> Option<Response> {
        let open = self.state.turn.as_ref().map(|t| &t.record).filter(|t| t.client_id == client_id);
        let started = open.map(|t| Response::Started { turn: t.id, message: t.message, seq: t.message_seq });
        let waits = || self.state.queue.iter().find(|q| q.client_id == client_id).map(|q| Response::Queued(q.id));
        started.or_else(waits)
    }

    fn send(&mut self, client_id: String, text: String, target: Target) {
        if let Some(known) = self.known(&client_id) {
            return self.respond(known);
        }
        if self.state.turn.is_some() || !self.state.queue.is_empty() {
            if self.state.queue.len() >= QUEUE_BOUND {
                return self.respond(Response::Refused(Refusal::QueueFull));
            }
            let id = QueuedId(self.ids.next());
            self.state.queue.push(Queued { id, client_id, text, target: target.clone(), at: self.now });
            let mut writes = vec![Write::Queue(self.state.queue.clone())];
            writes.extend(self.choose(&target));
            self.commit(writes);
            self.respond(Response::Queued(id));
            // A queue that was held after a stop goes on with the person's next message.
            if self.state.turn.is_none() {
                self.next_queued();
            }
            return;
        }
        let writes = self.choose(&target).into_iter().collect();
        let started = self.begin_new(client_id, text, target, writes);
        self.respond(started);
    }

    fn choose(&mut self, target: &Target) -> Option<Write> {
        if self.state.target == *target {
            return None;
        }
        self.state.target = target.clone();
        Some(Write::Target(target.clone()))
    }

    /// Starts a turn on a message that is new; `writes` go with it.
    fn begin_new(&mut self, client_id: String, text: String, target: Target, mut writes: Vec<Write>) -> Response {
        let id = MessageId(self.ids.next());
        let seq = self.take_seq();
        let message = Message {
            id,
            seq,
            role: Role::User,
            state: MessageState::Open,
            provider: Some(target.provider.clone()),
            model: None,
            session: None,
            created_at: self.now,
            ended_at: None,
            pinned: false,
            excluded: false,
            parts: vec![Part::text("text", text.clone())],
            notice: None,
        };
        writes.push(Write::Append { message: Box::new(message), text: None });
        self.state.note_content(seq);
        if !self.state.titled {
            self.state.titled = true;
            writes.push(Write::Title(title_of(&text)));
        }
        self.begin(client_id, id, seq, text, target, writes)
    }

    fn again(&mut self, client_id: String, message: MessageId, seq: Seq, text: String, target: Target) {
        if let Some(known) = self.known(&client_id) {
            return self.respond(known);
        }
        if self.state.turn.is_some() {
            return self.respond(Response::Refused(Refusal::Busy));
        }
        ending::take_back(self, &target.provider, seq);
        let mut writes = vec![Write::MessageState {
            message,
            state: MessageState::Open,
            ended_at: None,
            provider: Some(target.provider.clone()),
        }];
        writes.extend(self.choose(&target));
        let started = self.begin(client_id, message, seq, text, target, writes);
        self.respond(started);
    }

    fn begin(
        &mut self,
        client_id: String,
        message: MessageId,
        message_seq: Seq,
        text: String,
        target: Target,
        mut writes: Vec<Write>,
    ) -> Response {
        let id = TurnId(self.ids.next());
        let record = TurnRecord {
            id,
            client_id,
            message,
            message_seq,
            target,
            phase: TurnPhase::Preparing,
            attempt: 1,
            gone: false,
            go_on: false,
            compacted: false,
            prompt: None,
            session: None,
            anchor_before: None,
            known_before: 0,
            handover: None,
            upto: message_seq,
            reply: None,
            started_at: self.now,
            ended_at: None,
            failure: None,
        };
        self.state.turn = Some(OpenTurn::new(record, text, self.now));
        writes.extend(self.turn_write());
        self.commit(writes);
        self.show_turn();
        self.prepare();
        Response::Started { turn: id, message, seq: message_seq }
    }

    /// Decides the transition (T1) and has the handover made.
    pub(super) fn prepare(&mut self) {
        let Some(turn) = self.state.turn.as_ref() else { return };
        let (target, message) = (turn.record.target.clone(), turn.record.message_seq);
        let outlook = match &turn.before {
            // The reply that is there is no history of its own message; of the prompt that goes on with it, it is.
            Some((besides, from)) if !turn.record.go_on => {
                self.state.outlook_after(&target.provider, message, *besides, from.clone())
            }
            _ => self.state.outlook(&target.provider, message),
        };
        let before = (self.state.content_besides(message), self.state.answered_by.clone());
        let Outlook { transition, scope, from } = outlook;
        let session = self.state.sessions.get(&target.provider);
        let known_before = session.map_or(0, |s| s.known_upto_seq);
        let (anchor_before, session_id) =
            (session.and_then(|s| s.anchor.clone()), session.map(|s| s.session_id.clone()));
        let Some(turn) = self.state.turn.as_mut() else { return };
        turn.before.get_or_insert(before);
        turn.transition = transition;
        turn.record.upto = scope.upto.max(turn.record.message_seq);
        turn.record.known_before = known_before;
        turn.record.anchor_before = anchor_before;
        turn.record.session = session_id;
        turn.session_id = None;
        turn.anchor = None;
        let (turn, attempt) = (turn.record.id, turn.record.attempt);
        self.out.push(Effect::Prepare { turn, attempt, target, transition, scope, from });
    }

    /// The open turn, if it is this attempt of this turn and still prepares.
    fn preparing(&mut self, turn: TurnId, attempt: u32) -> Option<&mut OpenTurn> {
        let open = self.state.turn.as_mut()?;
        let fits =
            open.record.id == turn && open.record.attempt == attempt && open.record.phase == TurnPhase::Preparing;
        fits.then_some(open)
    }

    fn prepared(&mut self, id: TurnId, attempt: u32, result: Result<Option<(Handover, String)>, Failure>) {
        let Some(turn) = self.preparing(id, attempt) else { return };
        let handed = match result {
            Ok(handed) => handed,
            Err(failure) => return ending::end(self, End::Failed(failure)),
        };
        (turn.record.handover, turn.handover_text) = handed.unzip();
        // What was heard so far came of a process that gives way, or goes on under the id that is known.
        turn.session_id = None;
        let target = turn.record.target.clone();
        let resume = self.state.sessions.get(&target.provider).map(|session| ResumeAt {
            session_id: session.session_id.clone(),
            anchor: session.anchor.clone(),
            rewind: session.rewind,
        });
        self.out.push(Effect::Open { turn: id, attempt, target, resume });
    }

    fn opened(&mut self, id: TurnId, attempt: u32, result: Result<(), Failure>) {
        if self.preparing(id, attempt).is_none() {
            return;
        }
        if let Err(failure) = result {
            return ending::end(self, End::Failed(failure));
        }
        let prompt = PromptId(self.ids.next());
        let now = self.now;
        let Some(turn) = self.state.turn.as_mut() else { return };
        turn.record.phase = TurnPhase::Sent;
        turn.record.prompt = Some(prompt);
        if let Some(known) = &turn.session_id {
            turn.record.session = Some(known.clone());
        }
        turn.progress = Progress { at: now, ..Progress::default() };
        let text = match turn.record.go_on {
            true => GO_ON.to_owned(),
            false => render::prompt(turn.handover_text.as_deref(), &turn.message_text),
        };
        let provider = turn.record.target.provider.clone();
        let writes = self.turn_write();
        self.commit(writes);
        self.show_turn();
        self.out.push(Effect::Write { turn: id, provider, prompt, text });
    }

    fn written(&mut self, id: TurnId, prompt: PromptId, result: Result<(), Failure>) {
        let fits =
            self.state.turn.as_ref().is_some_and(|t| {
                t.record.id == id && t.record.prompt == Some(prompt) && t.record.phase == TurnPhase::Sent
            });
        if let (true, Err(failure)) = (fits, result) {
            ending::end(self, End::Failed(failure));
        }
    }

    fn interrupt(&mut self) {
        let Some(turn) = self.state.turn.as_mut() else {
            return self.respond(Response::Refused(Refusal::Idle));
        };
        match turn.record.phase {
            TurnPhase::Preparing => ending::end(self, End::Interrupted),
            // We were stopping it already (R10), to try again perhaps: now it is the person who stops it.
            TurnPhase::Interrupting => turn.abort = None,
            _ => self.begin_interrupt(None),
        }
        self.respond(Response::Done);
    }

    /// Asks the CLI to stop; the deadline kills its tree (R5).
    pub(super) fn begin_interrupt(&mut self, abort: Option<Failure>) {
        let now = self.now;
        let Some(turn) = self.state.turn.as_mut() else { return };
        turn.record.phase = TurnPhase::Interrupting;
        turn.kill_at = Some(now + INTERRUPT_MS);
        turn.abort = abort;
        turn.retry = None;
        let provider = turn.record.target.provider.clone();
        let mut writes = withdraw_open(turn, now);
        writes.extend(self.turn_write());
        self.commit(writes);
        self.show_turn();
        self.out.push(Effect::Interrupt { provider });
    }

    fn queue_edit(&mut self, id: QueuedId, text: Option<String>) {
        let Some(at) = self.state.queue.iter().position(|q| q.id == id) else {
            return self.respond(Response::Refused(Refusal::NotQueued));
        };
        match text {
            Some(text) => {
                if let Some(queued) = self.state.queue.get_mut(at) {
                    queued.text = text;
                }
            }
            None => {
                self.state.queue.remove(at);
            }
        }
        let queue = self.state.queue.clone();
        self.commit(vec![Write::Queue(queue)]);
        self.respond(Response::Done);
    }

    fn queue_go(&mut self) {
        if self.state.turn.is_some() {
            return self.respond(Response::Refused(Refusal::Busy));
        }
        if self.state.queue.is_empty() {
            return self.respond(Response::Refused(Refusal::NotQueued));
        }
        self.next_queued();
        self.respond(Response::Done);
    }

    /// Starts a turn on the head of the queue.
    pub(super) fn next_queued(&mut self) {
        if self.state.turn.is_some() || self.state.queue.is_empty() {
            return;
        }
        let head = self.state.queue.remove(0);
        // What the person chose meanwhile stays chosen for the message after this one (T7).
        let writes = vec![Write::Queue(self.state.queue.clone())];
        self.begin_new(head.client_id, head.text, head.target, writes);
    }

    fn answer(&mut self, id: ApprovalId, decision: ApprovalDecision) {
        let now = self.now;
        let Some(turn) = self.state.turn.as_mut() else {
            return self.respond(Response::Refused(Refusal::Settled));
        };
        let Some(approval) = turn.approvals.iter_mut().find(|a| a.id == id && a.state == ApprovalState::Open) else {
            return self.respond(Response::Refused(Refusal::Settled));
        };
        approval.settled_at = Some(now);
        approval.state = match decision {
            ApprovalDecision::Once => ApprovalState::Once,
            ApprovalDecision::Thread => ApprovalState::Thread,
            ApprovalDecision::Deny => ApprovalState::Denied,
        };
        let rule = (decision == ApprovalDecision::Thread).then(|| approval.request.subject.rule());
        let mut settled = vec![approval.clone()];
        let mut answers = vec![(approval.request.key.clone(), decision != ApprovalDecision::Deny)];
        // Further questions that the new rule covers are answered with it.
        if let Some(rule) = &rule {
            for other in turn.approvals.iter_mut() {
                if other.state == ApprovalState::Open && other.request.subject.rule() == *rule {
                    other.state = ApprovalState::Rule;
                    other.settled_at = Some(now);
                    settled.push(other.clone());
                    answers.push((other.request.key.clone(), true));
                }
            }
        }
        if turn.record.phase == TurnPhase::Waiting && !turn.approvals.iter().any(|a| a.state == ApprovalState::Open) {
            turn.record.phase = TurnPhase::Streaming;
        }
        turn.progress = Progress { at: now, ..Progress::default() };
        let provider = turn.record.target.provider.clone();
        let mut writes: Vec<Write> = settled.into_iter().map(Write::Approval).collect();
        writes.extend(rule.clone().map(Write::Rule));
        writes.extend(self.turn_write());
        self.state.rules.extend(rule);
        self.commit(writes);
        self.show_turn();
        for (key, allow) in answers {
            self.out.push(Effect::Answer { provider: provider.clone(), key, allow });
        }
        self.respond(Response::Done);
    }

    fn tick(&mut self) {
        if self.state.pending.due.is_some_and(|due| due <= self.now) {
            self.commit(Vec::new());
        }
        let now = self.now;
        let Some(turn) = self.state.turn.as_mut() else { return };
        if turn.kill_at.is_some_and(|at| at <= now) && !turn.killed {
            turn.killed = true;
            let provider = turn.record.target.provider.clone();
            self.out.push(Effect::Kill { provider });
        } else if turn.stalled(now) {
            self.begin_interrupt(Some(no_progress()));
        }
    }
}

/// R10's failure.
pub(super) fn no_progress() -> Failure {
    Failure::new(
        FailureKind::NoProgress,
        "The agent made no progress: no new text, no finished tool, only waiting or retries.",
    )
    .hint("Send the message again, or go on with another provider.")
}

/// Withdraws the turn's open approvals.
pub(super) fn withdraw_open(turn: &mut OpenTurn, now: Millis) -> Vec<Write> {
    let mut writes = Vec::new();
    for approval in turn.approvals.iter_mut().filter(|a| a.state == ApprovalState::Open) {
        approval.state = ApprovalState::Withdrawn;
        approval.settled_at = Some(now);
        writes.push(Write::Approval(approval.clone()));
    }
    writes
}

/// What a write shows on the screen; parts and chunks are shown as they come, before they are written.
fn shows(write: &Write) -> Option<Change> {
    match write {
        Write::Append { message, .. } => Some(Change::Message(message.clone())),
        Write::MessageState { .. }
        | Write::MessageModel { .. }
        | Write::MessageSession { .. }
        | Write::Queue(_)
        | Write::Approval(_)
        | Write::PartStatus { .. }
        | Write::Title(_)
        | Write::Target(_) => Some(Change::Wrote(Box::new(write.clone()))),
        Write::Part { .. }
        | Write::Chunk { .. }
        | Write::Supersede { .. }
        | Write::Session(_)
        | Write::DropSession { .. }
        | Write::Turn { .. }
        | Write::Rule(_) => None,
    }
}

/// A thread's first title: the first line of the first message that says something, at most 60 characters (R141).
pub fn title_of(text: &str) -> String {
    // A title is shown in lists, windows and terminals: what would act there is none of its words.
    let text = text.replace(|c: char| c.is_control() && c != '\n', " ");
    let line = text
        .lines()
        .map(|l| l.trim().trim_start_matches(['#', '>', '`', '-', '*', ' ']).trim())
        .find(|l| !l.is_empty())
        .unwrap_or("New thread");
    let mut title = String::new();
    for (n, word) in line.split_whitespace().enumerate() {
        let room = 60_usize.saturating_sub(title.chars().count() + usize::from(n > 0));
        if word.chars().count() > room {
            if n == 0 {
                title.extend(word.chars().take(59));
            }
            title.push('…');
            break;
        }
        if n > 0 {
            title.push(' ');
        }
        title.push_str(word);
    }
    title
}
