//! A conversation in which every message carries a nonce of its own, so that what each CLI was told can be counted in the
//! requests that it made (T6), and every turn is checked to have told exactly what its preview showed (H1, X1).

use std::collections::{BTreeMap, BTreeSet};

use changeover_core::{
    handoff::render,
    id::{MessageId, ThreadId},
    message::{Message, MessageState},
    notice::{Handover, Notice},
    provider::ProviderId,
    seq::{Seq, SeqRange},
    turn::record::TurnPhase,
};
use changeover_engine::api::types::{EventBody, HandoffPreviewResponse, SessionSets, TurnStartParams};
use rusqlite::OptionalExtension as _;

use crate::{
    app::{self, App},
    fake_api::{FakeApi, Recorded, nonce_table},
};

/// A text that stands nowhere else.
pub fn nonce() -> String {
    format!("n{}", &uuid::Uuid::new_v4().simple().to_string()[..16])
}

/// One thread, and the nonces of its messages in order.
pub struct Talk<'a> {
    /// What the CLIs speak to.
    pub api: &'a FakeApi,
    /// The app.
    pub app: App,
    /// The thread.
    pub thread: ThreadId,
    /// The nonces of messages and replies, as they were said.
    pub nonces: Vec<String>,
}

/// One message of a talk.
#[derive(Debug, Clone)]
pub struct Said {
    /// Its id.
    pub id: MessageId,
    /// Its whole text.
    pub text: String,
    /// Its nonce.
    pub nonce: String,
    /// The nonce of its reply.
    pub reply: String,
    /// What was previewed.
    pub preview: HandoffPreviewResponse,
}

impl<'a> Talk<'a> {
    /// A new thread in a folder.
    pub async fn new(api: &'a FakeApi, app: App, folder: &std::path::Path) -> Self {
        looked_for(&app).await;
        let thread = app.new_thread(folder).await;
        Self { api, app, thread, nonces: Vec::new() }
    }

    /// Ends the app in good order; what [`Talk::resume`] goes on with.
    pub async fn stop(self) -> (ThreadId, Vec<String>) {
        self.app.stop().await;
        (self.thread, self.nonces)
    }

    /// Goes on with an app that was started anew on the same data folder.
    pub async fn resume(api: &'a FakeApi, app: App, (thread, nonces): (ThreadId, Vec<String>)) -> Self {
        looked_for(&app).await;
        app.watch(&[thread]).await;
        Self { api, app, thread, nonces }
    }

    /// A message's text with a nonce, and what makes the model answer with one: `(text, nonce, reply's nonce)`.
    pub fn compose(&mut self, body: &str, reply: &str) -> (String, String, String) {
        let (asked, answered) = (nonce(), nonce());
        let key = format!("reply{}", self.nonces.len());
        self.api.put_text(&key, &format!("{answered} is the answer. {reply}"));
        self.nonces.extend([asked.clone(), answered.clone()]);
        // The directive comes last: below whatever the text may hold that looks like our own frame.
        (format!("{asked} {body}\n[[text:{key}]]"), asked, answered)
    }

    /// Says something to a provider, previewed first, and sees it answered in full; what was shown, stored and sent are
    /// checked to be the same bytes.
    pub async fn say(&mut self, provider: &ProviderId, body: &str) -> Said {
        self.say_to(provider, body, "").await
    }

    /// The same, with more text in the reply.
    pub async fn say_to(&mut self, provider: &ProviderId, body: &str, reply: &str) -> Said {
        let (text, nonce, answered) = self.compose(body, reply);
        let preview = self.app.preview(self.thread, provider).await;
        let (mark, before) = (self.app.mark(), self.api.requests().len());
        let params = TurnStartParams {
            preview_hash: Some(preview.hash.clone()),
            ..app::message(self.thread, Some(app::target(provider)), &text)
        };
        let id = app::started(self.app.get("turn/start", &params).await);
        self.app.turn_ended(mark, self.thread).await;
        let said = Said { id, text, nonce, reply: answered, preview };
        self.answered(&said.reply).await;
        self.same_bytes(&said, before).await;
        said
    }

    /// Sends a message that is expected not to be answered; `(id, text)`.
    pub async fn try_say(&mut self, provider: &ProviderId, body: &str) -> MessageId {
        let (text, ..) = self.compose(body, "");
        self.app.turn(self.thread, provider, &text).await
    }

    /// Sends a message and returns once its prompt is on its way.
    pub async fn begin(&mut self, provider: &ProviderId, body: &str) -> (MessageId, usize) {
        let (text, ..) = self.compose(body, "");
        let mark = self.app.mark();
        (self.app.send(self.thread, app::target(provider), &text).await, mark)
    }

    /// Waits until the open turn's prompt is written, or about to be.
    pub async fn sent(&self, mark: usize) {
        let sent =
            |body: &EventBody| matches!(body, EventBody::Turn { turn: Some(turn) } if turn.phase == TurnPhase::Sent);
        self.app.event_from(mark, |e| e.thread_id == Some(self.thread) && sent(&e.body)).await;
    }

    /// The newest reply is whole and carries this nonce.
    pub async fn answered(&self, nonce: &str) {
        let reply = self.app.messages(self.thread).await.into_iter().rev().find(Message::is_content);
        let reply = reply.expect("a message");
        assert!(
            reply.state == MessageState::Done && reply.text().contains(nonce),
            "not answered: {}\n{}",
            self.transcript().await,
            self.app.log()
        );
    }

    /// Preview, notice, database and request hold the same bytes.
    async fn same_bytes(&self, said: &Said, before: usize) {
        let handed = said.preview.text.as_deref();
        let prompt = match handed {
            None => said.text.clone(),
            Some(handed) => {
                let notice = self.handovers().await.pop().expect("a notice");
                assert_eq!(Some(&notice.1), said.preview.handover.as_ref(), "the notice is what was previewed");
                assert_eq!(self.app.handover_text(self.thread, notice.0).await, handed, "the divider's text");
                assert_eq!(
                    stored_handover(&self.app.database(), notice.0).as_deref(),
                    Some(handed),
                    "the database's text"
                );
                assert_eq!(notice.1.hash, render::hash(handed));
                assert_eq!(notice.1.bytes, handed.len() as u64);
                format!("{handed}\n\n{}\n\n{}", render::NEW_MESSAGE_HEADING, said.text)
            }
        };
        let requests = self.api.requests();
        let held = |request: &Recorded| request.texts("user").iter().filter(|text| **text == prompt).count();
        let told: Vec<usize> = requests[before..].iter().map(|request| held(request)).filter(|n| *n > 0).collect();
        assert!(
            !told.is_empty() && told.iter().all(|n| *n == 1),
            "no request holds exactly these bytes once ({told:?}):\n{prompt}\n--- but:\n{}",
            requests[before..].iter().map(|r| format!("{:#?}\n", r.texts("user"))).collect::<String>()
        );
    }

    /// The thread's handovers in order.
    pub async fn handovers(&self) -> Vec<(MessageId, Handover)> {
        let messages = self.app.messages(self.thread).await.into_iter();
        messages
            .filter_map(|message| match message.notice {
                Some(Notice::Handover(handover)) => Some((message.id, handover)),
                _ => None,
            })
            .collect()
    }

    /// The thread as lines, for people.
    pub async fn transcript(&self) -> String {
        let line = |message: &Message| {
            let text: String = message.text().chars().take(100).collect();
            let notice = message.notice.as_ref().map(|notice| match notice {
                Notice::Handover(h) => format!("{:?} to {}: {:?}, left {:?}", h.kind, h.provider, h.told, h.left_out),
                other => format!("{other:?}"),
            });
            let notice = notice.unwrap_or_default();
            format!("#{} {:?} {:?} {text:?} {notice}\n", message.seq, message.role, message.state)
        };
        self.app.messages(self.thread).await.iter().map(line).collect()
    }

    /// T6, for every live session: what the app says is a partition of all content messages, and the session's last request,
    /// which holds its whole history, says the same. The table, and what is wrong, if anything.
    pub async fn told(&self) -> (String, Vec<String>) {
        let requests = self.api.requests();
        let table = nonce_table(&requests, &self.nonces);
        let sessions = self.app.sessions(self.thread).await.sessions;
        let mut shown = format!("{}{table}", self.transcript().await);
        let mut wrong = Vec::new();
        let content: Vec<Message> =
            self.app.messages(self.thread).await.into_iter().filter(Message::is_content).collect();
        for row in &table.0 {
            if row.most > 1 {
                wrong.push(format!("{} stands {} times in one request of {}", row.nonce, row.most, row.session));
            }
        }
        for sets in &sessions {
            let (id, place) = (&sets.session.session_id, places(sets));
            shown.push_str(&format!(
                "{} {id} knows up to {}: {place:?}\n",
                sets.session.provider, sets.session.known_upto_seq
            ));
            let last_told = place.iter().filter(|(_, p)| p.contains(&Place::Told)).map(|(seq, _)| *seq).max();
            for message in &content {
                let seq = message.seq;
                let at = place.get(&seq).cloned().unwrap_or_default();
                if at.len() != 1 {
                    wrong.push(format!("#{seq} is {at:?} to {id}, and not one of them"));
                }
                let text = message.text();
                for nonce in self.nonces.iter().filter(|nonce| text.contains(*nonce)) {
                    let expected = match at.first() {
                        // The answer to the last request stands in no request yet.
                        Some(Place::Own) if last_told.is_some_and(|told| seq > told) => 0,
                        Some(Place::Own | Place::Told) => 1,
                        _ => 0,
                    };
                    let found = table.row(nonce, id).map_or(0, |row| row.last);
                    if found != expected {
                        wrong.push(format!(
                            "#{seq} ({nonce}) stands {found} times in the last request of {id}, not {expected}"
                        ));
                    }
                }
            }
            let known: BTreeSet<Seq> = content.iter().map(|message| message.seq).collect();
            wrong.extend(
                place
                    .keys()
                    .filter(|seq| !known.contains(seq))
                    .map(|seq| format!("#{seq} is no content, but {id} has it")),
            );
        }
        (shown, wrong)
    }

    /// The same, printed, and everything must be right.
    pub async fn told_once(&self) {
        let (shown, wrong) = self.told().await;
        println!("{shown}");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Waits until both CLIs have been looked for: a turn is then not slowed down by the app's own start.
async fn looked_for(app: &App) {
    for provider in [ProviderId::claude(), ProviderId::codex()] {
        app.provider(&provider).await;
    }
}

/// Where T6 puts a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The session's own reply.
    Own,
    /// Told.
    Told,
    /// Left out.
    LeftOut,
    /// Above what it has seen.
    Above,
}

/// T6's sets of one session, message by message. More than one place, or a message without one, is a fault.
pub fn places(sets: &SessionSets) -> BTreeMap<Seq, Vec<Place>> {
    let mut places: BTreeMap<Seq, Vec<Place>> = BTreeMap::new();
    let mut put = |ranges: &[SeqRange], place: Place| {
        for seq in ranges.iter().flat_map(|range| range.from..=range.to) {
            places.entry(seq).or_default().push(place);
        }
    };
    put(&sets.own, Place::Own);
    put(&sets.told, Place::Told);
    put(&sets.left_out.iter().map(|left| left.range).collect::<Vec<_>>(), Place::LeftOut);
    put(&sets.above, Place::Above);
    places
}

/// The exact text of a handover as the database has it.
pub fn stored_handover(database: &rusqlite::Connection, notice: MessageId) -> Option<String> {
    let sql = "SELECT h.text FROM handover h JOIN message m ON m.key = h.message WHERE m.id = ?1";
    database.query_row(sql, [notice.0.as_bytes().as_slice()], |row| row.get(0)).optional().expect("the database")
}
