//! The UI's files, built into the program.

use axum::{
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../../ui/dist"]
struct Files;

/// What the page may do: nothing from elsewhere, no inline script.
pub(crate) const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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
