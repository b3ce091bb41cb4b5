//! The directives, and the plan of one reply.
//!
//! Read from the newest user message (after its last [`super::NEW_MESSAGE_HEADING`] where it has one). Without any: `echo: TEXT`.
//!
//! | directive | what it does |
//! |---|---|
//! | `[[tool:bash:CMD]]` | calls the CLI's shell tool, its name and arguments picked from the request's tools |
//! | `[[call:NAME:{json}]]` | calls the tool whose name is or ends with NAME; several calls come one per model round, then the final text |
//! | `[[parallel]]` | all calls in one round |
//! | `[[say:TEXT]]` | the final text (default: the user's text without directives) |
//! | `[[text:KEY]]` | the final text is what the test put under KEY: it stands in no prompt |
//! | `[[think:TEXT]]` | reasoning first |
//! | `[[preface:TEXT]]` | a text, whole, before the calls of each round that has some |
//! | `[[usage:IN:OUT]]` | the token numbers to report (default: bytes / 4) |
//! | `[[slow:N:MS]]` | the final text in N pieces, MS milliseconds apart |
//! | `[[hang]]` | headers and the first piece of text, then nothing until the client leaves |
//! | `[[gate:NAME]]` | the first piece of text, then waits until the test opens the gate |
//! | `[[gate_before:NAME]]` | nothing at all, not even headers, until the test opens the gate (first round of a turn only) |
//! | `[[error:KIND]]` | 400 401 403 404 413 429 500 503 529, `toolong`, `drop` (cut mid-stream), `midstream` (in-band error), `refuse` (closed without an answer) |
//! | `[[error:KIND:K]]` | only for the first K requests with this same text |
//! | `[[error_after:K:KIND]]` | only once K tool results are there |
//! | `[[retry_after:S]]` | adds `retry-after: S` to the error |
//!
//! A request that offers no tools (a title, a summary) only ever gets text. A name with a bang (`[[error!:401]]`) counts there too.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::request::{Asked, Tools};
use super::{Shared, lock};

const SHELLS: [&str; 6] = ["Bash", "bash", "exec_command", "shell_command", "shell", "local_shell"];

/// A way for a request to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// This HTTP status, with the vendor's body for it.
    Status(u16),
    /// The vendor's error for a prompt above the model's window.
    TooLong,
    /// The connection is cut after the first piece of text; of a reply without streaming, before it.
    Drop,
    /// The vendor's error event after the first piece of text.
    Midstream,
    /// The connection closes without an answer.
    Refuse,
}

impl std::str::FromStr for Failure {
    type Err = String;

    fn from_str(kind: &str) -> Result<Self, String> {
        match kind {
            "toolong" => Ok(Self::TooLong),
            "drop" => Ok(Self::Drop),
            "midstream" => Ok(Self::Midstream),
            "refuse" => Ok(Self::Refuse),
            "400" | "401" | "403" | "404" | "413" | "429" | "500" | "503" | "529" => {
                kind.parse().map(Self::Status).map_err(|e| format!("{e}"))
            }
            other => Err(format!("no such failure: {other:?}")),
        }
    }
}

/// A tool call the reply makes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// How one request is answered.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    pub(super) think: Option<String>,
    pub(super) preface: Option<String>,
    pub(super) error: Option<Failure>,
    pub(super) retry_after: Option<u32>,
    /// Pieces of the final text, and the pause between them.
    pub(super) pace: Option<(usize, Duration)>,
    pub(super) hang: bool,
    pub(super) gate: Option<String>,
    pub(super) gate_before: Option<String>,
    /// Input and output tokens to report.
    pub(super) usage: (u64, u64),
}

struct Directive<'a> {
    name: &'a str,
    bang: bool,
    argument: &'a str,
}

/// The directives of a text, and the text without them.
fn directives(text: &str) -> (Vec<Directive<'_>>, String) {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("[[") {
        let (before, inside) = (&rest[..start], &rest[start + 2..]);
        let word = inside.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let bang = inside[word..].starts_with('!');
        let after = &inside[word + usize::from(bang)..];
        let argument = match after.strip_prefix(':') {
            Some(argument) => argument.find("]]").map(|end| (&argument[..end], &argument[end + 2..])),
            None => after.strip_prefix("]]").map(|rest| ("", rest)),
        };
        plain.push_str(before);
        match argument {
            Some((argument, behind)) if word > 0 => {
                found.push(Directive { name: &inside[..word], bang, argument });
                rest = behind;
            }
            _ => {
                plain.push_str("[[");
                rest = inside;
            }
        }
    }
    plain.push_str(rest);
    (found, plain.trim().to_owned())
}

/// Splits at the first colon and reads both numbers; the second may be missing.
fn two_numbers(argument: &str, second: u64) -> Result<(u64, u64), String> {
    let (a, b) = argument.split_once(':').unwrap_or((argument, ""));
    let read = |text: &str| text.trim().parse().map_err(|_| format!("not a number: {text:?}"));
    Ok((read(a)?, if b.is_empty() { second } else { read(b)? }))
}

/// Arguments for a shell tool, from its schema.
fn shell_arguments(schema: &Value, command: &str) -> Value {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let mut arguments = Map::new();
    let key = ["command", "cmd", "script"].into_iter().find(|key| properties.contains_key(*key)).unwrap_or("command");
    let list = properties.get(key).is_some_and(|property| property["type"] == "array");
    arguments.insert(key.to_owned(), if list { json!(["bash", "-lc", command]) } else { json!(command) });
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        arguments.entry(name).or_insert_with(|| match properties.get(name).and_then(|p| p["type"].as_str()) {
            Some("number" | "integer") => json!(1),
            Some("boolean") => json!(false),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!(format!("fake {name}")),
        });
    }
    Value::Object(arguments)
}

fn call_of(directive: &Directive<'_>, tools: &Tools) -> Result<Option<Call>, String> {
    let (first, rest) = directive.argument.split_once(':').ok_or("a call has a name and a part after a colon")?;
    if directive.name == "tool" {
        if first != "bash" {
            return Err(format!("no such kind of tool: {first:?}"));
        }
        let shell = SHELLS.iter().find_map(|shell| tools.get_key_value(*shell));
        return Ok(shell.map(|(name, schema)| Call { name: name.clone(), arguments: shell_arguments(schema, rest) }));
    }
    let arguments = serde_json::from_str(rest).map_err(|e| format!("the arguments of {first}: {e}"))?;
    let name = tools.keys().find(|name| *name == first).or_else(|| tools.keys().find(|name| name.ends_with(first)));
    Ok(name.map(|name| Call { name: name.clone(), arguments }))
}

/// Decides the reply. A directive that is known but written wrongly is an error: a test must not pass by its own typing mistake.
pub(super) fn plan(asked: &Asked, path: &str, bytes: usize, shared: &Shared) -> Result<Plan, String> {
    let (found, plain) = directives(&asked.text);
    let turn = !asked.tools.is_empty();
    let mut plan = Plan::default();
    let mut text = None;
    let mut usage = None;
    let mut calls = Vec::new();
    let mut parallel = false;
    for (index, directive) in found.iter().enumerate() {
        let argument = directive.argument;
        let counts = turn || directive.bang;
        match directive.name {
            "tool" | "call" if turn => calls.extend(call_of(directive, &asked.tools)?),
            "parallel" => parallel = true,
            "say" => text = Some(argument.to_owned()),
            "text" => {
                let known = lock(&shared.texts).get(argument).cloned();
                text = Some(known.ok_or_else(|| format!("no text was put under {argument:?}"))?);
            }
            "think" => plan.think = Some(argument.to_owned()),
            "preface" if turn => plan.preface = Some(argument.to_owned()),
            "usage" => usage = Some(two_numbers(argument, 7)?),
            "slow" if counts => {
                let (pieces, pause) = two_numbers(argument, 200)?;
                let pieces = usize::try_from(pieces).map_err(|e| format!("{e}"))?;
                plan.pace = Some((pieces, Duration::from_millis(pause)));
            }
            "hang" if counts => plan.hang = true,
            "gate" if counts => plan.gate = Some(argument.to_owned()),
            "gate_before" if counts && asked.results == 0 => plan.gate_before = Some(argument.to_owned()),
            "retry_after" => {
                plan.retry_after = Some(argument.parse().map_err(|_| format!("not seconds: {argument:?}"))?)
            }
            "error" if counts => {
                let (kind, times) = argument.split_once(':').unwrap_or((argument, ""));
                let failure = kind.parse()?;
                if !times.is_empty() {
                    let times: usize = times.parse().map_err(|_| format!("not a count: {times:?}"))?;
                    let mut attempts = lock(&shared.attempts);
                    let seen = attempts.entry(format!("{index} {}", asked.text)).or_default();
                    *seen += 1;
                    if *seen > times {
                        continue;
                    }
                }
                plan.error = Some(failure);
            }
            "error_after" if counts => {
                let (results, kind) = argument.split_once(':').ok_or("error_after has a count and a kind")?;
                let results: usize = results.parse().map_err(|_| format!("not a count: {results:?}"))?;
                if asked.results >= results {
                    plan.error = Some(kind.parse()?);
                }
            }
            _ => {}
        }
    }
    let mut rules = lock(&shared.rules);
    if let Some(rule) = rules.iter_mut().find(|rule| {
        rule.count > 0
            && (turn || rule.side_calls)
            && path.contains(&rule.path)
            && asked.text.contains(&rule.contains)
            && bytes >= rule.min_bytes
    }) {
        rule.count -= 1;
        plan.error = Some(rule.error);
        plan.retry_after = rule.retry_after.or(plan.retry_after);
    }
    drop(rules);
    let left = calls.into_iter().skip(asked.results);
    plan.calls = if parallel { left.collect() } else { left.take(1).collect() };
    plan.text = text.unwrap_or_else(|| format!("echo: {}", plain.chars().take(400).collect::<String>()));
    plan.usage = usage.unwrap_or_else(|| ((bytes as u64 / 4).max(1), (plan.text.len() as u64 / 4).max(1)));
    Ok(plan)
}

/// A text in at most `n` pieces of nearly equal length, cut at characters; one empty piece for an empty text.
pub(super) fn pieces(text: &str, n: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        return vec![String::new()];
    }
    let step = chars.len().div_ceil(n.clamp(1, chars.len()));
    chars.chunks(step).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_taken_out_and_what_only_looks_like_one_stays() {
        let (found, plain) = directives("a [[say:x ] y]] b [[hang]] [[error!:401]] [[no end [[ [[]] é");
        let seen: Vec<_> = found.iter().map(|d| (d.name, d.bang, d.argument)).collect();
        assert_eq!(seen, [("say", false, "x ] y"), ("hang", false, ""), ("error", true, "401")]);
        assert_eq!(plain, "a  b   [[no end [[ [[]] é");
    }

    #[test]
    fn a_shell_call_follows_the_tools_schema() {
        let schema = json!({"properties": {"cmd": {"type": "array"}, "n": {"type": "integer"}}, "required": ["cmd", "n", "why"]});
        assert_eq!(
            shell_arguments(&schema, "exit 3"),
            json!({"cmd": ["bash", "-lc", "exit 3"], "n": 1, "why": "fake why"})
        );
    }

    #[test]
    fn pieces_join_to_the_text_and_never_cut_a_character() {
        assert_eq!(pieces("", 3), [""]);
        assert_eq!(pieces("äö", 5), ["ä", "ö"]);
        assert_eq!(pieces("abcdefg", 3), ["abc", "def", "g"]);
    }
}
