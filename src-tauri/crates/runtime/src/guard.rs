//! The guard: a small process, started before any agent, that outlives the app by a moment and ends what it left behind (R5).
//!
//! It holds the reading end of a pipe. However the app ends, the system closes the other end; then the guard ends every
//! process that carries the run's mark, and itself.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::process::{MARK, SESSION_MARK, end_marked_within};

/// From asking to killing. Together with [`QUIET`] and the looks at the process table well inside R5's 5 s, on a busy machine too.
const GRACE: Duration = Duration::from_millis(1500);
/// How long no marked process may be seen before the guard goes: a child that was being started shows its mark late.
const QUIET: Duration = Duration::from_millis(500);
/// After this the guard goes in any case.
const LIMIT: Duration = Duration::from_secs(15);

/// The app's hold on its guard. Letting go of it (or dying) sets the guard to work.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// The guard's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still stands guard; if not, start another one.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sets it to work and waits until it is done: for an orderly end. Blocks, as a rule for half a second.
    ///
    /// # Errors
    /// It could not be waited for.
    pub fn finish(mut self) -> io::Result<()> {
        drop(self.pipe.take());
        self.child.wait().map(drop)
    }
}

/// Starts `program args…` (which calls [`run_guard`]) and returns once it stands guard over `mark`. The mark goes through the
/// pipe, so that it does not stand in the process list; the pipe's other end is in no child, as std opens it close-on-exec.
///
/// # Errors
/// It could not be started, or ended before it was ready.
pub fn start_guard(program: &Path, args: &[&str], mark: &str) -> io::Result<Guard> {
    if mark.is_empty() || mark.contains('\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a mark is one line of text"));
    }
    let mut command = Command::new(program);
    command.args(args).env_remove(MARK).env_remove(SESSION_MARK);
    // The workspace it was started from must stay removable.
    if let Some(root) = std::env::temp_dir().ancestors().last() {
        command.current_dir(root);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (Some(mut pipe), Some(answer)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the guard has no pipes"));
    };
    pipe.write_all(format!("{mark}\n").as_bytes())?;
    let mut word = String::new();
    BufReader::new(answer).read_line(&mut word)?;
    if word != "ready\n" {
        return Err(io::Error::other("the guard ended before it was ready"));
    }
    Ok(Guard { child, pipe: Some(pipe) })
}

/// Stands guard: the whole work of the sub-command `guard`. Reads the mark from the first line of standard input, waits for
/// its end, ends every process that carries the mark and returns when none is left. Ctrl-C, a closed terminal and SIGTERM do
/// not end it: that is when it is needed.
///
/// # Errors
/// No mark came, or signals could not be caught.
pub fn run_guard() -> io::Result<()> {
    let _deaf = deaf()?;
    let mut input = BufReader::new(io::stdin());
    let mut mark = String::new();
    input.read_line(&mut mark)?;
    let mark = mark.trim_end_matches('\n');
    if mark.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no mark on standard input"));
    }
    // The app may be gone already: then there is nobody to tell, and all the more to do.
    let _ = writeln!(io::stdout(), "ready").and_then(|()| io::stdout().flush());
    let mut rest = [0; 64];
    loop {
        match input.read(&mut rest) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    sweep(mark);
    Ok(())
}

fn sweep(mark: &str) {
    let begun = Instant::now();
    let mut quiet_since = Instant::now();
    let mut grace = GRACE;
    while quiet_since.elapsed() < QUIET && begun.elapsed() < LIMIT {
        if end_marked_within(mark, grace) > 0 {
            quiet_since = Instant::now();
        }
        // What shows up later is not given the whole time again.
        grace = GRACE.saturating_sub(begun.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
}

/// Away from the terminal, and deaf to what ends programs. The result keeps the signal handlers' runtime alive.
#[cfg(unix)]
fn deaf() -> io::Result<tokio::runtime::Runtime> {
    use tokio::signal::unix::{SignalKind, signal};
    // Fails for the leader of a group, which is then away from the terminal's group all the same.
    let _ = rustix::process::setsid();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::pipe(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    for kind in kinds {
        // A handler stays for the life of the process, and nobody listens: that is the point.
        drop(signal(kind)?);
    }
    drop(entered);
    Ok(runtime)
}

/// Windows: a process without the app's console gets no Ctrl-C; the app's job objects end agents even without a guard.
#[cfg(windows)]
fn deaf() -> io::Result<()> {
    Ok(())
}
