//! A fenced-in OpenCode behind its adapter.

use changeover_core::failure::Failure;
use changeover_core::provider::ApprovalMode;
use changeover_runtime::opencode::OpenCodeRuntime;
use changeover_runtime::process::MARK;
use changeover_runtime::session::{AgentRuntime, Environment, Resume, SessionSpec};
use changeover_tests::agents::AgentHome;
use changeover_tests::fake_api::FakeApi;

pub use crate::codex::bench::{Open, alive, eventually, pid_in, running};
pub use crate::codex::turns::commands;

/// The mark of this run.
pub const RUN: &str = "data:run-1";

/// The API, the home, and the adapter with a folder of its own for its server.
pub struct Bench {
    pub api: FakeApi,
    pub home: AgentHome,
    pub runtime: OpenCodeRuntime,
}

impl Bench {
    pub async fn new() -> Self {
        let api = FakeApi::start().await;
        let home = AgentHome::new(&api).with_opencode();
        Self::at(api, home)
    }

    pub fn at(api: FakeApi, home: AgentHome) -> Self {
        let runtime = OpenCodeRuntime::new(home.root().join("notes"));
        Self { api, home, runtime }
    }

    pub fn env(&self) -> Environment {
        let mut env = self.home.env().clone();
        env.insert(MARK.to_owned(), RUN.to_owned());
        env
    }

    /// A new session whose commands and edits are asked for.
    pub fn asking(&self) -> SessionSpec {
        SessionSpec {
            folder: self.home.work(),
            resume: None,
            model: None,
            effort: None,
            mode: ApprovalMode::Ask,
            mcp: None,
            env: self.env(),
        }
    }

    /// An earlier session as it is, if it still holds the anchor.
    pub fn resuming(&self, session: &str, anchor: Option<&str>) -> SessionSpec {
        self.with(Resume { session_id: session.into(), anchor: anchor.map(str::to_owned), ..Resume::default() })
    }

    /// An earlier session, brought back to the anchor.
    pub fn rewinding(&self, session: &str, anchor: Option<&str>) -> SessionSpec {
        let anchor = anchor.map(str::to_owned);
        self.with(Resume { session_id: session.into(), anchor, rewind: true, fork: false })
    }

    /// A copy of an earlier session, up to the anchor.
    pub fn forking(&self, session: &str, anchor: Option<&str>) -> SessionSpec {
        let anchor = anchor.map(str::to_owned);
        self.with(Resume { session_id: session.into(), anchor, rewind: false, fork: true })
    }

    fn with(&self, resume: Resume) -> SessionSpec {
        SessionSpec { resume: Some(resume), ..self.asking() }
    }

    pub async fn try_open(&self, spec: SessionSpec) -> Result<Open, Failure> {
        let opened = self.runtime.open(spec).await?;
        Ok(Open { session: opened.session, events: opened.events, seen: Vec::new() })
    }

    pub async fn open(&self, spec: SessionSpec) -> Open {
        self.try_open(spec).await.expect("a session")
    }

    /// Everything of this home that runs now.
    pub fn ours(&self) -> Vec<u32> {
        let home = format!("HOME={}", self.home.home().display());
        running(|environment, _| environment.split('\0').any(|entry| entry == home))
    }

    /// The servers of this home that run now.
    pub fn servers(&self) -> Vec<u32> {
        let home = format!("HOME={}", self.home.home().display());
        running(|environment, command| {
            environment.split('\0').any(|entry| entry == home) && command.split('\0').nth(1) == Some("serve")
        })
    }

    /// What the newest turn request says was said.
    pub fn told(&self) -> Vec<(String, String)> {
        crate::drive::told(&self.api)
    }

    /// Ends the server: nothing of this home is left.
    pub async fn end(self) {
        self.runtime.close().await;
        assert_eq!(self.ours(), [0; 0], "something is left");
        assert_eq!(self.api.strays(), [""; 0]);
    }
}
