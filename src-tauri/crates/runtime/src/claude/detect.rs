//! Whether Claude Code is there, who is logged in, and which models it offers (R2).

use std::{ffi::OsString, path::PathBuf, time::Duration};

use changeover_core::failure::{Failure, FailureKind};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, time::timeout};

use super::{STREAMS, client, failure::LOGIN_HINT};
use crate::{
    detect::{Found, find, version},
    environment::home,
    session::{Description, Environment, Login, ModelInfo},
};

/// How long `auth status` may take: with the version's 6 s inside the 10 s of `describe`.
const LOGIN_LIMIT: Duration = Duration::from_secs(3);

/// Finds it, asks for its version and who is logged in.
pub(super) async fn describe(picked: Option<PathBuf>, env: &Environment) -> Description {
    let found = match find("claude", picked.as_deref(), env) {
        Ok(found) => found,
        Err(problem) => {
            return Description {
                path: None,
                found: None,
                version: None,
                login: Login::Unknown,
                problem: Some(problem),
            };
        }
    };
    let described = |version: Option<String>, login: Login, problem: Option<Failure>| Description {
        path: Some(found.path.clone()),
        found: Some(found.how.into()),
        version,
        login,
        problem,
    };
    let version = match version(&found, &[], env).await {
        Ok(version) => version.trim_end_matches(" (Claude Code)").to_owned(),
        Err(problem) => return described(None, Login::Unknown, Some(problem)),
    };
    let login = login(&found, env).await;
    let problem = matches!(login, Login::Out { .. })
        .then(|| Failure::new(FailureKind::NotLoggedIn, "Claude Code is not logged in").hint(LOGIN_HINT));
    described(Some(version), login, problem)
}

/// Asks `auth status`: offline, so a wrong key counts as a login until it is used. A version without it is `Unknown`.
async fn login(found: &Found, env: &Environment) -> Login {
    let args = ["auth", "status"].map(OsString::from).to_vec();
    let Ok(mut child) = found.launch(args, home(env), env.clone()).spawn() else { return Login::Unknown };
    drop(child.stdin);
    let answer = async {
        let mut bytes = Vec::new();
        // A broken pipe gives no JSON, which is no answer.
        let _ = (&mut child.stdout).take(64 * 1024).read_to_end(&mut bytes).await;
        serde_json::from_slice::<Value>(&bytes).ok()
    };
    let answer = timeout(LOGIN_LIMIT, answer).await.ok().flatten();
    child.process.kill().await;
    let Some(answer) = answer else { return Login::Unknown };
    let method = answer.get("authMethod").and_then(Value::as_str).unwrap_or_default();
    match answer.get("loggedIn").and_then(Value::as_bool) {
        Some(true) => Login::In {
            method: match method {
                "api_key" => "API key".into(),
                "oauth_token" => "token".into(),
                "" => "account".into(),
                other => other.replace('_', " "),
            },
        },
        Some(false) => Login::Out { hint: LOGIN_HINT.into() },
        None => Login::Unknown,
    }
}

/// Asks a short-lived process, without the user's MCP servers: they have no part in it.
pub(super) async fn models(picked: Option<PathBuf>, env: &Environment) -> Result<Vec<ModelInfo>, Failure> {
    let found = find("claude", picked.as_deref(), env)?;
    let mut args: Vec<OsString> = STREAMS.map(OsString::from).to_vec();
    args.extend(["--strict-mcp-config".into(), format!("--mcp-config={}", json!({"mcpServers": {}})).into()]);
    let launch = found.launch(args, home(env), super::environment(env.clone(), None));
    let ready = client::start(launch, None).await?;
    let models = listed(&ready.hello);
    ready.dismiss().await;
    if models.is_empty() {
        return Err(Failure::new(FailureKind::Protocol, "Claude Code did not say which models it has."));
    }
    Ok(models)
}

/// No window stands there: it is known with the first result.
fn listed(hello: &Value) -> Vec<ModelInfo> {
    let text = |model: &Value, key: &str| model.get(key).and_then(Value::as_str).map(str::to_owned);
    let efforts = |model: &Value| {
        let levels = model.get("supportedEffortLevels").and_then(Value::as_array);
        levels.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let listed = hello.get("models").and_then(Value::as_array);
    listed
        .into_iter()
        .flatten()
        .filter_map(|model| {
            let id = text(model, "value")?;
            let name = text(model, "displayName").unwrap_or_else(|| id.clone());
            Some(ModelInfo { name, window: None, efforts: efforts(model), default: id == "default", id })
        })
        .collect()
}
