//! Items of a handoff (B2) and where their sizes come from. Selection sees sizes only (H3).

use crate::{
    handoff::{fence, harmless},
    message::{Message, MessageState, Role, SessionStamp},
    notice::{ItemKind, LeftOut},
    part::{PartBody, WorkStatus},
    provider::ProviderId,
    seq::{Seq, SeqRange},
};

/// What an item costs on top of its rendered bytes (B3): heading, fence and blank lines, which never take more.
pub const ITEM_OVERHEAD: u64 = 64;

/// An item's place: its message, and within it the position of its part in [`Message::parts`]. A message's text is one
/// item and stands where its last live text (or attachment) part stands; a command stands where its own part does.
/// Ordered chronologically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemPlace {
    /// The message.
    pub seq: Seq,
    /// The part's position in the message, superseded parts counted.
    pub index: u32,
}

impl ItemPlace {
    /// Behind every item of any thread.
    pub const END: Self = Self { seq: Seq::MAX, index: u32::MAX };
}

/// An item by its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemSize {
    /// Where it stands.
    pub place: ItemPlace,
    /// User, Assistant or Command (a summary is no item of the transcript's own).
    pub kind: ItemKind,
    /// Bytes of its body as rendered, without [`ITEM_OVERHEAD`]: see [`rendered_bytes`].
    pub bytes: u64,
}

impl ItemSize {
    /// What it takes of the budget (B3).
    pub fn cost(&self) -> u64 {
        self.bytes.saturating_add(ITEM_OVERHEAD)
    }
}

/// Which part of the transcript a session is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Only messages above this one (0: from the start).
    pub after: Seq,
    /// Only messages up to this one.
    pub upto: Seq,
    /// The message that is the prompt itself: never history of its own prompt.
    pub prompt: Option<Seq>,
    /// Replies of this session incarnation are its own (B8).
    pub own: Option<SessionStamp>,
}

impl Scope {
    /// Whether the message is to be told: content, in the range, not the prompt, not the session's own. Excluded
    /// messages are in the scope (they are counted as left out), though their items are never offered.
    pub fn holds(&self, message: &Message) -> bool {
        message.is_content()
            && message.seq > self.after
            && message.seq <= self.upto
            && self.prompt != Some(message.seq)
            && (self.own.is_none() || message.session != self.own)
    }
}

/// Sizes of a thread's items within a scope, excluded messages (H2) left away. A store answers from its index and never
/// walks the thread; tests answer from a plain list.
pub trait ItemSizes {
    /// What can go wrong when reading.
    type Error;

    /// The newest item strictly before `before` that has at most `max_bytes` bytes. Since the room left only shrinks, an
    /// item passed over here can never fit later: B3's "continue, never break" in one question.
    ///
    /// # Errors
    /// The store's.
    fn newest_fitting(&mut self, before: ItemPlace, max_bytes: u64) -> Result<Option<ItemSize>, Self::Error>;

    /// The last item of this kind (`User` or `Assistant`).
    ///
    /// # Errors
    /// The store's.
    fn last(&mut self, kind: ItemKind) -> Result<Option<ItemSize>, Self::Error>;

    /// The first user item.
    ///
    /// # Errors
    /// The store's.
    fn first_user(&mut self) -> Result<Option<ItemSize>, Self::Error>;

    /// Text items of pinned messages, newest first (H2).
    ///
    /// # Errors
    /// The store's.
    fn pinned(&mut self) -> Result<Vec<ItemSize>, Self::Error>;

    /// What there is to tell: counted, from per-block figures.
    ///
    /// # Errors
    /// The store's.
    fn totals(&mut self) -> Result<Totals, Self::Error>;

    /// The first and the last message of the scope ([`Scope::holds`]: excluded ones count, notices, the prompt and own
    /// replies do not) among the numbers of `within`, or `None` where there is none. Asked once for the whole thread
    /// (`to` is then `i64::MAX`) and once for each gap between told messages, so that a gap never names what is no
    /// history.
    ///
    /// # Errors
    /// The store's.
    fn bounds(&mut self, within: SeqRange) -> Result<Option<SeqRange>, Self::Error>;
}

/// What there is to tell in a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages of the scope ([`Scope::holds`]), with or without text, excluded ones included.
    pub messages: u64,
    /// Commands of those that are items (not superseded), excluded messages' included.
    pub commands: u64,
    /// Messages that the user excluded, or that are otherwise kept back before any budget, with the reason; ascending,
    /// disjoint; a range may run across what is not in the scope.
    pub kept_back: Vec<LeftOut>,
    /// Messages of the scope without a text item, excluded ones left away (T6: they count as told when the turn goes).
    /// Exact: every number in a range is such a message.
    pub textless: Vec<SeqRange>,
}

/// An item with its body, as it is rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it stands.
    pub place: ItemPlace,
    /// What it is.
    pub kind: ItemKind,
    /// Who wrote the message.
    pub role: Role,
    /// Who answered (a user's message names no provider in its heading).
    pub provider: Option<ProviderId>,
    /// The model that answered.
    pub model: Option<String>,
    /// How the message stands: B4 names what was not answered, interrupted or failed.
    pub state: MessageState,
    /// The body before [`harmless::neutralise`]: the message's text, or [`command_body`].
    pub body: String,
}

/// A command as the next agent reads it (B2): `Command:`, `Exit code:`, `Output:`. `None` for any other part.
pub fn command_body(part: &PartBody) -> Option<String> {
    let PartBody::Command { command, status, exit_code, output } = part else {
        return None;
    };
    let code = match (exit_code, status) {
        (Some(code), _) => code.to_string(),
        (None, WorkStatus::Running) => "still running".into(),
        (None, WorkStatus::Declined) => "declined, it never ran".into(),
        (None, WorkStatus::Interrupted) => "none, interrupted".into(),
        (None, WorkStatus::Failed) => "unknown, failed".into(),
        (None, WorkStatus::Completed) => "unknown".into(),
    };
    Some(format!("Command: {command}\nExit code: {code}\nOutput:\n{output}"))
}

/// The items of a message in chronological order; none for a notice. Exclusion is the caller's to heed.
pub fn items_of(message: &Message) -> Vec<Item> {
    if !message.is_content() {
        return Vec::new();
    }
    let text = message.text();
    let text_at = message.parts.iter().rposition(|part| {
        !part.superseded
            && match &part.body {
                PartBody::Text { text } => !text.is_empty(),
                PartBody::Attachment { .. } => true,
                _ => false,
            }
    });
    let text_kind = if message.role == Role::User { ItemKind::User } else { ItemKind::Assistant };
    let mut items = Vec::new();
    for (at, part) in message.parts.iter().enumerate() {
        if part.superseded {
            continue;
        }
        let (kind, body) = if Some(at) == text_at {
            (text_kind, text.clone())
        } else if let Some(body) = command_body(&part.body) {
            (ItemKind::Command, body)
        } else {
            continue;
        };
        let index = u32::try_from(at).unwrap_or(u32::MAX);
        items.push(Item {
            place: ItemPlace { seq: message.seq, index },
            kind,
            role: message.role,
            provider: message.provider.clone(),
            model: message.model.clone(),
            state: message.state,
            body,
        });
    }
    items
}

/// The one item at a place, or `None` where there is none.
pub fn item_at(message: &Message, index: u32) -> Option<Item> {
    items_of(message).into_iter().find(|item| item.place.index == index)
}

/// The sizes of a message's items, as a store keeps them in its index. They depend on the parts alone: not on the
/// message's state, model or number, so they change only when a part does.
pub fn sizes_of(message: &Message) -> Vec<ItemSize> {
    items_of(message)
        .into_iter()
        .map(|item| ItemSize { place: item.place, kind: item.kind, bytes: rendered_bytes(&item.body) })
        .collect()
}

/// Bytes of a body as rendered (B3): the body with frame headings inside made harmless (B7), and what its fence needs
/// beyond the shortest one. Heading, shortest fence and blank lines are [`ITEM_OVERHEAD`]'s; the heading is cut to fit
/// there. So for nearly every item this is simply the body's length.
pub fn rendered_bytes(body: &str) -> u64 {
    let longer = fence::width(body).saturating_sub(fence::SHORTEST) * 2;
    (body.len() + harmless::added(body) + longer) as u64
}
