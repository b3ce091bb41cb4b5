//! The engine of one data folder: store, runtimes, hub, and one actor per thread. Shell, server and command line hold one.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use changeover_core::{
    failure::{Failure, FailureKind},
    id::ThreadId,
    provider::{ApprovalMode, ProviderId, Target},
    turn::state::{Late, MAX_ATTEMPTS, OpenTurn, Pending, ThreadState},
    usage::ContextFigure,
};
use changeover_runtime::session::{AgentRuntime, Environment, McpAccess, SessionSpec};
use changeover_store::{Store, StoreError};
use tokio::sync::oneshot;

use crate::{
    agent::Runtimes,
    api::{
        error::{ApiError, ErrorCode},
        types::{EventBody, ThreadSummary},
    },
    catalogue::Catalogue,
    clock,
    diagnostic::Trouble,
    hub::Hub,
    secret::Secrets,
    thread::actor::{self, Handle, Request},
};

/// How long an agent may take to start when it is tested.
const TEST_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

/// What an engine is made of.
pub struct EngineOptions {
    /// Where the database and all else of ours lies.
    pub data_folder: PathBuf,
    /// The user's own environment, as this process got it.
    pub environment: Environment,
    /// Whether to repair `PATH` from the login shell (R6).
    pub repair_environment: bool,
    /// The mark that every child carries (R5): its name's value.
    pub mark: String,
    /// The providers on offer, in the picker's order.
    pub runtimes: Vec<Arc<dyn AgentRuntime>>,
    /// Attempts of a turn (G16); `None`: the rule's.
    pub max_attempts: Option<u32>,
    /// Whether this process shows a real window.
    pub window: bool,
}

/// One engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// What all parts of an engine share.
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) hub: Hub,
    pub(crate) runtimes: Runtimes,
    pub(crate) secrets: Secrets,
    /// Changes to the user's agents, one after the other.
    pub(crate) agents: tokio::sync::Mutex<()>,
    pub(crate) catalogue: Catalogue,
    pub(crate) data_folder: PathBuf,
    pub(crate) window: bool,
    pub(crate) trouble: Trouble,
    mark: String,
    max_attempts: u32,
    actors: Mutex<HashMap<ThreadId, Handle>>,
    mcp_url: Mutex<Option<String>>,
    tokens: Mutex<HashMap<String, ThreadId>>,
    closing: std::sync::atomic::AtomicBool,
    pub(crate) work: crate::work::Work,
    /// A thread's row is read and told in one go, so that nobody hears of it as it was before its deletion afterwards.
    pub(crate) telling: tokio::sync::Mutex<()>,
    /// The check after an unclean end.
    check: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock still guards whole values: each is changed in one statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Opens the data folder's database. What an earlier run left in the middle waits for [`Engine::take_up`].
    ///
    /// # Errors
    /// The store's, each with the file's path and a way on (S5).
    pub async fn open(options: EngineOptions) -> Result<Self, StoreError> {
        let path = options.data_folder.join("changeover.db");
        let store = tokio::task::spawn_blocking(move || Store::open(&path, &changeover_store::OpenOptions::default()))
            .await
            .map_err(|_| StoreError::Closed)??;
        let runtimes = Runtimes::new(options.runtimes);
        let inner = Arc::new(Inner {
            store,
            hub: Hub::start(),
            catalogue: Catalogue::new(runtimes.order(), options.environment, options.repair_environment),
            runtimes,
            secrets: Secrets::default(),
            agents: tokio::sync::Mutex::default(),
            data_folder: options.data_folder,
            window: options.window,
            trouble: Trouble::default(),
            mark: options.mark,
            max_attempts: options.max_attempts.unwrap_or(MAX_ATTEMPTS),
            actors: Mutex::default(),
            mcp_url: Mutex::default(),
            tokens: Mutex::default(),
            closing: std::sync::atomic::AtomicBool::new(false),
            work: crate::work::Work::default(),
            telling: tokio::sync::Mutex::default(),
            check: Mutex::default(),
        });
        inner.load_agents().await?;
        for (id, runtime) in inner.runtimes.all() {
            let (store, name) = (inner.store.clone(), crate::api::provider::picked_setting(id.as_str()));
            if let Some(path) = read(move || store.setting(&name)).await?.and_then(|v| v.as_str().map(PathBuf::from)) {
                runtime.pick(Some(path));
            }
        }
        Ok(Self { inner })
    }

    /// Takes up every thread that an earlier run left with an open turn, and has the database checked if it did not end
    /// cleanly. To be called once, when sessions can be opened.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn take_up(&self) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        let store = inner.store.clone();
        let found = read(move || store.open_turns()).await?;
        for thread in found {
            // Its answer comes after the thread was mended: nobody is shown what an earlier run left open.
            if let Err(error) = inner.ask(thread, Request::Snapshot).await {
                tracing::error!(%thread, %error, "a thread could not be mended");
            }
        }
        if !inner.store.ended_cleanly() {
            let store = inner.store.clone();
            let hub = inner.hub.clone();
            let check = tokio::task::spawn_blocking(move || match store.check_integrity() {
                Ok(()) | Err(StoreError::Closed) => {}
                Err(error) => hub.announce(None, EventBody::Storage { problem: Some(error.to_string()) }),
            });
            *lock(&inner.check) = Some(check);
        }
        Ok(())
    }

    /// Looks for the providers' programs in the background (R2).
    pub fn look_for_providers(&self) {
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move { inner.refresh_providers().await });
    }

    /// The event hub.
    pub fn hub(&self) -> &Hub {
        &self.inner.hub
    }

    /// The data folder.
    pub fn data_folder(&self) -> &Path {
        &self.inner.data_folder
    }

    /// The threads that have an open turn, as they come and go.
    pub fn open_turns(&self) -> tokio::sync::watch::Receiver<HashSet<ThreadId>> {
        self.inner.work.watch()
    }

    /// Where sessions find our MCP server (M1); without it none is offered.
    pub fn set_mcp_url(&self, url: String) {
        *lock(&self.inner.mcp_url) = Some(url);
    }

    /// The thread whose session carries this token (M1).
    pub fn thread_of_token(&self, token: &str) -> Option<ThreadId> {
        lock(&self.inner.tokens).get(token).copied()
    }

    /// Ends all sessions in good order. Open turns stay on disk as they are and are mended by the next start.
    pub async fn close(&self) {
        self.inner.closing.store(true, std::sync::atomic::Ordering::SeqCst);
        let actors: Vec<Handle> = lock(&self.inner.actors).drain().map(|(_, handle)| handle).collect();
        let mut ended = Vec::new();
        for actor in actors {
            let (done, wait) = oneshot::channel();
            if let Some(Ok(())) = actor.ask(Request::Close(done)).await {
                ended.push(wait);
            }
        }
        let all = futures::future::join_all(ended);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), all).await;
        let runtimes = self.inner.runtimes.all();
        let shared = runtimes.iter().map(|(_, runtime)| runtime.close());
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), futures::future::join_all(shared)).await;
        // No session is left that may read anything.
        lock(&self.inner.tokens).clear();
        // A check reads the whole database: it is cut off, or it would hold up the end, and the next start does it.
        let check = lock(&self.inner.check).take();
        if let Some(check) = check {
            let store = self.inner.store.clone();
            let _ = tokio::task::spawn_blocking(move || store.stop_checking()).await;
            let _ = check.await;
        }
    }
}

/// How many agents are started at once to be looked at.
const AGENTS_AT_ONCE: usize = 2;

/// Runs a blocking read off the async threads.
pub(crate) async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Closed))
}

impl Inner {
    /// Asks a thread's actor, starting it if need be.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        thread: ThreadId,
        request: impl Fn(oneshot::Sender<T>) -> Request,
    ) -> Result<T, ApiError> {
        // Twice: an idle actor may end between finding it and asking it.
        for _ in 0..2 {
            let handle = self.actor(thread).await?;
            let (reply, answer) = oneshot::channel();
            match handle.ask(request(reply)).await {
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(error),
                None => continue,
            }
            if let Ok(answer) = answer.await {
                return Ok(answer);
            }
        }
        Err(ApiError::new(ErrorCode::Overloaded, "This thread was just being closed. Try again."))
    }

    /// Ends the provider's idle sessions in all threads; false if one has a turn on it, which then goes on.
    pub(crate) async fn retire(&self, provider: &ProviderId) -> bool {
        let actors: Vec<Handle> = lock(&self.actors).values().filter(|h| h.lives()).cloned().collect();
        let mut idle = true;
        for actor in actors {
            let (reply, answer) = oneshot::channel();
            if let Some(Ok(())) = actor.ask(Request::Retire(provider.clone(), reply)).await {
                // An actor that has just ended has no session.
                idle &= answer.await.unwrap_or(true);
            }
        }
        idle
    }

    /// The thread's actor, if it runs.
    pub(crate) fn running_actor(&self, thread: ThreadId) -> Option<Handle> {
        lock(&self.actors).get(&thread).filter(|h| h.lives()).cloned()
    }

    async fn actor(self: &Arc<Self>, thread: ThreadId) -> Result<Handle, ApiError> {
        if self.closing.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(ApiError::new(ErrorCode::Closing, "Changeover is closing."));
        }
        if let Some(handle) = self.running_actor(thread) {
            return Ok(handle);
        }
        let inner = Arc::clone(self);
        let state = read(move || inner.load(thread)).await?;
        let mut actors = lock(&self.actors);
        if let Some(handle) = actors.get(&thread).filter(|h| h.lives()) {
            return Ok(handle.clone());
        }
        let handle = actor::start(Arc::clone(self), state);
        actors.insert(thread, handle.clone());
        Ok(handle)
    }

    /// A thread's state from disk.
    fn load(&self, thread: ThreadId) -> Result<ThreadState, StoreError> {
        let disk = self.store.load(thread)?;
        let summary = self.store.thread(thread)?;
        let project = self.store.project(summary.project)?;
        let content = self.store.last_content(thread)?;
        let mut late = BTreeMap::new();
        for running in self.store.running_parts(thread)? {
            if let Some(work) = Late::of(running.message, &running.part) {
                late.insert((running.provider, running.part.key), work);
            }
        }
        let turn = match disk.turn {
            None => None,
            Some(open) => {
                let message = self.store.read_message(thread, open.turn.message)?;
                let mut turn = OpenTurn::new(open.turn, message.text(), clock::now());
                turn.handover_text = open.text;
                turn.approvals = self.store.approvals_of(turn.record.id)?;
                Some(turn)
            }
        };
        let keeps = self.runtimes.all().into_iter().map(|(id, runtime)| (id, runtime.capabilities().keeps)).collect();
        Ok(ThreadState {
            thread,
            target: disk.target.unwrap_or_else(|| self.catalogue.default_target()),
            folder: project.path,
            next_seq: disk.last_seq + 1,
            content: content.seqs,
            answered_by: content.answered_by,
            titled: !disk.title.is_empty() || disk.titled_by_user,
            sessions: disk.sessions.into_iter().map(|s| (s.provider.clone(), s)).collect(),
            turn,
            queue: disk.queue,
            rules: disk.rules.into_iter().collect(),
            late,
            keeps,
            max_attempts: self.max_attempts,
            pending: Pending::default(),
        })
    }

    /// Tells everybody how a thread's row now looks.
    pub(crate) async fn announce_thread(&self, thread: ThreadId) {
        let _telling = self.telling.lock().await;
        let store = self.store.clone();
        match read(move || store.thread(thread)).await {
            // Its turn may end after it was deleted (S4): that brings no row back.
            Ok(summary) if summary.deleted_at.is_some() => {}
            Ok(summary) => {
                let thread_summary = self.summary_view(summary);
                self.hub.announce(Some(thread), EventBody::Thread { thread: thread_summary });
            }
            Err(error) => tracing::warn!(%thread, %error, "a thread's summary could not be read"),
        }
    }

    /// A thread's row as the wire has it.
    pub(crate) fn summary_view(&self, summary: changeover_store::ThreadSummary) -> ThreadSummary {
        let target = summary.target.clone().unwrap_or_else(|| self.catalogue.default_target());
        crate::api::thread::view(summary, target)
    }

    pub(crate) fn storage_problem(&self, problem: Option<String>) {
        if let Some(problem) = &problem {
            self.trouble.error(format!("storage: {problem}"));
        }
        self.hub.announce(None, EventBody::Storage { problem });
    }

    /// A number from the settings, if there is a good one.
    pub(crate) async fn setting_u64(&self, name: &'static str) -> Option<u64> {
        let store = self.store.clone();
        match read(move || store.setting(name)).await {
            Ok(value) => value?.as_u64(),
            Err(error) => {
                tracing::warn!(name, %error, "a setting could not be read");
                None
            }
        }
    }

    /// Whether the frame may point to `thread_read` (B6): our server runs and the runtime takes MCP.
    pub(crate) fn offers_thread_read(&self, provider: &ProviderId) -> bool {
        lock(&self.mcp_url).is_some() && self.runtimes.get(provider).is_some_and(|r| r.capabilities().mcp)
    }

    /// A session's own way to our MCP server, with a token that reads this thread's family and nothing else (M1).
    pub(crate) fn mcp_access(&self, thread: ThreadId, takes_mcp: bool) -> (Option<McpAccess>, Option<String>) {
        let Some(url) = lock(&self.mcp_url).clone().filter(|_| takes_mcp) else { return (None, None) };
        let token = crate::secret::token();
        lock(&self.tokens).insert(token.clone(), thread);
        (Some(McpAccess { url, token: token.clone() }), Some(token))
    }

    pub(crate) fn revoke(&self, token: Option<&str>) {
        if let Some(token) = token {
            lock(&self.tokens).remove(token);
        }
    }

    /// The child's whole environment: the user's, repaired, less other providers' keys, with the mark.
    pub(crate) async fn child_environment(&self, provider: &ProviderId) -> Environment {
        let env = self.catalogue.environment().await;
        let mut env = changeover_runtime::environment::for_provider(env, provider);
        env.insert(changeover_runtime::process::MARK.to_owned(), self.mark.clone());
        env
    }

    /// Remembers a model's window, kept across runs (G1).
    pub(crate) fn learn_window(&self, target: &Target, provider: &ProviderId, figure: ContextFigure) {
        if let (Some(window), true) = (figure.window, target.provider == *provider) {
            self.catalogue.learn_window(provider, target.model.as_deref(), window);
        }
    }

    /// The window of a target's model in tokens, if known.
    pub(crate) fn window_of(&self, target: &Target) -> Option<u64> {
        self.catalogue.window_of(&target.provider, target.model.as_deref())
    }

    /// Whether a provider can be used right now; else why not, and the way on.
    pub(crate) async fn provider_ready(&self, provider: &ProviderId) -> Result<(), Failure> {
        let Some(runtime) = self.runtimes.get(provider) else {
            return Err(Failure::new(
                FailureKind::NotInstalled,
                format!("{} is not set up here.", provider.display_name()),
            )
            .hint("Choose another provider, or add it in the settings. Your message was not sent."));
        };
        if self.catalogue.is_ready(provider) {
            return Ok(());
        }
        // Not ready when last looked at, or never looked at: look again, so that a login made meanwhile counts.
        let env = self.child_environment(provider).await;
        let description = runtime.describe(&env).await;
        let problem = description.problem.clone();
        self.catalogue.put_description(provider, description, runtime.cannot());
        self.announce_providers();
        match problem {
            // R2's ten seconds are detection's. On a busy machine that says little: opening the session has more, and decides.
            Some(slow) if slow.kind == FailureKind::NoProgress => Ok(()),
            Some(problem) => Err(problem),
            None => Ok(()),
        }
    }

    /// A provider has opened a session: it was only slow when it was last looked at.
    pub(crate) fn provider_opened(&self, provider: &ProviderId) {
        if self.catalogue.was_only_slow(provider) {
            self.announce_providers();
        }
    }

    /// Looks for all providers anew, at once.
    pub(crate) async fn refresh_providers(self: &Arc<Self>) {
        let few = Arc::new(tokio::sync::Semaphore::new(AGENTS_AT_ONCE));
        let looks = self.runtimes.all().into_iter().map(|(id, runtime)| {
            let (inner, few) = (Arc::clone(self), Arc::clone(&few));
            async move {
                // A look starts an agent whole. The semaphore is never closed.
                let _turn = if id.as_str().starts_with("acp:") { few.acquire().await.ok() } else { None };
                inner.look_for(&id, &*runtime).await;
            }
        });
        futures::future::join_all(looks).await;
    }

    /// Looks for a provider and starts it as a thread would, without a word to a model; then ends it. The program, and what
    /// kept it from starting.
    pub(crate) async fn try_provider(
        &self,
        provider: &ProviderId,
    ) -> Result<(Option<PathBuf>, Result<(), Failure>), ApiError> {
        let Some(runtime) = self.runtimes.get(provider) else { return Err(ApiError::not_found("provider")) };
        let env = self.child_environment(provider).await;
        let description = runtime.describe(&env).await;
        let (path, problem) = (description.path.clone(), description.problem.clone());
        self.catalogue.put_description(provider, description, runtime.cannot());
        self.announce_providers();
        if let Some(problem) = problem {
            return Ok((path, Err(problem)));
        }
        // A folder of its own: nothing of a project's is read, and none is asked whether it may be trusted.
        let folder = self.data_folder.join("try");
        let made = folder.clone();
        let ready = tokio::task::spawn_blocking(move || std::fs::create_dir_all(made)).await;
        if !matches!(ready, Ok(Ok(()))) {
            return Err(ApiError::new(ErrorCode::Storage, format!("{} cannot be made.", folder.display())));
        }
        let spec =
            SessionSpec { folder, resume: None, model: None, effort: None, mode: ApprovalMode::Ask, mcp: None, env };
        let result = match tokio::time::timeout(TEST_LIMIT, runtime.open(spec)).await {
            Ok(Ok(opened)) => {
                opened.session.close().await;
                Ok(())
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::new(
                FailureKind::NoProgress,
                format!("{} did not answer within {} s", provider.display_name(), TEST_LIMIT.as_secs()),
            )
            .hint("Start it once in a terminal to see what it waits for.")),
        };
        if let Err(failure) = &result {
            self.trouble.failed(&format!("{provider}, a test"), failure);
        }
        Ok((path, result))
    }

    /// Looks for one provider anew.
    pub(crate) async fn look_for(&self, id: &ProviderId, runtime: &dyn AgentRuntime) {
        let env = self.child_environment(id).await;
        let description = runtime.describe(&env).await;
        let usable = description.problem.is_none();
        self.catalogue.put_description(id, description, runtime.cannot());
        self.announce_providers();
        if usable {
            match runtime.models(&env).await {
                Ok(models) => self.catalogue.put_models(id, models),
                Err(failure) => self.trouble.failed(&format!("{id}, its models"), &failure),
            }
            self.announce_providers();
        }
    }

    pub(crate) fn announce_providers(&self) {
        self.hub.announce(None, EventBody::Providers { providers: self.catalogue.views() });
    }

    /// The threads that a session's token may read: its own, its ancestors and its branches (M1).
    pub(crate) fn family(&self, thread: ThreadId) -> Result<HashSet<ThreadId>, StoreError> {
        let own = self.store.thread(thread)?;
        let all = self.store.threads(Some(own.project))?;
        let parents: HashMap<ThreadId, Option<ThreadId>> = all.iter().map(|t| (t.id, t.parent)).collect();
        let mut family = HashSet::from([thread]);
        let mut at = own.parent;
        while let Some(parent) = at {
            if !family.insert(parent) {
                break;
            }
            // A deleted thread is in no list, but what it was forked from is an ancestor all the same.
            at = match parents.get(&parent) {
                Some(above) => *above,
                None => self.store.thread(parent).map_or(None, |deleted| deleted.parent),
            };
        }
        for id in parents.keys() {
            let (mut at, mut steps) = (Some(*id), 0);
            while let Some(up) = at.filter(|_| steps < 1_000) {
                if up == thread {
                    family.insert(*id);
                    break;
                }
                at = parents.get(&up).copied().flatten();
                steps += 1;
            }
        }
        Ok(family)
    }
}
