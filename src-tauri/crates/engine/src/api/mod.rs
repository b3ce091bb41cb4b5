//! The one list of what can be asked (house rule 4): the window, the browser, the command line, MCP and tests come in here.

mod agent;
mod app;
mod approval;
pub mod error;
mod event;
mod handoff;
mod history;
mod message;
mod project;
pub(crate) mod provider;
mod search;
mod setting;
pub(crate) mod thread;
mod turn;
pub mod types;

pub(crate) use history::time as clock_text;

use std::sync::Arc;

use changeover_core::id::ThreadId;
use changeover_store::StoreError;
use serde_json::Value;

use self::error::{ApiError, ErrorCode};
use crate::{Engine, engine::Inner};

/// Who asks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caller {
    /// Its subscription to the hub, if it has one.
    pub subscriber: Option<u64>,
    /// For an agent's session: its thread. It may ask for `history/…` only, and of that thread's family only (M1).
    pub scope: Option<ThreadId>,
}

/// One request's view of the engine.
pub(crate) struct Api<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) caller: &'a Caller,
}

/// Calls `$then!` with the whole list: `"method" handler(Params) -> Response, …`. Dispatch, the method table and the
/// TypeScript types are made from it and from nothing else.
macro_rules! api_list {
    ($then:ident) => {
        $then! {
            "app/info" app::info(Nothing) -> AppInfoResponse,
            "app/diagnostics" app::diagnostics(Nothing) -> DiagnosticsResponse,
            "project/open" project::open(ProjectOpenParams) -> ProjectOpenResponse,
            "project/list" project::list(Nothing) -> ProjectListResponse,
            "project/remove" project::remove(ProjectRemoveParams) -> ProjectRemoveResponse,
            "thread/start" thread::start(ThreadStartParams) -> ThreadResponse,
            "thread/list" thread::list(ThreadListParams) -> ThreadListResponse,
            "thread/read" thread::read_page(ThreadReadParams) -> ThreadReadResponse,
            "thread/sessions" thread::sessions(ThreadParams) -> ThreadSessionsResponse,
            "thread/rename" thread::rename(ThreadRenameParams) -> ThreadResponse,
            "thread/archive" thread::archive(ThreadArchiveParams) -> ThreadResponse,
            "thread/pin" thread::pin(ThreadSwitchParams) -> ThreadResponse,
            "thread/delete" thread::delete(ThreadDeleteParams) -> Nothing,
            "thread/restore" thread::restore(ThreadParams) -> ThreadResponse,
            "thread/seen" thread::seen(ThreadSeenParams) -> Nothing,
            "thread/draft" thread::draft(ThreadDraftParams) -> Nothing,
            "thread/target" thread::target(ThreadTargetParams) -> ThreadResponse,
            "event/watch" event::watch(EventWatchParams) -> Nothing,
            "turn/start" turn::start(TurnStartParams) -> TurnStartResponse,
            "turn/again" turn::again(TurnAgainParams) -> TurnStartResponse,
            "turn/interrupt" turn::interrupt(ThreadParams) -> Nothing,
            "queue/edit" turn::queue_edit(QueueEditParams) -> Nothing,
            "queue/go" turn::queue_go(QueueGoParams) -> Nothing,
            "approval/answer" approval::answer(ApprovalAnswerParams) -> Nothing,
            "approval/list" approval::list(Nothing) -> ApprovalListResponse,
            "handoff/preview" handoff::preview(HandoffPreviewParams) -> HandoffPreviewResponse,
            "handoff/text" handoff::text(MessageParams) -> HandoffTextResponse,
            "history/read" history::read_page(HistoryReadParams) -> HistoryReadResponse,
            "history/search" history::search(HistorySearchParams) -> HistorySearchResponse,
            "history/list" history::list(Nothing) -> HistoryListResponse,
            "message/pin" message::pin(MessageSwitchParams) -> Nothing,
            "message/exclude" message::exclude(MessageSwitchParams) -> Nothing,
            "part/read" message::part(PartReadParams) -> PartReadResponse,
            "provider/list" provider::list(ProviderListParams) -> ProviderListResponse,
            "provider/check" provider::check(ProviderCheckParams) -> Nothing,
            "provider/pick" provider::pick(ProviderPickParams) -> ProviderListResponse,
            "provider/test" provider::test(ProviderTestParams) -> ProviderTestResponse,
            "agent/list" agent::list(Nothing) -> AgentListResponse,
            "agent/set" agent::set(AgentSetParams) -> AgentListResponse,
            "agent/remove" agent::remove(AgentRemoveParams) -> AgentListResponse,
            "agent/test" agent::test(AgentTestParams) -> AgentTestResponse,
            "search/messages" search::messages(SearchParams) -> SearchResponse,
            "setting/get" setting::get(SettingGetParams) -> SettingResponse,
            "setting/put" setting::put(SettingPutParams) -> SettingResponse,
        }
    };
}

macro_rules! typescript_of {
    ($($method:literal $module:ident::$handler:ident($params:ident) -> $response:ident,)+) => {
        /// The API as a TypeScript module: every type once, and the method table.
        pub fn typescript() -> String {
            let mut module = typescript::Module::default();
            module.add::<types::Event>();
            module.add::<error::ApiError>();
            $( module.method::<types::$params, types::$response>($method); )+
            module.finish()
        }
    };
}

macro_rules! dispatch_of {
    ($($method:literal $module:ident::$handler:ident($params:ident) -> $response:ident,)+) => {
        /// Every method's name.
        pub const METHODS: &[&str] = &[$($method),+];

        impl Engine {
            /// Answers one request: the only door (house rule 4).
            ///
            /// # Errors
            /// What the handler says; `badRequest` for an unknown method or parameters that do not fit; `refused` for an
            /// agent's session that asks for more than its history.
            pub async fn dispatch(&self, method: &str, params: Value, caller: &Caller) -> Result<Value, ApiError> {
                if caller.scope.is_some() && !method.starts_with("history/") {
                    return Err(ApiError::new(ErrorCode::Refused, "An agent's session may only read its history."));
                }
                let api = Api { inner: &self.inner, caller };
                match method {
                    $($method => {
                        let params: types::$params = parse(method, params)?;
                        let response: types::$response = $module::$handler(&api, params).await?;
                        serde_json::to_value(response)
                            .map_err(|e| ApiError::new(ErrorCode::Internal, format!("The answer cannot be written: {e}")))
                    })+
                    _ => Err(ApiError::new(ErrorCode::BadRequest, format!("There is no method `{method}`."))),
                }
            }
        }
    };
}

fn parse<T: serde::de::DeserializeOwned>(method: &str, params: Value) -> Result<T, ApiError> {
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    serde_json::from_value(params)
        .map_err(|e| ApiError::new(ErrorCode::BadRequest, format!("The parameters of `{method}` do not fit: {e}.")))
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NoSuchThread(_) | StoreError::NoSuchProject(_) | StoreError::NoSuchMessage(_) => {
                ErrorCode::NotFound
            }
            StoreError::Closed => ErrorCode::Closing,
            other if other.is_retryable() => ErrorCode::Storage,
            _ => ErrorCode::Internal,
        };
        let api = ApiError::new(code, error.to_string());
        match error.hint() {
            Some(hint) => api.hint(hint),
            None => api,
        }
    }
}

mod typescript;
api_list!(typescript_of);
api_list!(dispatch_of);
