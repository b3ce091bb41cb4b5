//! Claude Code: one `claude -p` process per session, stream-json both ways, with its control protocol for approvals.

mod client;
mod detect;
mod diff;
mod failure;
mod normalize;
#[cfg(test)]
mod replay;
mod stream;
mod tools;
mod wire;

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use changeover_core::{
    event::{Keeps, Kept},
    failure::{Failure, FailureKind},
    provider::{ApprovalMode, ProviderId},
};
use futures::future::BoxFuture;
use serde_json::json;

use crate::{
    detect::find,
    session::{
        AgentRuntime, Capabilities, Description, Environment, McpAccess, ModelInfo, Opened, Resume, SessionSpec,
    },
};

/// The adapter for Claude Code.
#[derive(Debug, Default)]
pub struct Claude {
    picked: Mutex<Option<PathBuf>>,
}

impl Claude {
    fn picked(&self) -> Option<PathBuf> {
        self.picked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What stands in Claude Code's history after something went wrong; proved in `tests/contract/claude.rs`.
///
/// - A failed or interrupted prompt stays. Of the reply stays every block that was whole, and after an interrupt the words so
///   far too; what a cut has made void is told as `Superseded`, so the rest is the reply.
const KEEPS: Keeps = Keeps {
    failed_unanswered: Kept::PromptOnly,
    failed_answered: Kept::Everything,
    interrupted_unanswered: Kept::PromptOnly,
    interrupted_answered: Kept::Everything,
    rewinds: true,
};

impl AgentRuntime for Claude {
    fn id(&self) -> ProviderId {
        ProviderId::claude()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { resume: true, fork: true, usage: true, mcp: true, keeps: KEEPS }
    }

    fn describe<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Description> {
        Box::pin(detect::describe(self.picked(), env))
    }

    fn models<'a>(&'a self, env: &'a Environment) -> BoxFuture<'a, Result<Vec<ModelInfo>, Failure>> {
        Box::pin(detect::models(self.picked(), env))
    }

    fn pick(&self, path: Option<PathBuf>) {
        *self.picked.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    fn open(&self, spec: SessionSpec) -> BoxFuture<'_, Result<Opened, Failure>> {
        Box::pin(async move {
            let found = find("claude", self.picked().as_deref(), &spec.env)?;
            if spec.resume.as_ref().is_some_and(|resume| resume.rewind && resume.anchor.is_none()) {
                let message = "There is no place in the session's history to bring it back to.";
                return Err(Failure::new(FailureKind::Protocol, message));
            }
            let args = arguments(&spec);
            let launch = found.launch(args, spec.folder, environment(spec.env, spec.mcp.as_ref()));
            client::open(launch, spec.resume.as_ref()).await
        })
    }
}

/// How Claude Code is spoken to: prompts, frames, partial frames and questions over the pipes.
const STREAMS: [&str; 9] = [
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
];

/// Tools of Claude Code's own that make no sense behind this app: a question form that only its terminal can show, turns that
/// begin by themselves, and a change of the workspace, which is the thread's (W1).
const NOT_OFFERED: &str = "AskUserQuestion,ScheduleWakeup,CronCreate,EnterWorktree";

/// Our MCP server's name in Claude Code.
const SERVER: &str = "changeover";
/// Its tools, all of them only reading: never asked for (M2).
const READING_TOOLS: [&str; 3] = ["thread_read", "thread_search", "thread_list"];
/// Where the child finds our MCP server's address and its token: neither is for the process list (M1).
const MCP_URL: &str = "CHANGEOVER_MCP_URL";
const MCP_TOKEN: &str = "CHANGEOVER_MCP_TOKEN";

fn arguments(spec: &SessionSpec) -> Vec<OsString> {
    let mut args: Vec<String> = STREAMS.map(String::from).to_vec();
    // In `All` it asks like in `Ask`, and the engine says yes: never a bypass flag (R4).
    let mode = match spec.mode {
        ApprovalMode::Ask | ApprovalMode::All => "manual",
        ApprovalMode::Edits => "acceptEdits",
    };
    // With `=`: a value that begins with a dash is no flag, and no flag takes the next one for a value.
    args.push(format!("--permission-mode={mode}"));
    args.push(format!("--disallowedTools={NOT_OFFERED}"));
    args.extend(spec.model.as_ref().map(|model| format!("--model={model}")));
    args.extend(spec.effort.as_ref().map(|effort| format!("--effort={effort}")));
    if let Some(Resume { session_id, anchor, rewind, fork }) = &spec.resume {
        args.push(format!("--resume={session_id}"));
        // Also where nothing is to be taken back: if its file lost the anchor, it says so instead of going on with a hole.
        args.extend(anchor.as_ref().map(|anchor| format!("--resume-session-at={anchor}")));
        if *rewind || *fork {
            // In place the cut is a pointer that a kill loses, and the old branch would be back: only a copy is for good.
            args.push("--fork-session".into());
        }
    }
    if spec.mcp.is_some() {
        let server = json!({
            "type": "http",
            "url": format!("${{{MCP_URL}}}"),
            "headers": {"Authorization": format!("Bearer ${{{MCP_TOKEN}}}")},
            // Else the model sees only a search over tools.
            "alwaysLoad": true,
        });
        args.push(format!("--mcp-config={}", json!({"mcpServers": {SERVER: server}})));
        let tools = READING_TOOLS.map(|tool| format!("mcp__{SERVER}__{tool}"));
        args.push(format!("--allowedTools={}", tools.join(",")));
    }
    args.into_iter().map(OsString::from).collect()
}

/// The child's environment: the user's own, and what this adapter needs to hold.
fn environment(mut env: Environment, mcp: Option<&McpAccess>) -> Environment {
    let ours = [
        ("DISABLE_AUTOUPDATER", "1"),
        // Its own compaction is off, and so is the wall that it then puts up before the window's end (G2).
        ("DISABLE_AUTO_COMPACT", "1"),
        ("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "10000000"),
        // Only "idle" tells the end of a turn whose sub-agents report after the model's last word.
        ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1"),
    ];
    env.extend(ours.map(|(name, value)| (name.to_owned(), value.to_owned())));
    if let Some(McpAccess { url, token }) = mcp {
        env.insert(MCP_URL.into(), url.clone());
        env.insert(MCP_TOKEN.into(), token.clone());
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SessionSpec {
        SessionSpec {
            folder: "/w".into(),
            resume: Some(Resume { session_id: "s-1".into(), anchor: Some("u-1".into()), rewind: true, fork: false }),
            model: Some("-x".into()),
            effort: Some("high".into()),
            mode: ApprovalMode::All,
            mcp: Some(McpAccess { url: "http://127.0.0.1:4711/mcp".into(), token: "very-secret".into() }),
            env: Environment::from([("DISABLE_AUTO_COMPACT".into(), "0".into()), ("HOME".into(), "/h".into())]),
        }
    }

    #[test]
    fn neither_token_nor_address_are_in_the_arguments_and_no_value_is_a_flag() {
        let spec = spec();
        let args: Vec<String> = arguments(&spec).into_iter().map(|a| a.into_string().unwrap()).collect();
        let line = args.join(" ");
        assert!(!line.contains("very-secret") && !line.contains("4711") && !line.contains("bypass"), "{line}");
        assert!(line.contains("Bearer ${CHANGEOVER_MCP_TOKEN}"), "{line}");
        for wanted in
            ["--model=-x", "--effort=high", "--resume=s-1", "--resume-session-at=u-1", "--permission-mode=manual"]
        {
            assert!(args.iter().any(|arg| arg == wanted), "{wanted} is not in {line}");
        }
        let env = environment(spec.env, spec.mcp.as_ref());
        assert_eq!(env["CHANGEOVER_MCP_TOKEN"], "very-secret");
        assert_eq!((env["DISABLE_AUTO_COMPACT"].as_str(), env["HOME"].as_str()), ("1", "/h"));
    }
}
