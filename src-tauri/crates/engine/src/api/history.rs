//! `history/…`: what was said, as an agent may read it (M2). What the user excluded stays behind here as on every other way
//! out (H2), and a session's token reads its own thread, that thread's ancestors and branches, and nothing else (M1).

use std::collections::HashSet;

use changeover_core::{
    Millis,
    id::ThreadId,
    message::{Message, MessageState},
    part::PartBody,
    seq::Seq,
};
use changeover_store::{Cut, PageAt, Store, StoreError, ThreadSummary};

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{
        HistoryBlock, HistoryHit, HistoryListResponse, HistoryMessage, HistoryReadParams, HistoryReadResponse,
        HistoryRelation, HistorySearchParams, HistorySearchResponse, HistoryThread, Nothing,
    },
};
use crate::engine::{Inner, read};

/// Messages of a page unless asked otherwise, and at most.
const PAGE: (u32, u32) = (20, 100);
/// Bytes of a page, about. Agents cut what a tool gives them at some size of their own; a page must stay below it.
const PAGE_BYTES: usize = 32 * 1024;
/// Bytes that are read for a page: most of a reply is reasoning, tools and outputs that do not go out.
const READ_BYTES: usize = 4 * 1024 * 1024;
/// A command's output, and its line, longer than this is given as head and tail.
const OUTPUT_BYTES: usize = 4 * 1024;
/// Texts and commands of one message at most: the first quarter of them and the last three.
const BLOCKS: usize = 200;
/// What heading, fences and blank lines of a message and of a block take once they are written out, about.
const AROUND: usize = 80;
/// What the mark of a cut takes.
const MARK: usize = 48;
/// Hits of a search unless asked otherwise, and at most.
const HITS: (u32, u32) = (20, 50);
/// Threads of a list at most.
const THREADS: usize = 100;

impl Inner {
    /// The threads that a caller may read; `None`: all of them.
    fn readable(&self, scope: Option<ThreadId>) -> Result<Option<HashSet<ThreadId>>, StoreError> {
        scope.map(|own| self.family(own)).transpose()
    }
}

/// The same words whether there is such a thread or not: an agent learns nothing of what it may not read.
fn not_readable(thread: ThreadId, scope: Option<ThreadId>) -> ApiError {
    let Some(own) = scope else { return ApiError::not_found("thread") };
    ApiError::new(ErrorCode::NotFound, format!("There is no thread {thread} that this session may read."))
        .hint(format!("It may read its own conversation, {own}, and that conversation's ancestors and branches."))
}

fn bounded(limit: Option<u32>, (usual, most): (u32, u32)) -> Result<usize, ApiError> {
    match limit {
        Some(0) => Err(ApiError::new(ErrorCode::BadRequest, format!("`limit` is a number from 1 to {most}."))),
        other => Ok(other.unwrap_or(usual).min(most) as usize),
    }
}

pub(super) async fn read_page(api: &Api<'_>, params: HistoryReadParams) -> Result<HistoryReadResponse, ApiError> {
    let limit = bounded(params.limit, PAGE)?;
    let (inner, scope, id) = (api.inner.clone(), api.caller.scope, params.thread_id);
    let page = read(move || {
        if inner.readable(scope)?.is_some_and(|family| !family.contains(&id)) {
            return Ok(None);
        }
        let thread = match inner.store.thread(id) {
            Ok(thread) if thread.deleted_at.is_none() => thread,
            Ok(_) | Err(StoreError::NoSuchThread(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let at = params.before_seq.map_or(PageAt::Newest, PageAt::Before);
        let (messages, next_before_seq) = newest(&inner.store, id, scope.filter(|own| *own != id), at, limit)?;
        Ok(Some(HistoryReadResponse { thread_id: id, title: thread.title, messages, next_before_seq }))
    })
    .await?;
    page.ok_or_else(|| not_readable(id, scope))
}

/// Content messages from `at` down, as many as fit, oldest first; and where the page before begins.
fn newest(
    store: &Store,
    id: ThreadId,
    excluded_in: Option<ThreadId>,
    mut at: PageAt,
    limit: usize,
) -> Result<(Vec<HistoryMessage>, Option<Seq>), StoreError> {
    let mut taken: Vec<HistoryMessage> = Vec::new();
    let mut room = PAGE_BYTES;
    'pages: loop {
        let page = store.read_page(id, at, limit, READ_BYTES)?;
        let kept_back = match excluded_in {
            Some(own) => {
                let held: Vec<_> = page.messages.iter().map(|message| message.id).collect();
                store.excluded_of(own, &held)?
            }
            None => Vec::new(),
        };
        for message in page.messages.iter().rev().filter(|message| message.is_content()) {
            let left_out = message.excluded || kept_back.contains(&message.id);
            let mut view = view(message, left_out, &page.cuts, usize::MAX);
            if weight(&view) > room {
                if !taken.is_empty() {
                    break 'pages;
                }
                view = squeezed(message, &page.cuts, view, room);
            }
            room = room.saturating_sub(weight(&view));
            taken.push(view);
            if taken.len() >= limit {
                break 'pages;
            }
        }
        if !page.has_before {
            break;
        }
        at = PageAt::Before(page.first_seq);
    }
    taken.reverse();
    let first = store.content_after(id, 0)?.map(|message| message.seq);
    let next = taken.first().map(|oldest| oldest.seq).filter(|oldest| first.is_some_and(|first| first < *oldest));
    Ok((taken, next))
}

/// A message as it goes out, with texts of at most `limit` bytes.
fn view(message: &Message, left_out: bool, cuts: &[Cut], limit: usize) -> HistoryMessage {
    HistoryMessage {
        seq: message.seq,
        role: message.role,
        provider: message.provider.clone(),
        model: message.model.clone(),
        state: if left_out { MessageState::Done } else { message.state },
        at: message.created_at,
        time: time(message.created_at),
        left_out,
        blocks: if left_out { Vec::new() } else { blocks(message, cuts, limit) },
    }
}

fn blocks(message: &Message, cuts: &[Cut], limit: usize) -> Vec<HistoryBlock> {
    let mut blocks: Vec<HistoryBlock> = Vec::new();
    for part in message.parts.iter().filter(|part| !part.superseded) {
        let gap = cuts.iter().find(|cut| cut.seq == message.seq && cut.key == part.key);
        let gap = gap.map(|cut| (usize::try_from(cut.at).unwrap_or(usize::MAX), cut.bytes));
        match &part.body {
            PartBody::Text { text } if !text.is_empty() => {
                let (text, cut) = shortened(text, gap, limit);
                blocks.push(HistoryBlock::Text { text, cut });
            }
            PartBody::Attachment { name, kind, path, .. } => {
                blocks.push(HistoryBlock::Text { text: format!("Attachment: {name} ({kind}) {path}"), cut: 0 });
            }
            PartBody::Command { command, status, exit_code, output } => {
                let (command, of_line) = shortened(command, None, limit.min(OUTPUT_BYTES));
                let (output, of_output) = shortened(output, gap, limit.min(OUTPUT_BYTES));
                let (status, exit_code, cut) = (*status, *exit_code, of_line + of_output);
                blocks.push(HistoryBlock::Command { command, status, exit_code, output, cut });
            }
            _ => {}
        }
    }
    if blocks.len() > BLOCKS {
        let (first, away) = (BLOCKS / 4, blocks.len() - BLOCKS);
        blocks.splice(first..first + away, [HistoryBlock::Gap { blocks: away as u64 }]);
    }
    blocks
}

/// A text of at most about `limit` bytes: head and tail with a mark between them, and how many bytes are away. `gap`: where
/// something is away already, and how much.
fn shortened(text: &str, gap: Option<(usize, u64)>, limit: usize) -> (String, u64) {
    let (before, after, gone) = match gap {
        Some((at, bytes)) => (text.get(..at).unwrap_or(text), text.get(at..).unwrap_or_default(), bytes),
        None if text.len() <= limit => return (text.to_owned(), 0),
        None => (text, text, 0),
    };
    let (mut head, mut tail) = (before, after);
    if text.len() > limit {
        let half = limit / 2;
        head = before.get(..before.floor_char_boundary(half)).unwrap_or_default();
        tail = after.get(after.ceil_char_boundary(after.len().saturating_sub(half))..).unwrap_or_default();
    }
    let cut = gone + (text.len() - head.len() - tail.len()) as u64;
    (format!("{head}\n[... {cut} bytes are left out here ...]\n{tail}"), cut)
}

fn texts(view: &HistoryMessage) -> impl Iterator<Item = usize> {
    view.blocks.iter().flat_map(|block| match block {
        HistoryBlock::Text { text, .. } => [text.len(), 0],
        HistoryBlock::Command { command, output, .. } => [command.len(), output.len()],
        HistoryBlock::Gap { .. } => [0, 0],
    })
}

fn weight(view: &HistoryMessage) -> usize {
    AROUND + view.blocks.len() * AROUND + texts(view).sum::<usize>()
}

/// A message that is too large for a page of its own: its long texts are cut, all to the same length, the short ones stay.
fn squeezed(message: &Message, cuts: &[Cut], view: HistoryMessage, room: usize) -> HistoryMessage {
    let mut lengths: Vec<usize> = texts(&view).collect();
    lengths.sort_unstable();
    let mut room = room.saturating_sub(AROUND + view.blocks.len() * AROUND);
    let mut share = 0;
    for (at, length) in lengths.iter().enumerate() {
        share = room / (lengths.len() - at);
        if *length > share {
            break;
        }
        room -= length;
    }
    self::view(message, false, cuts, share.saturating_sub(MARK).max(MARK))
}

pub(super) async fn search(api: &Api<'_>, params: HistorySearchParams) -> Result<HistorySearchResponse, ApiError> {
    let words = params.words.trim().to_owned();
    if words.is_empty() || words.chars().count() > 256 {
        return Err(ApiError::new(ErrorCode::BadRequest, "`words` is what to look for: 1 to 256 characters."));
    }
    let limit = bounded(params.limit, HITS)?;
    let (inner, scope) = (api.inner.clone(), api.caller.scope);
    let response = read(move || {
        let family: Option<Vec<ThreadId>> = inner.readable(scope)?.map(|family| family.into_iter().collect());
        let found = inner.store.search_told(&words, family.as_deref(), scope, limit)?;
        let mut hits = Vec::new();
        for hit in found.hits {
            let thread = inner.store.thread(hit.thread)?;
            let Some(message) = inner.store.content_after(hit.thread, hit.seq.saturating_sub(1))? else { continue };
            hits.push(HistoryHit {
                thread_id: hit.thread,
                title: thread.title,
                seq: hit.seq,
                role: message.role,
                provider: message.provider,
                at: hit.at,
                time: time(hit.at),
                excerpt: hit.excerpt,
            });
        }
        Ok(HistorySearchResponse { hits, not_searched: found.not_searched })
    })
    .await?;
    Ok(response)
}

pub(super) async fn list(api: &Api<'_>, _: Nothing) -> Result<HistoryListResponse, ApiError> {
    let (inner, scope) = (api.inner.clone(), api.caller.scope);
    let mut threads = read(move || {
        let Some(own) = scope else {
            return Ok(inner.store.threads(None)?.into_iter().map(|thread| (HistoryRelation::Any, thread)).collect());
        };
        let family = inner.family(own)?;
        let project = inner.store.thread(own)?.project;
        let all: Vec<ThreadSummary> = inner.store.threads(Some(project))?;
        let above = ancestors(own, &all);
        let relation = |thread: &ThreadSummary| match thread.id {
            id if id == own => HistoryRelation::Own,
            id if above.contains(&id) => HistoryRelation::Ancestor,
            _ => HistoryRelation::Branch,
        };
        let of_family = all.into_iter().filter(|thread| family.contains(&thread.id));
        let mut threads: Vec<_> = of_family.map(|thread| (relation(&thread), thread)).collect();
        // Stable: within each relation they stay last changed first.
        threads.sort_by_key(|(relation, _)| *relation);
        Ok(threads)
    })
    .await?;
    let more = threads.len().saturating_sub(THREADS) as u64;
    threads.truncate(THREADS);
    let threads = threads
        .into_iter()
        .map(|(relation, thread)| HistoryThread {
            thread_id: thread.id,
            title: thread.title,
            relation,
            parent_thread_id: thread.parent,
            last_seq: thread.last_seq,
            updated_at: thread.updated_at,
            updated: time(thread.updated_at),
        })
        .collect();
    Ok(HistoryListResponse { threads, more })
}

fn ancestors(own: ThreadId, all: &[ThreadSummary]) -> HashSet<ThreadId> {
    let parent = |id: ThreadId| all.iter().find(|thread| thread.id == id).and_then(|thread| thread.parent);
    let mut above = HashSet::new();
    let mut at = parent(own);
    while let Some(id) = at.filter(|id| above.insert(*id)) {
        at = parent(id);
    }
    above
}

/// A time as models read it: `2026-11-30T08:00:12Z`.
pub(crate) fn time(at: Millis) -> String {
    let (days, second) = (at.div_euclid(86_400_000), at.div_euclid(1_000).rem_euclid(86_400));
    // The calendar by eras of 400 years that begin on 1 March, so that the leap day is the last of its year.
    let day = days + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z", year + era * 400)
}

#[cfg(test)]
mod tests {
    use changeover_core::{
        id::MessageId,
        message::Role,
        part::{Part, WorkStatus},
    };
    use uuid::Uuid;

    use super::*;

    fn reply(parts: Vec<Part>) -> Message {
        Message {
            id: MessageId(Uuid::nil()),
            seq: 2,
            role: Role::Assistant,
            state: MessageState::Done,
            provider: None,
            model: None,
            session: None,
            created_at: 0,
            ended_at: None,
            pinned: false,
            excluded: false,
            parts,
            notice: None,
        }
    }

    #[test]
    fn times_as_text() {
        for (at, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_210_096_789, "2024-02-29T12:34:56Z"),
            (1_796_025_612_000, "2026-11-30T08:00:12Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(time(at), text);
        }
    }

    #[test]
    fn a_cut_says_what_it_took() {
        assert_eq!(shortened("short", None, 5), ("short".into(), 0));
        let (text, cut) = shortened("0123456789", None, 4);
        assert_eq!((text.as_str(), cut), ("01\n[... 6 bytes are left out here ...]\n89", 6));
        // What the store left away counts too, and stands where it was.
        let (text, cut) = shortened("headtail", Some((4, 100)), 8);
        assert_eq!((text.as_str(), cut), ("head\n[... 100 bytes are left out here ...]\ntail", 100));
        let (text, cut) = shortened("headtail", Some((4, 100)), 4);
        assert_eq!((text.as_str(), cut), ("he\n[... 104 bytes are left out here ...]\nil", 104));
        // No letter is cut in two.
        let (text, cut) = shortened("ääääääää", None, 6);
        assert_eq!((text.as_str(), cut), ("ä\n[... 12 bytes are left out here ...]\nä", 12));
    }

    #[test]
    fn a_reply_larger_than_a_page_keeps_its_short_texts_whole() {
        let output = |key: &str, bytes: usize| Part {
            key: key.into(),
            superseded: false,
            body: PartBody::Command {
                command: format!("run {key}"),
                status: WorkStatus::Completed,
                exit_code: Some(0),
                output: "x".repeat(bytes),
            },
        };
        let message = reply(vec![
            Part::text("a", "a".repeat(50_000)),
            output("b", 100_000),
            Part::text("c", "the conclusion"),
            Part::text("d", "d".repeat(50_000)),
        ]);
        let whole = view(&message, false, &[], usize::MAX);
        let small = squeezed(&message, &[], whole, PAGE_BYTES);
        assert!(weight(&small) <= PAGE_BYTES, "{}", weight(&small));
        // All the room is used but for what marks and rounding take.
        assert!(weight(&small) > PAGE_BYTES - 200, "{}", weight(&small));
        let cuts: Vec<u64> = small
            .blocks
            .iter()
            .map(|block| match block {
                HistoryBlock::Text { cut, .. } | HistoryBlock::Command { cut, .. } => *cut,
                HistoryBlock::Gap { .. } => panic!("no gap"),
            })
            .collect();
        assert_eq!((cuts[0] == cuts[3], cuts[1], cuts[2]), (true, 100_000 - OUTPUT_BYTES as u64, 0));
    }

    #[test]
    fn a_reply_of_very_many_commands_is_bounded() {
        let parts = (0..5_000).map(|n| Part {
            key: n.to_string(),
            superseded: false,
            body: PartBody::Command {
                command: format!("{n} {}", "y".repeat(3_000)),
                status: WorkStatus::Completed,
                exit_code: Some(0),
                output: "x".repeat(3_000),
            },
        });
        let message = reply(parts.collect());
        let whole = view(&message, false, &[], usize::MAX);
        assert_eq!(whole.blocks.len(), BLOCKS + 1);
        assert_eq!(whole.blocks[BLOCKS / 4], HistoryBlock::Gap { blocks: 4_800 });
        let small = squeezed(&message, &[], whole, PAGE_BYTES);
        assert!(weight(&small) <= 2 * PAGE_BYTES, "{}", weight(&small));
    }
}
