//! The fake API and a fenced-in home with both CLIs, for a test that is no Rust program (Playwright, WebDriver).
//!
//! The first line on stdout says where everything is: `{"base_url", "env", "work", "home"}`. Then one JSON command per
//! line on stdin, one JSON answer per line on stdout, in order. It ends when stdin does, and nothing is left of it.
//!
//! | command | answer |
//! |---|---|
//! | `{"do":"wait_gate","name":N}` | `{}` once a request stands at the gate |
//! | `{"do":"open_gate","name":N}` | `{}` |
//! | `{"do":"put_text","key":K,"text":T}` | `{}` |
//! | `{"do":"rule","error":KIND,"count":N}` | `{}`; the next N requests fail in this way |
//! | `{"do":"log_out"}` | the first line again, with an environment without accounts |
//! | `{"do":"turns"}` | `{"turns":[{"n","wire","session","user_text","messages":[[role,text]]}]}` |
//! | `{"do":"nonces","nonces":[…]}` | `{"table":TEXT,"rows":[{"nonce","session","wire","requests","most","last"}]}` |
//! | `{"do":"strays"}` | `{"strays":[…]}` |
//!
//! A command that is not understood is answered `{"error":…}`.
#![allow(clippy::print_stdout, reason = "stdout is how it answers")]

use anyhow::{Context, Result, anyhow, bail};
use changeover_tests::agents::AgentHome;
use changeover_tests::fake_api::{FakeApi, Rule, Wire, nonce_table};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let api = FakeApi::start().await;
    let mut home = AgentHome::new(&api);
    println!("{}", place(&api, &home));
    // Blocking is right here: the fake API has a thread of its own, and commands are answered in order.
    for line in std::io::stdin().lines() {
        let line = line?;
        let answer = match answer(&api, &mut home, &line).await {
            Ok(answer) => answer,
            Err(why) => json!({"error": format!("{why:#}")}),
        };
        println!("{answer}");
    }
    Ok(())
}

fn place(api: &FakeApi, home: &AgentHome) -> Value {
    json!({"base_url": api.base_url(), "env": home.env(), "work": home.work(), "home": home.home()})
}

fn wire(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "anthropic",
        Wire::Responses => "responses",
    }
}

async fn answer(api: &FakeApi, home: &mut AgentHome, line: &str) -> Result<Value> {
    let command: Value = serde_json::from_str(line).context("not JSON")?;
    let text = |key: &str| {
        let value = command[key].as_str();
        value.ok_or_else(|| anyhow!("{key} is missing"))
    };
    match text("do")? {
        "wait_gate" => api.wait_gate(text("name")?).await,
        "open_gate" => api.open_gate(text("name")?),
        "put_text" => api.put_text(text("key")?, text("text")?),
        "rule" => api.rule(Rule {
            error: text("error")?.parse().map_err(anyhow::Error::msg)?,
            count: usize::try_from(command["count"].as_u64().unwrap_or(1))?,
            ..Rule::default()
        }),
        "log_out" => {
            home.log_out();
            return Ok(place(api, home));
        }
        "strays" => return Ok(json!({"strays": api.strays()})),
        "turns" => {
            let turns = api.turns();
            let turns = turns.iter().map(|turn| {
                json!({
                    "n": turn.n, "wire": turn.wire.map(wire), "session": turn.session,
                    "user_text": turn.user_text, "messages": turn.messages(),
                })
            });
            return Ok(json!({"turns": turns.collect::<Vec<_>>()}));
        }
        "nonces" => {
            let nonces: Vec<String> = serde_json::from_value(command["nonces"].clone())?;
            let table = nonce_table(&api.requests(), &nonces);
            let rows = table.0.iter().map(|row| {
                json!({
                    "nonce": row.nonce, "session": row.session, "wire": wire(row.wire),
                    "requests": row.requests, "most": row.most, "last": row.last,
                })
            });
            return Ok(json!({"table": table.to_string(), "rows": rows.collect::<Vec<_>>()}));
        }
        other => bail!("no such command: {other:?}"),
    }
    Ok(json!({}))
}
