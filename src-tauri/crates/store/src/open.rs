//! Opening and closing (S5), and the handle that everyone holds.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::{Connection, InterruptHandle, OpenFlags, config::DbConfig};
use tokio::sync::{mpsc, oneshot};

use crate::{
    error::{Fault, Result, StoreError},
    files::{self, Found},
    migrate,
    pool::{BUSY, Pool, Reader},
    writer::{self, Job, MAILBOX, Writer},
};

/// How to open a store.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// How many connections read at once.
    pub readers: usize,
    /// How long to wait for another process's lock.
    pub busy: Duration,
    /// At most so many pages of 4 KiB in the database: a small disk for tests.
    pub max_pages: Option<u32>,
    /// Whether the search index is filled behind; else what is new waits for a store that does.
    pub indexing: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { readers: 4, busy: BUSY, max_pages: None, indexing: true }
    }
}

/// The transcript on disk. Cheap to clone; the last clone closes it when dropped.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    path: PathBuf,
    pool: Arc<Pool>,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    clean: bool,
    /// Whether the database is known to be sound: only then is its end a clean one.
    sound: Arc<AtomicBool>,
    check: Check,
}

/// A check of the integrity, and the way to cut it off.
#[derive(Default)]
struct Check {
    stopped: AtomicBool,
    running: Mutex<Option<InterruptHandle>>,
}

/// While it lives, a check runs.
struct Running<'a>(&'a Check);

impl Check {
    fn running(&self) -> MutexGuard<'_, Option<InterruptHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, conn: &Connection) -> Result<Running<'_>> {
        *self.running() = Some(conn.get_interrupt_handle());
        let running = Running(self);
        // After the handle is there, so that whoever stops it either finds it or was seen here.
        if self.is_stopped() { Err(StoreError::Closed.into()) } else { Ok(running) }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Interrupts only what is running at that moment, so it is said until it was heard.
    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        while self.running().as_ref().map(InterruptHandle::interrupt).is_some() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running() = None;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.pool.clear();
        self.jobs = None;
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(path = %self.path.display(), "the writer ended in the middle of its work");
        }
    }
}

impl Store {
    /// Opens the database at `path`, makes it on a first start, and brings its schema up to date after a backup. Its folder
    /// is made where it is missing.
    ///
    /// # Errors
    /// One kind for each of S5's cases, with the file's path; see [`StoreError`]. Nothing is changed then.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        let (conn, clean) = connect(path, options).map_err(|fault| fault.at(path))?;
        let (jobs, mailbox) = mpsc::channel(MAILBOX);
        let sound = Arc::new(AtomicBool::new(clean));
        let (writer, indexing) = (Writer::new(conn, path, Arc::clone(&sound)), options.indexing);
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer::run(writer, mailbox, indexing))
            .map_err(|error| files::io_error(path, &error))?;
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            pool: Pool::new(path, options.readers),
            jobs: Some(jobs),
            thread: Mutex::new(Some(thread)),
            clean,
            sound,
            check: Check::default(),
        })))
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether the last run ended cleanly and the file has not changed since. If not, [`Store::check_integrity`] is due.
    pub fn ended_cleanly(&self) -> bool {
        self.0.clean
    }

    /// Reads the whole database and checks that it is sound: long in a large one. Only after an unclean end, off the way of
    /// everything else (S5). Blocks. Until it has found the database sound, closing leaves no mark of a clean end: the next
    /// start checks again.
    ///
    /// # Errors
    /// `Damaged` with what is wrong; `Closed` when [`Store::stop_checking`] cut it off; or the check itself failed.
    pub fn check_integrity(&self) -> Result<(), StoreError> {
        let checked = self.read(|conn| {
            let _running = self.0.check.begin(conn)?;
            let mut wrong: Vec<String> = Vec::new();
            let mut check = conn.prepare("PRAGMA integrity_check(10)")?;
            let mut rows = check.query([])?;
            while let Some(row) = rows.next()? {
                wrong.push(row.get(0)?);
            }
            match wrong.as_slice() {
                [fine] if fine == "ok" => Ok(()),
                _ => Err(StoreError::Damaged { path: self.0.path.clone(), detail: wrong.join("; ") }.into()),
            }
        });
        match checked {
            Ok(()) => {
                self.0.sound.store(true, Ordering::SeqCst);
                Ok(())
            }
            Err(_) if self.0.check.is_stopped() => Err(StoreError::Closed),
            Err(error) => Err(error),
        }
    }

    /// Ends a running check of the integrity, and lets none begin: the store is about to be closed. Blocks for the moment that
    /// takes.
    pub fn stop_checking(&self) {
        self.0.check.stop();
    }

    /// Lets the database have at most so many pages of 4 KiB from here on, or as many as it has: a disk that fills up, and one
    /// that has room again, for tests.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        self.write(move |writer| writer.limit_pages(pages)).await
    }

    pub(crate) fn reader(&self) -> Result<Reader> {
        self.0.pool.get()
    }

    /// Runs `work` on a reading connection, its reads all of one moment.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T, StoreError> {
        let read = || {
            let reader = self.reader()?;
            let tx = reader.unchecked_transaction()?;
            work(&tx)
        };
        read().map_err(|fault: Fault| fault.at(&self.0.path))
    }

    /// Runs `work` on the writer's thread and waits for its answer. Once it is in the mailbox it runs, whether or not anyone
    /// still waits.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Writer) -> Result<T> + Send + 'static,
    {
        let (job, answer) = job(work);
        let jobs = self.0.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Leaves work in the writer's mailbox for nobody's answer, if there is room in it.
    pub(crate) fn post(&self, work: impl FnOnce(&mut Writer) -> Result<()> + Send + 'static) {
        let (job, _) = job(work);
        if let Some(jobs) = &self.0.jobs
            && jobs.try_send(job).is_err()
        {
            tracing::warn!("the writer's mailbox is full");
        }
    }

    /// The same for callers that may block; never on a thread that drives async tasks.
    pub(crate) fn write_blocking<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Writer) -> Result<T> + Send + 'static,
    {
        let (job, answer) = job(work);
        let jobs = self.0.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.blocking_send(job).map_err(|_| StoreError::Closed)?;
        answer.blocking_recv().map_err(|_| StoreError::Closed)?
    }
}

type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

fn job<T, F>(work: F) -> (Job, Answer<T>)
where
    T: Send + 'static,
    F: FnOnce(&mut Writer) -> Result<T> + Send + 'static,
{
    let (answer, receiver) = oneshot::channel();
    let job: Job = Box::new(move |writer| {
        let result = work(writer).map_err(|fault| writer.explain(fault));
        // Nobody waits any more: the work is done all the same.
        let _ = answer.send(result);
    });
    (job, receiver)
}

/// The writing connection of a sound, current database; whether its last end was clean.
fn connect(path: &Path, options: &OpenOptions) -> Result<(Connection, bool)> {
    let fresh = match files::inspect(path)? {
        Found::Fresh => true,
        Found::Database { version } => {
            let known = i64::try_from(migrate::MIGRATIONS.len()).unwrap_or(i64::MAX);
            if version > known || version < 0 {
                return Err(StoreError::NewerVersion { path: path.to_owned(), found: version, known }.into());
            }
            false
        }
    };
    if fresh {
        files::create(path)?;
    }
    let mut conn =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(options.busy)?;
    // Until it is known to be ours, closing it must not fold its log into it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    migrate::check(&conn, path, migrate::MIGRATIONS)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    let clean = files::take_mark(path, fresh);
    log_ahead(&conn, options.busy)?;
    conn.set_prepared_statement_cache_capacity(128);
    // A log of 4 MiB before it is folded in: within it a page that changes often is written to the database once.
    conn.pragma_update(None, "wal_autocheckpoint", 1000)?;
    conn.pragma_update(None, "journal_size_limit", 16 << 20)?;
    conn.pragma_update(None, "cache_size", -8192)?;
    migrate::run(&mut conn, path, migrate::MIGRATIONS)?;
    verify(&conn)?;
    if let Some(pages) = options.max_pages {
        conn.pragma_update(None, "max_page_count", pages)?;
    }
    Ok((conn, clean))
}

/// Switches to WAL. SQLite does not wait for another process that does the same at that moment, so we do (R078).
fn log_ahead(conn: &Connection, busy: Duration) -> Result<()> {
    let deadline = Instant::now() + busy;
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(_) => return Ok(()),
            Err(error) => {
                let locked = matches!(
                    error.sqlite_error_code(),
                    Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
                );
                if !locked || Instant::now() >= deadline {
                    return Err(error.into());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// The tables without which nothing can be shown: one that cannot be read is damage, found now and not in the middle of a
/// turn. Tables and columns that are not ours are nobody's business (R015).
fn verify(conn: &Connection) -> Result<()> {
    for sql in [
        "SELECT id, path, name FROM project LIMIT 1",
        "SELECT id, project, title, last_seq FROM thread LIMIT 1",
        "SELECT thread, seq, message, items FROM thread_message LIMIT 1",
        "SELECT id, role, state, notice FROM message LIMIT 1",
        "SELECT key, item, body, text FROM part LIMIT 1",
        "SELECT part, n, text FROM chunk LIMIT 1",
        "SELECT thread, record FROM turn LIMIT 1",
        "SELECT thread, record FROM provider_session LIMIT 1",
    ] {
        match conn.query_row(sql, [], |_| Ok(())) {
            Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows) => {}
            // A table or column that should be there is not: what wrote this schema was not us, or it is broken.
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::Unknown) => {
                return Err(StoreError::Damaged {
                    path: conn.path().map(PathBuf::from).unwrap_or_default(),
                    detail: error.to_string(),
                }
                .into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
