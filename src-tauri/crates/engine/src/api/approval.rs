//! `approval/…`: what agents ask leave for (R4).

use changeover_core::turn::state::{Input, Response};

use super::{
    Api,
    error::ApiError,
    turn::refused,
    types::{ApprovalAnswerParams, ApprovalEntry, ApprovalListResponse, Nothing},
};
use crate::{engine::read, thread::actor::Request};

pub(super) async fn answer(api: &Api<'_>, params: ApprovalAnswerParams) -> Result<Nothing, ApiError> {
    let (id, decision) = (params.approval_id, params.decision);
    let input = || Input::Answer { id, decision };
    match api.inner.ask(params.thread_id, |reply| Request::Input(input(), reply)).await? {
        Response::Refused(refusal) => Err(refused(refusal)),
        _ => Ok(Nothing {}),
    }
}

pub(super) async fn list(api: &Api<'_>, _: Nothing) -> Result<ApprovalListResponse, ApiError> {
    let store = api.inner.store.clone();
    let open = read(move || store.open_approvals()).await?;
    let approvals = open.into_iter().map(|(thread_id, approval)| ApprovalEntry { thread_id, approval }).collect();
    Ok(ApprovalListResponse { approvals })
}
