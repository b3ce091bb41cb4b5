//! `app/…`: about this engine.

use super::{
    Api,
    error::ApiError,
    types::{AppInfoResponse, DiagnosticsResponse, Nothing},
};

pub(super) async fn info(api: &Api<'_>, _: Nothing) -> Result<AppInfoResponse, ApiError> {
    Ok(AppInfoResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        data_folder: api.inner.data_folder.display().to_string(),
        platform: std::env::consts::OS.to_owned(),
        window: api.inner.window,
    })
}

pub(super) async fn diagnostics(api: &Api<'_>, _: Nothing) -> Result<DiagnosticsResponse, ApiError> {
    Ok(DiagnosticsResponse { text: api.inner.diagnostics().await? })
}
