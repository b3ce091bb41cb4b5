//! Opening a session in the server: a new one, an earlier one, one brought back to a message, or a copy of one.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use changeover_core::{
    event::RuntimeEvent,
    failure::{Failure, FailureKind},
    provider::ApprovalMode,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{
    OpenCodeRuntime, failure,
    http::{CallError, EventLines, Http},
    normalize::{Normalizer, Phase},
    server::MCP_PREFIX,
    session::{OpenCodeSession, Shared},
};
use crate::session::{EVENTS_BOUND, McpAccess, Opened, Resume, SessionSpec};

/// How long an answer may take while a session opens: the folder's first one starts its plugins.
const PATIENCE: Duration = Duration::from_secs(60);
/// A title of our own, or OpenCode asks a model for one.
const TITLE: &str = "Changeover";
/// How many of the newest messages are looked at for prompts whose last word may still come.
const NEWEST: usize = 40;

/// What a session is opened to.
struct Place {
    id: String,
    /// Where its history now ends, if that has another name than the one we knew.
    anchor: Option<String>,
    /// Its rules, oldest first.
    rules: Vec<Value>,
}

impl OpenCodeRuntime {
    pub(super) async fn open_session(&self, spec: SessionSpec) -> Result<Opened, Failure> {
        // It takes any folder, and fails at the first prompt (R9).
        if !spec.folder.is_dir() {
            let message = format!("The folder {} does not exist", spec.folder.display());
            return Err(Failure::new(FailureKind::FolderGone, message)
                .hint("Choose another folder for this thread, or bring this one back."));
        }
        let lease = self.lease(&spec.env).await?;
        let folder = spec.folder.display().to_string();
        let http = lease.http.about(&folder);
        let lines = EventLines::new(http.events(PATIENCE).await.map_err(opening)?);
        let providers = http.get("/config/providers", PATIENCE).await.map_err(opening)?;
        if providers["providers"].as_array().is_none_or(Vec::is_empty) {
            return Err(super::not_logged_in());
        }
        let config = http.get("/config", PATIENCE).await.map_err(opening)?;
        let place = place(&http, spec.resume.as_ref()).await?;
        let name = spec.mcp.as_ref().map(|_| mcp_name(&place.id));
        let rules = rules(spec.mode, name.as_deref(), &config["permission"]);
        // They are added to those that it has.
        if !place.rules.ends_with(&rules) {
            let changed = json!({"permission": rules});
            http.patch(&format!("/session/{}", place.id), &changed, PATIENCE).await.map_err(opening)?;
        }
        let prompts = match &spec.resume {
            None => HashSet::new(),
            Some(_) => {
                let path = format!("/session/{}/message?limit={NEWEST}", place.id);
                prompts(&http.get(&path, PATIENCE).await.map_err(opening)?)
            }
        };
        let (sender, events) = mpsc::channel(EVENTS_BOUND);
        let model = spec.model.clone().or_else(|| config["model"].as_str().map(str::to_owned));
        let mut first = vec![RuntimeEvent::SessionKnown { session_id: place.id.clone(), model: model.clone() }];
        first.extend(place.anchor.map(|anchor| RuntimeEvent::Anchor { anchor }));
        if let (Some(mcp), Some(name)) = (&spec.mcp, &name) {
            first.extend(connect(&http, name, mcp).await);
        }
        for event in first {
            // The receiver is in our hands.
            let _ = sender.send(event).await;
        }
        let normalizer = Normalizer::new(place.id.clone(), prompts, windows(&providers), model);
        let shared = Arc::new(Shared {
            id: place.id,
            http,
            lease,
            normalizer: Mutex::new(normalizer),
            phase: watch::channel(Phase::Idle).0,
            closed: watch::channel(false).0,
            events: sender.downgrade(),
        });
        tokio::spawn(Arc::clone(&shared).read(lines, sender));
        let model = spec.model.as_deref().and_then(|model| model.split_once('/'));
        let session = OpenCodeSession {
            shared,
            model: model.map(|(provider, model)| (provider.to_owned(), model.to_owned())),
            effort: spec.effort,
            mcp: name,
            left: AtomicBool::new(false),
        };
        Ok(Opened { session: Arc::new(session), events })
    }
}

fn opening(error: CallError) -> Failure {
    failure::of_call(&error)
}

fn gone(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::SessionGone, message)
}

/// Our MCP server's name for one session: its tools begin with it, so it is the same whenever the session is opened.
fn mcp_name(session: &str) -> String {
    let plain: String = session.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{MCP_PREFIX}{}", &plain[plain.len().saturating_sub(8)..])
}

/// What goes without asking (R4), and whose tools this session has (M1). The last rule that fits counts, and these come after
/// all of the user's; what the user denies by a pattern stays denied. In `All` the engine says yes.
fn rules(mode: ApprovalMode, mcp: Option<&str>, configured: &Value) -> Vec<Value> {
    let rule = |permission: &str, pattern: &str, action: &str| json!({"permission": permission, "pattern": pattern, "action": action});
    let edit = match mode {
        ApprovalMode::Ask | ApprovalMode::All => "ask",
        ApprovalMode::Edits => "allow",
    };
    let mut rules = vec![rule("bash", "*", "ask"), rule("edit", "*", edit)];
    for permission in ["bash", "edit"] {
        let patterns = configured[permission].as_object().into_iter().flatten();
        let denied = patterns.filter(|(pattern, action)| *pattern != "*" && *action == "deny");
        rules.extend(denied.map(|(pattern, _)| rule(permission, pattern, "deny")));
    }
    rules.push(rule(&format!("{MCP_PREFIX}*"), "*", "deny"));
    rules.extend(mcp.map(|name| rule(&format!("{name}_*"), "*", "allow")));
    rules
}

/// The session to open.
async fn place(http: &Http, resume: Option<&Resume>) -> Result<Place, Failure> {
    let Some(resume) = resume else {
        let made = http.post("/session", &json!({"title": TITLE}), PATIENCE).await.map_err(opening)?;
        return Ok(Place { id: id_of(&made)?, anchor: None, rules: Vec::new() });
    };
    let id = &resume.session_id;
    // Another id than its own kind is an error of the server's to it, not a session that it does not know.
    if !id.starts_with("ses") || id.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        return Err(gone(format!("OpenCode: Session not found: {id}")));
    }
    let known = http.get(&format!("/session/{id}"), PATIENCE).await.map_err(opening)?;
    let after = match &resume.anchor {
        Some(anchor) => after(http, id, anchor, resume.rewind || resume.fork).await?,
        None if resume.rewind => {
            return Err(gone("OpenCode: no message is known to bring the session back to"));
        }
        None => None,
    };
    if resume.fork {
        // An id that it does not know would copy everything; this one stands there.
        let body = after.map_or_else(|| json!({}), |message| json!({"messageID": message}));
        let made = http.post(&format!("/session/{id}/fork"), &body, PATIENCE).await.map_err(opening)?;
        let id = id_of(&made)?;
        let newest = http.get(&format!("/session/{id}/message?limit=1"), PATIENCE).await.map_err(opening)?;
        let anchor = newest.as_array().and_then(|list| list.last()?["info"]["id"].as_str().map(str::to_owned));
        return Ok(Place { id, anchor, rules: Vec::new() });
    }
    if let (Some(message), true) = (after, resume.rewind) {
        let body = json!({"messageID": message});
        let cut = http.post(&format!("/session/{id}/revert"), &body, PATIENCE).await.map_err(opening)?;
        if cut["revert"]["messageID"] != message {
            return Err(gone("OpenCode did not bring the session back"));
        }
    }
    let rules = known["permission"].as_array().cloned().unwrap_or_default();
    Ok(Place { id: id.clone(), anchor: None, rules })
}

fn id_of(session: &Value) -> Result<String, Failure> {
    let id = session["id"].as_str().map(str::to_owned);
    id.ok_or_else(|| Failure::new(FailureKind::Protocol, "OpenCode opened a session without an id"))
}

/// The first message after `anchor`, if it is asked for and there is one.
///
/// # Errors
/// `SessionGone` when the anchor is not there: then the history is not the one that we count on (T10).
async fn after(http: &Http, id: &str, anchor: &str, wanted: bool) -> Result<Option<String>, Failure> {
    let not_there = || gone(format!("OpenCode: Message not found: {anchor}"));
    if !anchor.starts_with("msg") || anchor.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        return Err(not_there());
    }
    if !wanted {
        http.get(&format!("/session/{id}/message/{anchor}"), PATIENCE).await.map_err(opening)?;
        return Ok(None);
    }
    let all = http.get(&format!("/session/{id}/message"), PATIENCE).await.map_err(opening)?;
    let mut ids = all.as_array().into_iter().flatten().filter_map(|message| message["info"]["id"].as_str());
    ids.find(|id| *id == anchor).ok_or_else(not_there)?;
    Ok(ids.next().map(str::to_owned))
}

/// The user messages of a list.
fn prompts(messages: &Value) -> HashSet<String> {
    let list = messages.as_array().into_iter().flatten().map(|message| &message["info"]);
    list.filter(|info| info["role"] == "user").filter_map(|info| info["id"].as_str().map(str::to_owned)).collect()
}

/// Windows in tokens by `provider/model`.
fn windows(providers: &Value) -> HashMap<String, u64> {
    let mut windows = HashMap::new();
    for provider in providers["providers"].as_array().into_iter().flatten() {
        let Some(id) = provider["id"].as_str() else { continue };
        for (model, about) in provider["models"].as_object().into_iter().flatten() {
            if let Some(window) = about["limit"]["context"].as_u64().filter(|window| *window > 0) {
                windows.insert(format!("{id}/{model}"), window);
            }
        }
    }
    windows
}

/// Offers our MCP server to the folder's sessions, of which only this one may use it. A warning if it cannot be had.
async fn connect(http: &Http, name: &str, mcp: &McpAccess) -> Option<RuntimeEvent> {
    let config = json!({
        "type": "remote",
        "url": mcp.url,
        "headers": {"Authorization": format!("Bearer {}", mcp.token)},
        "oauth": false,
        "enabled": true,
    });
    let why = match http.post("/mcp", &json!({"name": name, "config": config}), PATIENCE).await {
        Ok(all) if all[name]["status"] == "connected" => return None,
        Ok(all) => all[name]["error"].as_str().unwrap_or("no reason given").to_owned(),
        Err(error) => failure::of_call(&error).message,
    };
    Some(RuntimeEvent::Warning { message: format!("The MCP server changeover did not start: {why}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_the_last_rules_give_a_session_its_own_tools_and_no_others() {
        let configured = json!({"bash": {"*": "ask", "rm *": "deny", "ls": "allow"}, "edit": "ask"});
        let rules = rules(ApprovalMode::Edits, Some("changeover_a1"), &configured);
        let shown: Vec<String> = rules
            .iter()
            .map(|rule| ["permission", "pattern", "action"].map(|field| rule[field].as_str().unwrap()).join(" "))
            .collect();
        let expected =
            ["bash * ask", "edit * allow", "bash rm * deny", "changeover_* * deny", "changeover_a1_* * allow"];
        assert_eq!(shown, expected);
        for mode in [ApprovalMode::Ask, ApprovalMode::All] {
            assert!(super::rules(mode, None, &Value::Null).iter().all(|rule| rule["action"] != "allow"), "{mode:?}");
        }
        assert_eq!(
            mcp_name("ses_dd3fb197affeuxB0BKLjLkVfTI"),
            "changeover_KLjLkVfTI"[..].replace("KLjLkVfTI", "LjLkVfTI")
        );
    }
}
