//! The disk as the model has it: a plain thread that takes batches of writes and holds each to the rules a store must hold.

use std::collections::{BTreeMap, BTreeSet};

use changeover_core::{
    id::{ApprovalId, MessageId, PromptId, TurnId},
    message::{Message, MessageState, Role},
    notice::Notice,
    part::{Part, PartBody, WorkStatus},
    provider::{ProviderId, Target},
    session::SessionRecord,
    turn::{
        record::{Approval, Queued, TurnPhase, TurnRecord},
        write::Write,
    },
};

#[derive(Debug, Clone, Default)]
pub struct Store {
    pub messages: Vec<Message>,
    pub handovers: BTreeMap<MessageId, String>,
    pub sessions: BTreeMap<ProviderId, SessionRecord>,
    pub retired: BTreeSet<String>,
    pub turns: BTreeMap<TurnId, (TurnRecord, Option<String>)>,
    pub prompts: BTreeSet<PromptId>,
    pub queue: Vec<Queued>,
    pub approvals: BTreeMap<ApprovalId, Approval>,
    pub rules: BTreeSet<String>,
    pub target: Option<Target>,
    pub title: String,
}

impl Store {
    pub fn message(&self, id: MessageId) -> &Message {
        self.messages.iter().find(|m| m.id == id).expect("the message is there")
    }

    pub fn open_turn(&self) -> Option<&(TurnRecord, Option<String>)> {
        self.turns.values().find(|(turn, _)| !turn.phase.is_terminal())
    }

    /// One transaction.
    pub fn commit(&mut self, writes: &[Write]) {
        for write in writes {
            self.write(write);
        }
        let answered: Vec<&TurnRecord> = writes
            .iter()
            .filter_map(|write| match write {
                Write::Turn { turn, .. } => Some(&**turn),
                _ => None,
            })
            .filter(|turn| turn.reply.is_some())
            .collect();
        for turn in answered {
            self.holds_what_was_answered(turn);
        }
        assert!(self.turns.values().filter(|(t, _)| !t.phase.is_terminal()).count() <= 1, "one open turn");
    }

    /// Nothing is answered without session row, notice and reply (T2).
    fn holds_what_was_answered(&self, turn: &TurnRecord) {
        let reply = self.message(turn.reply.expect("answered").id);
        assert_eq!((reply.role, reply.provider.as_ref()), (Role::Assistant, Some(&turn.target.provider)));
        // A later attempt of a turn with a reply leaves its notice when it is answered itself.
        let answered = matches!(turn.phase, TurnPhase::Streaming | TurnPhase::Waiting | TurnPhase::Completed);
        if let Some(handover) = turn.handover.as_ref().filter(|_| answered) {
            let notice = self.messages.iter().rev().find_map(|m| match &m.notice {
                Some(Notice::Handover(h)) => Some((m.id, h)),
                _ => None,
            });
            let (id, noticed) = notice.expect("a handover leaves its notice");
            assert_eq!(noticed, handover);
            assert_eq!(
                self.handovers[&id].len() as u64,
                handover.bytes,
                "the exact text stands beside the notice (T4)"
            );
        }
        if matches!(turn.phase, TurnPhase::Streaming | TurnPhase::Waiting) {
            let stamp = reply.session.as_ref().expect("simulated CLIs always say their session");
            let session = &self.sessions[&turn.target.provider];
            assert_eq!((&session.session_id, session.incarnation), (&stamp.id, stamp.incarnation));
            assert!(session.known_upto_seq >= turn.message_seq);
        }
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::Append { message, text } => {
                assert_eq!(message.seq, self.messages.len() as u64 + 1, "the next number");
                assert!(self.messages.iter().all(|m| m.id != message.id));
                self.messages.push((**message).clone());
                if let Some(text) = text {
                    self.handovers.insert(message.id, text.clone());
                }
            }
            Write::Session(record) => {
                assert!(!self.retired.contains(&record.session_id), "a retired session is never used again");
                if let Some(old) = self.sessions.insert(record.provider.clone(), record.clone())
                    && old.session_id != record.session_id
                {
                    self.retired.insert(old.session_id);
                }
            }
            Write::DropSession { provider, .. } => {
                if let Some(old) = self.sessions.remove(provider) {
                    self.retired.insert(old.session_id);
                }
            }
            Write::Turn { turn, text } => {
                let before = self.turns.get(&turn.id);
                if before.is_none() {
                    let same = self.turns.values().any(|(t, _)| t.client_id == turn.client_id);
                    assert!(!same, "a request has one turn");
                }
                assert!(!before.is_some_and(|(t, _)| t.phase.is_terminal()), "a turn ends once");
                let new_prompt = turn.prompt.filter(|p| before.is_none_or(|(t, _)| t.prompt != Some(*p)));
                if let Some(prompt) = new_prompt {
                    assert!(self.prompts.insert(prompt), "a prompt id is written once");
                }
                self.turns.insert(turn.id, ((**turn).clone(), text.clone()));
            }
            Write::Queue(queue) => self.queue.clone_from(queue),
            Write::Approval(approval) => {
                self.approvals.insert(approval.id, approval.clone());
            }
            Write::Rule(rule) => {
                self.rules.insert(rule.clone());
            }
            Write::Target(target) => self.target = Some(target.clone()),
            Write::Title(title) => self.title.clone_from(title),
            _ => write_message(&mut self.messages, write),
        }
    }
}

fn of<'a>(messages: &'a mut [Message], id: &MessageId) -> &'a mut Message {
    messages.iter_mut().find(|m| m.id == *id).expect("the message is there")
}

/// What disk and screen do alike with a write to a message.
pub fn write_message(messages: &mut [Message], write: &Write) {
    match write {
        Write::MessageState { message, state, ended_at, provider } => {
            let message = of(messages, message);
            message.state = *state;
            message.ended_at = *ended_at;
            if provider.is_some() {
                message.provider.clone_from(provider);
            }
        }
        Write::MessageModel { message, model } => of(messages, message).model = Some(model.clone()),
        Write::MessageSession { message, session } => of(messages, message).session.clone_from(session),
        Write::Part { message, part } => put(of(messages, message), part),
        Write::Chunk { message, key, text } => append(of(messages, message), key, text),
        Write::PartStatus { message, key, status, exit_code } => {
            let part = of(messages, message)
                .parts
                .iter_mut()
                .find(|p| p.key == *key)
                .expect("a status comes for a part that is there");
            set_status(&mut part.body, *status, *exit_code);
        }
        Write::Supersede { message, keys } => {
            for part in of(messages, message).parts.iter_mut().filter(|p| keys.contains(&p.key)) {
                part.superseded = true;
            }
        }
        _ => {}
    }
}

fn put(message: &mut Message, part: &Part) {
    match message.parts.iter_mut().find(|p| p.key == part.key) {
        Some(old) => *old = part.clone(),
        None => message.parts.push(part.clone()),
    }
}

pub fn append(message: &mut Message, key: &str, more: &str) {
    let part = message.parts.iter_mut().find(|p| p.key == key).expect("a chunk comes for a part that is there");
    match &mut part.body {
        PartBody::Text { text } | PartBody::Reasoning { text } | PartBody::Command { output: text, .. } => {
            text.push_str(more)
        }
        other => panic!("a chunk for {other:?}"),
    }
}

fn set_status(body: &mut PartBody, to: WorkStatus, exit: Option<i32>) {
    match body {
        PartBody::Command { status, exit_code, .. } => {
            *status = to;
            *exit_code = exit.or(*exit_code);
        }
        PartBody::Tool { status, .. } | PartBody::FileChange { status, .. } => *status = to,
        other => panic!("a status for {other:?}"),
    }
}

/// Whether a message may be sent again (T8), as the API sees it.
pub fn can_be_sent_again(messages: &[Message], at: usize) -> bool {
    let message = &messages[at];
    let next = messages[at + 1..].iter().find(|m| m.is_content());
    let failed = next.is_some_and(|reply| {
        reply.role == Role::Assistant && matches!(reply.state, MessageState::Failed | MessageState::Interrupted)
    });
    message.role == Role::User && (message.state == MessageState::NotAnswered || failed)
}
