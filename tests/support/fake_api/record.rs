//! What arrived, and what can be said about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::request::{blocks, is_context};

/// The two ways a CLI speaks to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wire {
    /// Anthropic Messages: Claude Code.
    Anthropic,
    /// OpenAI Responses: Codex.
    Responses,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A step of a turn: it offers tools.
    Turn,
    /// A model request without tools: a title, a summary.
    Side,
    /// Counting tokens.
    Count,
    /// A model list.
    Models,
    /// `HEAD /`, or a try for a web socket where we only speak HTTP.
    Probe,
    /// Anything else: it was answered with 404.
    Stray,
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its place among all requests, from 1.
    pub n: usize,
    /// What it is for.
    pub kind: Kind,
    /// The wire of a model request.
    pub wire: Option<Wire>,
    /// The HTTP method.
    pub method: String,
    /// The path without the query; for a proxy's CONNECT the host.
    pub path: String,
    /// All headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The value of `authorization` or `x-api-key`.
    pub auth: Option<String>,
    /// The body, or null where it is no JSON.
    pub body: Value,
    /// The body's size in bytes.
    pub bytes: usize,
    /// The CLI's own session: Claude Code's session id, Codex's thread id.
    pub session: Option<String>,
    /// The newest user message's own text, directives included.
    pub user_text: String,
}

impl Recorded {
    /// The request flattened: (role, text) per message, in order, with the system prompt first.
    ///
    /// Calls have the role `call` and read `NAME {arguments}`, their results the role `result`, reasoning the role `reasoning`.
    /// A message of several blocks is one line here per run of blocks of the same role.
    pub fn messages(&self) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> = Vec::new();
        let mut add = |role: &str, text: String| out.push((role.to_owned(), text));
        match self.wire {
            None => {}
            Some(Wire::Anthropic) => {
                for block in blocks(&self.body["system"]) {
                    add("system", text_of(block));
                }
                for message in blocks(&self.body["messages"]) {
                    let role = message["role"].as_str().unwrap_or_default();
                    for block in blocks(&message["content"]) {
                        match block["type"].as_str() {
                            Some("tool_use") => add("call", format!("{} {}", text_of(&block["name"]), block["input"])),
                            Some("tool_result") => add("result", text_of(&block["content"])),
                            Some("thinking") => add("reasoning", text_of(&block["thinking"])),
                            _ => add(role, text_of(block)),
                        }
                    }
                }
            }
            Some(Wire::Responses) => {
                add("system", text_of(&self.body["instructions"]));
                for item in blocks(&self.body["input"]) {
                    let kind = item["type"].as_str().unwrap_or("message");
                    if kind.ends_with("_call_output") {
                        add("result", text_of(&item["output"]));
                    } else if kind.ends_with("_call") {
                        let given = ["arguments", "input"].iter().find_map(|key| item[*key].as_str());
                        add("call", format!("{} {}", text_of(&item["name"]), given.unwrap_or_default()));
                    } else if kind == "reasoning" {
                        add("reasoning", text_of(&item["summary"]));
                    } else if let Some(text) = item.as_str() {
                        add("user", text.to_owned());
                    } else {
                        for block in blocks(&item["content"]) {
                            add(item["role"].as_str().unwrap_or(kind), text_of(block));
                        }
                    }
                }
            }
        }
        out.retain(|(_, text)| !text.is_empty());
        out
    }

    /// The texts of the messages of one role, in order.
    pub fn texts(&self, role: &str) -> Vec<String> {
        self.messages().into_iter().filter(|(of, _)| of == role).map(|(_, text)| text).collect()
    }

    /// What was said: [`Recorded::messages`] without the system's and developer's, and without the context that the CLI adds by itself.
    /// Its notes about an interrupt stay, since they are part of the history.
    pub fn conversation(&self) -> Vec<(String, String)> {
        let mut said = self.messages();
        said.retain(|(role, text)| !matches!(role.as_str(), "system" | "developer") && !is_context(text));
        said
    }

    /// How often `needle` stands in any string of the body.
    pub fn count(&self, needle: &str) -> usize {
        count_in(&self.body, needle)
    }
}

/// All text of a value: a string, a block with text or output, or a list of these.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(map) => {
            ["text", "output", "content"].iter().find_map(|key| map.get(*key)).map(text_of).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn count_in(value: &Value, needle: &str) -> usize {
    match value {
        Value::String(text) => text.matches(needle).count(),
        Value::Array(list) => list.iter().map(|inner| count_in(inner, needle)).sum(),
        Value::Object(map) => map.values().map(|inner| count_in(inner, needle)).sum(),
        _ => 0,
    }
}

/// The session a CLI says a request belongs to (found on the real CLIs, see the contract tests).
pub(super) fn session_of(headers: &BTreeMap<String, String>, body: &Value) -> Option<String> {
    let header =
        ["x-claude-code-session-id", "thread-id", "x-session-id"].iter().find_map(|name| headers.get(*name)).cloned();
    header
        .or_else(|| {
            let user: Value = serde_json::from_str(body["metadata"]["user_id"].as_str()?).ok()?;
            Some(user["session_id"].as_str()?.to_owned())
        })
        .or_else(|| Some(body["prompt_cache_key"].as_str()?.to_owned()))
}

/// How one nonce stands in one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonceRow {
    /// Which nonce.
    pub nonce: String,
    /// The CLI's session id.
    pub session: String,
    /// The session's wire.
    pub wire: Wire,
    /// The first request (its `n`) that holds it.
    pub first: Option<usize>,
    /// How many of the session's turn requests hold it.
    pub requests: usize,
    /// The most often it stands in any one of them: above 1, something was told twice.
    pub most: usize,
    /// How often it stands in the last of them, which holds the session's whole history.
    pub last: usize,
}

/// Nonce × session × count, sessions in the order in which they began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonceTable(pub Vec<NonceRow>);

impl NonceTable {
    /// The sessions, in the order in which they began.
    pub fn sessions(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        self.0.iter().map(|row| row.session.clone()).filter(|session| seen.insert(session.clone())).collect()
    }

    /// The row of one nonce in one session.
    pub fn row(&self, nonce: &str, session: &str) -> Option<&NonceRow> {
        self.0.iter().find(|row| row.nonce == nonce && row.session == session)
    }
}

impl fmt::Display for NonceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24} {:<10} {:<38} {:>6} {:>9} {:>5} {:>5}",
            "nonce", "wire", "session", "first", "requests", "most", "last"
        )?;
        for row in &self.0 {
            let first = row.first.map_or_else(|| "-".to_owned(), |n| n.to_string());
            let wire = format!("{:?}", row.wire);
            writeln!(
                f,
                "{:<24} {:<10} {:<38} {:>6} {:>9} {:>5} {:>5}",
                row.nonce, wire, row.session, first, row.requests, row.most, row.last
            )?;
        }
        Ok(())
    }
}

/// Counts each nonce in each session's turn requests (those that offer tools): FC2's table.
pub fn nonce_table<N: AsRef<str>>(requests: &[Arc<Recorded>], nonces: &[N]) -> NonceTable {
    let mut sessions: Vec<(&str, Wire, Vec<&Recorded>)> = Vec::new();
    for request in requests.iter().filter(|request| request.kind == Kind::Turn) {
        let (Some(session), Some(wire)) = (request.session.as_deref(), request.wire) else {
            continue;
        };
        match sessions.iter_mut().find(|(known, of, _)| *known == session && *of == wire) {
            Some((_, _, list)) => list.push(request),
            None => sessions.push((session, wire, vec![request])),
        }
    }
    let mut rows = Vec::new();
    for (session, wire, list) in sessions {
        for nonce in nonces {
            let nonce = nonce.as_ref();
            let counts: Vec<(usize, usize)> = list.iter().map(|request| (request.n, request.count(nonce))).collect();
            rows.push(NonceRow {
                nonce: nonce.to_owned(),
                session: session.to_owned(),
                wire,
                first: counts.iter().find(|(_, count)| *count > 0).map(|(n, _)| *n),
                requests: counts.iter().filter(|(_, count)| *count > 0).count(),
                most: counts.iter().map(|(_, count)| *count).max().unwrap_or(0),
                last: counts.last().map_or(0, |(_, count)| *count),
            });
        }
    }
    NonceTable(rows)
}
