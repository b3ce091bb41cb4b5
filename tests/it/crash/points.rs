//! Each named fault point once (the n-th time it is passed, in a soak), on the practice agent.

use std::time::{Duration, Instant};

use changeover_core::{
    approval::ApprovalDecision,
    id::{MessageId, ThreadId},
    message::{Message, MessageState, Role},
    provider::{ApprovalMode, ProviderId, Target},
    turn::record::{ApprovalState, TurnPhase},
};
use changeover_engine::{
    api::types::{ApprovalAnswerParams, EventBody, Nothing, ThreadParams, TurnStartResponse},
    fault::POINTS,
};
use changeover_tests::{
    app::{Client, message, started, target},
    marked,
};

use super::{
    partition::{check_practice, never_twice, nonce},
    scene::{Dice, OUTLIVES, Scene, rounds, settled, unchanged},
    screen::{BEHIND, Screen, nothing_runs},
};

/// What a client knew when the app died.
struct Death {
    /// What the thread held before the turn.
    before: Vec<Message>,
    /// The message, if its turn was acknowledged.
    sent: Option<(MessageId, String)>,
    /// Where the turn's events begin.
    mark: usize,
    at: Instant,
}

/// Sends a message that passes every point, answers or stops at its question; `None`: the app lived to the turn's end.
async fn turn(client: &Client, thread: ThreadId, point: &str) -> Option<Death> {
    let before = client.messages(thread).await;
    let mark = client.mark();
    let text = format!("{}\nstream 40 every 10 ms\nrun: echo {} | tr z r", nonce('u'), nonce('z'));
    let asks = Target { mode: ApprovalMode::Ask, ..target(&ProviderId::practice()) };
    let answer = client.try_ask::<TurnStartResponse>("turn/start", &message(thread, Some(asks), &text)).await;
    let dead = |sent| Some(Death { before: before.clone(), sent, mark, at: Instant::now() });
    let Some(answer) = answer else { return dead(None) };
    let sent = Some((started(answer.expect("the turn begins")), text));
    let mut answered = Vec::new();
    loop {
        let event = client
            .try_event_from(mark, |e| {
                e.thread_id == Some(thread)
                    && match &e.body {
                        EventBody::Turn { turn: None } => true,
                        EventBody::Approval { approval } => {
                            approval.state == ApprovalState::Open && !answered.contains(&approval.id)
                        }
                        _ => false,
                    }
            })
            .await;
        let Some(event) = event else { return dead(sent) };
        let EventBody::Approval { approval } = event.body else { return None };
        answered.push(approval.id);
        let done = if point.ends_with("interrupting") {
            client.try_ask::<Nothing>("turn/interrupt", &ThreadParams { thread_id: thread }).await
        } else {
            let decision = ApprovalDecision::Once;
            let params = ApprovalAnswerParams { thread_id: thread, approval_id: approval.id, decision };
            client.try_ask::<Nothing>("approval/answer", &params).await
        };
        if done.is_none() {
            return dead(sent);
        }
    }
}

/// The phase that must be on disk after a death at this point, if the point says so.
fn phase_after(point: &str) -> Option<TurnPhase> {
    serde_json::from_value(point.strip_prefix("after-commit-")?.into()).ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc5_dies_at_each_fault_point() {
    let scene = Scene::new().await;
    let (practice, work) = (ProviderId::practice(), scene.home.work());
    let mut dice = Dice::new();
    let (mut lost, mut ended, mut compared) = (Duration::ZERO, Duration::ZERO, 0);
    let first = scene.start(None).await;
    let thread = first.new_thread(&work).await;
    first.stop().await;
    for round in 0..rounds(1, 10) {
        for point in POINTS {
            // A session is opened once a run: its next turns find it open.
            let once = round == 0 || point.ends_with("-open");
            let nth = if once { 1 } else { 1 + dice.below(3) };
            let app = scene.start(Some(format!("{point}:{nth}"))).await;
            app.watch(&[thread]).await;
            let living = marked::all_of(app.pid(), &scene.data);
            assert!(!living.is_empty());
            let client = app.connection();
            let mut death = None;
            for _ in 0..nth {
                death = turn(&client, thread, point).await;
                if death.is_some() {
                    break;
                }
            }
            let Death { before, sent, mark, at } = death.unwrap_or_else(|| panic!("{point}:{nth} was never passed"));
            app.ended().await;
            let took = marked::gone_within(OUTLIVES, &scene.data, &living).await;
            let phase = scene.autopsy().get(thread.0.as_bytes().as_slice()).copied();
            println!("{point}:{nth}: found {phase:?}, all gone after {} ms", took.as_millis());
            if let Some(wanted) = phase_after(point) {
                assert_eq!(phase, Some(wanted).filter(|phase| !phase.is_terminal()), "after {point}:{nth}");
            }

            let app = scene.start(None).await;
            app.watch(&[thread]).await;
            settled(&app, thread).await;
            let after = app.messages(thread).await;
            unchanged(&before, &after);
            let new: Vec<&Message> = after.iter().filter(|m| before.iter().all(|b| b.id != m.id)).collect();
            match &sent {
                Some((id, text)) => {
                    let question = new.iter().find(|m| m.id == *id).expect("S1: the message is there");
                    assert_eq!(question.text(), *text);
                    outcome(point, phase, question, &new);
                }
                None => assert!(new.len() <= 1 || phase.is_some(), "{point}: {new:#?}"),
            }
            // What was on the screen is there, as far as the disk had to have it.
            if let Some(cut) = new.iter().find(|m| m.state == MessageState::Interrupted) {
                nothing_runs(cut);
                let screen = Screen::of(cut.id, &client.heard_from(mark), at);
                let behind = screen.lost(cut, at);
                println!("  lost {} ms", behind.as_millis());
                assert!(
                    behind <= BEHIND,
                    "S1 at {point}: what was on the screen for {} ms is lost",
                    behind.as_millis()
                );
                lost = lost.max(behind);
            }
            ended = ended.max(took);

            app.turn(thread, &practice, &format!("{}\nrun: echo {} | tr z r", nonce('u'), nonce('z'))).await;
            assert_eq!(app.last_reply(thread).await.state, MessageState::Done, "the next turn after {point}");
            let messages = app.messages(thread).await;
            let sets = app.sessions(thread).await.sessions;
            assert_eq!(sets.len(), 1, "one session: {sets:#?}");
            compared += check_practice(&scene.data, &messages, &sets[0]);
            never_twice(&scene.data, &messages);
            app.stop().await;
        }
    }
    println!(
        "at most {} ms lost, all gone after at most {} ms, {compared} nonces",
        lost.as_millis(),
        ended.as_millis()
    );
}

/// What DESIGN's table of states promises for a turn that was found in this phase.
fn outcome(point: &str, phase: Option<TurnPhase>, question: &Message, new: &[&Message]) {
    let reply = new.iter().find(|m| m.role == Role::Assistant).map(|m| m.state);
    let stands = (question.state, reply);
    let (done, cut) = (MessageState::Done, MessageState::Interrupted);
    match phase {
        // Not taken for certain: it is prepared and sent again, by itself.
        Some(TurnPhase::Preparing | TurnPhase::Sent) => assert_eq!(stands, (done, Some(done)), "{point}: {new:#?}"),
        Some(TurnPhase::Taken) => assert_eq!(stands, (MessageState::NotAnswered, None), "{point}: {new:#?}"),
        Some(_) => assert_eq!(stands, (done, Some(cut)), "{point}: {new:#?}"),
        None => assert!(matches!(stands, (s, Some(r)) if s == done && (r == done || r == cut)), "{point}: {new:#?}"),
    }
    if phase == Some(TurnPhase::Waiting) {
        assert!(point.contains("waiting") || point.contains("interrupting") || point.contains("streaming"), "{point}");
    }
}
