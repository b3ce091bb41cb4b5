//! Items of a handoff and where their sizes come from. Selection sees sizes only (H3).

use crate::{
    message::SessionStamp,
    notice::{ItemKind, LeftOut},
    seq::{Seq, SeqRange},
};

/// What an item costs on top of its rendered bytes (B3).
pub const ITEM_OVERHEAD: u64 = 64;

/// An item's place: its message, and within it 0 for the text, then 1, 2, … for its commands in order.
/// Ordered chronologically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemPlace {
    /// The message.
    pub seq: Seq,
    /// 0: the message's text; n: its n-th command.
    pub index: u32,
}

/// An item by its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemSize {
    /// Where it stands.
    pub place: ItemPlace,
    /// User, Assistant or Command (a summary is no item of the transcript's own).
    pub kind: ItemKind,
    /// Bytes of its body as rendered, without heading, fence or overhead: see `render`.
    pub bytes: u64,
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
}

/// What there is to tell in a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Content messages with or without text, excluded ones included, the prompt and the session's own left away.
    pub messages: u64,
    /// Commands of those.
    pub commands: u64,
    /// The content messages of the scope (excluded ones included), as exact ranges: sorted, disjoint, adjacent ones joined
    /// across notices, the prompt and own replies (those lie inside a range without being meant).
    pub ranges: Vec<SeqRange>,
    /// Messages that the user excluded, or that are otherwise kept back before any budget, with the reason.
    pub kept_back: Vec<LeftOut>,
    /// Content messages without a text item (T6: they count as told when the turn goes).
    pub textless: Vec<SeqRange>,
}
