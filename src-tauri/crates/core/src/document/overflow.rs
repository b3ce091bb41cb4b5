//! Is an error an overflow, that is, does it say that the prompt does not fit (G8)? Providers have no common code for it,
//! so the words decide: in one clause, what goes in (prompt, input, request, messages) or the window itself, and that it is
//! too much. A limit on anything else (rate, quota, output, an image, a file, a field) is none.

/// Whether these texts of one error (message, code, body, in any order) say that the prompt does not fit the model.
/// A rate limit or a quota named in any of them speaks against it, whatever else is said.
pub fn is_overflow(texts: &[&str]) -> bool {
    let texts: Vec<String> = texts.iter().map(|text| plain(text)).collect();
    !texts.iter().any(|text| is_rate_or_quota(text))
        && texts.iter().any(|text| is_payload_too_large(text) || clauses(text).any(says_overflow))
}

/// Lower case, words apart: `context_length_exceeded`, `contextLengthExceeded` and "context length exceeded" are the same.
/// Numbers lose their thousands separators, so that a comma is a comma.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next_is_digit = chars.peek().is_some_and(char::is_ascii_digit);
        match c {
            ',' if before.is_ascii_digit() && next_is_digit => continue,
            '_' | '-' | '`' | '\'' | '’' | '*' | '\\' | '/' => out.push(' '),
            '(' | ')' | '[' | ']' | ',' | ':' => out.extend([' ', c, ' ']),
            c => {
                if c.is_uppercase() && before.is_lowercase() {
                    out.push(' ');
                }
                out.extend(c.to_lowercase());
            }
        }
        before = c;
    }
    let mut joined = String::with_capacity(out.len());
    for line in out.lines() {
        for word in line.split_whitespace() {
            joined.push_str(word);
            joined.push(' ');
        }
        joined.push('\n');
    }
    joined
}

/// Sentences, and the values of a JSON body one by one.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '"', '{', '}', ';', '。', '!', '?']).flat_map(|piece| piece.split(". ")).map(str::trim)
}

fn any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Whether one of the words stands as a word of its own.
fn any_word(text: &str, words: &[&str]) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word))
}

/// Too much in a time, too many at once, or paid out: waiting helps, a shorter prompt does not.
fn is_rate_or_quota(text: &str) -> bool {
    const RATE: [&str; 14] = [
        "rate limit",
        "ratelimit",
        "per min",
        "per second",
        "per day",
        "per hour",
        "too many requests",
        "throttl",
        "concurren",
        "quota",
        "usage limit",
        "billing",
        "credit balance",
        "insufficient balance",
    ];
    any(text, &RATE) || any_word(text, &["tpm", "rpm", "tpd", "rpd"])
}

/// HTTP 413, with or without words.
fn is_payload_too_large(text: &str) -> bool {
    let status = any_word(text, &["413"]) && any(text, &["status", "no body", "too large", "api error", "error code"]);
    (status || any(text, &["payload too large", "request entity too large"])) && !is_of_something_else(text)
}

/// What is too much is not what goes in as a whole.
fn is_of_something_else(clause: &str) -> bool {
    const PARTS: [&str; 19] = [
        "image",
        "pixel",
        "pdf",
        "file",
        "attachment",
        "audio",
        "video",
        "string",
        "array",
        "header",
        "uri ",
        "url",
        "buffer",
        "tool arg",
        "timeout",
        "timed out",
        "retries",
        "attempts",
        "schema",
    ];
    any(clause, &PARTS) && !clause.contains("and text")
}

/// What comes out is too much, or is asked to be.
fn is_of_output(clause: &str) -> bool {
    any(clause, &["output", "response", "completion tokens", "max tokens must", "range of max tokens"])
}

/// Over a bound.
const OVER: [&str; 21] = [
    "exceed",
    "too long",
    "too large",
    "too big",
    "longer than",
    "larger than",
    "greater than",
    "more than",
    "over the",
    "beyond",
    "ran out of",
    "out of room",
    "run out of",
    "reached",
    "overflow",
    "does not fit",
    "not fit",
    "is full",
    "超",
    "too many",
    "surpass",
];

/// One clause by itself.
fn says_overflow(clause: &str) -> bool {
    (names_window(clause) && says_over_window(clause))
        || (says_input_is_too_much(clause) && !is_of_something_else(clause))
        || says_too_many_tokens(clause)
        || asks_for_less(clause)
        || matches!(clause, "token limit" | "status code 1039" | ": 1039 ,")
}

fn names_window(clause: &str) -> bool {
    const WINDOW: [&str; 16] = [
        "context length",
        "context window",
        "context size",
        "context limit",
        "context token",
        "context overflow",
        "maximum context",
        "max context",
        "model length",
        "max model len",
        "prompt length",
        "input length",
        "n ctx",
        "上下文",
        "最大长度",
        "slot context",
    ];
    any(clause, &WINDOW)
}

/// Over it, or its size is stated: nobody states it in an error for another reason.
fn says_over_window(clause: &str) -> bool {
    const STATES: [&str; 10] = [
        "length is ",
        "size is ",
        "window is ",
        "limit is ",
        "length of ",
        "should be [",
        "must be <",
        "must be less",
        "requested ",
        "length ( ",
    ];
    let bare_limit = any(clause, &["max tokens must be", "the maximum value for max tokens"]);
    if is_of_something_else(clause) || bare_limit {
        return false;
    }
    any(clause, &OVER)
        || (any(
            clause,
            &[
                "maximum context",
                "max context",
                "context length is",
                "context size is",
                "prompt length is",
                "input length should",
            ],
        ) && any(clause, &STATES)
            && clause.contains(|c: char| c.is_ascii_digit()))
}

/// What goes in, then that it is too much: "prompt is too long", "input token count (…) exceeds the maximum number".
fn says_input_is_too_much(clause: &str) -> bool {
    const INPUT: [&str; 8] =
        ["prompt", "input", "request", "messages", "conversation", "your message", "chat history", "total tokens"];
    const BOUND: [&str; 9] = ["max", "limit", "length", "size", "allowed", "window", "context", "capacity", "tokens"];
    let Some(subject) = INPUT.iter().filter_map(|word| clause.find(word)).min() else {
        return false;
    };
    let said = clause.get(subject..).unwrap_or_default();
    if is_of_output(said) && !any(said, &["input", "prompt"]) {
        return false;
    }
    let counts_tokens = any(said, &["tokens", "token count"]);
    any(said, &["too long", "too large", "too big", "does not fit"])
        || (counts_tokens && any(said, &["must be <", "must have less than", "supports up to"]))
        || (any(said, &["exceed", "longer than", "larger than", "greater than", "more than"])
            && any(said, &BOUND)
            && !any(said, &["time", "duration", "character", "per request"]))
}

/// "Too many tokens", "token limit exceeded", "too many total text bytes": of what goes in, where nothing else is named.
fn says_too_many_tokens(clause: &str) -> bool {
    let over = any(
        clause,
        &["too many tokens", "too many input tokens", "too many total text bytes", "too many prompt tokens"],
    ) || (any(clause, &["token limit", "tokens limit", "token count", "max token"])
        && any(clause, &["exceed", "> "]));
    over && !is_of_something_else(clause)
        && (!is_of_output(clause) || any(clause, &["input", "prompt"]))
        && !clause.contains("file content")
}

/// "Please reduce the length of the messages": the way on names what was too much.
fn asks_for_less(clause: &str) -> bool {
    any(
        clause,
        &[
            "reduce the length of",
            "reduce your prompt",
            "shorten your prompt",
            "shorter prompt",
            "reduce the prompt",
            "shorten the conversation",
        ],
    ) && any(clause, &["messages", "prompt", "input", "conversation", "history"])
        && !is_of_something_else(clause)
}
