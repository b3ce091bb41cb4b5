//! The message that streams: its blocks as items, and what a cut leaves of them (S2).

use changeover_core::event::RuntimeEvent;
use serde_json::Value;

use super::wire::{StreamEvent, Usage};

/// The main thread's message in the making.
#[derive(Debug, Default)]
pub(super) struct Stream {
    open: Option<OpenMessage>,
    model: Option<String>,
}

#[derive(Debug)]
struct OpenMessage {
    id: String,
    blocks: Vec<Block>,
    /// The model itself has ended it. The CLI closes a message that was cut off too, but cannot give it a stop reason.
    ended: bool,
}

#[derive(Debug)]
struct Block {
    index: u64,
    kind: Kind,
    /// Something of it was told.
    told: bool,
    /// The CLI has it whole, so it stands in its history, whatever becomes of the rest of the message.
    whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Other,
}

impl Stream {
    /// The model that answers, as the API named it.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Takes a piece: what it tells, and the token counts in it, with the model's name at the head of a message.
    pub fn piece(&mut self, event: StreamEvent) -> (Vec<RuntimeEvent>, Option<(Usage, Option<String>)>) {
        let mut events = Vec::new();
        let mut usage = None;
        match event.kind.as_str() {
            "message_start" => {
                events.extend(self.superseded());
                let message = event.message.unwrap_or_default();
                self.model = Some(message.model.clone());
                usage = message.usage.map(|usage| (usage, Some(message.model)));
                self.open = Some(OpenMessage { id: message.id, blocks: Vec::new(), ended: false });
            }
            "content_block_start" => {
                let kind = match event.content_block.as_ref().map(|block| block.kind.as_str()) {
                    Some("text") => Kind::Text,
                    Some("thinking") => Kind::Reasoning,
                    _ => Kind::Other,
                };
                if let Some(open) = &mut self.open {
                    open.blocks.push(Block { index: event.index, kind, told: false, whole: false });
                }
            }
            "content_block_delta" => events.extend(self.delta(event)),
            "message_delta" => {
                if let Some(open) = &mut self.open {
                    open.ended |= event.delta.is_some_and(|delta| delta.stop_reason.is_some());
                }
                usage = event.usage.map(|usage| (usage, None));
            }
            _ => {}
        }
        (events, usage)
    }

    fn delta(&mut self, event: StreamEvent) -> Option<RuntimeEvent> {
        let delta = event.delta?;
        let (kind, text) = match delta.kind.as_str() {
            "text_delta" => (Kind::Text, delta.text?),
            "thinking_delta" => (Kind::Reasoning, delta.thinking?),
            _ => return None,
        };
        if text.is_empty() {
            return None;
        }
        let open = self.open.as_mut()?;
        let block = match open.blocks.iter().position(|block| block.index == event.index) {
            Some(at) => &mut open.blocks[at],
            None => open.add(kind, event.index),
        };
        block.told = true;
        let item = item(&open.id, event.index);
        Some(match kind {
            Kind::Text => RuntimeEvent::Text { item, delta: text },
            _ => RuntimeEvent::Reasoning { item, delta: text },
        })
    }

    /// Takes blocks that the CLI has whole. It sends them one by one, in order, without their index.
    pub fn whole(&mut self, id: &str, blocks: &[Value]) -> Vec<RuntimeEvent> {
        let mut events = Vec::new();
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            events.extend(self.superseded());
            // It was not streamed: asked for again without, after cuts.
            self.open = Some(OpenMessage { id: id.to_owned(), blocks: Vec::new(), ended: true });
        }
        let Some(open) = &mut self.open else { return events };
        for block in blocks {
            let (kind, text) = match block["type"].as_str() {
                Some("text") => (Kind::Text, block["text"].as_str()),
                Some("thinking") => (Kind::Reasoning, block["thinking"].as_str()),
                _ => (Kind::Other, None),
            };
            let next = open.blocks.iter().map(|block| block.index + 1).max().unwrap_or(0);
            let at = match open.blocks.iter().position(|block| block.kind == kind && !block.whole) {
                Some(at) => &mut open.blocks[at],
                None => open.add(kind, next),
            };
            at.whole = true;
            let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
            let (item, reasoning, told) = (item(id, at.index), kind == Kind::Reasoning, at.told);
            at.told = true;
            if !told {
                let (item, delta) = (item.clone(), text.to_owned());
                events.push(if reasoning {
                    RuntimeEvent::Reasoning { item, delta }
                } else {
                    RuntimeEvent::Text { item, delta }
                });
            }
            events.push(RuntimeEvent::Whole { item, reasoning, text: text.to_owned() });
        }
        events
    }

    /// The turn is over. After an interrupt, reasoning that was cut off stays as it is.
    pub fn end(&mut self, interrupted: bool) -> Option<RuntimeEvent> {
        if interrupted && let Some(open) = &mut self.open {
            open.blocks.retain(|block| block.kind != Kind::Reasoning);
        }
        self.superseded()
    }

    /// What a cut has made void: every block that was not whole yet, and reasoning that led to nothing whole.
    fn superseded(&mut self) -> Option<RuntimeEvent> {
        let open = self.open.take().filter(|open| !open.ended)?;
        let stands = open.blocks.iter().any(|block| block.whole && block.kind != Kind::Reasoning);
        let void = |block: &&Block| block.told && (!block.whole || (block.kind == Kind::Reasoning && !stands));
        let items: Vec<String> = open.blocks.iter().filter(void).map(|block| item(&open.id, block.index)).collect();
        (!items.is_empty()).then_some(RuntimeEvent::Superseded { items })
    }
}

impl OpenMessage {
    fn add(&mut self, kind: Kind, index: u64) -> &mut Block {
        let at = self.blocks.len();
        self.blocks.push(Block { index, kind, told: false, whole: false });
        &mut self.blocks[at]
    }
}

fn item(message: &str, index: u64) -> String {
    format!("{message}:{index}")
}
