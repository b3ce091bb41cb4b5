//! One child: how it is started, what is known of it, how it ends.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use changeover_core::failure::{Failure, FailureKind};
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStdin, ChildStdout},
    sync::watch,
};

use super::{
    SESSION_MARK,
    table::{Identity, Table},
    tree::{self, Whose},
};
use crate::session::Environment;

/// How much of standard error is kept, in bytes.
const STDERR_TAIL: usize = 64 * 1024;
/// How long an exit waits for the last words on standard error (a grandchild may hold the pipe for ever).
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A program to start: nothing of this process's environment, folder or terminal reaches it but what stands here.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, resolved (R6).
    pub program: PathBuf,
    /// Its arguments. Never a secret.
    pub args: Vec<OsString>,
    /// Its working folder.
    pub folder: PathBuf,
    /// Its whole environment, the engine's [`super::MARK`] in it.
    pub env: Environment,
}

/// A started child. Its standard error is read in the background.
#[derive(Debug)]
pub struct Spawned {
    /// Its standard input; dropping it closes the pipe.
    pub stdin: ChildStdin,
    /// Its standard output.
    pub stdout: ChildStdout,
    /// The process.
    pub process: Arc<Process>,
}

impl Launch {
    /// Starts the program in a session of its own, all three streams piped. Needs a tokio runtime.
    ///
    /// # Errors
    /// `FolderGone` when the folder is not there, `NotInstalled` when the program is not or cannot be run.
    pub fn spawn(self) -> Result<Spawned, Failure> {
        let Self { program, args, folder, env } = self;
        if !folder.is_dir() {
            return Err(folder_gone(&folder));
        }
        let mark = uuid::Uuid::new_v4().to_string();
        let mut command = CommandWrap::with_new(&program, |command| {
            command.args(args).current_dir(&folder).env_clear().envs(env).env(SESSION_MARK, &mark);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        });
        own_session(&mut command);
        let child = command.spawn().map_err(|error| not_started(&program, &folder, &error))?;
        Spawned::new(child, program, mark)
    }
}

#[cfg(unix)]
fn own_session(command: &mut CommandWrap) {
    command.wrap(process_wrap::tokio::ProcessSession);
}

/// A job that is killed with its handle, so that Windows itself ends the tree when this process is gone; and no console window.
#[cfg(windows)]
fn own_session(command: &mut CommandWrap) {
    #[derive(Debug)]
    struct NoWindow;
    impl process_wrap::tokio::CommandWrapper for NoWindow {
        fn pre_spawn(&mut self, command: &mut tokio::process::Command, _core: &CommandWrap) -> io::Result<()> {
            const CREATE_SUSPENDED: u32 = 0x4; // JobObject starts the child stopped and lets it go once it is in the job.
            const CREATE_NO_WINDOW: u32 = 0x0800_0000;
            command.creation_flags(CREATE_SUSPENDED | CREATE_NO_WINDOW);
            Ok(())
        }
    }
    command.wrap(process_wrap::tokio::KillOnDrop).wrap(process_wrap::tokio::JobObject).wrap(NoWindow);
}

/// The pipe's child alone: `process_wrap` would wait for the whole group, and we have better ways to find the tree.
#[cfg(unix)]
fn unwrapped(child: Box<dyn ChildWrapper>) -> Box<dyn ChildWrapper> {
    child.into_inner()
}

#[cfg(windows)]
fn unwrapped(child: Box<dyn ChildWrapper>) -> Box<dyn ChildWrapper> {
    child
}

impl Spawned {
    fn new(child: Box<dyn ChildWrapper>, program: PathBuf, mark: String) -> Result<Self, Failure> {
        let mut child = unwrapped(child);
        let lost = || Failure::new(FailureKind::Exited, format!("{} could not be started: no pipes", name(&program)));
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let (Some(stdin), Some(stdout), Some(stderr), Some(pid)) = (stdin, stdout, stderr, child.id()) else {
            return Err(lost());
        };
        // Not yet waited for, so the pid is still its own; a child that is gone already has no row and needs none.
        let root = Table::new().identity(pid).unwrap_or(Identity { pid, started: 0 });
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let drained = tokio::spawn(drain(stderr, Arc::clone(&tail)));
        let (gone, exit) = watch::channel(None);
        tokio::spawn(async move {
            let exit = match child.wait().await {
                Ok(status) => Exit::from(status),
                Err(error) => {
                    tracing::warn!(%error, pid, "could not wait for a child");
                    Exit { code: None, signal: None }
                }
            };
            let _ = tokio::time::timeout(LAST_WORDS, drained).await;
            gone.send_replace(Some(exit));
        });
        let process = Process { program, root, mark, tail, exit };
        Ok(Self { stdin, stdout, process: Arc::new(process) })
    }
}

async fn drain(mut stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = vec![0; 8192];
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(&buffer[..n]);
        let over = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..over);
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it (Unix).
    pub signal: Option<i32>,
}

impl Exit {
    /// Exit code 0.
    pub fn is_success(self) -> bool {
        self.code == Some(0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        #[cfg(unix)]
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        #[cfg(not(unix))]
        let signal = None;
        Self { code: status.code(), signal }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => write!(f, "unknown status"),
        }
    }
}

/// A running or ended child. When the last reference goes, its tree is killed in the background.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    root: Identity,
    mark: String,
    tail: Arc<Mutex<VecDeque<u8>>>,
    exit: watch::Receiver<Option<Exit>>,
}

impl Process {
    /// Its process id with its start time.
    pub fn identity(&self) -> Identity {
        self.root
    }

    /// Its process id; not to be signalled without its start time (see [`Process::identity`]).
    pub fn pid(&self) -> u32 {
        self.root.pid
    }

    /// The last 64 KiB of its standard error. For people; never parsed.
    pub fn stderr_tail(&self) -> String {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(tail.make_contiguous()).into_owned()
    }

    /// Waits until the process itself has ended; its children may live on.
    pub async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(value) => value.unwrap_or(Exit { code: None, signal: None }),
            // The tokio runtime went away under the waiting task.
            Err(_) => Exit { code: None, signal: None },
        }
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// The failure that an exit in the middle of work is, with the last line of its standard error.
    pub async fn exit_failure(&self) -> Failure {
        let exit = self.exited().await;
        let tail = self.stderr_tail();
        let last = tail.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let words: String = last.unwrap_or_default().chars().take(500).collect();
        let program = name(&self.program);
        let message = if words.is_empty() {
            format!("{program} ended: {exit}")
        } else {
            format!("{program} ended: {exit}: {words}")
        };
        Failure::new(FailureKind::Exited, message)
    }

    /// Asks the whole tree to end, kills what is left of it after `grace`; returns when nothing is left (R5).
    pub async fn end(&self, grace: Duration) {
        self.end_tree(Whose::Child { root: self.root, mark: self.mark.clone() }, grace).await;
    }

    /// Kills the whole tree; returns when nothing is left.
    pub async fn kill(&self) {
        self.end(Duration::ZERO).await;
    }

    /// Ends the commands that the agent runs in sessions of their own, and leaves the agent and what shares its session alone.
    /// Where the system has no sessions, all its descendants.
    pub async fn end_commands(&self, grace: Duration) {
        self.end_tree(Whose::Commands { root: self.root, mark: self.mark.clone() }, grace).await;
    }

    /// Whether anything of its tree is still alive.
    pub async fn lives(&self) -> bool {
        let whose = Whose::Child { root: self.root, mark: self.mark.clone() };
        let look = move || !tree::members(&mut Table::new(), &whose, &mut Default::default()).is_empty();
        tokio::task::spawn_blocking(look).await.unwrap_or(true)
    }

    async fn end_tree(&self, whose: Whose, grace: Duration) {
        if let Err(error) = tokio::task::spawn_blocking(move || tree::end(&whose, grace)).await {
            tracing::warn!(%error, pid = self.root.pid, "ending a tree of processes was cut off");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let whose = Whose::Child { root: self.root, mark: std::mem::take(&mut self.mark) };
        // No runtime may be left here; a thread needs none. If the program ends first, the guard takes over.
        let ended =
            std::thread::Builder::new().name("end-tree".into()).spawn(move || tree::end(&whose, Duration::ZERO));
        if let Err(error) = ended {
            tracing::warn!(%error, pid = self.root.pid, "no thread to end a tree of processes");
        }
    }
}

fn name(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

fn folder_gone(folder: &Path) -> Failure {
    let message = format!("The folder {} does not exist", folder.display());
    Failure::new(FailureKind::FolderGone, message)
        .hint("Choose another folder for this thread, or bring this one back.")
}

fn not_started(program: &Path, folder: &Path, error: &io::Error) -> Failure {
    if !folder.is_dir() {
        return folder_gone(folder);
    }
    let shown = program.display();
    let message = match error.kind() {
        io::ErrorKind::NotFound if program.exists() => {
            format!("{shown} needs a program to run it that is not installed")
        }
        io::ErrorKind::NotFound => format!("{shown} is not installed"),
        _ => format!("{shown} cannot be run: {error}"),
    };
    Failure::new(FailureKind::NotInstalled, message)
        .hint("Install it again, or pick the program by hand in the settings.")
}
