//! One runtime under test: how it is made, where it lives, how its model is told what to answer.

use std::{path::PathBuf, sync::Arc};

use changeover_core::{
    event::{Ended, RuntimeEvent as E},
    failure::Failure,
    power::Power,
    provider::ApprovalMode,
};
use changeover_runtime::{
    claude::Claude,
    codex::CodexRuntime,
    opencode::OpenCodeRuntime,
    practice::practice_runtime,
    process::MARK,
    session::{AgentRuntime, Resume, SessionSpec},
};
use changeover_tests::{agents::AgentHome, app, fake_api::FakeApi};
use uuid::Uuid;

use crate::talk::{Talk, eventually, running};

/// The runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Claude,
    Codex,
    OpenCode,
    Practice,
}

impl Kind {
    /// Its name among the table's runtimes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Practice => "practice",
        }
    }
}

/// A prompt, and the reply that it gets.
#[derive(Debug, Clone)]
pub struct Line {
    pub prompt: String,
    pub reply: String,
}

/// What the model API does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Unauthorized,
    Limited,
    Overloaded,
    TooLong,
}

/// A runtime with all that it needs, fenced in.
pub struct Stand {
    pub kind: Kind,
    pub api: FakeApi,
    pub home: AgentHome,
    pub runtime: Arc<dyn AgentRuntime>,
    mark: String,
}

impl Stand {
    pub async fn new(kind: Kind) -> Self {
        let api = FakeApi::start().await;
        let home = match kind {
            Kind::OpenCode => AgentHome::new(&api).with_opencode(),
            _ => AgentHome::new(&api),
        };
        let runtime: Arc<dyn AgentRuntime> = match kind {
            Kind::Claude => Arc::new(Claude::default()),
            Kind::Codex => Arc::new(CodexRuntime::new(home.root().join("notes"))),
            Kind::OpenCode => Arc::new(OpenCodeRuntime::new(home.root().join("notes"))),
            Kind::Practice => {
                let folder = home.root().join("practice");
                Arc::new(practice_runtime(app::binary(), vec!["practice-agent".into()], Some(folder)))
            }
        };
        Self { kind, api, home, runtime, mark: format!("scenario:{}", Uuid::new_v4()) }
    }

    /// The practice agent has no model behind it: what would be in a request is asked of itself.
    pub fn has_model(&self) -> bool {
        self.kind != Kind::Practice
    }

    /// The window that its default model reports, in tokens.
    pub fn window(&self) -> u64 {
        match self.kind {
            Kind::Claude | Kind::OpenCode => 1_000_000,
            Kind::Codex => 258_400,
            Kind::Practice => 200_000,
        }
    }

    /// A CLI that asks an API in trouble again and again, for as long as nobody stops it (R10).
    pub fn retries_for_ever(&self) -> bool {
        self.kind == Kind::OpenCode
    }

    /// More than any CLI lets its context grow to by itself. The practice agent stops at its window.
    pub fn overfull(&self) -> u64 {
        if self.has_model() { self.window() + 10_000 } else { self.window() - 10_000 }
    }

    /// The product's words for a power that is missing.
    pub fn cannot(&self, power: Power) -> Option<String> {
        self.runtime.cannot().into_iter().find(|cannot| cannot.power == power).map(|cannot| cannot.message)
    }

    /// A new session that asks for everything.
    pub fn spec(&self) -> SessionSpec {
        let mut env = self.home.env().clone();
        env.insert(MARK.to_owned(), self.mark.clone());
        SessionSpec {
            folder: self.home.work(),
            resume: None,
            model: None,
            effort: None,
            mode: ApprovalMode::Ask,
            mcp: None,
            env,
        }
    }

    /// An earlier session, up to an anchor where one was told.
    pub fn resuming(&self, session_id: &str, anchor: Option<String>) -> SessionSpec {
        let resume = Resume { session_id: session_id.to_owned(), anchor, rewind: false, fork: false };
        SessionSpec { resume: Some(resume), ..self.spec() }
    }

    /// The same, brought back to its anchor for good.
    pub fn rewinding(&self, session_id: &str, anchor: Option<String>) -> SessionSpec {
        let resume = Resume { session_id: session_id.to_owned(), anchor, rewind: true, fork: false };
        SessionSpec { resume: Some(resume), ..self.spec() }
    }

    /// A copy of it.
    pub fn forking(&self, session_id: &str, anchor: Option<String>) -> SessionSpec {
        let resume = Resume { session_id: session_id.to_owned(), anchor, rewind: false, fork: true };
        SessionSpec { resume: Some(resume), ..self.spec() }
    }

    pub async fn try_open(&self, spec: SessionSpec) -> Result<Talk, Failure> {
        self.runtime.open(spec).await.map(Talk::from)
    }

    pub async fn open(&self, spec: SessionSpec) -> Talk {
        self.try_open(spec).await.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// The n-th thing to say.
    pub fn line(&self, n: usize) -> Line {
        match self.kind {
            Kind::Practice => {
                let words: String = (1..=n).map(|word| format!("word{word} ")).collect();
                Line { prompt: format!("stream {n}"), reply: format!("{words}\n") }
            }
            _ => Line { prompt: format!("message {n} [[say:reply {n}]]"), reply: format!("reply {n}") },
        }
    }

    /// Asks the agent to run a command.
    pub fn run(&self, command: &str) -> String {
        match self.kind {
            Kind::Practice => format!("run: {command}"),
            _ => format!("run it [[tool:bash:{command}]] [[say:it is done]]"),
        }
    }

    /// A reply that does not end until `name` is opened, and is open for ever with the practice agent.
    pub fn held(&self, name: &str) -> String {
        match self.kind {
            Kind::Practice => "stream 100000 every 20 ms".to_owned(),
            _ => format!("hold on [[gate:{name}]] [[say:the first words and then the rest of it]]"),
        }
    }

    /// A prompt that runs into this.
    pub fn fault(&self, fault: Fault) -> String {
        let (word, directive) = match fault {
            Fault::Unauthorized => ("auth", "401"),
            Fault::Limited => ("limit", "429"),
            Fault::Overloaded => ("overload", "529"),
            Fault::TooLong => ("overflow", "toolong"),
        };
        match self.kind {
            Kind::Practice => format!("fail: {word}"),
            // It waits for a limit that ends soon, however often it has to.
            Kind::OpenCode if fault == Fault::Limited => "this fails [[error:429]] [[retry_after:3600]]".to_owned(),
            _ => format!("this fails [[error:{directive}]] [[retry_after:0]]"),
        }
    }

    /// A turn after which the context counts so many tokens: `used` less 50, and 50.
    pub fn filling(&self, used: u64) -> String {
        match self.kind {
            Kind::Practice => format!("fill {used}"),
            _ => format!("fill it [[say:filled]] [[usage:{}:50]]", used - 50),
        }
    }

    /// What the agent's history holds, the newest prompt last, is exactly these. With the practice agent this is a turn.
    pub async fn heard(&self, talk: &mut Talk, lines: &[&Line]) {
        if self.kind == Kind::Practice {
            let reply = crate::talk::reply(&talk.completed("recall all").await);
            let prompts: Vec<&str> = reply
                .split("\n--- ")
                .skip(1)
                .filter_map(|part| part.split_once('\n'))
                .map(|(_, prompt)| prompt.trim_end())
                .collect();
            let mut wanted: Vec<&str> = lines.iter().map(|line| line.prompt.as_str()).collect();
            wanted.push("recall all");
            assert_eq!(prompts, wanted);
            return;
        }
        let mut wanted: Vec<(String, String)> = Vec::new();
        for line in lines {
            wanted.extend([("user".to_owned(), line.prompt.clone()), ("assistant".to_owned(), line.reply.clone())]);
        }
        wanted.pop();
        let mut told = crate::drive::told(&self.api);
        told.retain(|(role, _)| role == "user" || role == "assistant");
        assert_eq!(told, wanted);
    }

    /// The turn requests so far; none without a model.
    pub fn requests(&self) -> usize {
        self.api.turns().len()
    }

    /// Takes away what the agent keeps of its sessions.
    pub async fn forget_sessions(&self) {
        self.runtime.close().await;
        let folder: PathBuf = match self.kind {
            Kind::Claude => self.home.claude_home().join("projects"),
            Kind::Codex => self.home.codex_home().join("sessions"),
            Kind::OpenCode => self.home.home().join(".local/share/opencode"),
            Kind::Practice => self.home.root().join("practice"),
        };
        std::fs::remove_dir_all(&folder).expect("its sessions");
    }

    /// The command lines of what carries this stand's mark and lives.
    pub fn processes(&self) -> Vec<String> {
        running(&format!("{MARK}={}", self.mark))
    }

    /// Nothing of it is left, and it has called nobody else.
    pub async fn over(&self) {
        self.runtime.close().await;
        eventually("the end of every process", || self.processes().is_empty()).await;
        assert_eq!(self.api.strays(), Vec::<String>::new());
    }
}

/// A turn that failed: how, with exactly one sign that it was taken, and with nothing that a model would have made.
pub fn refused(events: &[E], ended: Ended) -> Failure {
    let made = |e: &&E| matches!(e, E::Text { .. } | E::Reasoning { .. } | E::Command { .. } | E::Tool { .. });
    assert_eq!(events.iter().find(made), None, "{events:#?}");
    assert_eq!(events.iter().filter(|e| matches!(e, E::Ended(_))).count(), 1, "{events:#?}");
    crate::talk::failed(ended)
}
