//! A fenced-in Codex behind its adapter, and the steps that the tests share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use changeover_core::approval::ApprovalRequest;
use changeover_core::event::{Ended, RuntimeEvent};
use changeover_core::failure::Failure;
use changeover_core::id::PromptId;
use changeover_core::provider::ApprovalMode;
use changeover_runtime::codex::CodexRuntime;
use changeover_runtime::process::MARK;
use changeover_runtime::session::{AgentRuntime, Answer, Environment, Prompt, Resume, Session, SessionSpec};
use changeover_tests::agents::AgentHome;
use changeover_tests::fake_api::{FakeApi, PATIENCE};
use tokio::sync::mpsc;

pub const RUN: &str = "data:run-1";

/// The API, the home, and the adapter with a notes folder of its own.
pub struct Bench {
    pub api: FakeApi,
    pub home: AgentHome,
    pub runtime: CodexRuntime,
}

impl Bench {
    pub async fn new() -> Self {
        let api = FakeApi::start().await;
        let home = AgentHome::new(&api);
        Self::at(api, home)
    }

    pub fn at(api: FakeApi, home: AgentHome) -> Self {
        let runtime = CodexRuntime::new(home.root().join("notes"));
        Self { api, home, runtime }
    }

    pub fn env(&self) -> Environment {
        let mut env = self.home.env().clone();
        env.insert(MARK.to_owned(), RUN.to_owned());
        env
    }

    pub fn spec(&self) -> SessionSpec {
        SessionSpec {
            folder: self.home.work(),
            resume: None,
            model: None,
            effort: None,
            mode: ApprovalMode::Edits,
            mcp: None,
            env: self.env(),
        }
    }

    pub fn asking(&self) -> SessionSpec {
        SessionSpec { mode: ApprovalMode::Ask, ..self.spec() }
    }

    /// Opens an earlier session, brought back to a turn if one is given.
    pub fn resuming(&self, session: &str, rewind_to: Option<&str>) -> SessionSpec {
        let anchor = rewind_to.map(str::to_owned);
        let resume = Resume { session_id: session.to_owned(), rewind: anchor.is_some(), anchor, fork: false };
        SessionSpec { resume: Some(resume), ..self.spec() }
    }

    pub async fn try_open(&self, spec: SessionSpec) -> Result<Open, Failure> {
        let opened = self.runtime.open(spec).await?;
        Ok(Open { session: opened.session, events: opened.events, seen: Vec::new() })
    }

    pub async fn open(&self, spec: SessionSpec) -> Open {
        self.try_open(spec).await.expect("a session")
    }

    /// The app servers of this home that run now.
    pub fn servers(&self) -> Vec<u32> {
        running(|environment, command| {
            let home = format!("CODEX_HOME={}", self.home.codex_home().display());
            environment.split('\0').any(|entry| entry == home) && command.contains("app-server")
        })
    }

    /// What the newest turn request says was said.
    pub fn told(&self) -> Vec<(String, String)> {
        crate::drive::told(&self.api)
    }
}

/// The live processes that `wanted` accepts by environment and command line, both with NULs.
pub fn running(wanted: impl Fn(&str, &str) -> bool) -> Vec<u32> {
    let read = |pid: u32, name: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let processes = std::fs::read_dir("/proc").expect("/proc");
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| wanted(&read(*pid, "environ"), &read(*pid, "cmdline"))).collect()
}

/// Whether a process is there and is no zombie.
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits for something that no event tells of: a file that a command writes, a process that goes away.
pub async fn eventually(what: &str, mut met: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !met() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not come to pass");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The process id that a command wrote there.
pub async fn pid_in(file: PathBuf) -> u32 {
    let read = || std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    eventually("a pid file", || read().is_some()).await;
    read().expect("a pid")
}

/// An open session and all that it has said.
pub struct Open {
    pub session: Arc<dyn Session>,
    pub events: mpsc::Receiver<RuntimeEvent>,
    pub seen: Vec<RuntimeEvent>,
}

impl Open {
    pub async fn send(&self, text: &str) {
        let id = PromptId(uuid::Uuid::new_v4());
        self.session.send(Prompt { id, text: text.to_owned() }).await.expect("written");
    }

    /// The next event; none at the end of the stream.
    pub async fn next(&mut self) -> Option<RuntimeEvent> {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing more came after {:#?}", self.seen));
        self.seen.extend(event.clone());
        event
    }

    /// Reads on to the first event that `wanted` accepts.
    pub async fn until(&mut self, wanted: impl Fn(&RuntimeEvent) -> bool) -> RuntimeEvent {
        loop {
            match self.next().await {
                Some(event) if wanted(&event) => return event,
                Some(_) => {}
                None => panic!("the session ended after {:#?}", self.seen),
            }
        }
    }

    pub async fn ended(&mut self) -> Ended {
        match self.until(|event| matches!(event, RuntimeEvent::Ended(_))).await {
            RuntimeEvent::Ended(ended) => ended,
            _ => unreachable!(),
        }
    }

    pub async fn asked(&mut self) -> ApprovalRequest {
        match self.until(|event| matches!(event, RuntimeEvent::ApprovalWanted(_))).await {
            RuntimeEvent::ApprovalWanted(request) => request,
            _ => unreachable!(),
        }
    }

    pub async fn answer(&self, request: &ApprovalRequest, answer: Answer) {
        self.session.answer(request.key.clone(), answer).await.expect("answered");
    }

    /// A prompt to the end of its turn: what was said in between.
    pub async fn turn(&mut self, text: &str) -> Vec<RuntimeEvent> {
        let from = self.seen.len();
        self.send(text).await;
        self.ended().await;
        self.seen[from..].to_vec()
    }

    /// A prompt that is answered: the anchor after it.
    pub async fn answered(&mut self, text: &str) -> String {
        let events = self.turn(text).await;
        assert_eq!(events.last(), Some(&RuntimeEvent::Ended(Ended::Completed)));
        let anchor = events.into_iter().rev().find_map(|event| match event {
            RuntimeEvent::Anchor { anchor } => Some(anchor),
            _ => None,
        });
        anchor.expect("an anchor")
    }

    /// How a turn failed.
    pub async fn failed(&mut self, text: &str) -> Failure {
        match self.turn(text).await.pop() {
            Some(RuntimeEvent::Ended(Ended::Failed(failure))) => failure,
            other => panic!("it did not fail: {other:?}"),
        }
    }

    /// The session's id, as first or last told.
    pub async fn id(&mut self) -> String {
        let known = |event: &RuntimeEvent| match event {
            RuntimeEvent::SessionKnown { session_id, .. } => Some(session_id.clone()),
            _ => None,
        };
        if let Some(id) = self.seen.iter().rev().find_map(known) {
            return id;
        }
        let event = self.until(|event| known(event).is_some()).await;
        known(&event).expect("an id")
    }

    pub async fn close(mut self) {
        self.session.close().await;
        while self.next().await.is_some() {}
        assert!(matches!(self.seen.last(), Some(RuntimeEvent::Exited { .. })), "{:?}", self.seen.last());
    }
}
