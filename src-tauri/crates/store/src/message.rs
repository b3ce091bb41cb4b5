//! Messages and parts out of their rows. A record that cannot be read becomes its raw text and is flagged (R011, R168);
//! it never hides the rest.

use changeover_core::{
    id::MessageId,
    message::{Message, MessageState, Role, SessionStamp},
    part::{Part, PartBody},
};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use crate::{
    codec::{self, json},
    error::{Fault, Result},
};

/// Bits of a part's key that are its ordinal.
pub(crate) const ORDINAL_BITS: u32 = 20;

/// The keys of a message's parts: first and last possible.
pub(crate) fn part_keys(message: i64) -> (i64, i64) {
    (message << ORDINAL_BITS, (message << ORDINAL_BITS) | ((1 << ORDINAL_BITS) - 1))
}

/// Where a message stands in a thread, as `thread_message` has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) seq: i64,
    pub(crate) message: i64,
    pub(crate) role: i64,
    pub(crate) pinned: bool,
    pub(crate) excluded: bool,
}

/// The columns of [`Placed`], in order.
pub(crate) const PLACED: &str = "seq, message, role, pinned, excluded";

pub(crate) fn placed(row: &rusqlite::Row<'_>) -> rusqlite::Result<Placed> {
    Ok(Placed { seq: row.get(0)?, message: row.get(1)?, role: row.get(2)?, pinned: row.get(3)?, excluded: row.get(4)? })
}

/// A message as read.
pub(crate) struct Loaded {
    pub(crate) message: Message,
    /// A record of it could not be read and stands in its raw form.
    pub(crate) damaged: bool,
    /// Texts that were cut: part key, offset of what is missing, its bytes.
    pub(crate) cuts: Vec<(String, u64, u64)>,
}

/// A message as its row has it, without parts.
pub(crate) fn load_head(conn: &Connection, at: Placed) -> Result<Loaded> {
    let role = if at.role == 0 {
        Role::User
    } else if at.role == 1 {
        Role::Assistant
    } else {
        Role::System
    };
    let mut message = Message {
        id: MessageId(Uuid::nil()),
        seq: codec::seq(at.seq),
        role,
        state: MessageState::Failed,
        provider: None,
        model: None,
        session: None,
        created_at: 0,
        ended_at: None,
        pinned: at.pinned,
        excluded: at.excluded,
        parts: Vec::new(),
        notice: None,
    };
    let mut damaged = false;
    let mut sql = conn.prepare_cached(
        "SELECT m.id, m.state, m.provider, m.model, m.created_at, m.ended_at, m.notice, s.session_id, s.incarnation
         FROM message m LEFT JOIN session_stamp s ON s.key = m.stamp WHERE m.key = ?1",
    )?;
    let mut rows = sql.query([at.message])?;
    let Some(row) = rows.next()? else {
        message.parts.push(Part::text("missing", "This message's record is missing."));
        return Ok(Loaded { message, damaged: true, cuts: Vec::new() });
    };
    match codec::message_id(row, 0) {
        Ok(id) => message.id = id,
        Err(_) => damaged = true,
    }
    match row.get::<_, String>(1).ok().and_then(|word| codec::unword(&word)) {
        Some(state) => message.state = state,
        None => damaged = true,
    }
    match row.get::<_, Option<String>>(2)?.map(|text| text.parse()) {
        Some(Ok(provider)) => message.provider = Some(provider),
        Some(Err(_)) => damaged = true,
        None => {}
    }
    message.model = row.get(3)?;
    message.created_at = row.get(4)?;
    message.ended_at = row.get(5)?;
    if let Some(text) = row.get::<_, Option<String>>(6)? {
        match serde_json::from_str(&text) {
            Ok(notice) => message.notice = Some(notice),
            Err(_) => {
                damaged = true;
                message.parts.push(Part::text("raw", text));
            }
        }
    }
    if let Some(id) = row.get::<_, Option<String>>(7)? {
        message.session = Some(SessionStamp { id, incarnation: row.get(8)? });
    }
    Ok(Loaded { message, damaged, cuts: Vec::new() })
}

/// A whole message, or one whose long texts are cut to a head and a tail of together at most `limit` bytes.
pub(crate) fn load(conn: &Connection, at: Placed, limit: Option<usize>) -> Result<Loaded> {
    let mut loaded = load_head(conn, at)?;
    let (first, last) = part_keys(at.message);
    let mut sql = conn.prepare_cached(
        "SELECT key, item, superseded, chunked, body, text FROM part WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    )?;
    let mut rows = sql.query([first, last])?;
    while let Some(row) = rows.next()? {
        let (part, cut, whole) = read_row(conn, row, limit)?;
        loaded.damaged |= !whole;
        if let Some((at, left)) = cut {
            loaded.cuts.push((part.key.clone(), at, left));
        }
        loaded.message.parts.push(part);
    }
    Ok(loaded)
}

/// One part, whole; `None` where there is none of that key.
pub(crate) fn load_part(conn: &Connection, message: i64, item: &str) -> Result<Option<Part>> {
    let mut sql = conn.prepare_cached(
        "SELECT key, item, superseded, chunked, body, text FROM part WHERE message = ?1 AND item = ?2",
    )?;
    let mut rows = sql.query(params![message, item])?;
    match rows.next()? {
        Some(row) => Ok(Some(read_row(conn, row, None)?.0)),
        None => Ok(None),
    }
}

/// Offset and length of what a cut left away.
type Cut = (u64, u64);

/// A part, what was cut from its text, and whether its record could be read.
fn read_row(conn: &Connection, row: &rusqlite::Row<'_>, limit: Option<usize>) -> Result<(Part, Option<Cut>, bool)> {
    let key: i64 = row.get(0)?;
    let item: String = row.get(1)?;
    let superseded = row.get(2)?;
    let chunked: bool = row.get(3)?;
    let text: String = row.get(5)?;
    let (text, cut) = match limit {
        None if chunked => (text + &chunks(conn, key)?, None),
        None => (text, None),
        Some(limit) => shorten(conn, key, text, chunked, limit)?,
    };
    let raw = row.get_ref(4)?;
    let body = raw.as_str().ok().and_then(|json| serde_json::from_str::<PartBody>(json).ok());
    let (body, whole) = match body {
        Some(body) => (with_text(body, text), true),
        None => {
            let json = String::from_utf8_lossy(raw.as_bytes().unwrap_or_default()).into_owned();
            (PartBody::Text { text: json + &text }, false)
        }
    };
    Ok((Part { key: item, superseded, body }, cut, whole))
}

/// All chunks of a part, joined.
fn chunks(conn: &Connection, part: i64) -> Result<String> {
    let mut sql = conn.prepare_cached("SELECT text FROM chunk WHERE part = ?1 ORDER BY n")?;
    let mut rows = sql.query([part])?;
    let mut text = String::new();
    while let Some(row) = rows.next()? {
        text.push_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
    }
    Ok(text)
}

/// The text of a part: its own and its chunks.
pub(crate) fn whole_text(conn: &Connection, part: i64, own: String, chunked: bool) -> Result<String> {
    Ok(if chunked { own + &chunks(conn, part)? } else { own })
}

/// Head and tail of a text that is longer than `limit`, reading no more chunks than they need.
fn shorten(conn: &Connection, part: i64, own: String, chunked: bool, limit: usize) -> Result<(String, Option<Cut>)> {
    let mut pieces: Vec<(i64, usize)> = Vec::new();
    if chunked {
        let mut sql = conn.prepare_cached("SELECT n, octet_length(text) FROM chunk WHERE part = ?1 ORDER BY n")?;
        let mut rows = sql.query([part])?;
        while let Some(row) = rows.next()? {
            pieces.push((row.get(0)?, usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0)));
        }
    }
    let total = own.len() + pieces.iter().map(|(_, len)| len).sum::<usize>();
    if total <= limit {
        return Ok((whole_text(conn, part, own, chunked)?, None));
    }
    let half = limit / 2;
    let mut one = conn.prepare_cached("SELECT text FROM chunk WHERE part = ?1 AND n = ?2")?;
    let mut head = own.clone();
    for (n, _) in &pieces {
        if head.len() >= half {
            break;
        }
        head.push_str(&one.query_row([part, *n], |row| row.get::<_, String>(0))?);
    }
    head.truncate(floor(&head, half));
    let mut tail = String::new();
    for (n, _) in pieces.iter().rev() {
        if tail.len() >= half {
            break;
        }
        tail.insert_str(0, &one.query_row([part, *n], |row| row.get::<_, String>(0))?);
    }
    if tail.len() < half {
        tail.insert_str(0, &own);
    }
    let start = ceil(&tail, tail.len().saturating_sub(half));
    let tail = tail.split_off(start);
    let (at, left) = (head.len(), total - head.len() - tail.len());
    Ok((head + &tail, Some((at as u64, left as u64))))
}

/// The highest character boundary at or below `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The lowest character boundary at or above `at`.
fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// A body apart from the text that may grow: JSON and text.
pub(crate) fn split(body: &PartBody) -> Result<(String, String)> {
    let (bare, text) = match body {
        PartBody::Text { text } => (PartBody::Text { text: String::new() }, text.clone()),
        PartBody::Reasoning { text } => (PartBody::Reasoning { text: String::new() }, text.clone()),
        PartBody::Command { command, status, exit_code, output } => (
            PartBody::Command {
                command: command.clone(),
                status: *status,
                exit_code: *exit_code,
                output: String::new(),
            },
            output.clone(),
        ),
        other => (other.clone(), String::new()),
    };
    Ok((json("a part", &bare)?, text))
}

fn with_text(body: PartBody, grown: String) -> PartBody {
    match body {
        PartBody::Text { .. } => PartBody::Text { text: grown },
        PartBody::Reasoning { .. } => PartBody::Reasoning { text: grown },
        PartBody::Command { command, status, exit_code, .. } => {
            PartBody::Command { command, status, exit_code, output: grown }
        }
        other => other,
    }
}

/// The inner key of a message.
pub(crate) fn key_of(conn: &Connection, id: MessageId) -> Result<i64> {
    conn.prepare_cached("SELECT key FROM message WHERE id = ?1")?
        .query_row([id.0.as_bytes()], |row| row.get(0))
        .optional()?
        .ok_or(Fault::Store(crate::StoreError::NoSuchMessage(id)))
}

/// What the search looks at: live texts and the lines of commands. Outputs, reasoning and tools are not searched.
pub(crate) fn search_text(conn: &Connection, message: i64) -> Result<String> {
    let (first, last) = part_keys(message);
    let mut sql = conn.prepare_cached(
        "SELECT key, chunked, body, text FROM part WHERE key BETWEEN ?1 AND ?2 AND superseded = 0 ORDER BY key",
    )?;
    let mut rows = sql.query([first, last])?;
    let mut found = String::new();
    while let Some(row) = rows.next()? {
        let raw = row.get_ref(2)?;
        let piece = match raw.as_str().ok().and_then(|json| serde_json::from_str::<PartBody>(json).ok()) {
            Some(PartBody::Text { .. }) => whole_text(conn, row.get(0)?, row.get(3)?, row.get(1)?)?,
            Some(PartBody::Command { command, .. }) => command,
            Some(PartBody::Attachment { name, .. }) => name,
            _ => continue,
        };
        if !found.is_empty() {
            found.push('\n');
        }
        found.push_str(&piece);
    }
    Ok(found)
}
