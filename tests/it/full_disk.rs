//! S1: a full disk. The screen says so, nothing more of the reply is shown than will be on disk, the agent's pipe is not read
//! further; with room again it goes on by itself, and nothing was lost.

use changeover_core::{
    id::MessageId,
    message::{MessageState, Role},
    part::{Part, PartBody},
    provider::ProviderId,
};
use changeover_engine::{
    api::types::{Event, EventBody, TurnStartResponse},
    fault,
};
use changeover_tests::{
    agents::AgentHome,
    app::{App, Start, message, target},
    fake_api::FakeApi,
};

/// The text that an event adds to a reply, as the screen shows it.
fn shown(event: &Event) -> Option<&str> {
    match &event.body {
        EventBody::Text { text, .. } | EventBody::Part { part: Part { body: PartBody::Text { text }, .. }, .. } => {
            Some(text)
        }
        _ => None,
    }
}

/// Whether it is of this message.
fn of(event: &Event, message: MessageId) -> bool {
    matches!(&event.body, EventBody::Text { message_id, .. } | EventBody::Part { message_id, .. } if *message_id == message)
}

fn disk(event: &Event) -> Option<&Option<String>> {
    if let EventBody::Storage { problem } = &event.body { Some(problem) } else { None }
}

fn ended(event: &Event) -> bool {
    matches!(event.body, EventBody::Turn { turn: None })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_a_full_disk_is_waited_for_and_nothing_is_lost() {
    const WORDS: usize = 4_000;
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let size = home.root().join("pages");
    let resize = |pages: u32| std::fs::write(&size, pages.to_string()).expect("a size");
    resize(1_000_000);
    let env = [(fault::DISK.to_owned(), size.display().to_string())].into();
    let app = App::start_with(&home, Start { env, ..Start::default() }).await;
    let practice = ProviderId::practice();
    let thread = app.new_thread(&home.work()).await;
    let mark = app.mark();
    app.send(thread, target(&practice), &format!("stream {WORDS} every 1 ms")).await;
    app.event_from(mark, |e| shown(e).is_some()).await;

    // Full: it may have what it has. The next growth of the reply finds no room, and the screen says so.
    resize(1);
    let full = app.event_from(mark, |e| disk(e).is_some_and(Option::is_some)).await;
    let problem = disk(&full).and_then(Option::as_ref).expect("what is wrong").clone();
    assert!(problem.contains("full") && problem.contains("changeover.db"), "{problem}");
    // What is sent meanwhile waits for room as well.
    let client = App::find(&app.data).await;
    let params = message(thread, Some(target(&practice)), "think");
    let waiting = tokio::spawn(async move { client.ask::<TurnStartResponse>("turn/start", &params).await });
    resize(1_000_000);
    app.event_from(mark, |e| disk(e).is_some_and(Option::is_none)).await;
    waiting.await.expect("it is asked").expect("it was taken");
    app.event_from(mark, ended).await;

    // Between the two nothing of the reply was shown: what was not on disk was not read.
    let events = app.events_from(mark);
    let from = events.iter().position(|e| disk(e).is_some_and(Option::is_some)).expect("full");
    let upto = events.iter().position(|e| disk(e).is_some_and(Option::is_none)).expect("room again");
    assert_eq!(events[from..upto].iter().filter_map(shown).count(), 0);

    // Both turns become whole, the same on the screen and on disk.
    let first = app.events_from(mark).iter().position(ended).expect("the first turn's end");
    app.event_from(mark + first + 1, ended).await;
    let messages = app.messages(thread).await;
    let replies: Vec<_> = messages.iter().filter(|m| m.role == Role::Assistant).collect();
    assert_eq!(replies.iter().map(|m| m.state).collect::<Vec<_>>(), [MessageState::Done; 2], "{}", app.log());
    let text = replies[0].text();
    let whole: String = (1..=WORDS).map(|n| format!("word{n} ")).collect();
    assert!(text.trim_end() == whole.trim_end(), "{} of {} bytes", text.len(), whole.len());
    let screen: String = app.events_from(mark).iter().filter(|e| of(e, replies[0].id)).filter_map(shown).collect();
    assert_eq!(screen, text, "the screen showed what is on disk");
    app.stop().await;
}
