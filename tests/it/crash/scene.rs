//! What all crash tests share: the home and its app, the dice, the shells an agent leaves behind, a look at the dead database.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use changeover_core::{
    id::ThreadId,
    message::{Message, MessageState},
    turn::record::{ApprovalState, TurnPhase},
};
use changeover_engine::api::types::{ApprovalAnswerParams, Event, EventBody, Nothing};
use changeover_store::Store;
use changeover_tests::{
    agents::AgentHome,
    app::{App, Client, Start},
    fake_api::FakeApi,
};

use super::screen::words;

/// R5: how long anything of ours may outlive the app.
pub const OUTLIVES: Duration = Duration::from_secs(5);

/// How many rounds: few in `./dev test`, all in `./dev soak`.
pub fn rounds(test: usize, soak: usize) -> usize {
    if std::env::var_os("CHANGEOVER_SOAK").is_some() { soak } else { test }
}

/// Random moments that can be had again (splitmix64).
pub struct Dice(u64);

impl Dice {
    /// From `CHANGEOVER_SEED`, else always the same; printed, so that a run can be had again.
    pub fn new() -> Self {
        let seed =
            std::env::var("CHANGEOVER_SEED").map_or(5, |text| text.parse().expect("CHANGEOVER_SEED is a number"));
        println!("seed {seed}");
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Processes as an agent's shell may leave them: in sessions of their own, deaf to SIGTERM, without a parent.
const SHELLS: &str = r#"
setsid sleep 3601 >/dev/null 2>&1 &
setsid sh -c 'trap "" TERM INT HUP; sleep 3602; sleep 3602' >/dev/null 2>&1 &
sh -c 'trap "" TERM INT HUP; sleep 3603; sleep 3603' >/dev/null 2>&1 &
(sleep 3604 >/dev/null 2>&1 &)
"#;

/// A home, its data folder, and the model API that the CLIs speak to.
pub struct Scene {
    pub api: FakeApi,
    pub home: AgentHome,
    pub data: PathBuf,
}

impl Scene {
    pub async fn new() -> Self {
        let api = FakeApi::start().await;
        let home = AgentHome::new(&api);
        let data = home.root().join("data");
        fs::write(home.work().join("shells.sh"), SHELLS).expect("a script");
        Self { api, home, data }
    }

    /// Starts the app on the same folder, to die at a fault point if one is named.
    pub async fn start(&self, fault: Option<String>) -> App {
        let env = fault.into_iter().map(|at| (changeover_engine::fault::VARIABLE.to_owned(), at)).collect();
        App::start_with(&self.home, Start { env, ..Start::default() }).await
    }

    /// Looks into the database as the dead app left it, in a copy, so that the next start finds what a crash leaves. The open turns'
    /// phases, by thread.
    ///
    /// # Panics
    /// When it is not sound.
    pub fn autopsy(&self) -> BTreeMap<Vec<u8>, TurnPhase> {
        let copy = tempfile::tempdir().expect("a folder");
        for name in ["changeover.db", "changeover.db-wal"] {
            match fs::copy(self.data.join(name), copy.path().join(name)) {
                Ok(_) => {}
                Err(error) => assert!(name.ends_with("-wal"), "{name}: {error}"),
            }
        }
        let path = copy.path().join("changeover.db");
        let phases = {
            let database = rusqlite::Connection::open(&path).expect("the database opens");
            let word: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
            assert_eq!(word, "ok", "the database is not sound");
            open_phases(&database)
        };
        let store = Store::open(&path, &changeover_store::OpenOptions::default()).expect("the store opens");
        store.check_integrity().expect("the store is sound");
        phases
    }
}

fn open_phases(database: &rusqlite::Connection) -> BTreeMap<Vec<u8>, TurnPhase> {
    let mut rows = database
        .prepare("SELECT thread.id, turn.record FROM turn JOIN thread ON thread.key = turn.thread WHERE turn.open = 1")
        .expect("a statement");
    let rows = rows.query_map([], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?))).expect("rows");
    rows.map(|row| {
        let (thread, record) = row.expect("a row");
        let record: changeover_core::turn::record::TurnRecord = serde_json::from_str(&record).expect("a record");
        (thread, record.phase)
    })
    .collect()
}

/// The script that leaves processes behind, in the scene's folder.
pub fn shells(work: &Path) -> String {
    format!("bash {}", work.join("shells.sh").display())
}

/// Whether this event shows `text` in a part.
pub fn shows(event: &Event, thread: ThreadId, text: &str) -> bool {
    event.thread_id == Some(thread)
        && match &event.body {
            EventBody::Part { part, .. } => words(&part.body).is_some_and(|words| words.contains(text)),
            EventBody::Text { text: more, .. } => more.contains(text),
            _ => false,
        }
}

/// Waits until a thread that was taken up again has no open turn; questions on the way are allowed.
pub async fn settled(client: &Client, thread: ThreadId) {
    let mut answered = Vec::new();
    loop {
        let mark = client.mark();
        let page = client.page(thread).await;
        if page.turn.is_none() {
            return;
        }
        let open = page.approvals.iter().find(|a| a.state == ApprovalState::Open && !answered.contains(&a.id));
        if let Some(open) = open {
            answered.push(open.id);
            let params = ApprovalAnswerParams {
                thread_id: thread,
                approval_id: open.id,
                decision: changeover_core::approval::ApprovalDecision::Once,
            };
            let _: Nothing = client.get("approval/answer", &params).await;
            continue;
        }
        client
            .event_from(mark, |e| {
                e.thread_id == Some(thread)
                    && matches!(&e.body, EventBody::Turn { turn: None } | EventBody::Approval { .. })
            })
            .await;
    }
}

/// Every message that had ended before is there, whole and unchanged.
pub fn unchanged(before: &[Message], after: &[Message]) {
    for message in before.iter().filter(|message| message.state != MessageState::Open) {
        let now = after.iter().find(|now| now.id == message.id);
        assert_eq!(now, Some(message), "a finished message is not what it was");
    }
}
