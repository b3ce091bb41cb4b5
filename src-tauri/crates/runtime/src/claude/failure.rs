//! What the CLI's errors mean: the only place of this adapter that looks at their words.

use changeover_core::{
    Millis,
    event::Ended,
    failure::{Failure, FailureKind},
};

use super::wire::ResultFrame;

/// How a turn ended. By `is_error` and `terminal_reason`, never by `subtype`, which says "success" for an error of the API's.
pub(super) fn ended(result: &ResultFrame, limit_ends: Option<Millis>) -> Ended {
    let reason = result.terminal_reason.as_deref().unwrap_or_default();
    match reason {
        "aborted_streaming" | "aborted_tools" => Ended::Interrupted,
        // Versions before `terminal_reason` tell an interrupt by the subtype alone.
        "" if result.subtype == "error_during_execution" && result.api_error_status.is_none() => Ended::Interrupted,
        _ if !result.is_error => Ended::Completed,
        _ => Ended::Failed(failure(reason, result.api_error_status, &result.words(), limit_ends)),
    }
}

fn failure(reason: &str, status: Option<u16>, words: &str, limit_ends: Option<Millis>) -> Failure {
    let said = |all: &[&str]| all.iter().any(|part| words.contains(part));
    let kind = match (reason, status) {
        ("prompt_too_long" | "blocking_limit", _) | (_, Some(413)) => FailureKind::Overflow,
        (_, Some(401 | 403)) => FailureKind::NotLoggedIn,
        (_, Some(404)) if said(&["issue with the selected model"]) => FailureKind::BadModel,
        (_, Some(429)) => FailureKind::RateLimited,
        (_, Some(500..=599 | 408)) => FailureKind::Unavailable,
        (_, Some(_)) => FailureKind::Rejected,
        (_, None) if said(&["Not logged in", "Please run /login"]) => FailureKind::NotLoggedIn,
        (_, None) if said(&["Connection", "timed out", "Unable to connect", "Network"]) => FailureKind::Unavailable,
        (_, None) => FailureKind::Rejected,
    };
    let message = if words.is_empty() { format!("The turn ended: {reason}") } else { words.to_owned() };
    let mut failure = Failure::new(kind, message);
    match kind {
        FailureKind::NotLoggedIn => failure = failure.hint(LOGIN_HINT),
        FailureKind::RateLimited => failure.retry_at = limit_ends,
        FailureKind::BadModel => failure = failure.hint("Choose another model."),
        _ => {}
    }
    failure
}

/// How to log in.
pub(super) const LOGIN_HINT: &str =
    "Run `claude auth login` in a terminal, or check the API key that your shell gives to Claude Code.";

/// The failure that an error line before the first prompt means. `SessionGone` only by the CLI's exact words for the very
/// session and anchor that were asked for (T5); anything that merely looks like it is not.
pub(super) fn not_opened(line: &str, session_id: &str, anchor: Option<&str>) -> Option<Failure> {
    let line = line.strip_prefix("Error: ").unwrap_or(line);
    let unknown_id = line == format!("No conversation found with session ID: {session_id}");
    let no_id = line.starts_with("--resume requires a valid session ID")
        && line
            .ends_with(&format!("Provided value \"{session_id}\" is not a UUID and does not match any session title."));
    let unknown_anchor = anchor.is_some_and(|at| line == format!("No message found with message.uuid of: {at}"));
    (unknown_id || no_id || unknown_anchor).then(|| Failure::new(FailureKind::SessionGone, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(reason: &str, status: Option<u16>, words: &str) -> FailureKind {
        let result = ResultFrame {
            subtype: "success".into(),
            is_error: true,
            terminal_reason: Some(reason.into()),
            api_error_status: status,
            result: Some(words.into()),
            ..ResultFrame::default()
        };
        match ended(&result, Some(5)) {
            Ended::Failed(failure) => {
                assert_eq!(failure.message, words);
                assert_eq!(failure.retry_at.is_some(), failure.kind == FailureKind::RateLimited);
                failure.kind
            }
            other => panic!("{other:?}"),
        }
    }

    /// The words are those of Claude Code 2.1.332.
    #[test]
    fn every_error_of_the_cli_has_its_kind() {
        let kinds = [
            ("api_error", Some(401), "Invalid API key · Fix external API key", FailureKind::NotLoggedIn),
            ("api_error", Some(403), "Failed to authenticate. API Error: 403 fake forbidden", FailureKind::NotLoggedIn),
            ("api_error", None, "Not logged in · Please run /login", FailureKind::NotLoggedIn),
            (
                "api_error",
                Some(404),
                "There's an issue with the selected model (x). It may not exist or you may not have access to it. Run --model to pick a different model.",
                FailureKind::BadModel,
            ),
            ("api_error", Some(404), "API Error: 404 no such path", FailureKind::Rejected),
            ("api_error", Some(400), "API Error: 400 fake bad request", FailureKind::Rejected),
            (
                "api_error",
                Some(429),
                "API Error: Request rejected (429) · This request would exceed your rate limit",
                FailureKind::RateLimited,
            ),
            (
                "api_error",
                Some(500),
                "API Error: 500 Internal server error. This is a server-side issue",
                FailureKind::Unavailable,
            ),
            (
                "api_error",
                Some(529),
                "API Error: 529 Overloaded. This is a server-side issue",
                FailureKind::Unavailable,
            ),
            (
                "api_error",
                None,
                "API Error: Connection dropped (ECONNRESET). Check the gateway set in ANTHROPIC_BASE_URL, then try again.",
                FailureKind::Unavailable,
            ),
            ("prompt_too_long", Some(400), "Prompt is too long", FailureKind::Overflow),
            ("blocking_limit", None, "Prompt is too long", FailureKind::Overflow),
            ("image_error", None, "Image was too large", FailureKind::Rejected),
        ];
        for (reason, status, words, kind) in kinds {
            assert_eq!(end(reason, status, words), kind, "{words}");
        }
    }

    #[test]
    fn success_in_the_subtype_is_no_success_and_an_error_there_no_failure() {
        let aborted = ResultFrame {
            subtype: "error_during_execution".into(),
            is_error: true,
            terminal_reason: Some("aborted_tools".into()),
            ..ResultFrame::default()
        };
        assert_eq!(ended(&aborted, None), Ended::Interrupted);
        let done = ResultFrame { terminal_reason: Some("completed".into()), ..ResultFrame::default() };
        assert_eq!(ended(&done, None), Ended::Completed);
    }

    #[test]
    fn only_the_exact_words_for_our_own_session_say_that_it_is_gone() {
        let id = "a682907b-6b21-4bd0-ab46-6f92f3a80cf9";
        let gone = |line: &str| not_opened(line, id, Some("anchor-1")).map(|f| f.kind);
        assert_eq!(gone(&format!("No conversation found with session ID: {id}")), Some(FailureKind::SessionGone));
        assert_eq!(gone("No message found with message.uuid of: anchor-1"), Some(FailureKind::SessionGone));
        let no_id = "Error: --resume requires a valid session ID or session title when used with --print. Usage: claude -p --resume <session-id|title>. Provided value \"nonsense\" is not a UUID and does not match any session title.";
        assert_eq!(not_opened(no_id, "nonsense", None).map(|f| f.kind), Some(FailureKind::SessionGone));
        for lookalike in [
            "No conversation found with session ID: 00000000-0000-4000-8000-000000000000",
            &format!("hook: No conversation found with session ID: {id}"),
            &format!("No conversation found with session ID: {id} (proxy)"),
            "No message found with message.uuid of: anchor-2",
            "Error: Invalid MCP configuration:",
            "API Error: 404 session not found",
        ] {
            assert_eq!(gone(lookalike), None, "{lookalike}");
        }
    }
}
