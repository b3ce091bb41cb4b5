//! A session of an adapter's, whichever it is, driven by hand.

use std::{path::Path, sync::Arc, time::Duration};

use changeover_core::{
    approval::ApprovalRequest,
    event::{Ended, RuntimeEvent as E},
    failure::Failure,
    id::PromptId,
    part::WorkStatus,
};
use changeover_runtime::session::{Answer, Opened, Prompt, Session};
use tokio::{sync::mpsc, time::timeout};
use uuid::Uuid;

/// Far above what anything here takes: a hang fails, a slow machine does not.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// An open session and all that it has told.
pub struct Talk {
    /// The session.
    pub session: Arc<dyn Session>,
    /// Its events.
    pub events: mpsc::Receiver<E>,
    /// Those read so far.
    pub seen: Vec<E>,
}

impl From<Opened> for Talk {
    fn from(opened: Opened) -> Self {
        Self { session: opened.session, events: opened.events, seen: Vec::new() }
    }
}

impl Talk {
    pub async fn send(&self, text: &str) {
        let prompt = Prompt { id: PromptId(Uuid::new_v4()), text: text.to_owned() };
        self.session.send(prompt).await.expect("the bytes leave us");
    }

    /// Reads on to an event; the place of it in `seen`.
    pub async fn until(&mut self, what: &str, wanted: impl Fn(&E) -> bool) -> E {
        loop {
            let event = match timeout(PATIENCE, self.events.recv()).await {
                Ok(Some(event)) => event,
                Ok(None) => panic!("the events ended before {what}: {:#?}", self.seen),
                Err(_) => panic!("no {what} in {PATIENCE:?}: {:#?}", self.seen),
            };
            self.seen.push(event.clone());
            if wanted(&event) {
                return event;
            }
        }
    }

    /// Reads on to the turn's end, allowing whatever is asked.
    pub async fn ended(&mut self) -> Ended {
        loop {
            match self.until("the end", |e| matches!(e, E::Ended(_) | E::ApprovalWanted(_))).await {
                E::Ended(ended) => return ended,
                E::ApprovalWanted(request) => self.answer(&request.key, Answer::Allow).await,
                _ => unreachable!(),
            }
        }
    }

    pub async fn answer(&self, key: &str, answer: Answer) {
        self.session.answer(key.to_owned(), answer).await.expect("answered");
    }

    /// A prompt to its end: what it told.
    pub async fn turn(&mut self, text: &str) -> (Vec<E>, Ended) {
        let from = self.seen.len();
        self.send(text).await;
        let ended = self.ended().await;
        (self.seen[from..].to_vec(), ended)
    }

    pub async fn completed(&mut self, text: &str) -> Vec<E> {
        let (events, ended) = self.turn(text).await;
        assert_eq!(ended, Ended::Completed, "{events:#?}");
        events
    }

    pub async fn asked(&mut self) -> ApprovalRequest {
        match self.until("an approval", |e| matches!(e, E::ApprovalWanted(_))).await {
            E::ApprovalWanted(request) => request,
            _ => unreachable!(),
        }
    }

    pub fn id(&self) -> String {
        let ids = self.seen.iter().rev();
        let id = ids.filter_map(|e| if let E::SessionKnown { session_id, .. } = e { Some(session_id) } else { None });
        id.clone().next().expect("a session id").clone()
    }

    pub fn anchor(&self) -> String {
        self.last_anchor().expect("an anchor")
    }

    /// The newest anchor, where the runtime tells any.
    pub fn last_anchor(&self) -> Option<String> {
        self.seen.iter().rev().find_map(|e| if let E::Anchor { anchor } = e { Some(anchor.clone()) } else { None })
    }

    /// Closes it: `Exited` is the last that it tells.
    pub async fn over(mut self) {
        self.session.close().await;
        self.until("the end of the session", |e| matches!(e, E::Exited { .. })).await;
        drop(self.session);
        assert_eq!(timeout(PATIENCE, self.events.recv()).await.expect("the end of its events"), None);
    }
}

/// The reply's text as a reader has it in the end: deltas joined, whole texts put in their place, void ones left out.
pub fn reply(events: &[E]) -> String {
    let mut items: Vec<(String, String)> = Vec::new();
    for event in events {
        match event {
            E::Text { item, delta } => match items.iter_mut().find(|(key, _)| key == item) {
                Some((_, text)) => text.push_str(delta),
                None => items.push((item.clone(), delta.clone())),
            },
            E::Whole { item, reasoning: false, text } => {
                let known = items.iter_mut().find(|(key, _)| key == item).expect("a whole text was begun");
                known.1.clone_from(text);
            }
            E::Superseded { items: void } => items.retain(|(key, _)| !void.contains(key)),
            _ => {}
        }
    }
    items.into_iter().map(|(_, text)| text).collect()
}

pub type Ran = (String, WorkStatus, Option<i32>, String);

pub fn commands(events: &[E]) -> Vec<Ran> {
    let mut ran: Vec<(String, Ran)> = Vec::new();
    for event in events {
        if let E::Command { item, command, status, exit_code, output } = event {
            let now = (command.clone(), *status, *exit_code, output.clone().unwrap_or_default());
            match ran.iter_mut().find(|(key, _)| key == item) {
                Some((_, known)) => *known = now,
                None => ran.push((item.clone(), now)),
            }
        }
    }
    ran.into_iter().map(|(_, ran)| ran).collect()
}

pub fn failed(ended: Ended) -> Failure {
    match ended {
        Ended::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

/// Whether a process with this in its command line and this folder as its own lives.
pub fn lives(folder: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let there = processes.filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder));
    there
        .map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ")
        })
        .collect()
}

pub async fn exists(file: &Path) {
    eventually(&file.display().to_string(), || file.exists()).await;
}

/// The command lines of the live processes that have this entry in their environment.
pub fn running(entry: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let read =
        |path: std::path::PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let ours = processes.filter(|process| read(process.path().join("environ")).split('\0').any(|of| of == entry));
    ours.map(|process| read(process.path().join("cmdline")).replace('\0', " ")).collect()
}

/// Waits for something that no event tells of: a process that goes away, a file that a command writes.
pub async fn eventually(what: &str, met: impl Fn() -> bool) {
    let wait = async {
        while !met() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what} did not come to pass"));
}
