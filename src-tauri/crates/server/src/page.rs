//! The UI's files, built into the program.

use std::sync::LazyLock;

use axum::{
    http::{HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../../ui/dist"]
struct Files;

/// The window's configuration: Tauri wants the page's policy there, so there it is written, for the browser too.
const WINDOW: &str = include_str!("../../../tauri.conf.json");

/// What the page may do: nothing from elsewhere, no inline script. The window's own schemes are no use in a browser.
pub(crate) static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let config: serde_json::Value = serde_json::from_str(WINDOW).unwrap_or_default();
    let rules = config["app"]["security"]["csp"].as_object().into_iter().flatten();
    let rule = |(name, sources): (&String, &serde_json::Value)| {
        let sources = sources.as_str().unwrap_or_default().split_whitespace();
        let ours: Vec<&str> = sources.filter(|source| !source.contains("ipc")).collect();
        format!("{name} {}", ours.join(" "))
    };
    let policy = rules.map(rule).collect::<Vec<_>>().join("; ");
    // Without a readable configuration nothing may be loaded at all.
    HeaderValue::from_str(&policy)
        .ok()
        .filter(|policy| !policy.is_empty())
        .unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// A file of the UI; any path without a dot is the page itself.
pub(crate) async fn file(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let Some(found) = Files::get(path) else {
        return (StatusCode::NOT_FOUND, "There is nothing here.").into_response();
    };
    let kind = mime_guess::from_path(path).first_or_octet_stream();
    // Names of built files hold their content's hash; the page itself is asked for anew.
    let keep = if path.starts_with("assets/") { "private, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [(header::CONTENT_TYPE, kind.essence_str().to_owned()), (header::CACHE_CONTROL, keep.to_owned())];
    (headers, found.data.into_owned()).into_response()
}
