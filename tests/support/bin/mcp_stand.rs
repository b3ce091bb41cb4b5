//! A Changeover server with one open session, for a test of MCP that is not written in Rust: the first line on stdout is
//! `{"url", "token"}`; it ends when stdin does.

use std::{io::Read as _, sync::Arc};

use changeover_tests::{
    family::{Filling, thread},
    silent::Silent,
};
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut filling = Filling::new().await;
    filling.thread(thread(1), "A conversation").await;
    filling.user(thread(1), "What is a changeover?").await;
    let (silent, mut told) = Silent::new();
    let family = filling.serve(&[], vec![Arc::new(silent)], [].into()).await;
    let access = told.session_in(&family.engine, thread(1)).await;
    println!("{}", json!({"url": access.url, "token": access.token}));
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    family.engine.close().await;
    Ok(())
}
