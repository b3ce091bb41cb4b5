//! The one server that all threads share: started with its first session, ended a while after its last.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use changeover_core::failure::{Failure, FailureKind};
use serde_json::{Map, Value, json};
use tokio::{
    process::ChildStdout,
    sync::{Mutex, Notify},
};

use super::http::{Http, USER};
use crate::{
    detect::Found,
    process::{
        Process, Spawned,
        lines::{Line, LineReader},
    },
    session::Environment,
};

/// How long it may take to say where it listens: seconds, as a rule, and all of it on a machine that has much else to do.
const READY: Duration = Duration::from_secs(120);
/// How long it stays without a session: another model or effort opens one anew at once.
const LINGER: Duration = Duration::from_secs(30);
/// How long it may take to end what its sessions run. After that its tree is ended by force.
const DISPOSAL: Duration = Duration::from_secs(2);
/// Between asking its processes to end and killing them.
const GRACE: Duration = Duration::from_secs(1);
/// What it says when it is ready, before its address.
const LISTENS: &str = "opencode server listening on ";
/// Every MCP server of ours is called this and an end of its own.
pub(super) const MCP_PREFIX: &str = "changeover_";

/// A running server.
pub(super) struct Server {
    pub process: Arc<Process>,
    /// About a folder of ours; a session's is made from it.
    pub http: Http,
    key: Key,
    leases: AtomicUsize,
    changed: Notify,
}

/// What a server was started with: another program or environment needs another server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    program: PathBuf,
    env: Environment,
}

/// Holds the server while a session is open or a question is asked.
pub(super) struct Lease(Arc<Server>);

impl std::ops::Deref for Lease {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Lease {
    fn of(server: &Arc<Server>) -> Self {
        server.leases.fetch_add(1, Ordering::SeqCst);
        server.changed.notify_waiters();
        Self(Arc::clone(server))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.leases.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

/// The place of the one server.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Option<Arc<Server>>>>);

impl Slot {
    /// The running server, else a new one. Goes on starting when nobody waits any more: whoever comes next has it.
    pub async fn lease(&self, found: Found, env: Environment, folder: PathBuf) -> Result<Lease, Failure> {
        let slot = self.clone();
        let work = tokio::spawn(async move {
            let key = Key { program: found.path.clone(), env };
            let mut place = slot.0.lock().await;
            if let Some(server) = place.as_ref().filter(|server| server.key == key && server.process.exit().is_none()) {
                return Ok(Lease::of(server));
            }
            // One that was started otherwise lives on with its sessions, and no longer.
            let server = Arc::new(Server::start(&found, key, &folder).await?);
            let lease = Lease::of(&server);
            *place = Some(Arc::clone(&server));
            drop(place);
            tokio::spawn(slot.watch(server));
            Ok(lease)
        });
        work.await.unwrap_or_else(|_| Err(Failure::new(FailureKind::Exited, "Starting OpenCode was cut off")))
    }

    /// Ends a server that nobody has used for a while.
    async fn watch(self, server: Arc<Server>) {
        loop {
            let changed = server.changed.notified();
            if server.leases.load(Ordering::SeqCst) > 0 {
                changed.await;
                continue;
            }
            let current = self.0.lock().await.as_ref().is_some_and(|now| Arc::ptr_eq(now, &server));
            let patience = if current { LINGER } else { Duration::ZERO };
            if tokio::time::timeout(patience, changed).await.is_ok() {
                continue;
            }
            let mut place = self.0.lock().await;
            // Nobody gets a lease while the place is held.
            if server.leases.load(Ordering::SeqCst) == 0 {
                if place.as_ref().is_some_and(|now| Arc::ptr_eq(now, &server)) {
                    *place = None;
                }
                drop(place);
                return server.stop().await;
            }
        }
    }

    /// Ends the server now, whoever uses it.
    pub async fn close(&self) {
        let server = self.0.lock().await.take();
        if let Some(server) = server {
            server.stop().await;
        }
    }
}

impl Server {
    async fn start(found: &Found, key: Key, folder: &Path) -> Result<Self, Failure> {
        let password = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let env = environment(key.env.clone(), &password);
        let args = ["serve", "--hostname", "127.0.0.1", "--port", "0"].map(OsString::from).to_vec();
        let Spawned { stdin, stdout, process } = found.launch(args, folder.to_owned(), env).spawn()?;
        drop(stdin);
        let mut lines = LineReader::new(stdout);
        let said = tokio::time::timeout(READY, address(&mut lines)).await;
        let base = match said {
            Ok(Some(base)) => base,
            Ok(None) => return Err(process.exit_failure().await),
            Err(_) => {
                process.kill().await;
                let message = format!("OpenCode was not ready after {} s", READY.as_secs());
                return Err(Failure::new(FailureKind::NoProgress, message));
            }
        };
        // What else it prints is for nobody; a full pipe would stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next().await {} });
        let http = Http::new(base, password, &folder.display().to_string())
            .map_err(|error| Failure::new(FailureKind::Protocol, format!("OpenCode cannot be asked: {error}")))?;
        Ok(Self { process, http, key, leases: AtomicUsize::new(0), changed: Notify::new() })
    }

    /// In good order first: it ends what its sessions run, which no signal makes it do. Then by force.
    async fn stop(&self) {
        if self.process.exit().is_none()
            && let Err(error) = self.http.post("/global/dispose", &json!({}), DISPOSAL).await
        {
            tracing::debug!(%error, "OpenCode did not end its sessions");
        }
        self.process.end(GRACE).await;
    }
}

async fn address(lines: &mut LineReader<ChildStdout>) -> Option<String> {
    loop {
        match lines.next().await {
            Ok(Some(Line::Text(line))) => {
                let base = line.trim().strip_prefix(LISTENS);
                if let Some(base) = base.filter(|base| base.starts_with("http://127.0.0.1:")) {
                    return Some(base.trim_end_matches('/').to_owned());
                }
            }
            Ok(Some(Line::TooLong { .. })) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

/// The server's environment: the user's own, and what this adapter needs to hold in all of its sessions.
fn environment(mut env: Environment, password: &str) -> Environment {
    let ours = [
        ("OPENCODE_SERVER_PASSWORD", password),
        ("OPENCODE_SERVER_USERNAME", USER),
        // What was found is what runs (R6).
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        // G2.
        ("OPENCODE_DISABLE_AUTOCOMPACT", "1"),
        ("OPENCODE_DISABLE_PRUNE", "1"),
    ];
    env.extend(ours.map(|(name, value)| (name.to_owned(), value.to_owned())));
    // Bringing a session back must never bring the user's files back with it: that is done with these snapshots.
    merge(&mut env, "OPENCODE_CONFIG_CONTENT", json!({"snapshot": false}));
    // For sub-agents too, whose sessions OpenCode opens with rules of its own. A question form has nobody to show it to; and
    // our MCP servers are each for one session, which has a rule of its own (M1).
    let rules = json!({
        "bash": {"*": "ask"},
        "edit": {"*": "ask"},
        "question": "deny",
        "plan_enter": "deny",
        "plan_exit": "deny",
        format!("{MCP_PREFIX}*"): "deny",
    });
    merge(&mut env, "OPENCODE_PERMISSION", rules);
    env
}

/// Adds to a variable that holds JSON, ours above the user's. One that is no JSON object is left out, as OpenCode does.
fn merge(env: &mut Environment, name: &str, ours: Value) {
    let theirs = env.get(name).and_then(|text| serde_json::from_str(text).ok());
    let Value::Object(mut all) = theirs.unwrap_or_default() else {
        env.insert(name.to_owned(), ours.to_string());
        return;
    };
    fn into(all: &mut Map<String, Value>, ours: Value) {
        let Value::Object(ours) = ours else { return };
        for (key, value) in ours {
            match (all.get_mut(&key), value) {
                (Some(Value::Object(inner)), value @ Value::Object(_)) => into(inner, value),
                (_, value) => {
                    all.insert(key, value);
                }
            }
        }
    }
    into(&mut all, ours);
    env.insert(name.to_owned(), Value::Object(all).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_set_stays_below_ours() {
        let env = Environment::from([
            ("OPENCODE_CONFIG_CONTENT".into(), r#"{"model":"a/b","snapshot":true}"#.into()),
            (
                "OPENCODE_PERMISSION".into(),
                r#"{"bash":{"rm *":"deny","*":"allow"},"webfetch":"ask","edit":"allow"}"#.into(),
            ),
            ("HOME".into(), "/h".into()),
        ]);
        let env = environment(env, "secret");
        let read = |name: &str| serde_json::from_str::<Value>(&env[name]).unwrap();
        assert_eq!(read("OPENCODE_CONFIG_CONTENT"), json!({"model": "a/b", "snapshot": false}));
        let rules = read("OPENCODE_PERMISSION");
        assert_eq!(rules["bash"], json!({"rm *": "deny", "*": "ask"}));
        assert_eq!(
            (&rules["edit"], &rules["webfetch"], &rules["changeover_*"]),
            (&json!({"*": "ask"}), &json!("ask"), &json!("deny"))
        );
        assert_eq!((env["HOME"].as_str(), env["OPENCODE_SERVER_PASSWORD"].as_str()), ("/h", "secret"));
        for broken in ["no json", "[1]"] {
            let env = environment(Environment::from([("OPENCODE_CONFIG_CONTENT".into(), broken.into())]), "");
            assert_eq!(env["OPENCODE_CONFIG_CONTENT"], r#"{"snapshot":false}"#);
        }
    }
}
