//! OpenCode's words for what went wrong, as kinds that code branches on. Nobody else matches on them.

use changeover_core::{
    Millis,
    document::overflow::is_overflow,
    failure::{Failure, FailureKind},
};
use serde_json::Value;

use super::http::CallError;

const LOG_IN: &str = "Run `opencode auth login` in a terminal, then try again.";
/// How a tool call begins its error that a person, or a rule of theirs, refused.
const REFUSED: [&str; 2] = ["The user rejected permission", "The user has specified a rule which prevents"];
/// What a tool call that an interrupt ended says.
const ABORTED: &str = "Tool execution aborted";

/// The error of a turn, as `session.error` and a reply's message have it.
pub(super) fn of_turn(error: &Value) -> Failure {
    let message = words(error);
    let kind = kind(error, &message);
    let failure = Failure::new(kind, message);
    if kind == FailureKind::NotLoggedIn { failure.hint(LOG_IN) } else { failure }
}

/// Whether it says that the turn was stopped.
pub(super) fn is_abort(error: &Value) -> bool {
    error["name"] == "MessageAbortedError"
}

fn kind(error: &Value, message: &str) -> FailureKind {
    use FailureKind::{BadModel, NotLoggedIn, Overflow, RateLimited, Rejected, Unavailable};
    let data = &error["data"];
    let texts = [message, data["responseBody"].as_str().unwrap_or_default()];
    match error["name"].as_str() {
        Some("ContextOverflowError") => return Overflow,
        Some("ProviderAuthError") => return NotLoggedIn,
        Some("ProviderModelNotFoundError" | "ModelNotFoundError") => return BadModel,
        _ => {}
    }
    match data["statusCode"].as_u64() {
        Some(401 | 403) => NotLoggedIn,
        Some(402 | 429) => RateLimited,
        Some(404) if texts.iter().any(|text| text.to_ascii_lowercase().contains("model")) => BadModel,
        _ if is_overflow(&texts) => Overflow,
        Some(408 | 500..) => Unavailable,
        Some(_) => Rejected,
        None if message.starts_with("Model not found: ") => BadModel,
        None if message.contains("API key is missing") => NotLoggedIn,
        None if data["isRetryable"] == true => Unavailable,
        None => Rejected,
    }
}

/// Its words, without the traces that follow them.
fn words(error: &Value) -> String {
    let said = error["data"]["message"].as_str().or(error["message"].as_str());
    let said = said.map(inner).unwrap_or_default();
    let first = said.lines().map(str::trim).find(|line| !line.is_empty());
    let first = first.or(error["name"].as_str()).unwrap_or("OpenCode ended the turn and gave no reason");
    first.chars().take(1000).collect()
}

/// A provider's error in the middle of a stream is passed on as JSON.
pub(super) fn inner(message: &str) -> String {
    let body: Option<Value> = serde_json::from_str(message).ok();
    let inner = body
        .as_ref()
        .and_then(|body| [&body["error"]["message"], &body["message"]].into_iter().find_map(Value::as_str));
    inner.unwrap_or(message).to_owned()
}

/// A limit whose end lies so far ahead that OpenCode would wait for it in silence (X6).
pub(super) fn limited(message: &str, until: Millis) -> Failure {
    Failure { retry_at: Some(until), ..Failure::new(FailureKind::RateLimited, inner(message)) }
}

/// A model whose streams break off again and again: OpenCode asks it anew for ever, without a pause (R10).
pub(super) fn cut(times: u32) -> Failure {
    let message = format!("No progress: the model's reply broke off {times} times in a row");
    Failure::new(FailureKind::NoProgress, message)
}

/// A turn that is over by what the server says, and has no reply that ended.
pub(super) fn unfinished() -> Failure {
    Failure::new(FailureKind::Unavailable, "OpenCode ended the turn in the middle and gave no reason")
}

/// A request that has no answer.
pub(super) fn of_call(error: &CallError) -> Failure {
    let CallError::Refused { status, body } = error else {
        return Failure::new(FailureKind::Unavailable, format!("OpenCode does not answer: {error}"));
    };
    let message = words(body);
    match body["name"].as_str() {
        Some(name) if name.starts_with("Config") => {
            let path = body["data"]["path"].as_str().unwrap_or("its configuration");
            let issue = body["data"]["issues"][0]["message"].as_str().map(|issue| format!(": {issue}"));
            let message = format!("OpenCode does not take {path}{}", issue.unwrap_or_default());
            Failure::new(FailureKind::Rejected, message).hint("Repair OpenCode's configuration at the place named.")
        }
        _ if status.as_u16() == 404 && is_gone(&message) => {
            Failure::new(FailureKind::SessionGone, format!("OpenCode: {message}"))
        }
        _ => Failure::new(FailureKind::Rejected, format!("OpenCode: {message}")),
    }
}

/// Whether these are the words for a session, or a message in it, that OpenCode does not know (T5).
fn is_gone(message: &str) -> bool {
    ["Session not found: ", "Message not found: "].iter().any(|words| message.starts_with(words))
}

/// What became of a tool call that ended in an error.
pub(super) fn refused(error: &str) -> bool {
    REFUSED.iter().any(|words| error.starts_with(words))
}

/// Whether an interrupt ended it.
pub(super) fn aborted(error: &str) -> bool {
    error.starts_with(ABORTED)
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_recorded_error_has_its_kind() {
        let api = |status: u64, message: &str| json!({"name": "APIError", "data": {"message": message, "statusCode": status, "isRetryable": false}});
        let unknown = |message: &str| json!({"name": "UnknownError", "data": {"message": message}});
        let cases = [
            (api(401, "invalid x-api-key"), FailureKind::NotLoggedIn),
            (api(403, "fake forbidden"), FailureKind::NotLoggedIn),
            (api(404, "model: fake-missing"), FailureKind::BadModel),
            (api(404, "no such path"), FailureKind::Rejected),
            (api(400, "fake bad request"), FailureKind::Rejected),
            (api(400, "This model's maximum context length is 8 tokens"), FailureKind::Overflow),
            (api(429, "slow down"), FailureKind::RateLimited),
            (api(529, "overloaded"), FailureKind::Unavailable),
            (
                json!({"name": "ContextOverflowError", "data": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
                FailureKind::Overflow,
            ),
            (unknown("Model not found: fake/nope."), FailureKind::BadModel),
            (unknown("Anthropic API key is missing. Pass it using the 'apiKey' parameter"), FailureKind::NotLoggedIn),
            (json!({"name": "ProviderAuthError", "data": {"message": "expired"}}), FailureKind::NotLoggedIn),
            (unknown("something else\n    at <anonymous> (/x.js:1)"), FailureKind::Rejected),
        ];
        for (error, kind) in cases {
            assert_eq!(of_turn(&error).kind, kind, "{error}");
        }
        assert_eq!(of_turn(&unknown("what\n    at x")).message, "what");
        assert_eq!(of_turn(&api(429, r#"{"type":"x","message":"Overloaded"}"#)).message, "Overloaded");
        assert_eq!(
            of_turn(&json!({"name": "MessageOutputLengthError", "data": {}})).message,
            "MessageOutputLengthError"
        );
    }

    #[test]
    fn a_session_is_gone_only_by_the_exact_words() {
        let call = |status: u16, name: &str, message: &str| {
            let body = json!({"name": name, "data": {"message": message}});
            of_call(&CallError::Refused { status: StatusCode::from_u16(status).unwrap(), body }).kind
        };
        assert_eq!(call(404, "NotFoundError", "Session not found: ses_x"), FailureKind::SessionGone);
        assert_eq!(call(404, "NotFoundError", "Message not found: msg_x"), FailureKind::SessionGone);
        assert_eq!(call(404, "NotFoundError", "File not found: x"), FailureKind::Rejected);
        assert_eq!(call(500, "UnknownError", "Session not found: ses_x"), FailureKind::Rejected);
        assert_eq!(of_call(&CallError::Late).kind, FailureKind::Unavailable);
        let body = json!({"name": "ConfigInvalidError", "data": {"path": "/h/opencode.json", "issues": [{"message": "Unrecognized key"}]}});
        let config = of_call(&CallError::Refused { status: StatusCode::BAD_REQUEST, body });
        assert_eq!(config.message, "OpenCode does not take /h/opencode.json: Unrecognized key");
    }
}
