//! Settings.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// Reads a setting.
    pub struct SettingGetParams {
        /// Its name.
        name: String,
    }
    /// Writes a setting.
    pub struct SettingPutParams {
        /// Its name: letters, digits, dots; at most 64.
        name: String,
        /// Its value; `null` removes it. At most 64 KiB.
        value: serde_json::Value,
    }
    /// A setting's value.
    pub struct SettingResponse {
        /// Its value, `null` if never set.
        value: serde_json::Value,
    }
}
