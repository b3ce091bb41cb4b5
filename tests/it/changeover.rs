//! FC2: one thread, Claude → Codex → Claude → Codex → Claude, on the real CLIs.

use changeover_core::provider::ProviderId;
use changeover_tests::{agents::AgentHome, app::App, fake_api::FakeApi};

#[tokio::test]
async fn first() {
    let api = FakeApi::start().await;
    let home = AgentHome::new(&api);
    let app = App::start(&home).await;
    let thread = app.new_thread(&home.work()).await;
    app.turn(thread, &ProviderId::claude(), "hello one").await;
    app.turn(thread, &ProviderId::codex(), "hello two").await;
    for message in app.messages(thread).await {
        println!("#{} {:?} {:?} {} {:?}", message.seq, message.role, message.state, message.text(), message.notice);
    }
    println!("{:#?}", app.sessions(thread).await);
    println!("{}", app.log());
    app.stop().await;
}
