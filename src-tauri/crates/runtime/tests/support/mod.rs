//! A session under test: opened in folders of its own, under a mark of its own.
#![allow(dead_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use changeover_core::{
    event::{Kept, RuntimeEvent as Event},
    failure::Failure,
    id::PromptId,
    provider::ApprovalMode,
};
use changeover_runtime::{
    acp::AcpRuntime,
    practice::practice_runtime,
    process::MARK,
    session::{AgentRuntime, Answer, EVENTS_BOUND, Environment, Prompt, Session, SessionSpec},
};
use tokio::sync::mpsc;

pub const PARTS: &str = env!("CARGO_BIN_EXE_changeover-parts");

pub struct Scene {
    dir: tempfile::TempDir,
    pub runtime: AcpRuntime,
    pub mark: String,
}

impl Scene {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("sessions");
        let runtime = practice_runtime(PARTS.into(), vec!["practice-agent".into()], Some(home));
        Self::with(dir, runtime)
    }

    pub fn with(dir: tempfile::TempDir, runtime: AcpRuntime) -> Self {
        fs::create_dir_all(dir.path().join("work")).unwrap();
        Self { dir, runtime, mark: format!("{}:test", uuid::Uuid::new_v4()) }
    }

    pub fn folder(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub fn env(&self) -> Environment {
        let path = std::env::var("PATH").unwrap();
        Environment::from([("PATH".into(), path), (MARK.into(), self.mark.clone())])
    }

    pub async fn try_open(&self, change: impl FnOnce(&mut SessionSpec)) -> Result<Talk, Failure> {
        let mut spec = SessionSpec {
            folder: self.folder(),
            resume: None,
            model: None,
            effort: None,
            mode: ApprovalMode::Ask,
            mcp: None,
            env: self.env(),
        };
        change(&mut spec);
        let opened = tokio::time::timeout(Duration::from_secs(30), self.runtime.open(spec)).await.unwrap()?;
        let mut talk = Talk { session: opened.session, events: opened.events, id: String::new(), ahead: Vec::new() };
        let first = talk.next().await;
        if let Event::SessionKnown { session_id, .. } = &first {
            talk.id.clone_from(session_id);
        }
        talk.ahead.push(first);
        Ok(talk)
    }

    pub async fn open(&self, change: impl FnOnce(&mut SessionSpec)) -> Talk {
        self.try_open(change).await.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    pub async fn refused(&self, change: impl FnOnce(&mut SessionSpec)) -> Failure {
        match self.try_open(change).await {
            Ok(_) => panic!("it opened"),
            Err(failure) => failure,
        }
    }

    /// What the practice agent's own record holds of the last prompt, and that prompt.
    pub fn kept(&self, id: &str) -> (Kept, String) {
        let file = fs::read_to_string(self.dir.path().join("sessions").join(format!("{id}.jsonl"))).unwrap();
        let records: Vec<serde_json::Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let at = records.iter().rposition(|record| record.get("user").is_some()).unwrap();
        let answered = records[at + 1..].iter().any(|record| record.get("agent").is_some());
        let prompt = records[at]["user"].as_str().unwrap().to_owned();
        (if answered { Kept::Everything } else { Kept::PromptOnly }, prompt)
    }
}

pub struct Talk {
    pub session: Arc<dyn Session>,
    pub events: mpsc::Receiver<Event>,
    pub id: String,
    ahead: Vec<Event>,
}

impl Talk {
    pub async fn next(&mut self) -> Event {
        if let Some(event) = self.ahead.pop() {
            return event;
        }
        tokio::time::timeout(Duration::from_secs(30), self.events.recv())
            .await
            .expect("no event for 30 s")
            .expect("no more")
    }

    /// All events up to the first that is meant.
    pub async fn until(&mut self, meant: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let done = meant(&event);
            if !matches!(event, Event::SessionKnown { .. }) {
                events.push(event);
            }
            if done {
                return events;
            }
        }
    }

    pub async fn try_send(&self, text: &str) -> Result<(), Failure> {
        self.session.send(Prompt { id: PromptId(uuid::Uuid::new_v4()), text: text.into() }).await
    }

    pub async fn send(&self, text: &str) {
        self.try_send(text).await.unwrap();
    }

    pub async fn turn(&mut self, text: &str) -> Vec<Event> {
        self.send(text).await;
        self.until(ended).await
    }

    pub async fn answer(&self, key: &str, answer: Answer) {
        self.session.answer(key.into(), answer).await.unwrap();
    }

    pub async fn interrupt(&self) {
        self.session.interrupt().await.unwrap();
    }

    /// Until the channel is full and the adapter does not read any more.
    pub async fn filled(&self) {
        let full = async {
            while self.events.len() < EVENTS_BOUND {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), full).await.unwrap();
    }
}

pub fn ended(event: &Event) -> bool {
    matches!(event, Event::Ended(_))
}

pub fn exited(event: &Event) -> bool {
    matches!(event, Event::Exited { .. })
}

pub fn text(events: &[Event]) -> String {
    events
        .iter()
        .filter_map(|event| if let Event::Text { delta, .. } = event { Some(delta.as_str()) } else { None })
        .collect()
}

/// Pids that carry the mark, zombies left out.
pub fn carrying(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let environ = fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == wanted.as_bytes())
    })
    .collect()
}
