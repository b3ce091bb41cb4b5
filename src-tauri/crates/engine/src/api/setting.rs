//! `setting/…`: values by name.

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{SettingGetParams, SettingPutParams, SettingResponse},
};
use crate::engine::read;

pub(super) async fn get(api: &Api<'_>, params: SettingGetParams) -> Result<SettingResponse, ApiError> {
    let store = api.inner.store.clone();
    let value = read(move || store.setting(&params.name)).await?;
    Ok(SettingResponse { value: value.unwrap_or_default() })
}

pub(super) async fn put(api: &Api<'_>, params: SettingPutParams) -> Result<SettingResponse, ApiError> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"._-:".contains(&b);
    if params.name.is_empty() || params.name.len() > 64 || !params.name.bytes().all(good) {
        return Err(ApiError::new(ErrorCode::BadRequest, "A setting's name has 1 to 64 letters, digits, dots or dashes."));
    }
    if params.value.to_string().len() > 64 * 1024 {
        return Err(ApiError::new(ErrorCode::BadRequest, "A setting has at most 64 KiB."));
    }
    api.inner.store.put_setting(params.name, params.value.clone()).await?;
    Ok(SettingResponse { value: params.value })
}
