//! Leave for commands and edits (R4).

use changeover_core::approval::ApprovalSubject;
use changeover_core::event::{Ended, RuntimeEvent};
use changeover_core::part::{FileDelta, WorkStatus};
use changeover_runtime::session::{Answer, SessionSpec};
use serde_json::json;

use super::bench::Bench;
use super::turns::commands;

fn patch(text: &str) -> String {
    let input = format!("*** Begin Patch\n{text}\n*** End Patch");
    format!("[[call:apply_patch:{}]]", json!({"input": input}))
}

#[tokio::test]
async fn an_edit_is_asked_for_with_its_diff() {
    let bench = Bench::new().await;
    let file = bench.home.work().join("new.txt");
    // Only models of the catalogue have the tool.
    let spec = SessionSpec { model: Some("gpt-5.5".into()), ..bench.asking() };
    let mut open = bench.open(spec).await;
    let mut step = async |text: &str, diff: &str, answer, status| {
        let from = open.seen.len();
        open.send(&patch(text)).await;
        let request = open.asked().await;
        let files = vec![FileDelta { path: file.display().to_string(), diff: diff.to_owned() }];
        assert_eq!(request.subject, ApprovalSubject::Edit { files: files.clone() });
        open.answer(&request, answer).await;
        assert_eq!(open.ended().await, Ended::Completed);
        let changes = open.seen[from..].iter().filter_map(|event| match event {
            RuntimeEvent::FileChange { item, files, status } => Some((item.clone(), files.clone(), *status)),
            _ => None,
        });
        let item = request.item.expect("an item");
        let expected = [(item.clone(), files.clone(), WorkStatus::Running), (item, files, status)];
        assert_eq!(changes.collect::<Vec<_>>(), expected);
        std::fs::read_to_string(&file).unwrap_or_default()
    };
    let added = step(
        "*** Add File: new.txt\n+hello\n+world",
        "@@ -0,0 +1,2 @@\n+hello\n+world\n",
        Answer::Allow,
        WorkStatus::Completed,
    );
    assert_eq!(added.await, "hello\nworld\n");
    let update = "*** Update File: new.txt\n@@\n hello\n-world\n+there";
    let diff = "@@ -1,2 +1,2 @@\n hello\n-world\n+there\n";
    assert_eq!(step(update, diff, Answer::Deny, WorkStatus::Declined).await, "hello\nworld\n");
    assert_eq!(step(update, diff, Answer::Allow, WorkStatus::Completed).await, "hello\nthere\n");
    let gone =
        step("*** Delete File: new.txt", "@@ -1,2 +0,0 @@\n-hello\n-there\n", Answer::Allow, WorkStatus::Completed);
    assert_eq!(gone.await, "");
    open.close().await;
}

#[tokio::test]
async fn with_edits_allowed_only_what_leaves_the_workspace_is_asked_for() {
    let bench = Bench::new().await;
    // Codex lets commands write to the folders for temporary files too, where the home of this test is.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let outside = elsewhere.path().join("outside");
    let spec = SessionSpec { model: Some("gpt-5.5".into()), ..bench.spec() };
    let mut open = bench.open(spec).await;
    let edit = open.turn(&patch("*** Add File: new.txt\n+hello")).await;
    let run = open.turn("[[tool:bash:cat new.txt]]").await;
    // The sandbox holds, whatever the command: outside the workspace nothing is written.
    let write = open.turn(&format!("[[tool:bash:echo x > {}]]", outside.display())).await;
    for events in [&edit, &run, &write] {
        assert!(!events.iter().any(|event| matches!(event, RuntimeEvent::ApprovalWanted(_))), "{events:#?}");
    }
    assert_eq!(commands(&run)[0].3.as_deref(), Some("hello\n"));
    assert!(!outside.exists());
    // The model is told. We are not always: of a command that the sandbox stops within its first moment Codex makes no item.
    let results = bench.api.turns().last().expect("a request").texts("result");
    assert!(results.last().is_some_and(|told| told.contains("Read-only file system")), "{results:?}");
    assert!(commands(&write).iter().all(|command| command.1 == WorkStatus::Failed));
    let call = json!({"cmd": format!("echo x > {}", outside.display()), "sandbox_permissions": "require_escalated", "justification": "I need it"});
    open.send(&format!("[[call:exec_command:{call}]]")).await;
    let request = open.asked().await;
    assert_eq!(request.reason.as_deref(), Some("I need it"));
    open.answer(&request, Answer::Allow).await;
    assert_eq!(open.ended().await, Ended::Completed);
    assert!(outside.exists());
    open.close().await;
}
