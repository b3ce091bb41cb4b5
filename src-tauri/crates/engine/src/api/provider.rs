//! `provider/…`: what can answer, and how it stands (R2).

use std::{path::PathBuf, sync::Arc};

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{
        Nothing, ProviderCheckParams, ProviderListParams, ProviderListResponse, ProviderPickParams, ProviderTestParams,
        ProviderTestResponse,
    },
};

pub(super) async fn list(api: &Api<'_>, params: ProviderListParams) -> Result<ProviderListResponse, ApiError> {
    if params.refresh {
        let inner = Arc::clone(api.inner);
        // What was installed meanwhile may have changed the login shell's profile.
        inner.catalogue.forget_environment();
        inner.refresh_providers().await;
    }
    Ok(ProviderListResponse { providers: api.inner.catalogue.views() })
}

pub(super) async fn check(api: &Api<'_>, params: ProviderCheckParams) -> Result<Nothing, ApiError> {
    api.inner.provider_ready(&params.provider).await.map_err(|failure| {
        let error = ApiError::new(ErrorCode::Refused, failure.message);
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })?;
    Ok(Nothing {})
}

pub(super) async fn pick(api: &Api<'_>, params: ProviderPickParams) -> Result<ProviderListResponse, ApiError> {
    let Some(runtime) = api.inner.runtimes.get(&params.provider) else {
        return Err(ApiError::not_found("provider"));
    };
    let path = params.path.map(PathBuf::from);
    if let Some(path) = &path
        && !(path.is_absolute() && path.is_file())
    {
        return Err(ApiError::new(ErrorCode::BadRequest, format!("{} is no program.", path.display()))
            .hint("Give the absolute path of the agent's program."));
    }
    let value = path.as_ref().map_or(serde_json::Value::Null, |p| p.display().to_string().into());
    api.inner.store.put_setting(picked_setting(params.provider.as_str()), value).await?;
    runtime.pick(path);
    list(api, ProviderListParams { refresh: true }).await
}

pub(super) async fn test(api: &Api<'_>, params: ProviderTestParams) -> Result<ProviderTestResponse, ApiError> {
    let begun = std::time::Instant::now();
    let (path, result) = api.inner.try_provider(&params.provider).await?;
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(ProviderTestResponse { problem: result.err(), path: path.map(|path| path.display().to_string()), took })
}

/// The setting that holds a provider's hand-picked program (R6).
pub(crate) fn picked_setting(provider: &str) -> String {
    format!("provider.{provider}.path")
}
