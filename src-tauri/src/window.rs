//! The one window: its size and place are kept, and it shows nothing but the page inside the app.

use tauri::{
    App, AppHandle, Manager, Theme, Url, WebviewUrl, WebviewWindow, WebviewWindowBuilder,
    webview::{Color, NewWindowResponse},
};

/// The window's label; capabilities name it.
pub const LABEL: &str = "main";

/// Whether the window may go to an address: only the page that is inside the app.
fn is_our_page(url: &Url) -> bool {
    match url.scheme() {
        "tauri" => true,
        // Windows and Android give the app's own scheme this form.
        "http" | "https" => url.host_str() == Some("tauri.localhost"),
        _ => false,
    }
}

/// The canvas behind the page before its first paint, so that a dark desktop sees no white flash.
fn canvas(theme: Theme) -> Color {
    match theme {
        Theme::Dark => Color(0x17, 0x18, 0x1a, 0xff),
        _ => Color(0xff, 0xff, 0xff, 0xff),
    }
}

/// Opens the window. Errors are the platform's: no display, or no webview.
pub fn open(app: &App) -> tauri::Result<WebviewWindow> {
    let window = WebviewWindowBuilder::new(app, LABEL, WebviewUrl::default())
        .title("Changeover")
        .inner_size(1240.0, 800.0)
        .min_inner_size(640.0, 480.0)
        .on_navigation(is_our_page)
        // A link that wants a window of its own is opened by the page through the opener, in the person's browser.
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .build()?;
    if let Ok(theme) = window.theme() {
        window.set_background_color(Some(canvas(theme)))?;
    }
    Ok(window)
}

/// Brings the window to the front: a second start of the app does this and ends.
pub fn focus(app: &AppHandle) {
    if let Some(window) = app.get_webview_window(LABEL) {
        let shown = window
            .unminimize()
            .and_then(|()| window.show())
            .and_then(|()| window.set_focus());
        if let Err(error) = shown {
            tracing::warn!(%error, "the window could not be brought to the front");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_page_may_be_shown() {
        for (url, ours) in [
            ("tauri://localhost/index.html", true),
            ("https://tauri.localhost/", true),
            ("https://example.com/", false),
            ("http://localhost:5173/", false),
            ("file:///etc/passwd", false),
            ("https://tauri.localhost.example.com/", false),
            ("data:text/html,x", false),
        ] {
            assert_eq!(is_our_page(&url.parse().unwrap()), ours, "{url}");
        }
    }
}
