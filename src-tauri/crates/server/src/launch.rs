//! Starting an engine with all that belongs to it: the folder's lock, the guard, the runtimes, the loopback server. Or
//! finding the one that runs (U9).

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, bail};
use changeover_engine::{
    Engine, EngineOptions,
    api::{Caller, error::ApiError},
    lock::{self, Address, Claim, FolderLock},
    secret,
};
use changeover_runtime::{
    environment,
    guard::{self, Guard},
    process,
    session::{AgentRuntime, Environment},
};

use crate::{door::Door, http::Server};

/// The variable that names the data folder (U8).
pub const DATA_VARIABLE: &str = "CHANGEOVER_DATA_DIR";
/// How long to wait for an engine that is just starting or ending.
const SILENCE: Duration = Duration::from_secs(30);

/// How long turns may take to stop (R5) and their clients to hear of it.
const STOPPED: Duration = Duration::from_secs(5);

/// How to start.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--data`.
    pub data: Option<PathBuf>,
    /// Attempts of a turn (G16); `None`: the rule's.
    pub max_attempts: Option<u32>,
    /// Whether this process shows a real window.
    pub window: bool,
    /// Whether somebody will look at the list of providers: then they are looked for at once.
    pub look: bool,
}

/// A running engine of this process. Dropped, everything that it started is ended.
pub struct Running {
    engine: Engine,
    server: Server,
    guard: Mutex<Option<Guard>>,
    _lock: FolderLock,
}

impl Running {
    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The loopback server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Waits until no other client has a turn under way, then takes nothing more (U9); `waits` hears how many there are.
    pub async fn settle(&self, waits: impl FnMut(usize)) {
        self.server.clients.settle(&self.engine, waits).await;
    }

    /// Stops the turns of other clients and gives these a moment to hear of it.
    pub async fn stop_turns(&self) {
        for thread in self.server.clients.turns(&self.engine) {
            let params = serde_json::json!({ "threadId": thread });
            if let Err(error) = self.engine.dispatch("turn/interrupt", params, &Caller::default()).await {
                tracing::info!(%thread, %error, "a turn could not be stopped");
            }
        }
        let _ = tokio::time::timeout(STOPPED, self.settle(|_| {})).await;
    }

    /// Ends all agents in good order, then lets the guard see to the rest.
    pub async fn close(&self) {
        self.server.clients.end();
        self.engine.close().await;
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(guard) = guard {
            let _ = tokio::task::spawn_blocking(move || guard.finish()).await;
        }
    }
}

/// The data folder: `--data`, else `CHANGEOVER_DATA_DIR`, else the platform's (U8).
///
/// # Errors
/// None of them can be told.
pub fn data_folder(chosen: Option<&Path>, env: &Environment) -> anyhow::Result<PathBuf> {
    let set = |name: &str| env.get(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folder = match chosen.map(Path::to_owned).or_else(|| set(DATA_VARIABLE)) {
        Some(folder) => folder,
        None => platform_folder(&set).context("no home folder is set: name a data folder with --data")?,
    };
    std::path::absolute(&folder).with_context(|| format!("{} is no usable path", folder.display()))
}

#[cfg(target_os = "macos")]
fn platform_folder(set: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    Some(set("HOME")?.join("Library/Application Support/changeover"))
}

#[cfg(windows)]
fn platform_folder(set: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    Some(set("APPDATA")?.join("changeover"))
}

#[cfg(not(any(windows, target_os = "macos")))]
fn platform_folder(set: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    set("XDG_DATA_HOME")
        .filter(|p| p.is_absolute())
        .or_else(|| Some(set("HOME")?.join(".local/share")))
        .map(|p| p.join("changeover"))
}

/// Opens the door to the data folder's engine, starting one in this process if none runs.
///
/// # Errors
/// The folder, the database, the guard or the port could not be had; each says what to do.
pub async fn open(options: &Options) -> anyhow::Result<Door> {
    let env = environment::own();
    let folder = data_folder(options.data.as_deref(), &env)?;
    let begun = std::time::Instant::now();
    loop {
        let claim =
            lock::claim(&folder).with_context(|| format!("the data folder {} cannot be used", folder.display()))?;
        match claim {
            Claim::Ours(lock) => return Ok(Door::Own(Arc::new(start(options, folder, env, lock).await?))),
            Claim::Theirs(address) => {
                let door = Door::Other(address);
                match door.connect().await {
                    Ok(_) => return Ok(door),
                    Err(error) if begun.elapsed() > SILENCE => {
                        return Err(error).context(
                            "another Changeover has this data folder and does not answer: end it and try again",
                        );
                    }
                    Err(_) => {}
                }
            }
            Claim::Silent if begun.elapsed() > SILENCE => {
                bail!(
                    "another process holds {} and does not say where it can be reached: end it and try again",
                    folder.join("engine.lock").display()
                );
            }
            Claim::Silent => {}
        }
        // Another engine is starting or ending; its file appears or its lock goes.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn start(options: &Options, folder: PathBuf, env: Environment, lock: FolderLock) -> anyhow::Result<Running> {
    let program = std::env::current_exe().context("this program's own path cannot be told")?;
    let prefix = mark_prefix(&folder);
    let mark = format!("{prefix}{}", secret::token());
    // R5: a guard stands, and what an earlier run left behind has ended, before there are agents (`take_up` and later). Nothing
    // of this run is there yet, so neither waits for the other, and the database is opened meanwhile: looking through all
    // processes of the machine is what takes longest.
    let guarding = {
        let (program, mark) = (program.clone(), mark.clone());
        tokio::task::spawn_blocking(move || guard::start_guard(&program, &["guard"], &mark))
    };
    let clearing = tokio::task::spawn_blocking(move || process::end_marked(&prefix));
    let engine_options = EngineOptions {
        runtimes: runtimes(&program, &folder),
        data_folder: folder,
        environment: env,
        repair_environment: std::env::var_os(NO_SHELL).is_none(),
        mark,
        max_attempts: options.max_attempts,
        window: options.window,
    };
    let opening = async {
        // As the API says it: with the way on (S5).
        let engine = Engine::open(engine_options).await.map_err(ApiError::from)?;
        let server = Server::start(engine.clone(), crate::mcp::router(engine.clone())).await?;
        Ok::<_, anyhow::Error>((engine, server))
    };
    let (guard, cleared, opened) = tokio::join!(guarding, clearing, opening);
    let guard = guard?.context("the guard process could not be started")?;
    cleared?;
    let (engine, server) = opened?;
    engine.set_mcp_url(format!("{}/mcp", server.url));
    engine.take_up().await?;
    if options.look {
        engine.look_for_providers();
    }
    let address = Address { url: server.url.clone(), token: server.token.clone(), pid: std::process::id() };
    lock.publish(&address).context("the engine's address could not be written to the data folder")?;
    Ok(Running { engine, server, guard: Mutex::new(Some(guard)), _lock: lock })
}

/// Set, the login shell is not asked for its environment: for tests, which bring a whole one.
pub const NO_SHELL: &str = "CHANGEOVER_NO_SHELL";

/// A data folder's name where many may meet: in the environment of processes, among the cookies of a host.
pub(crate) fn name_of(folder: &Path) -> String {
    changeover_core::handoff::render::hash(&folder.display().to_string())[..16].to_owned()
}

/// What the marks of all runs on this data folder begin with.
fn mark_prefix(folder: &Path) -> String {
    format!("{}.", name_of(folder))
}

/// The providers of this version by name, for people.
pub(crate) fn offered() -> String {
    let all = runtimes(Path::new(""), Path::new(""));
    all.iter().map(|runtime| runtime.id().as_str().to_owned()).collect::<Vec<_>>().join(", ")
}

/// The providers on offer, in the picker's order.
fn runtimes(program: &Path, folder: &Path) -> Vec<Arc<dyn AgentRuntime>> {
    let mut list: Vec<Arc<dyn AgentRuntime>> = vec![
        Arc::new(changeover_runtime::claude::Claude::default()),
        Arc::new(changeover_runtime::codex::CodexRuntime::new(folder.join("codex"))),
        Arc::new(changeover_runtime::opencode::OpenCodeRuntime::new(folder.join("opencode"))),
    ];
    for agent in changeover_runtime::acp::known_runtimes() {
        list.push(Arc::new(agent));
    }
    list.push(Arc::new(changeover_runtime::practice::practice_runtime(
        program.to_owned(),
        vec!["practice-agent".into()],
        Some(folder.join("practice")),
    )));
    list
}
