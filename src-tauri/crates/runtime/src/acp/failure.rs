//! What an agent's errors mean. The one place where words of ACP agents are looked at.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use changeover_core::failure::{Failure, FailureKind};

use super::wire::{AUTH_REQUIRED, RESOURCE_NOT_FOUND, RpcError};

/// The words that say "this does not fit" (G8).
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "exceeds the maximum number of tokens",
    "context length exceeded",
    "context_length_exceeded",
    "maximum context length",
    "context window",
];

/// The words that say "there is no such session" (T5), as the agents of PROTOCOLS say them.
const GONE: &[&str] = &[
    "session not found",
    "resource not found",
    "invalid session identifier",
    "no previous sessions found",
    "opencode service failure",
];

/// An error of `session/prompt` and the other calls as a failure. `login`: how to log in, if the agent said so.
pub fn failure(error: &RpcError, login: Option<&str>) -> Failure {
    let details = error.data.as_ref().map(|data| match data.get("details").unwrap_or(data) {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let words = match &details {
        Some(details) if error.message.is_empty() || error.message == "Internal error" => details.clone(),
        _ => inner_message(&error.message).unwrap_or_else(|| error.message.clone()),
    };
    // The first line says what; Gemini goes on with where it looked.
    let words = words.strip_prefix("Internal error: ").unwrap_or(&words);
    let words = words.lines().next().unwrap_or_default().trim_end().to_owned();
    let lower = format!("{} {}", error.message, details.unwrap_or_default()).to_lowercase();
    let kind = kind(error.code, &lower);
    let mut failure = Failure::new(kind, if words.is_empty() { format!("error {}", error.code) } else { words });
    failure.hint = match kind {
        FailureKind::NotLoggedIn => login.map(str::to_owned),
        _ => None,
    };
    if kind == FailureKind::RateLimited {
        let seconds = error.data.as_ref().and_then(|data| data.get("retryAfter")?.as_u64());
        failure.retry_at = seconds.and_then(|seconds| in_millis(Duration::from_secs(seconds)));
    }
    failure
}

/// Gemini hands its API's answer through as JSON text.
fn inner_message(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(value.pointer("/error/message")?.as_str()?.to_owned())
}

fn in_millis(later: Duration) -> Option<changeover_core::Millis> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    changeover_core::Millis::try_from((now + later).as_millis()).ok()
}

fn kind(code: i64, lower: &str) -> FailureKind {
    let says = |list: &[&str]| list.iter().any(|words| lower.contains(words));
    if code == AUTH_REQUIRED {
        return FailureKind::NotLoggedIn;
    }
    if says(OVERFLOW) {
        return FailureKind::Overflow;
    }
    // Gemini gives the HTTP status as code; Claude's adapter writes it into its words.
    let status = if (400..600).contains(&code) { Some(code) } else { status_in(lower) };
    match status {
        Some(401 | 403) => return FailureKind::NotLoggedIn,
        Some(429) => return FailureKind::RateLimited,
        Some(408 | 500..) => return FailureKind::Unavailable,
        Some(404) if lower.contains("model") => return FailureKind::BadModel,
        Some(_) => return FailureKind::Rejected,
        None => {}
    }
    if code == RESOURCE_NOT_FOUND || says(GONE) {
        return FailureKind::SessionGone;
    }
    if says(&["authentication required", "not logged in", "api key is missing", "invalid api key"]) {
        FailureKind::NotLoggedIn
    } else if says(&["rate limit", "usage limit", "quota exceeded", "resource_exhausted"]) {
        FailureKind::RateLimited
    } else if says(&["overloaded", "econnreset", "econnrefused", "socket hang up", "fetch failed", "stream ended"]) {
        FailureKind::Unavailable
    } else if says(&["directory does not exist"]) {
        FailureKind::FolderGone
    } else {
        FailureKind::Rejected
    }
}

/// `API Error: 529 …`.
fn status_in(lower: &str) -> Option<i64> {
    let rest = lower.split_once("api error: ")?.1;
    rest.get(..3)?.parse().ok().filter(|status| (400..600).contains(status))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_errors_of_real_agents_mean_what_protocols_says() {
        let data = |code, message: &str, details: &str| RpcError {
            data: Some(json!({"details": details})),
            ..RpcError::new(code, message)
        };
        let cases = [
            (RpcError::new(-32000, "Gemini API key is missing or not configured."), FailureKind::NotLoggedIn),
            (RpcError::new(-32602, "Session not found: 1f"), FailureKind::SessionGone),
            (RpcError::new(-32602, "opencode: session not found"), FailureKind::SessionGone),
            (data(-32603, "Internal error", "Session not found"), FailureKind::SessionGone),
            (data(-32603, "Internal error", "Invalid session identifier \"x\""), FailureKind::SessionGone),
            (data(-32603, "Internal error", "No previous sessions found for this project."), FailureKind::SessionGone),
            (RpcError::new(-32002, "Resource not found: ID"), FailureKind::SessionGone),
            (RpcError::new(-32603, "OpenCode service failure"), FailureKind::SessionGone),
            (data(-32603, "Internal error", "Directory does not exist: /x"), FailureKind::FolderGone),
            (
                RpcError::new(
                    400,
                    r#"{"error":{"message":"The input token count (1210000) exceeds the maximum number of tokens allowed (1048576)."}}"#,
                ),
                FailureKind::Overflow,
            ),
            (RpcError::new(401, "bad key"), FailureKind::NotLoggedIn),
            (RpcError::new(429, "slow down"), FailureKind::RateLimited),
            (RpcError::new(529, "overloaded"), FailureKind::Unavailable),
            (RpcError::new(404, "models/x is not found"), FailureKind::BadModel),
            (data(-32603, "Internal error", "API Error: 529 {\"type\":\"error\"}"), FailureKind::Unavailable),
            (data(-32603, "Internal error", "Claude AI usage limit reached"), FailureKind::RateLimited),
            (RpcError::new(-32603, "something else"), FailureKind::Rejected),
        ];
        for (error, kind) in cases {
            assert_eq!(failure(&error, None).kind, kind, "{error:?}");
        }
        let shown = failure(&data(-32603, "Internal error", "Session not found"), None);
        assert_eq!(shown.message, "Session not found");
        let inner = RpcError::new(401, r#"{"error":{"code":401,"message":"invalid key"}}"#);
        assert_eq!(failure(&inner, None).message, "invalid key");
        let prefixed = RpcError::new(-32603, "Internal error: API Error: 400 bad\nmore");
        assert_eq!(failure(&prefixed, None).message, "API Error: 400 bad");
        assert_eq!(failure(&RpcError::new(-32000, ""), Some("log in")).hint.as_deref(), Some("log in"));
    }
}
