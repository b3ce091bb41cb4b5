//! What stood on the screen and when, from the events as they came, held against what is there after the crash (S1).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use changeover_core::{
    id::MessageId,
    message::Message,
    part::{PartBody, WorkStatus},
};
use changeover_engine::api::types::{Event, EventBody};

/// S1: how far the disk may be behind the screen.
pub const BEHIND: Duration = Duration::from_millis(250);

/// The text of a part that streams.
pub fn words(body: &PartBody) -> Option<&str> {
    match body {
        PartBody::Text { text } | PartBody::Reasoning { text } => Some(text),
        PartBody::Command { output, .. } => Some(output),
        _ => None,
    }
}

/// One growth of one part, as it came.
struct Growth {
    at: Instant,
    key: String,
    len: usize,
}

/// A reply as a client saw it grow.
pub struct Screen {
    growths: Vec<Growth>,
    /// Its parts' texts when the app was killed.
    pub texts: BTreeMap<String, String>,
}

impl Screen {
    /// Of this reply, from events with the moments at which they came, until `killed`.
    pub fn of(reply: MessageId, heard: &[(Instant, Event)], killed: Instant) -> Self {
        let (mut texts, mut growths) = (BTreeMap::<String, String>::new(), Vec::new());
        for (at, event) in heard.iter().filter(|(at, _)| *at <= killed) {
            let key = match &event.body {
                EventBody::Part { message_id, part } if *message_id == reply => {
                    let Some(text) = words(&part.body) else { continue };
                    texts.insert(part.key.clone(), text.to_owned());
                    &part.key
                }
                EventBody::Text { message_id, key, text } if *message_id == reply => {
                    texts.entry(key.clone()).or_default().push_str(text);
                    key
                }
                _ => continue,
            };
            growths.push(Growth { at: *at, key: key.clone(), len: texts[key].len() });
        }
        Self { growths, texts }
    }

    /// How long the oldest text that is lost had been on the screen; zero: nothing is lost.
    ///
    /// # Panics
    /// When what is there is not what was shown.
    pub fn lost(&self, found: &Message, killed: Instant) -> Duration {
        let texts: BTreeMap<&str, &str> =
            found.parts.iter().filter_map(|part| Some((part.key.as_str(), words(&part.body)?))).collect();
        for (key, shown) in &self.texts {
            let there = texts.get(key.as_str()).copied().unwrap_or_default();
            let both = shown.len().min(there.len());
            assert_eq!(&shown.as_bytes()[..both], &there.as_bytes()[..both], "part {key} is not what was shown");
        }
        let missing = |growth: &&Growth| growth.len > texts.get(growth.key.as_str()).map_or(0, |text| text.len());
        self.growths.iter().find(missing).map_or(Duration::ZERO, |growth| killed - growth.at)
    }
}

/// Nothing of an ended message still claims to run.
pub fn nothing_runs(message: &Message) {
    for part in &message.parts {
        let status = match &part.body {
            PartBody::Command { status, .. } | PartBody::Tool { status, .. } | PartBody::FileChange { status, .. } => {
                *status
            }
            _ => continue,
        };
        assert_ne!(status, WorkStatus::Running, "a part still runs in {message:#?}");
    }
}
