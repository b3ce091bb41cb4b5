//! What the app server asks us: leave for a command, an edit or a tool is passed on (R4); what we do not offer is declined.

use changeover_core::{
    approval::{ApprovalRequest, ApprovalSubject},
    part::FileDelta,
};
use serde_json::{Value, json};

use super::shell;
use crate::session::Answer;

/// How a question is answered on the wire.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// A command or a file change.
    Decision,
    /// An MCP server's tool.
    Elicitation,
    /// More rights for this turn: just what was asked for, or nothing.
    Permissions(Value),
}

/// A question from the app server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Question {
    /// For the user.
    Ask(ApprovalRequest, Form),
    /// Answered at once with this result.
    Answer(Value),
    /// Not offered: answered with an error.
    Refuse,
}

impl Form {
    /// The result that says yes or no. A no never ends the turn: the agent is told and goes on.
    pub fn result(&self, answer: Answer) -> Value {
        match (self, answer) {
            (Self::Decision, Answer::Allow) => json!({"decision": "accept"}),
            (Self::Decision, Answer::Deny) => json!({"decision": "decline"}),
            (Self::Elicitation, Answer::Allow) => json!({"action": "accept", "content": {}}),
            (Self::Elicitation, Answer::Deny) => json!({"action": "decline", "content": null}),
            (Self::Permissions(asked), Answer::Allow) => json!({"permissions": asked, "scope": "turn"}),
            (Self::Permissions(_), Answer::Deny) => json!({"permissions": {}, "scope": "turn"}),
        }
    }
}

/// Reads a question. `folder` is the workspace; `files` knows the changes of an item.
pub(super) fn question(
    key: String,
    method: &str,
    params: &Value,
    folder: &str,
    files: impl Fn(&str) -> Option<Vec<FileDelta>>,
) -> Question {
    let text = |name: &str| params[name].as_str().map(str::to_owned);
    let item = text("itemId");
    let ask = |subject, reason, form| Question::Ask(ApprovalRequest { key, item: item.clone(), subject, reason }, form);
    match method {
        "item/commandExecution/requestApproval" => {
            let subject = match text("command") {
                Some(line) => ApprovalSubject::Command {
                    command: shell::unwrapped(&line),
                    cwd: text("cwd").filter(|cwd| cwd != folder),
                },
                None => tool("network", &params["networkApprovalContext"]),
            };
            ask(subject, reason(params, "additionalPermissions"), Form::Decision)
        }
        "item/fileChange/requestApproval" => {
            let files = item.as_deref().and_then(files).unwrap_or_default();
            ask(ApprovalSubject::Edit { files }, reason(params, "grantRoot"), Form::Decision)
        }
        "mcpServer/elicitation/request" => {
            let meta = &params["_meta"];
            match (meta["codex_approval_kind"].as_str(), meta["tool_name"].as_str(), text("serverName")) {
                (Some("mcp_tool_call"), Some(name), Some(server)) => {
                    ask(tool(&mcp_name(&server, name), &meta["tool_params"]), text("message"), Form::Elicitation)
                }
                // A form of the server's own: nothing here to fill it in with.
                _ => Question::Answer(json!({"action": "decline", "content": null})),
            }
        }
        "item/permissions/requestApproval" => {
            let mut asked = params["permissions"].clone();
            if let Some(fields) = asked.as_object_mut() {
                fields.retain(|_, value| !value.is_null());
            }
            ask(tool("permissions", &asked), text("reason"), Form::Permissions(asked.clone()))
        }
        // No answer is an answer: the agent goes on and asks in its reply.
        "item/tool/requestUserInput" => Question::Answer(json!({"answers": {}})),
        _ => Question::Refuse,
    }
}

/// A tool's name as Claude Code writes it too, so that one name means one tool whoever calls it.
pub(super) fn mcp_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

fn tool(name: &str, input: &Value) -> ApprovalSubject {
    ApprovalSubject::Tool { name: name.to_owned(), input: input.to_string() }
}

/// The agent's reason, and what more a yes would grant: that must not be hidden.
fn reason(params: &Value, grants: &str) -> Option<String> {
    let given = params["reason"].as_str().map(str::to_owned);
    let more = &params[grants];
    if more.is_null() {
        return given;
    }
    let more = format!("Also grants: {}", more.as_str().map_or_else(|| more.to_string(), str::to_owned));
    Some(given.map_or_else(|| more.clone(), |given| format!("{given}\n{more}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, params: Value) -> Question {
        question("7".into(), method, &params, "/w", |item| {
            (item == "f").then(|| vec![FileDelta { path: "/w/new.txt".into(), diff: "@@ -0,0 +1 @@\n+a\n".into() }])
        })
    }

    fn asked(item: Option<&str>, subject: ApprovalSubject, reason: Option<&str>, form: Form) -> Question {
        let request = ApprovalRequest {
            key: "7".into(),
            item: item.map(str::to_owned),
            subject,
            reason: reason.map(str::to_owned),
        };
        Question::Ask(request, form)
    }

    #[test]
    fn recorded_questions_say_all_that_a_yes_would_do() {
        let command = |line: &str, cwd: &str| json!({"kind": "command", "threadId": "t", "itemId": "c", "reason": "I need it", "command": line, "cwd": cwd});
        let line = "/bin/bash -lc 'touch /x; exit 3'";
        let subject = |cwd: Option<&str>| ApprovalSubject::Command {
            command: "touch /x; exit 3".into(),
            cwd: cwd.map(str::to_owned),
        };
        let method = "item/commandExecution/requestApproval";
        let here = asked(Some("c"), subject(None), Some("I need it"), Form::Decision);
        assert_eq!(read(method, command(line, "/w")), here);
        let there = asked(Some("c"), subject(Some("/elsewhere")), Some("I need it"), Form::Decision);
        assert_eq!(read(method, command(line, "/elsewhere")), there);

        let files = vec![FileDelta { path: "/w/new.txt".into(), diff: "@@ -0,0 +1 @@\n+a\n".into() }];
        let edit = json!({"itemId": "f", "reason": null, "grantRoot": "/w/sub"});
        let wanted = asked(Some("f"), ApprovalSubject::Edit { files }, Some("Also grants: /w/sub"), Form::Decision);
        assert_eq!(read("item/fileChange/requestApproval", edit), wanted);

        let mcp = json!({"serverName": "s", "mode": "form", "message": "Allow?",
            "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_name": "ping", "tool_params": {"text": "hi"}}});
        let subject = ApprovalSubject::Tool { name: "mcp__s__ping".into(), input: r#"{"text":"hi"}"#.into() };
        assert_eq!(read("mcpServer/elicitation/request", mcp), asked(None, subject, Some("Allow?"), Form::Elicitation));
    }

    #[test]
    fn what_cannot_be_asked_is_declined_and_rights_are_granted_as_asked() {
        let form = json!({"serverName": "s", "mode": "url", "_meta": null, "message": "Log in", "url": "http://x"});
        assert_eq!(
            read("mcpServer/elicitation/request", form),
            Question::Answer(json!({"action": "decline", "content": null}))
        );
        assert_eq!(read("account/chatgptAuthTokens/refresh", json!({})), Question::Refuse);
        let more =
            json!({"itemId": "p", "reason": "net", "permissions": {"network": {"enabled": true}, "fileSystem": null}});
        let Question::Ask(_, form) = read("item/permissions/requestApproval", more) else { panic!("not asked") };
        assert_eq!(form.result(Answer::Allow), json!({"permissions": {"network": {"enabled": true}}, "scope": "turn"}));
        assert_eq!(form.result(Answer::Deny), json!({"permissions": {}, "scope": "turn"}));
    }
}
