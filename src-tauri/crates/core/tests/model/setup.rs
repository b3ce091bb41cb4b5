//! Who is in the world, and the thread's state as it is read from disk.

use std::collections::BTreeMap;

use changeover_core::{
    Millis,
    event::{Keeps, Kept},
    id::ThreadId,
    message::{Message, Role},
    provider::{ApprovalMode, ProviderId, Target},
    turn::state::{Late, OpenTurn, Pending, ThreadState},
};
use uuid::Uuid;

use super::{
    sim::{Anchors, Manner, Sim},
    store::Store,
};

pub fn providers() -> [ProviderId; 3] {
    [ProviderId::claude(), ProviderId::codex(), ProviderId::practice()]
}

pub fn provider(n: u8) -> ProviderId {
    providers()[usize::from(n % 3)].clone()
}

pub fn target(provider: ProviderId, mode: ApprovalMode) -> Target {
    Target { provider, model: None, effort: None, mode }
}

/// As the CLIs were measured, and as their adapters declare them.
pub fn real_manners() -> [Manner; 3] {
    let claude = Keeps {
        failed_unanswered: Kept::PromptOnly,
        failed_answered: Kept::Everything,
        interrupted_unanswered: Kept::PromptOnly,
        interrupted_answered: Kept::Everything,
        rewinds: true,
    };
    let codex = Keeps {
        failed_unanswered: Kept::PromptOnly,
        failed_answered: Kept::Everything,
        interrupted_unanswered: Kept::PromptOnly,
        interrupted_answered: Kept::Unknown,
        rewinds: true,
    };
    let practice = Keeps { rewinds: false, ..claude };
    [
        Manner { keeps: claude, killed: Kept::Unknown, forks: true, anchors: Anchors::Turns, says_id_at_once: false },
        Manner { keeps: codex, killed: Kept::Unknown, forks: false, anchors: Anchors::Turns, says_id_at_once: true },
        Manner {
            keeps: practice,
            killed: Kept::PromptOnly,
            forks: false,
            anchors: Anchors::Never,
            says_id_at_once: true,
        },
    ]
}

/// The state as the engine reads it from disk.
pub fn load(store: &Store, sims: &BTreeMap<ProviderId, Sim>, now: Millis) -> ThreadState {
    let content: Vec<&Message> = store.messages.iter().filter(|m| m.is_content()).collect();
    let mut newest = content.iter().rev().map(|m| m.seq);
    let mut late = BTreeMap::new();
    for message in content.iter().filter(|m| m.role == Role::Assistant) {
        for part in message.parts.iter().filter(|p| !p.superseded) {
            if let Some(work) = Late::of(message.id, part) {
                let place = (message.provider.clone().expect("a reply has its provider"), part.key.clone());
                late.insert(place, work);
            }
        }
    }
    let turn = store.open_turn().map(|(record, text)| {
        let mut turn = OpenTurn::new(record.clone(), store.message(record.message).text(), now);
        turn.handover_text.clone_from(text);
        turn.approvals = store.approvals.values().filter(|a| a.turn == record.id).cloned().collect();
        turn
    });
    ThreadState {
        thread: ThreadId(Uuid::from_u128(u128::MAX)),
        target: store.target.clone().unwrap_or_else(|| target(ProviderId::claude(), ApprovalMode::Ask)),
        folder: "/work".into(),
        next_seq: store.messages.len() as u64 + 1,
        content: [newest.next(), newest.next()],
        answered_by: content.iter().rev().find(|m| m.role == Role::Assistant).and_then(|m| m.provider.clone()),
        titled: !store.title.is_empty(),
        sessions: store.sessions.clone(),
        turn,
        queue: store.queue.clone(),
        rules: store.rules.clone(),
        late,
        keeps: sims.iter().map(|(id, sim)| (id.clone(), sim.manner.keeps)).collect(),
        max_attempts: 3,
        pending: Pending::default(),
    }
}
