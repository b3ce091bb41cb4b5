//! Interrupts, kills, and what is left of them (R5).

use std::time::{Duration, Instant};

use changeover_core::event::{Ended, RuntimeEvent};
use changeover_core::failure::FailureKind;
use changeover_core::part::WorkStatus;
use changeover_runtime::session::{AgentRuntime, Answer};
use changeover_tests::app::{kill_pid, stop_pid};

use super::bench::{Bench, alive, commands, eventually, pid_in};

/// R5: ask, terminate, kill, in all.
const IN_TIME: Duration = Duration::from_secs(3);

#[tokio::test]
#[ignore = "open fault: OpenCode answers an abort later than the 1.5 s that it has; the engine then ends its server"]
async fn an_interrupt_ends_a_turn_wherever_it_is_and_the_session_goes_on() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.asking()).await;
    // In the middle of a text.
    open.send("[[gate:mid]]one two three").await;
    open.until(|event| matches!(event, RuntimeEvent::Text { .. })).await;
    let begun = Instant::now();
    open.session.interrupt().await.expect("interrupted");
    assert_eq!(open.ended().await, Ended::Interrupted);
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    // Right after the prompt, again and again; what comes late of the one before ends none of them.
    for _ in 0..3 {
        open.send("[[hang]]one two three").await;
        open.session.interrupt().await.expect("interrupted");
        assert_eq!(open.ended().await, Ended::Interrupted);
    }
    // With nothing to stop it is no error, and stops nothing later.
    open.session.interrupt().await.expect("nothing to interrupt");
    open.answered("next").await;
    // At a question: it is withdrawn, and nothing runs.
    open.send("[[tool:bash:echo x > made]]").await;
    let request = open.asked().await;
    open.session.interrupt().await.expect("interrupted");
    let withdrawn = RuntimeEvent::ApprovalWithdrawn { key: request.key.clone() };
    open.until(|event| *event == withdrawn).await;
    assert_eq!(open.ended().await, Ended::Interrupted);
    open.answer(&request, Answer::Allow).await;
    open.answered("and on").await;
    assert!(!bench.home.work().join("made").exists());
    // At a command that ignores signals, with all that it started.
    let deaf = "trap '' TERM INT HUP; echo begun; (trap '' TERM INT HUP; sleep 611) & echo $$ > pid; sleep 612";
    open.send(&format!("[[tool:bash:{deaf}]]")).await;
    let request = open.asked().await;
    open.answer(&request, Answer::Allow).await;
    pid_in(bench.home.work().join("pid")).await;
    let home = format!("HOME={}", bench.home.home().display());
    let asleep = || {
        super::bench::running(|env, line| line.starts_with("sleep\x0061") && env.split('\0').any(|entry| entry == home))
    };
    eventually("both sleeps", || asleep().len() == 2).await;
    let begun = Instant::now();
    open.session.interrupt().await.expect("interrupted");
    assert_eq!(open.ended().await, Ended::Interrupted);
    eventually("the end of both sleeps", || asleep().is_empty()).await;
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    let (line, status, code, output) = commands(&open.seen).pop().expect("a command");
    assert_eq!((line.as_str(), status, code), (deaf, WorkStatus::Interrupted, None));
    assert!(output.is_none_or(|output| output == "begun\n"));
    open.answered("last").await;
    open.close().await;
    bench.end().await;
}

#[tokio::test]
async fn a_killed_server_is_reported_and_leaves_no_process_and_the_next_session_has_another() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.asking()).await;
    let mut other = bench.open(bench.asking()).await;
    open.send("[[tool:bash:(sleep 621 & sleep 622) & echo $$ > pid; wait; sleep 623]]").await;
    let request = open.asked().await;
    open.answer(&request, Answer::Allow).await;
    pid_in(bench.home.work().join("pid")).await;
    let servers = bench.servers();
    assert_eq!(servers.len(), 1, "one for both");
    kill_pid(servers[0]);
    for open in [&mut open, &mut other] {
        let exited = open.until(|event| matches!(event, RuntimeEvent::Exited { .. })).await;
        assert!(matches!(exited, RuntimeEvent::Exited { failure } if failure.kind == FailureKind::Exited));
        assert_eq!(open.next().await, None, "nothing comes after");
    }
    assert!(bench.ours().iter().all(|pid| !alive(*pid)), "{:?}", bench.ours());
    let mut open = bench.open(bench.asking()).await;
    open.answered("on").await;
    open.close().await;
    bench.end().await;
}

/// A session is ended alone, or, where the server does not do as it is told, with it.
#[tokio::test]
#[ignore = "open fault: it has not come to its end yet; not known which step waits"]
async fn closing_killing_and_dropping_end_what_is_the_sessions_own() {
    let bench = Bench::new().await;
    let mut other = bench.open(bench.asking()).await;
    other.send("[[gate:other]]still there").await;
    other.until(|event| matches!(event, RuntimeEvent::Text { .. })).await;
    for way in ["close", "kill", "drop"] {
        let mut open = bench.open(bench.asking()).await;
        open.send(&format!("[[tool:bash:trap '' TERM; echo $$ > {way}; sleep 631]]")).await;
        let request = open.asked().await;
        open.answer(&request, Answer::Allow).await;
        let pid = pid_in(bench.home.work().join(way)).await;
        match way {
            "close" => open.session.close().await,
            "kill" => open.session.kill().await,
            _ => drop(open),
        }
        eventually("the end of the command", || !alive(pid)).await;
    }
    bench.api.open_gate("other");
    assert_eq!(other.ended().await, Ended::Completed, "another thread's turn goes on");
    other.send("[[hang]]stuck").await;
    other.until(|event| matches!(event, RuntimeEvent::Text { .. })).await;
    stop_pid(bench.servers()[0]);
    let begun = Instant::now();
    other.session.kill().await;
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    assert_eq!(bench.ours(), [0; 0]);
    bench.runtime.close().await;
}
