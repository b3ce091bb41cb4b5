//! U7, M3: what `changeover serve` lets in: a one-time code for a strict cookie, its own page and nobody else's.

use std::{process::Stdio, time::Duration};

use changeover_engine::lock::Address;
use changeover_tests::{
    agents::AgentHome,
    app::binary,
    fake_api::{FakeApi, PATIENCE},
};
use futures::{SinkExt as _, StreamExt as _};
use reqwest::{Client, Method, RequestBuilder, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _, http::HeaderValue},
};

struct Served {
    _api: FakeApi,
    home: AgentHome,
    child: Child,
    /// `http://127.0.0.1:PORT`.
    url: String,
    /// The one-time code that was printed.
    code: String,
    client: Client,
}

impl Served {
    async fn new() -> Self {
        let api = FakeApi::start().await;
        let home = AgentHome::new(&api);
        let mut command = Command::new(binary());
        command.arg("serve").arg("--data").arg(home.root().join("data")).current_dir(home.home());
        command.env_clear().envs(home.env()).env("CHANGEOVER_NO_SHELL", "1").env("CHANGEOVER_LOG", "debug");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let line =
            timeout(PATIENCE, lines.next_line()).await.expect("it prints").expect("its stdout").expect("an address");
        let (url, code) = line.split_once("/#code=").expect("a one-time code, in the fragment");
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        assert!(code.len() >= 32, "too short to be safe: {} characters", code.len());
        let client = Client::builder().no_proxy().build().expect("a client");
        Self { _api: api, home, child, url: url.to_owned(), code: code.to_owned(), client }
    }

    fn port(&self) -> &str {
        self.url.rsplit(':').next().expect("a port")
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    async fn exchange(&self, code: &str) -> (StatusCode, HeaderMap) {
        let answer =
            self.request(Method::POST, "/session").json(&json!({"code": code})).send().await.expect("an answer");
        (answer.status(), answer.headers().clone())
    }

    /// The bearer token of other processes of this user.
    fn token(&self) -> String {
        let text = std::fs::read_to_string(self.home.root().join("data/engine.json")).expect("engine.json");
        serde_json::from_str::<Address>(&text).expect("an address").token
    }

    /// Tries the WebSocket with these headers and asks one thing; the status of a refusal.
    async fn rpc(&self, headers: &[(&'static str, &str)]) -> Result<Value, u16> {
        let mut request =
            format!("{}/rpc", self.url.replacen("http", "ws", 1)).into_client_request().expect("an address");
        for (name, value) in headers {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).expect("a header"));
        }
        let mut socket = match connect_async(request).await {
            Ok((socket, _)) => socket,
            Err(Error::Http(answer)) => return Err(answer.status().as_u16()),
            Err(other) => panic!("{other}"),
        };
        let asked = json!({"id": 1, "method": "app/info"}).to_string();
        socket.send(Message::Text(asked.into())).await.expect("sent");
        loop {
            let frame = timeout(PATIENCE, socket.next()).await.expect("an answer").expect("a frame").expect("a frame");
            let Message::Text(text) = frame else { continue };
            let frame: Value = serde_json::from_str(&text).expect("JSON");
            if frame["id"] == 1 {
                return Ok(frame["result"].clone());
            }
        }
    }
}

fn cookie(headers: &HeaderMap) -> String {
    let set = headers.get("set-cookie").expect("a cookie").to_str().expect("text");
    let (pair, attributes) = set.split_once(';').expect("attributes");
    let attributes: Vec<&str> = attributes.split(';').map(str::trim).collect();
    assert_eq!(attributes, ["HttpOnly", "SameSite=Strict", "Path=/"]);
    pair.to_owned()
}

#[tokio::test]
async fn u7_a_code_works_once_and_gives_a_strict_cookie() {
    let mut served = Served::new().await;
    assert_eq!(served.exchange("").await.0, 403);
    assert_eq!(served.exchange(&"0".repeat(served.code.len())).await.0, 403);
    let code = served.code.clone();
    let (status, headers) = served.exchange(&code).await;
    assert_eq!(status, 200);
    let pair = cookie(&headers);
    let info = served.rpc(&[("cookie", &pair)]).await.expect("the cookie opens");
    assert_eq!(info["dataFolder"], served.home.root().join("data").display().to_string());
    // Once.
    let (status, headers) = served.exchange(&code).await;
    assert_eq!((status, headers.get("set-cookie")), (StatusCode::FORBIDDEN, None));
    assert!(served.rpc(&[("cookie", &pair)]).await.is_ok(), "the first browser stays in");
    // A second `serve` prints a new code for the same engine; two browsers do not share a cookie.
    let mut second = Command::new(binary());
    second.arg("serve").arg("--data").arg(served.home.root().join("data"));
    second.env_clear().envs(served.home.env()).env("CHANGEOVER_NO_SHELL", "1").kill_on_drop(true);
    let output = timeout(PATIENCE, second.output()).await.expect("it ends").expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).expect("text");
    let (url, second) = printed.trim().split_once("/#code=").expect("a code");
    assert_eq!(url, served.url);
    assert_ne!(second, code);
    let other = cookie(&served.exchange(second).await.1);
    assert_ne!(other, pair);
    // What opens the door is in no log and in no process list.
    let secrets = [code, served.token(), pair.split_once('=').expect("a value").1.to_owned()];
    let pid = served.child.id().expect("it runs");
    let listed = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    served.child.start_kill().expect("it is killed");
    let mut log = Vec::new();
    served.child.stderr.take().expect("stderr").read_to_end(&mut log).await.expect("its log");
    let (log, listed) = (String::from_utf8_lossy(&log), String::from_utf8_lossy(&listed));
    assert!(!log.is_empty(), "there is a log");
    for secret in secrets {
        assert!(!secret.is_empty() && !log.contains(&secret) && !listed.contains(&secret), "a secret leaks:\n{log}");
    }
}

#[tokio::test]
async fn u7_without_a_cookie_or_the_users_token_nothing_is_told() {
    let served = Served::new().await;
    let token = served.token();
    let wrong = format!("Bearer {}", "0".repeat(token.len()));
    let good = cookie(&served.exchange(&served.code).await.1);
    let name = good.split_once('=').expect("a cookie").0;
    let (empty, guessed) = (format!("{name}="), format!("{name}=guessed; other=1"));
    for headers in [
        vec![],
        vec![("authorization", "Bearer ")],
        vec![("authorization", wrong.as_str())],
        vec![("cookie", empty.as_str())],
        vec![("cookie", guessed.as_str())],
    ] {
        assert_eq!(served.rpc(&headers).await, Err(401), "{headers:?}");
    }
    for request in [served.request(Method::POST, "/code"), served.request(Method::POST, "/code").bearer_auth("guessed")]
    {
        assert_eq!(request.send().await.expect("an answer").status(), 401);
    }
    let bearer = format!("Bearer {token}");
    assert!(served.rpc(&[("authorization", &bearer)]).await.is_ok());
    // The token is the user's: its file is nobody else's to read.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &str| {
        let path = served.home.root().join(path);
        std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!((mode("data/engine.json"), mode("data")), (0o600, 0o700));
}

/// U7, U9: a browser keeps one jar for all ports of a host: two data folders' engines do not take each other's cookie away.
#[tokio::test]
async fn u7_two_engines_share_a_host_and_not_a_cookie() {
    let (one, two) = (Served::new().await, Served::new().await);
    let mut jar = std::collections::BTreeMap::new();
    for served in [&one, &two] {
        let pair = cookie(&served.exchange(&served.code).await.1);
        let (name, value) = pair.split_once('=').expect("a cookie");
        jar.insert(name.to_owned(), value.to_owned());
    }
    let jar = jar.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
    for served in [&one, &two] {
        assert!(served.rpc(&[("cookie", &jar)]).await.is_ok(), "{jar}");
    }
}

#[tokio::test]
async fn m3_foreign_names_and_pages_are_refused() {
    let served = Served::new().await;
    let bearer = format!("Bearer {}", served.token());
    let port = served.port();
    let own_host = format!("localhost:{port}");
    let own_page = format!("http://127.0.0.1:{port}");
    let foreign = [
        ("host", format!("evil.example:{port}")),
        ("host", "127.0.0.1".to_owned()),
        ("host", format!("127.0.0.1.evil.example:{port}")),
        ("origin", "http://evil.example".to_owned()),
        ("origin", "null".to_owned()),
        ("origin", format!("https://127.0.0.1:{port}")),
        ("origin", "http://127.0.0.1:1".to_owned()),
    ];
    for (name, value) in &foreign {
        assert_eq!(served.rpc(&[("authorization", &bearer), (*name, value)]).await, Err(403), "{name}: {value}");
        for (method, path) in
            [(Method::GET, "/"), (Method::POST, "/session"), (Method::POST, "/code"), (Method::POST, "/mcp")]
        {
            let request = served
                .request(method, path)
                .header(*name, value)
                .bearer_auth(served.token())
                .json(&json!({"code": served.code}));
            assert_eq!(request.send().await.expect("an answer").status(), 403, "{path} with {name}: {value}");
        }
    }
    // None of these has used up the code, and our own names and page are let in.
    for headers in [
        [("authorization", bearer.as_str()), ("host", own_host.as_str())],
        [("authorization", &bearer), ("origin", &own_page)],
    ] {
        assert!(served.rpc(&headers).await.is_ok(), "{headers:?}");
    }
    assert_eq!(served.exchange(&served.code).await.0, 200);
    // Nobody else on the network can even ask: it listens on loopback only.
    let tcp = std::fs::read_to_string("/proc/net/tcp").expect("the table")
        + &std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    let ours = format!(":{:04X}", port.parse::<u16>().expect("a port"));
    let listens: Vec<&str> = tcp
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let local = fields.nth(1)?;
            (local.ends_with(&ours) && fields.nth(1)? == "0A").then_some(local)
        })
        .collect();
    assert_eq!(listens, [format!("0100007F{ours}")]);
}

#[tokio::test]
async fn u3_the_page_says_what_it_may_load() {
    let served = Served::new().await;
    for path in ["/", "/nothing.js"] {
        let answer =
            served.request(Method::GET, path).timeout(Duration::from_secs(30)).send().await.expect("an answer");
        let header = |name: &str| answer.headers().get(name).map(|v| v.to_str().expect("text").to_owned());
        let policy = header("content-security-policy").expect("a policy");
        let rules: Vec<&str> = policy.split(';').map(str::trim).collect();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "worker-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(rules.contains(&rule), "{path}: {rule} is not in {policy}");
        }
        assert!(!policy.contains("unsafe-eval") && !policy.contains("http"), "{policy}");
        assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"));
        assert_eq!(header("referrer-policy").as_deref(), Some("no-referrer"));
        assert_eq!(answer.status(), if path == "/" { 200 } else { 404 });
    }
}
