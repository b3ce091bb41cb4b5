//! Who may speak to the loopback server at all (M3): our own address in `Host`, our own page or no page in `Origin`.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// Checks `Host` and `Origin` against the port that we listen on.
///
/// # Errors
/// 403: another name resolves to us (DNS rebinding), or another site's page is asking.
pub fn check(headers: &HeaderMap, port: u16) -> Result<(), StatusCode> {
    let text = |name: header::HeaderName| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
    let ours = |authority: &str| ["127.0.0.1", "localhost"].iter().any(|host| authority == format!("{host}:{port}"));
    if !text(header::HOST).is_some_and(ours) {
        return Err(StatusCode::FORBIDDEN);
    }
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if origin.strip_prefix("http://").is_some_and(ours) => Ok(()),
        Some(_) => Err(StatusCode::FORBIDDEN),
    }
}

/// [`check`] in front of every route.
pub async fn layer(State(port): State<u16>, request: Request, next: Next) -> Response {
    match check(request.headers(), port) {
        Ok(()) => next.run(request).await,
        Err(status) => (status, "This address is for Changeover on this machine only.").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn asked(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        check(&headers, 4711).is_ok()
    }

    #[test]
    fn m3_only_ourselves() {
        assert!(asked("127.0.0.1:4711", None));
        assert!(asked("localhost:4711", Some("http://localhost:4711")));
        for (host, origin) in [
            ("127.0.0.1:4712", None),
            ("evil.example:4711", None),
            ("127.0.0.1", None),
            ("127.0.0.1:4711", Some("http://evil.example")),
            ("127.0.0.1:4711", Some("null")),
            ("127.0.0.1:4711", Some("https://127.0.0.1:4711")),
            ("127.0.0.1:4711", Some("http://127.0.0.1:4711.evil.example")),
        ] {
            assert!(!asked(host, origin), "{host} {origin:?}");
        }
        assert!(check(&HeaderMap::new(), 4711).is_err());
    }
}
