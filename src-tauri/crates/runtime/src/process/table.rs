//! The system's process table, as much of it as ending a tree needs. A pid is never used without its start time (R5).

/// One process for as long as it lives: a pid that is used again has another start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Start time in the unit of the system (Linux: clock ticks since boot; elsewhere: seconds since 1970).
    pub started: u64,
}

/// One living process (zombies are gone: they hold nothing and wait for their parent alone).
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub id: Identity,
    pub parent: u32,
    /// Session id; 0 where the system has none.
    pub session: u32,
}

/// How hard to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// SIGTERM. Where there is no such thing, nothing.
    Ask,
    /// SIGKILL.
    Kill,
}

#[cfg(target_os = "linux")]
pub(super) use linux::{Table, signal};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{Table, signal};

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs, path::PathBuf};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::{Force, Identity, Row};

    /// A look at `/proc`.
    pub struct Table;

    impl Table {
        pub fn new() -> Self {
            Self
        }

        /// All living processes.
        pub fn rows(&mut self) -> Vec<Row> {
            let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
            entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).filter_map(row).collect()
        }

        /// The start time of a living process.
        pub fn identity(&mut self, pid: u32) -> Option<Identity> {
            row(pid).map(|r| r.id)
        }

        /// The value of a variable in the environment that the process was started with; `Some(None)` where it has none of that
        /// name, `None` where that cannot be told now: it may not be read, or another program is just being started in it.
        pub fn variable(&self, id: Identity, name: &str) -> Option<Option<String>> {
            let bytes = fs::read(proc_path(id.pid, "environ")).ok().filter(|bytes| !bytes.is_empty())?;
            let value = bytes.split(|b| *b == 0).find_map(|entry| {
                let rest = entry.strip_prefix(name.as_bytes())?;
                rest.strip_prefix(b"=")
            });
            let value = value.map(|value| String::from_utf8_lossy(value).into_owned());
            // The pid may have changed hands between the two reads.
            (row(id.pid)?.id == id).then_some(value)
        }
    }

    fn proc_path(pid: u32, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{pid}/{name}"))
    }

    fn row(pid: u32) -> Option<Row> {
        parse_stat(pid, &fs::read_to_string(proc_path(pid, "stat")).ok()?)
    }

    /// `pid (name) state ppid pgrp session … starttime`: the name may hold spaces and brackets, so the last `)` counts.
    pub fn parse_stat(pid: u32, stat: &str) -> Option<Row> {
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(15)?.parse().ok()?;
        (!matches!(state, "Z" | "X" | "x")).then_some(Row { id: Identity { pid, started }, parent, session })
    }

    /// Sends through a pidfd whose start time was looked at after it was opened: never hits a pid that changed hands.
    pub fn signal(id: Identity, force: Force) {
        let Some(pid) = i32::try_from(id.pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if row(id.pid).map(|r| r.id) == Some(id) {
            let signal = match force {
                Force::Ask => Signal::TERM,
                Force::Kill => Signal::KILL,
            };
            // Gone in between, or not ours to end: either way the next look at the table tells.
            let _ = pidfd_send_signal(fd, signal);
        }
    }
}

/// macOS and Windows. Start times count in seconds, so a pid that changes hands within its first second is not told apart;
/// macOS hides the environment of programs that the system protects (`/bin/bash`): those are found as descendants only.
#[cfg(not(target_os = "linux"))]
mod portable {
    use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, Signal, System, UpdateKind};

    use super::{Force, Identity, Row};

    /// The system's table through `sysinfo`.
    pub struct Table {
        /// `None`: this system shows no process table; logged, and nothing but the child itself can be ended.
        system: Option<System>,
    }

    impl Table {
        pub fn new() -> Self {
            let system = System::new().inspect_err(|error| tracing::warn!(%error, "no process table"));
            Self { system: system.ok() }
        }

        fn refresh(&mut self, which: ProcessesToUpdate<'_>) {
            let kind = ProcessRefreshKind::nothing().with_environ(UpdateKind::OnlyIfNotSet).without_tasks();
            if let Some(system) = &mut self.system {
                system.refresh_processes_specifics(which, true, kind);
            }
        }

        /// All living processes.
        pub fn rows(&mut self) -> Vec<Row> {
            self.refresh(ProcessesToUpdate::All);
            self.system
                .iter()
                .flat_map(|system| system.processes().values())
                .filter(|p| !matches!(p.status(), ProcessStatus::Zombie | ProcessStatus::Dead))
                .map(|p| Row {
                    id: Identity { pid: p.pid().as_u32(), started: p.start_time() },
                    parent: p.parent().map_or(0, Pid::as_u32),
                    session: p.session_id().map_or(0, Pid::as_u32),
                })
                .collect()
        }

        /// The start time of a living process.
        pub fn identity(&mut self, pid: u32) -> Option<Identity> {
            self.refresh(ProcessesToUpdate::Some(&[Pid::from_u32(pid)]));
            self.system.as_ref()?.process(Pid::from_u32(pid)).map(|p| Identity { pid, started: p.start_time() })
        }

        /// The value of a variable in the environment that the process was started with; `Some(None)` where it has none of that
        /// name, `None` where that cannot be told.
        pub fn variable(&self, id: Identity, name: &str) -> Option<Option<String>> {
            let process =
                self.system.as_ref()?.process(Pid::from_u32(id.pid)).filter(|p| p.start_time() == id.started)?;
            let environ = Some(process.environ()).filter(|environ| !environ.is_empty())?;
            Some(environ.iter().find_map(|entry| {
                let (key, value) = entry.to_str()?.split_once('=')?;
                (key == name).then(|| value.to_owned())
            }))
        }
    }

    /// Sends to a process whose start time was just looked at again.
    pub fn signal(id: Identity, force: Force) {
        let mut table = Table::new();
        if table.identity(id.pid) != Some(id) {
            return;
        }
        if let Some(process) = table.system.as_ref().and_then(|system| system.process(Pid::from_u32(id.pid))) {
            match force {
                Force::Ask => {
                    // `None`: no such signal on this system (Windows); its deadline ends it.
                    let _ = process.kill_with(Signal::Term);
                }
                Force::Kill => {
                    let _ = process.kill();
                }
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{Table, linux::parse_stat};

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "42 (a) R 1 b)) S 7 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3";
        let row = parse_stat(42, stat).unwrap();
        assert_eq!((row.parent, row.session, row.id.started), (7, 41, 98765));
        assert!(parse_stat(42, &stat.replace(")) S", ")) Z")).is_none());
    }

    #[test]
    fn this_process_is_found_with_its_environment() {
        let mut table = Table::new();
        let me = table.identity(std::process::id()).unwrap();
        assert!(table.rows().iter().any(|r| r.id == me));
        assert_eq!(table.variable(me, "PATH"), Some(std::env::var("PATH").ok()));
        assert_eq!(table.variable(me, "NO_SUCH_VARIABLE"), Some(None));
        let other = super::Identity { started: me.started + 1, ..me };
        assert_eq!(table.variable(other, "PATH"), None);
    }
}
