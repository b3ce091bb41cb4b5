//! The app itself.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// No parameters.
    pub struct Nothing {}
    /// About this engine.
    pub struct AppInfoResponse {
        /// Version of the app.
        version: String,
        /// The data folder in use.
        data_folder: String,
        /// `linux`, `macos` or `windows`.
        platform: String,
        /// Whether this process shows a real window (dialogs can be asked for).
        window: bool,
    }

    /// What can be pasted into a report of a fault.
    pub struct DiagnosticsResponse {
        /// Markdown, without messages; keys and tokens by their first four characters.
        text: String,
    }
}
