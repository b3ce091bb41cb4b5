//! Codex's words for what went wrong, as kinds that code branches on. Nobody else matches on them.

use changeover_core::{
    Millis,
    document::overflow::is_overflow,
    failure::{Failure, FailureKind},
};
use serde_json::Value;

use super::wire::{RateLimits, RpcError, TurnError};

const LOG_IN: &str = "Run `codex login` in a terminal, then try again.";

/// A turn that ended as failed.
pub(super) fn of_turn(error: Option<&TurnError>, limits: &RateLimits) -> Failure {
    let Some(error) = error else {
        return Failure::new(FailureKind::Unavailable, "Codex ended the turn as failed and gave no reason");
    };
    let kind = kind(error);
    let mut failure = Failure::new(kind, words(&error.message));
    match kind {
        FailureKind::NotLoggedIn => failure.hint = Some(LOG_IN.into()),
        FailureKind::RateLimited => failure.retry_at = retry_at(limits),
        _ => {}
    }
    failure
}

/// An error that answers a request of ours.
pub(super) fn of_rpc(error: &RpcError) -> Failure {
    let kind = if is_gone(&error.message) { FailureKind::SessionGone } else { FailureKind::Rejected };
    Failure::new(kind, format!("Codex: {}", error.message))
}

/// Whether these are the words for a session, or a place in it, that Codex does not know (T5). Only these beginnings:
/// a 500, an MCP server's words or a session that another process has open are something else.
fn is_gone(message: &str) -> bool {
    const GONE: [&str; 5] = [
        "no rollout found for thread id",
        "thread not found:",
        "invalid session id:",
        "turn not found:",
        // A fork whose parent's file is gone.
        "invalid paginated history lineage for",
    ];
    GONE.iter().any(|words| message.starts_with(words))
}

fn kind(error: &TurnError) -> FailureKind {
    use FailureKind::{NotLoggedIn, Overflow, RateLimited, Rejected, Unavailable};
    let texts = [error.message.as_str(), error.additional_details.as_deref().unwrap_or_default()];
    if is_unreadable(&texts) {
        return FailureKind::SessionGone;
    }
    match &error.codex_error_info {
        Some(Value::String(name)) => match name.as_str() {
            "contextWindowExceeded" => Overflow,
            "usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded" => RateLimited,
            "serverOverloaded" | "internalServerError" | "flexUnavailable" | "policyCapacityUnavailable" => Unavailable,
            "unauthorized" => NotLoggedIn,
            "modelNotFound" => FailureKind::BadModel,
            _ => by_words(&texts),
        },
        Some(Value::Object(shaped)) => {
            let status = shaped.values().find_map(|detail| detail["httpStatusCode"].as_u64());
            match status {
                Some(401 | 403) => NotLoggedIn,
                Some(402 | 429) => RateLimited,
                Some(404) if names_a_model(&texts) => FailureKind::BadModel,
                Some(400..=499) => by_words(&texts),
                Some(_) | None if shaped.contains_key("activeTurnNotSteerable") => Rejected,
                Some(_) | None => Unavailable,
            }
        }
        _ => by_words(&texts),
    }
}

/// What Codex itself could not place: it passes on the provider's words.
fn by_words(texts: &[&str]) -> FailureKind {
    let has = |words: &str| texts.iter().any(|text| text.contains(words));
    if is_overflow(texts) {
        FailureKind::Overflow
    } else if has("Missing environment variable") {
        FailureKind::NotLoggedIn
    } else if has("stream disconnected before completion") || has("error sending request") {
        FailureKind::Unavailable
    } else if has("\"model_not_found\"") {
        FailureKind::BadModel
    } else {
        FailureKind::Rejected
    }
}

/// Whether the provider cannot take the history that Codex sends it (R166): it would refuse every further prompt of this
/// session, so the session is as good as gone.
fn is_unreadable(texts: &[&str]) -> bool {
    texts.iter().any(|text| {
        let missing = text.contains("Missing required parameter: 'input[") && text.contains("].encrypted_content'");
        missing || text.contains("\"invalid_encrypted_content\"")
    })
}

fn names_a_model(texts: &[&str]) -> bool {
    texts.iter().any(|text| text.to_ascii_lowercase().contains("model"))
}

/// The provider's own words out of an error body that Codex passes on raw.
pub(super) fn words(message: &str) -> String {
    let body: Option<Value> = serde_json::from_str(message).ok();
    let inner = body.as_ref().and_then(|body| {
        [&body["error"]["message"], &body["message"], &body["detail"]].into_iter().find_map(Value::as_str)
    });
    inner.unwrap_or(message).to_owned()
}

/// When the limit that is used up opens again: the later one, if both are (X6).
fn retry_at(limits: &RateLimits) -> Option<Millis> {
    let used_up =
        [&limits.primary, &limits.secondary].into_iter().flatten().filter(|limit| limit.used_percent >= 100.0);
    used_up.filter_map(|limit| limit.resets_at).max().map(|seconds| seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failed(message: &str, info: Value) -> FailureKind {
        let error = TurnError { message: message.into(), codex_error_info: Some(info), additional_details: None };
        of_turn(Some(&error), &RateLimits::default()).kind
    }

    #[test]
    fn each_recorded_error_has_its_kind() {
        let status = |name: &str, code: u64| json!({name: {"httpStatusCode": code}});
        let room = "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.";
        let cases = [
            (room, json!("contextWindowExceeded"), FailureKind::Overflow),
            (
                "unexpected status 401 Unauthorized: invalid x-api-key",
                status("httpConnectionFailed", 401),
                FailureKind::NotLoggedIn,
            ),
            (
                "unexpected status 403 Forbidden: fake forbidden",
                status("httpConnectionFailed", 403),
                FailureKind::NotLoggedIn,
            ),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                status("responseTooManyFailedAttempts", 429),
                FailureKind::RateLimited,
            ),
            (
                "unexpected status 529 <unknown status code>: Overloaded",
                status("httpConnectionFailed", 529),
                FailureKind::Unavailable,
            ),
            ("We\u{2019}re currently experiencing high demand", json!("internalServerError"), FailureKind::Unavailable),
            (
                "stream disconnected before completion: stream closed before response.completed",
                json!("other"),
                FailureKind::Unavailable,
            ),
            ("stream disconnected before completion: error sending request", json!("other"), FailureKind::Unavailable),
            (
                "unexpected status 404 Not Found: model: fake-missing",
                status("httpConnectionFailed", 404),
                FailureKind::BadModel,
            ),
            (
                "unexpected status 404 Not Found: no such path",
                status("httpConnectionFailed", 404),
                FailureKind::Rejected,
            ),
            ("{\"error\": {\"message\": \"fake bad request\", \"code\": null}}", json!("other"), FailureKind::Rejected),
            (
                "{\"error\": {\"message\": \"This model's maximum context length is 8 tokens\"}}",
                json!("other"),
                FailureKind::Overflow,
            ),
            ("Missing environment variable: `FAKE_API_KEY`.", json!("other"), FailureKind::NotLoggedIn),
            ("used up", json!("usageLimitExceeded"), FailureKind::RateLimited),
            ("no", json!("cyberPolicy"), FailureKind::Rejected),
            ("lost", json!({"responseStreamDisconnected": {"httpStatusCode": null}}), FailureKind::Unavailable),
        ];
        for (message, info, kind) in cases {
            assert_eq!(failed(message, info.clone()), kind, "{message} {info}");
        }
    }

    #[test]
    fn a_session_is_gone_only_by_the_exact_words() {
        let kind = |message: &str| of_rpc(&RpcError { code: -32600, message: message.into() }).kind;
        for gone in [
            "no rollout found for thread id 01a22b56-0000-7552-be7e-b47184b99863",
            "thread not found: 01a22b56-a06c-74b1-9563-65590e948d17",
            "invalid session id: invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `z` at 1",
            "turn not found: zzz",
        ] {
            assert_eq!(kind(gone), FailureKind::SessionGone, "{gone}");
        }
        for other in [
            "thread 01a22b56-a06c-74b1-9563-65590e948d17 already has an active writer",
            "Internal error: 500",
            "MCP server `x`: thread not found: y",
            "failed to load rollout: no rollout found for thread id",
        ] {
            assert_eq!(kind(other), FailureKind::Rejected, "{other}");
        }
    }

    #[test]
    fn a_used_up_limit_says_when_it_ends() {
        let limits: RateLimits = serde_json::from_value(json!({
            "primary": {"usedPercent": 100, "resetsAt": 1_796_030_000}, "secondary": {"usedPercent": 40.5, "resetsAt": 1_796_900_000}
        }))
        .unwrap();
        let error = TurnError {
            message: "limit".into(),
            codex_error_info: Some(json!("usageLimitExceeded")),
            additional_details: None,
        };
        assert_eq!(of_turn(Some(&error), &limits).retry_at, Some(1_796_030_000_000));
    }

    #[test]
    fn r166_a_history_that_the_provider_cannot_take_is_a_session_that_is_gone() {
        for (words, kind) in [
            ("Missing required parameter: 'input[3].encrypted_content'.", FailureKind::SessionGone),
            (
                r#"{"error": {"message": "could not be verified", "code": "invalid_encrypted_content"}}"#,
                FailureKind::SessionGone,
            ),
            ("Missing required parameter: 'input[3].content'.", FailureKind::Rejected),
            ("the user wrote about encrypted_content", FailureKind::Rejected),
        ] {
            assert_eq!(failed(words, json!("badRequest")), kind, "{words}");
            assert_eq!(failed(words, json!({"httpConnectionFailed": {"httpStatusCode": 400}})), kind, "{words}");
        }
    }
}
