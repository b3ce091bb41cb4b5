//! The one list of what can be asked (house rule 4): the window, the browser, the command line, MCP and tests come in here.

pub mod error;
pub mod types;

/// Calls `$then!` with the whole list: `"method" handler(Params) -> Response, …`. Dispatch, the method table and the
/// TypeScript types are made from it and from nothing else.
macro_rules! api_list {
    ($then:ident) => {
        $then! {
            "app/info" app::info(Nothing) -> AppInfoResponse,
            "project/open" project::open(ProjectOpenParams) -> ProjectOpenResponse,
            "project/list" project::list(Nothing) -> ProjectListResponse,
            "thread/start" thread::start(ThreadStartParams) -> ThreadResponse,
            "thread/list" thread::list(ThreadListParams) -> ThreadListResponse,
            "thread/read" thread::read(ThreadReadParams) -> ThreadReadResponse,
            "thread/sessions" thread::sessions(ThreadParams) -> ThreadSessionsResponse,
            "thread/rename" thread::rename(ThreadRenameParams) -> ThreadResponse,
            "thread/archive" thread::archive(ThreadSwitchParams) -> ThreadResponse,
            "thread/pin" thread::pin(ThreadSwitchParams) -> ThreadResponse,
            "thread/delete" thread::delete(ThreadParams) -> Nothing,
            "thread/restore" thread::restore(ThreadParams) -> ThreadResponse,
            "thread/seen" thread::seen(ThreadSeenParams) -> Nothing,
            "thread/draft" thread::draft(ThreadDraftParams) -> Nothing,
            "thread/target" thread::target(ThreadTargetParams) -> ThreadResponse,
            "event/watch" event::watch(EventWatchParams) -> Nothing,
            "turn/start" turn::start(TurnStartParams) -> TurnStartResponse,
            "turn/again" turn::again(TurnAgainParams) -> TurnStartResponse,
            "turn/interrupt" turn::interrupt(ThreadParams) -> Nothing,
            "queue/edit" turn::queue_edit(QueueEditParams) -> Nothing,
            "approval/answer" approval::answer(ApprovalAnswerParams) -> Nothing,
            "approval/list" approval::list(Nothing) -> ApprovalListResponse,
            "handoff/preview" handoff::preview(HandoffPreviewParams) -> HandoffPreviewResponse,
            "handoff/text" handoff::text(MessageParams) -> HandoffTextResponse,
            "message/pin" message::pin(MessageSwitchParams) -> Nothing,
            "message/exclude" message::exclude(MessageSwitchParams) -> Nothing,
            "part/read" message::part(PartReadParams) -> PartReadResponse,
            "provider/list" provider::list(ProviderListParams) -> ProviderListResponse,
            "provider/pick" provider::pick(ProviderPickParams) -> ProviderListResponse,
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

mod typescript;
api_list!(typescript_of);
