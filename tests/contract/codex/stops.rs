//! Interrupts, kills, and what is left of them (R5).

use std::time::{Duration, Instant};

use changeover_core::event::{Ended, RuntimeEvent};
use changeover_core::failure::FailureKind;
use changeover_core::part::WorkStatus;
use changeover_runtime::session::Answer;
use rustix::process::{Pid, Signal, kill_process};

use super::bench::{Bench, alive, eventually, pid_in};
use super::turns::commands;

/// R5: ask, terminate, kill, in all.
const IN_TIME: Duration = Duration::from_secs(3);

#[tokio::test]
async fn an_interrupt_right_after_the_prompt_is_not_lost() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    for _ in 0..3 {
        open.send("[[hang]]one two three").await;
        open.session.interrupt().await.expect("interrupted");
        assert_eq!(open.ended().await, Ended::Interrupted);
    }
    // With nothing to stop it is no error, and stops nothing later.
    open.session.interrupt().await.expect("nothing to interrupt");
    open.answered("next").await;
    open.close().await;
}

#[tokio::test]
async fn an_interrupt_kills_a_command_that_ignores_signals_and_all_it_started() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.asking()).await;
    let deaf = "trap '' TERM INT HUP; echo $$ > pid; (trap '' TERM INT HUP; sleep 611) & echo $! > child; sleep 612";
    open.send(&format!("[[tool:bash:{deaf}]]")).await;
    let request = open.asked().await;
    open.answer(&request, Answer::Allow).await;
    pid_in(bench.home.work().join("pid")).await;
    let asleep = || {
        let mark = format!("CODEX_HOME={}", bench.home.codex_home().display());
        super::bench::running(|env, line| line.starts_with("sleep\x0061") && env.split('\0').any(|entry| entry == mark))
    };
    eventually("both sleeps", || asleep().len() == 2).await;
    let begun = Instant::now();
    open.session.interrupt().await.expect("interrupted");
    assert_eq!(open.ended().await, Ended::Interrupted);
    eventually("the end of both sleeps", || asleep().is_empty()).await;
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    let (line, status, ..) = commands(&open.seen).pop().expect("a command");
    assert_eq!((line.as_str(), status), (deaf, WorkStatus::Interrupted));
    open.answered("next").await;
    open.close().await;
}

#[tokio::test]
async fn a_killed_cli_is_reported_and_leaves_no_process() {
    let bench = Bench::new().await;
    let mut open = bench.open(bench.spec()).await;
    open.send("[[tool:bash:(sleep 621 & sleep 622) & echo $! > pid; wait]]").await;
    pid_in(bench.home.work().join("pid")).await;
    let ours = || {
        let mark = format!("CODEX_HOME={}", bench.home.codex_home().display());
        super::bench::running(|env, _| env.split('\0').any(|entry| entry == mark))
    };
    let server = bench.servers()[..].first().copied().expect("an app server");
    assert!(ours().len() > 2);
    kill_process(Pid::from_raw(i32::try_from(server).expect("a pid")).expect("a pid"), Signal::KILL).expect("killed");
    let exited = open.until(|event| matches!(event, RuntimeEvent::Exited { .. })).await;
    assert!(matches!(exited, RuntimeEvent::Exited { failure } if failure.kind == FailureKind::Exited));
    assert_eq!(open.next().await, None, "nothing comes after");
    assert!(ours().iter().all(|pid| !alive(*pid)), "{:?}", ours());
    let refused = open.session.interrupt().await;
    assert!(refused.is_ok() || refused.is_err_and(|failure| failure.kind == FailureKind::Exited));
}

#[tokio::test]
async fn closing_killing_and_dropping_all_end_the_whole_tree() {
    let bench = Bench::new().await;
    let mark = format!("CODEX_HOME={}", bench.home.codex_home().display());
    let ours = || super::bench::running(|env, _| env.split('\0').any(|entry| entry == mark));
    for way in ["close", "kill", "drop"] {
        let open = bench.open(bench.spec()).await;
        open.send(&format!("[[tool:bash:trap '' TERM; echo $$ > {way}; sleep 631]]")).await;
        pid_in(bench.home.work().join(way)).await;
        assert!(ours().len() > 2);
        match way {
            "close" => open.session.close().await,
            "kill" => open.session.kill().await,
            _ => drop(open),
        }
        if way == "drop" {
            eventually("the end of the tree", || ours().is_empty()).await;
        }
        assert_eq!(ours(), [0; 0], "{way}");
    }
}
