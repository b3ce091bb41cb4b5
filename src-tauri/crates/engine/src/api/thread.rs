//! `thread/…`: conversations.

use changeover_core::{
    id::ThreadId,
    provider::Target,
    seq::{SeqRange, SeqSet},
    session::SessionRecord,
    turn::{record::TurnPhase, state::Input},
};
use changeover_store::NewThread;

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{
        CutView, EventBody, LeftOutView, Nothing, PageAt, SessionSets, ThreadArchiveParams, ThreadDeleteParams,
        ThreadDraftParams, ThreadListParams, ThreadListResponse, ThreadMark, ThreadParams, ThreadReadParams,
        ThreadReadResponse, ThreadRenameParams, ThreadResponse, ThreadSeenParams, ThreadSessionsResponse,
        ThreadStartParams, ThreadSummary, ThreadSwitchParams, ThreadTargetParams,
    },
};
use crate::{
    clock,
    engine::read,
    thread::{
        actor::{Request, Snapshot},
        show,
    },
};

/// Messages of a page unless asked otherwise.
const PAGE: u32 = 60;
/// Messages of a page at most.
const PAGE_MAX: u32 = 200;
/// Bytes of a page, about: a message that is larger comes alone, its long parts cut.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// A thread's row.
pub(crate) fn view(summary: changeover_store::ThreadSummary, target: Target) -> ThreadSummary {
    let mark = match summary.phase {
        Some(TurnPhase::Waiting) => ThreadMark::Waiting,
        Some(TurnPhase::Failed | TurnPhase::Refused) => ThreadMark::Failed,
        Some(phase) if !phase.is_terminal() => ThreadMark::Running,
        _ => ThreadMark::Idle,
    };
    ThreadSummary {
        id: summary.id,
        project_id: summary.project,
        title: summary.title,
        target,
        last_seq: summary.last_seq,
        seen_seq: summary.seen_seq,
        mark,
        created_at: summary.created_at,
        updated_at: summary.updated_at,
        archived: summary.archived_at.is_some(),
        pinned: summary.pinned_at.is_some(),
        parent_thread_id: summary.parent,
    }
}

impl Api<'_> {
    async fn thread(&self, id: ThreadId) -> Result<ThreadResponse, ApiError> {
        let store = self.inner.store.clone();
        let summary = read(move || store.thread(id)).await?;
        if summary.deleted_at.is_some() {
            return Err(ApiError::not_found("thread"));
        }
        Ok(ThreadResponse { thread: self.inner.summary_view(summary) })
    }

    async fn changed(&self, id: ThreadId) -> Result<ThreadResponse, ApiError> {
        let _telling = self.inner.telling.lock().await;
        let response = self.thread(id).await?;
        self.inner.hub.announce(Some(id), EventBody::Thread { thread: response.thread.clone() });
        Ok(response)
    }

    async fn snapshot(&self, id: ThreadId) -> Result<Snapshot, ApiError> {
        self.inner.ask(id, Request::Snapshot).await
    }
}

pub(super) async fn start(api: &Api<'_>, params: ThreadStartParams) -> Result<ThreadResponse, ApiError> {
    let target = match params.target {
        Some(target) => target,
        None => api.inner.catalogue.default_target(),
    };
    let id = ThreadId(clock::id());
    let new = NewThread { id, project: params.project_id, title: String::new(), target, at: clock::now() };
    api.inner.store.create_thread(new).await?;
    api.changed(id).await
}

pub(super) async fn list(api: &Api<'_>, params: ThreadListParams) -> Result<ThreadListResponse, ApiError> {
    let store = api.inner.store.clone();
    let threads = read(move || store.threads(params.project_id)).await?;
    let removed = super::project::removed(api.inner).await?;
    let threads = threads
        .into_iter()
        .filter(|t| params.project_id.is_some() || !removed.contains(&t.project))
        .filter(|t| t.deleted_at.is_none() && (params.archived || t.archived_at.is_none()))
        .map(|t| api.inner.summary_view(t))
        .collect();
    Ok(ThreadListResponse { threads })
}

pub(super) async fn read_page(api: &Api<'_>, params: ThreadReadParams) -> Result<ThreadReadResponse, ApiError> {
    let id = params.thread_id;
    let thread = api.thread(id).await?.thread;
    let limit = params.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX) as usize;
    let at = match params.at {
        PageAt::Newest => changeover_store::PageAt::Newest,
        PageAt::Before { seq } => changeover_store::PageAt::Before(seq),
        PageAt::After { seq } => changeover_store::PageAt::After(seq),
        PageAt::Around { seq } => changeover_store::PageAt::Around(seq),
    };
    // First the number, then the page: an event in between is applied twice, which does no harm, and none is missed.
    let snapshot = api.snapshot(id).await?;
    let store = api.inner.store.clone();
    let page = read(move || store.read_page(id, at, limit, PAGE_BYTES)).await?;
    let store = api.inner.store.clone();
    let draft = read(move || store.draft(id)).await?;
    Ok(ThreadReadResponse {
        thread,
        messages: page.messages,
        has_before: page.has_before,
        has_after: page.has_after,
        cuts: page.cuts.into_iter().map(|c| CutView { seq: c.seq, key: c.key, at: c.at, bytes: c.bytes }).collect(),
        turn: snapshot.turn,
        queue: snapshot.queue,
        approvals: snapshot.approvals,
        sessions: snapshot.sessions,
        draft,
        event: snapshot.event,
    })
}

pub(super) async fn sessions(api: &Api<'_>, params: ThreadParams) -> Result<ThreadSessionsResponse, ApiError> {
    let id = params.thread_id;
    api.thread(id).await?;
    let store = api.inner.store.clone();
    let sets = read(move || {
        let disk = store.load(id)?;
        let content = store.content_seqs(id)?;
        let mut sets = Vec::new();
        for session in disk.sessions {
            let turns = session.turns.iter().map(|told| told.turn).collect();
            let own = store.replies_of(id, &turns)?;
            sets.push(sets_of(&session, &content, &own));
        }
        Ok(sets)
    })
    .await?;
    Ok(ThreadSessionsResponse { sessions: sets })
}

/// T6's four sets, from what each accepted turn told.
fn sets_of(session: &SessionRecord, content: &SeqSet, replies: &SeqSet) -> SessionSets {
    let known = session.known_upto_seq;
    let within = |range: &SeqRange| content.iter().filter(|s| range.from <= *s && *s <= range.to).collect::<Vec<_>>();
    let (mut told, mut left_out) = (SeqSet::new(), Vec::new());
    for turn in &session.turns {
        told.insert(turn.message_seq);
        for seq in turn.told.iter().flat_map(within) {
            told.insert(seq);
        }
        for left in &turn.left_out {
            let held: SeqSet = within(&left.range).into_iter().filter(|s| *s != turn.message_seq).collect();
            left_out.extend(held.ranges().iter().map(|r| LeftOutView { range: *r, reason: left.reason }));
        }
    }
    let own: SeqSet = replies.iter().filter(|s| *s <= known && !told.contains(*s)).collect();
    let above: SeqSet = content.iter().filter(|s| *s > known && !told.contains(*s)).collect();
    let left_out = left_out
        .into_iter()
        .flat_map(|left| {
            let kept: SeqSet =
                (left.range.from..=left.range.to).filter(|s| !own.contains(*s) && !told.contains(*s)).collect();
            kept.ranges().iter().map(|r| LeftOutView { range: *r, reason: left.reason }).collect::<Vec<_>>()
        })
        .collect();
    SessionSets {
        session: show::session_view(session),
        own: own.ranges().to_vec(),
        told: told.ranges().to_vec(),
        left_out,
        above: above.ranges().to_vec(),
    }
}

pub(super) async fn rename(api: &Api<'_>, params: ThreadRenameParams) -> Result<ThreadResponse, ApiError> {
    let title = params.title.replace(char::is_control, " ");
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.is_empty() || title.chars().count() > 200 {
        return Err(ApiError::new(ErrorCode::BadRequest, "A title has 1 to 200 characters."));
    }
    api.thread(params.thread_id).await?;
    api.inner.store.rename(params.thread_id, title).await?;
    api.changed(params.thread_id).await
}

/// How long a turn that is stopped for something may take to end (R5) before that goes on without it.
const STOPPED: std::time::Duration = std::time::Duration::from_secs(4);

impl Api<'_> {
    /// S4: a thread that runs is stopped first, once the person was asked.
    async fn stop(&self, id: ThreadId, asked: bool, for_what: &str) -> Result<(), ApiError> {
        let mut open = self.inner.work.watch();
        if !open.borrow_and_update().contains(&id) {
            return Ok(());
        }
        if !asked {
            return Err(ApiError::new(ErrorCode::Running, format!("The agent is working in this thread: {for_what}."))
                .hint("Say that it is to be stopped, or wait for its end."));
        }
        self.inner.ask(id, |reply| Request::Input(Input::Interrupt, reply)).await?;
        // Its last words are its own, not those of a thread that is gone.
        let _ = tokio::time::timeout(STOPPED, open.wait_for(|threads| !threads.contains(&id))).await;
        Ok(())
    }
}

impl Api<'_> {
    /// A thread that goes on is not put away any more: its replies and questions are to be seen.
    pub(super) async fn unarchive(&self, id: ThreadId) -> Result<(), ApiError> {
        let store = self.inner.store.clone();
        if read(move || store.thread(id)).await?.archived_at.is_some() {
            self.inner.store.archive(id, None).await?;
            self.changed(id).await?;
        }
        Ok(())
    }
}

pub(super) async fn archive(api: &Api<'_>, params: ThreadArchiveParams) -> Result<ThreadResponse, ApiError> {
    api.thread(params.thread_id).await?;
    if params.on {
        api.stop(params.thread_id, params.stop, "archiving it stops the agent").await?;
    }
    api.inner.store.archive(params.thread_id, params.on.then(clock::now)).await?;
    api.changed(params.thread_id).await
}

pub(super) async fn pin(api: &Api<'_>, params: ThreadSwitchParams) -> Result<ThreadResponse, ApiError> {
    api.thread(params.thread_id).await?;
    api.inner.store.pin_thread(params.thread_id, params.on.then(clock::now)).await?;
    api.changed(params.thread_id).await
}

pub(super) async fn delete(api: &Api<'_>, params: ThreadDeleteParams) -> Result<Nothing, ApiError> {
    api.thread(params.thread_id).await?;
    api.stop(params.thread_id, params.stop, "deleting it stops the agent").await?;
    let _telling = api.inner.telling.lock().await;
    api.inner.store.delete(params.thread_id, Some(clock::now())).await?;
    api.inner.hub.announce(Some(params.thread_id), EventBody::ThreadDeleted {});
    Ok(Nothing {})
}

pub(super) async fn restore(api: &Api<'_>, params: ThreadParams) -> Result<ThreadResponse, ApiError> {
    api.inner.store.delete(params.thread_id, None).await?;
    api.changed(params.thread_id).await
}

pub(super) async fn seen(api: &Api<'_>, params: ThreadSeenParams) -> Result<Nothing, ApiError> {
    let before = api.thread(params.thread_id).await?.thread;
    if params.seq > before.seen_seq {
        api.inner.store.mark_seen(params.thread_id, params.seq).await?;
        api.changed(params.thread_id).await?;
    }
    Ok(Nothing {})
}

pub(super) async fn draft(api: &Api<'_>, params: ThreadDraftParams) -> Result<Nothing, ApiError> {
    if params.text.len() > 1024 * 1024 {
        return Err(ApiError::new(ErrorCode::BadRequest, "A draft has at most 1 MiB.")
            .hint("Put the text in a file and name it in the message."));
    }
    api.inner.store.set_draft(params.thread_id, params.text).await?;
    Ok(Nothing {})
}

pub(super) async fn target(api: &Api<'_>, params: ThreadTargetParams) -> Result<ThreadResponse, ApiError> {
    api.thread(params.thread_id).await?;
    let target = params.target;
    api.inner.ask(params.thread_id, |reply| Request::Input(Input::Target(target.clone()), reply)).await?;
    api.thread(params.thread_id).await
}
