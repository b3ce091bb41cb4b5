//! U9: one engine per data folder. A command beside the open window works through it, a stale lock is taken over, and who comes
//! second finds the first.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use changeover_core::{message::MessageState, part::PartBody, provider::ProviderId};
use changeover_engine::{
    api::types::{Event, EventBody},
    lock::{self, Address, Claim},
};
use changeover_tests::{
    agents::AgentHome,
    app::{App, Start, binary, target},
    fake_api::{FakeApi, PATIENCE},
    marked::{Seen, alive, family},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// A command line in this home, ready to run.
fn changeover(home: &AgentHome, data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).arg("--data").arg(data).current_dir(home.home()).env_clear().envs(home.env());
    command.env("CHANGEOVER_NO_SHELL", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

async fn output(home: &AgentHome, data: &Path, args: &[&str]) -> Output {
    let run = changeover(home, data, args).output();
    timeout(PATIENCE, run).await.expect("the command ends").expect("the command runs")
}

/// What a command said and how it ended, with what is new in each run made the same.
fn plain(output: &Output) -> (Option<i32>, String, String) {
    let words = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let mut out = String::new();
        for piece in text.split_inclusive(|c: char| !(c.is_ascii_hexdigit() || c == '-')) {
            let end = piece.trim_end_matches(|c: char| !(c.is_ascii_hexdigit() || c == '-')).len();
            let (word, rest) = piece.split_at(end);
            let id = word.len() == 36 && uuid::Uuid::parse_str(word).is_ok();
            out.push_str(if id { "ID" } else { word });
            out.push_str(rest);
        }
        out
    };
    (output.status.code(), words(&output.stdout), words(&output.stderr))
}

struct Bench {
    api: FakeApi,
    home: AgentHome,
    data: PathBuf,
}

impl Bench {
    async fn new() -> Self {
        let api = FakeApi::start().await;
        let home = AgentHome::new(&api);
        let data = home.root().join("data");
        Self { api, home, data }
    }

    fn address(&self) -> Option<Address> {
        serde_json::from_str(&fs::read_to_string(self.data.join("engine.json")).ok()?).ok()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc10_commands_say_and_do_the_same_beside_an_engine_as_alone() {
    let bench = Bench::new().await;
    let (home, data) = (&bench.home, &bench.data);
    let work = home.work().display().to_string();
    let app = App::start(home).await;
    let thread = app.new_thread(&home.work()).await;
    app.turn(thread, &ProviderId::practice(), "think\nrun: echo hello; exit 3").await;
    let mark = app.mark();
    let id = thread.to_string();
    let gone = uuid::Uuid::nil().to_string();
    let run = |more: &[&str]| {
        let fixed = ["run", "--project", &work, "--provider", "practice", "--approve", "all"];
        fixed.iter().chain(more).map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    // What only reads: the very same bytes.
    let reading = [
        words(&["thread", "list"]),
        words(&["thread", "list", "--json"]),
        words(&["thread", "show", &id]),
        words(&["thread", "show", &id, "--json"]),
        words(&["thread", "show", &gone]),
        words(&["thread", "show", &gone, "--json"]),
        words(&["thread", "rename", &gone, "x"]),
        words(&["handoff", "preview", &id, "--provider", "claude"]),
        words(&["search", "hello", "--json"]),
        words(&["approval", "list", "--json"]),
        words(&["approval", "answer", &gone, "once"]),
    ];
    // What starts something: the same but for its ids.
    let doing = [
        run(&["think"]),
        run(&["run: echo from a command; exit 4"]),
        run(&["fail: auth"]),
        run(&["--thread", &gone, "think"]),
        words(&["run", "--project", &work, "--provider", "acp:nobody", "think"]),
        words(&["run", "--project", "/nowhere/at/all", "--provider", "practice", "think"]),
    ];
    let mut beside = Vec::new();
    for args in reading.iter().chain(&doing) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        beside.push(output(home, data, &args).await);
    }
    // The window has seen the command's thread appear, and its turn.
    let heard = app.events_from(mark);
    assert!(
        heard.iter().any(|e| e.thread_id != Some(thread) && matches!(e.body, EventBody::Thread { .. })),
        "{heard:#?}"
    );
    let mine = bench.address().expect("the engine's file");
    assert_eq!((mine.pid, &mine), (app.pid(), app.address()), "there was no other engine");
    app.stop().await;
    assert_eq!(bench.address(), None, "the file goes with the engine");

    // Lists hold what the commands made meanwhile: they are compared below.
    for (n, args) in reading.iter().chain(&doing).enumerate() {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        if words[..2] == ["thread", "list"] || words[0] == "search" {
            continue;
        }
        let alone = output(home, data, &words).await;
        if n < reading.len() {
            assert_eq!(alone, beside[n], "{words:?}");
        } else {
            assert_eq!(plain(&alone), plain(&beside[n]), "{words:?}");
        }
        let works =
            n < reading.len() && !words.contains(&gone.as_str()) || n == reading.len() || n == reading.len() + 1;
        assert_eq!(alone.status.success(), works, "{words:?}: {alone:?}");
        assert_eq!(bench.address(), None, "its engine went with it");
    }
    // Lists, once nothing changes any more.
    let lists: [&[&str]; 3] = [&["thread", "list"], &["thread", "list", "--json"], &["search", "hello", "--json"]];
    let mut alone = Vec::new();
    for args in lists {
        alone.push(output(home, data, args).await);
    }
    let app = App::start(home).await;
    for (args, alone) in lists.iter().zip(alone) {
        assert!(alone.stdout.len() > 100, "{alone:?}");
        assert_eq!(output(home, data, args).await, alone, "{args:?}");
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fc10_a_command_beside_the_window_runs_in_the_windows_engine() {
    let bench = Bench::new().await;
    let (home, data) = (&bench.home, &bench.data);
    let app = App::start(home).await;
    let work = home.work().display().to_string();
    let mark = app.mark();
    let args = ["run", "--project", &work, "--provider", "practice", "--json", "stream 200 every 10 ms"];
    let mut command = changeover(home, data, &args).spawn().expect("the command runs");
    let mut lines = BufReader::new(command.stdout.take().expect("stdout")).lines();
    // Its first text has come, so its turn runs.
    let mut events = Vec::new();
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.expect("it goes on").expect("its stdout") {
        events.push(serde_json::from_str::<Value>(&line).expect("one event a line"));
        if events.last().is_some_and(|e| e["body"]["type"] == "text") {
            break;
        }
    }
    // It has no engine of its own: no guard, no agent. And nobody but the window's engine can have the folder.
    let pid = command.id().expect("it runs");
    assert_eq!(family(pid).len(), 1, "{:#?}", family(pid));
    assert!(matches!(lock::claim(data).expect("the lock"), Claim::Theirs(address) if address == *app.address()));
    assert!(family(app.pid()).iter().any(|seen| seen.command.ends_with("practice-agent")));
    // The window shows the same thread, and can stop it; the command says how it ended.
    let shown = app.event_from(mark, |e| matches!(e.body, EventBody::Thread { .. })).await;
    let thread = shown.thread_id.expect("a thread");
    app.interrupt(thread).await;
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.expect("it goes on").expect("its stdout") {
        events.push(serde_json::from_str(&line).expect("one event a line"));
    }
    let done = events.last().expect("a last line");
    assert_eq!((&done["type"], &done["status"]), (&"done".into(), &"interrupted".into()), "{done}");
    assert_eq!(done["threadId"], thread.to_string());
    assert_eq!(command.wait().await.expect("a status").code(), Some(1));
    // And the other way round: what the window says in it, a command finds.
    app.watch(&[thread]).await;
    app.turn(thread, &ProviderId::practice(), "think").await;
    let show = output(home, data, &["thread", "show", &thread.to_string(), "--json"]).await;
    let show: Value = serde_json::from_slice(&show.stdout).expect("JSON");
    let messages = app.messages(thread).await;
    assert_eq!(show["messages"], serde_json::to_value(&messages).expect("JSON"));
    assert_eq!(messages.last().map(|m| m.state), Some(MessageState::Done));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u9_what_a_killed_engine_leaves_is_taken_over() {
    let bench = Bench::new().await;
    let app = App::start(&bench.home).await;
    let thread = app.new_thread(&bench.home.work()).await;
    app.turn(thread, &ProviderId::practice(), "think").await;
    let dead = app.address().clone();
    app.kill().await;
    assert_eq!(bench.address(), Some(dead.clone()), "it is left behind");
    // Somebody else has the port by now: nobody may go there with our token.
    let other = Address { url: bench.api.base_url(), ..dead.clone() };
    fs::write(bench.data.join("engine.json"), serde_json::to_vec(&other).expect("JSON")).expect("written");
    let list = output(&bench.home, &bench.data, &["thread", "list"]).await;
    assert!(list.status.success() && String::from_utf8_lossy(&list.stdout).contains(&thread.to_string()), "{list:?}");
    assert!(bench.api.requests().is_empty(), "nobody was asked");
    let app = App::start(&bench.home).await;
    assert_ne!(app.address(), &dead);
    assert_eq!(bench.address().as_ref(), Some(app.address()));
    app.watch(&[thread]).await;
    app.turn(thread, &ProviderId::practice(), "think").await;
    assert_eq!(app.last_reply(thread).await.state, MessageState::Done);
    app.stop().await;
}

/// Whether this event shows a command's output that holds `text`.
fn shows(event: &Event, text: &str) -> bool {
    match &event.body {
        EventBody::Text { text: more, .. } => more.contains(text),
        EventBody::Part { part, .. } => {
            matches!(&part.body, PartBody::Command { output, .. } if output.contains(text))
        }
        _ => false,
    }
}

/// A `changeover serve` that has printed its address.
async fn printed(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.expect("it prints").expect("its stdout");
    line.expect("an address")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u9_of_many_that_start_at_once_one_is_the_engine() {
    let bench = Bench::new().await;
    let mut all: Vec<Child> =
        (0..4).map(|_| changeover(&bench.home, &bench.data, &["serve"]).spawn().expect("it starts")).collect();
    let mut addresses = Vec::new();
    for child in &mut all {
        addresses.push(printed(child).await);
    }
    let engine = bench.address().expect("the engine's file");
    for address in &addresses {
        assert_eq!(address.split("/#code=").next(), Some(engine.url.as_str()), "{addresses:?}");
    }
    // One stays, and it is the one in the file; the others have ended well.
    let mut stayed = Vec::new();
    for mut child in all {
        let pid = child.id().expect("not waited for yet");
        if pid == engine.pid {
            assert!(child.try_wait().expect("a look").is_none(), "the engine runs");
            assert_eq!(family(pid).iter().filter(|seen| seen.command.ends_with(" guard")).count(), 1);
            stayed.push(child);
        } else {
            let status = timeout(PATIENCE, child.wait()).await.expect("it ends").expect("a status");
            assert!(status.success(), "{status}");
        }
    }
    assert_eq!(stayed.len(), 1);
    let client = App::find(&bench.data).await;
    let thread = client.new_thread(&bench.home.work()).await;
    client.turn(thread, &ProviderId::practice(), "think").await;
    assert_eq!(client.last_reply(thread).await.state, MessageState::Done);
    let living = family(engine.pid);
    stayed[0].kill().await.expect("it is killed");
    changeover_tests::marked::gone_within(std::time::Duration::from_secs(5), &bench.data, &living).await;
    assert!(alive(&living).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u9_two_folders_are_two_engines() {
    let bench = Bench::new().await;
    let app = App::start(&bench.home).await;
    let elsewhere = Start { data: Some(bench.home.root().join("other")), ..Start::default() };
    let other = App::start_with(&bench.home, elsewhere).await;
    assert_ne!(app.address().url, other.address().url);
    let thread = app.new_thread(&bench.home.work()).await;
    app.send(thread, target(&ProviderId::practice()), "run: echo 3621 runs; sleep 3621").await;
    app.event_from(0, |e| shows(e, "3621 runs")).await;
    // One folder's start and end touch nothing of the other. (Looks at other CLIs come and go.)
    let stays = |seen: &Seen| [" guard", " practice-agent", "sleep 3621"].iter().any(|end| seen.command.ends_with(end));
    let living: Vec<Seen> = family(app.pid()).into_iter().filter(stays).collect();
    assert!(living.len() >= 3, "{living:#?}");
    other.stop().await;
    assert_eq!(alive(&living).len(), living.len());
    let other =
        App::start_with(&bench.home, Start { data: Some(bench.home.root().join("other")), ..Start::default() }).await;
    assert_eq!(alive(&living).len(), living.len());
    // The other's token opens nothing here.
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let foreign = client.post(format!("{}/code", app.address().url)).bearer_auth(&other.address().token).send().await;
    assert_eq!(foreign.expect("an answer").status(), 401);
    other.stop().await;
    app.stop().await;
}
