//! T9, G16: a reply whose stream is cut in the middle, on each real CLI. What its history holds is gone on with, by a prompt
//! that is no message; what it does not hold is asked for again. Either way the reply is one message, every message stands
//! once in what the CLI was told (T6), and the retry is shown (R10).

use changeover_core::{message::MessageState, part::PartBody, provider::ProviderId, turn::GO_ON};
use changeover_engine::api::types::{EventBody, TurnView};
use changeover_tests::{
    agents::AgentHome,
    app::{App, target},
    fake_api::{Failure, FakeApi, Rule},
    talk::Talk,
};

async fn talk<'a>(api: &'a FakeApi, home: &AgentHome) -> Talk<'a> {
    Talk::new(api, App::start(home).await, &home.work()).await
}

/// The open turn as an event shows it, where it is in another attempt.
fn retried(body: &EventBody) -> Option<&TurnView> {
    match body {
        EventBody::Turn { turn: Some(turn) } => Some(turn).filter(|turn| turn.attempt == 2 && turn.retry.is_some()),
        _ => None,
    }
}

/// Both CLIs go on afterwards, and nothing was told twice.
async fn goes_on(mut talk: Talk<'_>, agent: &ProviderId, other: &ProviderId) {
    talk.say(agent, "and on we go").await;
    talk.say(other, "what was said?").await;
    talk.say(agent, "back again").await;
    talk.told_once().await;
    assert_eq!(talk.api.strays(), Vec::<String>::new());
    talk.app.stop().await;
}

async fn goes_on_where_it_was_cut(agent: ProviderId, other: ProviderId) {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = talk(&api, &home).await;
    talk.say(&agent, "to begin with").await;
    talk.say(&other, "and besides").await;

    let cut = "[[preface:the first half]][[tool:bash:echo ran-once >> ran]][[error_after:1:drop]]";
    let (text, asked, _) = talk.compose(&format!("count the files {cut}"), "");
    let mark = talk.app.mark();
    talk.app.send(talk.thread, target(&agent), &text).await;
    talk.app.event_from(mark, |e| e.thread_id == Some(talk.thread) && retried(&e.body).is_some()).await;
    talk.app.turn_ended(mark, talk.thread).await;

    let (reply, log) = (talk.app.last_reply(talk.thread).await, talk.app.log());
    assert_eq!(reply.state, MessageState::Done, "{}\n{log}", talk.transcript().await);
    let whole: Vec<&PartBody> = reply.parts.iter().filter(|part| !part.superseded).map(|part| &part.body).collect();
    let texts =
        |half: &str| whole.iter().filter(|body| matches!(body, PartBody::Text { text } if text.contains(half))).count();
    assert_eq!((texts("the first half"), texts("Your last answer was cut off")), (1, 1), "{reply:#?}");
    assert_eq!(whole.iter().filter(|body| matches!(body, PartBody::Command { .. })).count(), 1, "{reply:#?}");
    let ran = std::fs::read_to_string(home.work().join("ran")).expect("it ran");
    assert_eq!(ran, "ran-once\n", "what was done is not done twice");

    let turns = api.turns();
    let last = turns.last().expect("a request");
    let count = |role: &str, needle: &str| last.texts(role).iter().filter(|text| text.contains(needle)).count();
    assert_eq!(last.user_text, GO_ON, "{:#?}", last.messages());
    assert_eq!(
        (count("user", &asked), count("user", GO_ON), count("assistant", "the first half")),
        (1, 1, 1),
        "{:#?}",
        last.messages()
    );
    // The prompt that goes on is no message, and the nonce of a reply that was never given stands nowhere.
    let messages = talk.app.messages(talk.thread).await;
    assert!(messages.iter().all(|message| message.notice.is_some() || !message.text().starts_with(GO_ON)));
    goes_on(talk, &agent, &other).await;
}

async fn asks_again_where_nothing_was_whole(agent: ProviderId, other: ProviderId) {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let mut talk = talk(&api, &home).await;
    talk.say(&agent, "to begin with").await;
    talk.say(&other, "and besides").await;

    let (text, asked, answer) = talk.compose("tell me", "and more of it");
    api.rule(Rule { error: Failure::Midstream, count: 100, contains: asked.clone(), ..Rule::default() });
    let mark = talk.app.mark();
    talk.app.send(talk.thread, target(&agent), &text).await;
    talk.app.event_from(mark, |e| e.thread_id == Some(talk.thread) && retried(&e.body).is_some()).await;
    api.clear_rules();
    talk.app.turn_ended(mark, talk.thread).await;
    talk.answered(&answer).await;
    let reply = talk.app.last_reply(talk.thread).await;
    let standing: Vec<_> = reply.parts.iter().filter(|part| !part.superseded).collect();
    assert_eq!(standing.len(), 1, "what was cut off is folded away: {reply:#?}");
    let turns = api.turns();
    let last = turns.last().expect("a request");
    assert_eq!(last.count(&asked), 1, "{:#?}", last.messages());
    goes_on(talk, &agent, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t9_claude_code_goes_on_where_it_was_cut() {
    goes_on_where_it_was_cut(ProviderId::claude(), ProviderId::codex()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t9_codex_goes_on_where_it_was_cut() {
    goes_on_where_it_was_cut(ProviderId::codex(), ProviderId::claude()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t9_claude_code_is_asked_again_where_nothing_was_whole() {
    asks_again_where_nothing_was_whole(ProviderId::claude(), ProviderId::codex()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t9_codex_is_asked_again_where_nothing_was_whole() {
    asks_again_where_nothing_was_whole(ProviderId::codex(), ProviderId::claude()).await;
}
