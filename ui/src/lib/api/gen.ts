// Generated from engine/api by `cargo run -p changeover-engine --bin types`. Do not edit.

export type AgentDraft = { 
/**
 * 1 to 32 letters, digits, dots, dashes or underscores; the provider is `acp:<name>`.
 */
name: string, 
/**
 * A program on the `PATH`, or its absolute path.
 */
command: string, 
/**
 * Its arguments. No secrets: everybody on the machine can read them.
 */
args: Array<string>, 
/**
 * Variables besides the user's own environment.
 */
env: Array<AgentVariableDraft>, };

export type AgentListResponse = { 
/**
 * The known ones in the picker's order, then the user's own.
 */
agents: Array<AgentView>, 
/**
 * Whether secret values outlive this run. If not, they are asked for again after a restart.
 */
secretsLast: boolean, };

export type AgentRemoveParams = { 
/**
 * Its short name.
 */
name: string, };

export type AgentReport = { 
/**
 * The program that was run.
 */
path: string, 
/**
 * Its own name.
 */
name: string | null, 
/**
 * Its version.
 */
version: string | null, 
/**
 * Its models.
 */
models: Array<ModelView>, 
/**
 * The names of its modes.
 */
modes: Array<string>, 
/**
 * Opens earlier sessions again; else a session ends with its process, and the next turn is a handoff.
 */
resumes: boolean, 
/**
 * Takes MCP servers over HTTP; else it cannot look into the conversation.
 */
mcp: boolean, };

export type AgentSetParams = { 
/**
 * The agent.
 */
agent: AgentDraft, 
/**
 * Changes the one of this name; else the name must be free.
 */
change: boolean, };

export type AgentTestParams = { 
/**
 * Its provider.
 */
id: ProviderId | null, 
/**
 * As it would be saved.
 */
agent: AgentDraft | null, };

export type AgentTestResponse = { 
/**
 * Why it does not work, and the way on; absent: it works.
 */
problem: Failure | null, 
/**
 * What it says of itself.
 */
report: AgentReport | null, };

export type AgentVariable = { 
/**
 * Its name.
 */
name: string, 
/**
 * Its value; absent for a secret, which is never shown.
 */
value: string | null, 
/**
 * Whether it is a secret.
 */
secret: boolean, 
/**
 * A secret whose value is not known (any more): to be given again.
 */
missing: boolean, };

export type AgentVariableDraft = { 
/**
 * Its name.
 */
name: string, 
/**
 * Its value; absent: as it was.
 */
value: string | null, 
/**
 * Whether it is a secret; absent: told from its name.
 */
secret: boolean | null, };

export type AgentView = { 
/**
 * Its provider: `acp:<name>`.
 */
id: ProviderId, 
/**
 * Its short name.
 */
name: string, 
/**
 * Known by name: it can be picked by hand, not changed or removed.
 */
known: boolean, 
/**
 * The program, as given.
 */
command: string, 
/**
 * Its arguments.
 */
args: Array<string>, 
/**
 * Its variables, besides the user's own environment.
 */
env: Array<AgentVariable>, 
/**
 * How to install it, if known.
 */
install: string | null, 
/**
 * How to log in, if known.
 */
login: string | null, 
/**
 * How it stands.
 */
provider: ProviderView, };

export type ApiError = { 
/**
 * For code.
 */
code: ErrorCode, 
/**
 * What happened, in one sentence.
 */
message: string, 
/**
 * What to do about it.
 */
hint?: string | null, 
/**
 * Whether the same request may work later.
 */
retryable: boolean, };

export type AppInfoResponse = { 
/**
 * Version of the app.
 */
version: string, 
/**
 * The data folder in use.
 */
dataFolder: string, 
/**
 * `linux`, `macos` or `windows`.
 */
platform: string, 
/**
 * Whether this process shows a real window (dialogs can be asked for).
 */
window: boolean, };

export type Approval = { 
/**
 * Its id.
 */
id: ApprovalId, 
/**
 * The turn that asked.
 */
turn: TurnId, 
/**
 * What is asked.
 */
request: ApprovalRequest, 
/**
 * How it stands.
 */
state: ApprovalState, 
/**
 * When it was asked.
 */
askedAt: number, 
/**
 * When it was settled.
 */
settledAt: number | null, };

export type ApprovalAnswerParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * Which.
 */
approvalId: ApprovalId, 
/**
 * The answer.
 */
decision: ApprovalDecision, };

export type ApprovalDecision = "once" | "thread" | "deny";

export type ApprovalEntry = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * The approval.
 */
approval: Approval, };

export type ApprovalId = string;

export type ApprovalListResponse = { 
/**
 * Oldest first.
 */
approvals: Array<ApprovalEntry>, };

export type ApprovalMode = "ask" | "edits" | "all";

export type ApprovalRequest = { 
/**
 * The runtime's own key for the question, unique while its process lives.
 */
key: string, 
/**
 * The item of the reply it belongs to, if known.
 */
item: string | null, 
/**
 * What it wants to do.
 */
subject: ApprovalSubject, 
/**
 * The agent's reason, if it gave one.
 */
reason: string | null, };

export type ApprovalState = "open" | "once" | "thread" | "rule" | "denied" | "withdrawn";

export type ApprovalSubject = { "type": "command", 
/**
 * The command line.
 */
command: string, 
/**
 * Where, if not the workspace.
 */
cwd: string | null, } | { "type": "edit", 
/**
 * The changes in full.
 */
files: Array<FileDelta>, } | { "type": "tool", 
/**
 * Its name.
 */
name: string, 
/**
 * Its input, as JSON text.
 */
input: string, };

export type Cannot = { 
/**
 * What.
 */
power: Power, 
/**
 * The same in a sentence.
 */
message: string, };

export type ContextFigure = { 
/**
 * Tokens in the context after the last request.
 */
used: number, 
/**
 * The model's window in tokens, once known.
 */
window: number | null, };

export type CutView = { 
/**
 * The message.
 */
seq: number, 
/**
 * The part.
 */
key: string, 
/**
 * Bytes of its text before the gap.
 */
at: number, 
/**
 * Bytes that are left away there.
 */
bytes: number, };

export type DiagnosticsResponse = { 
/**
 * Markdown, without messages; keys and tokens by their first four characters.
 */
text: string, };

export type ErrorCode = "badRequest" | "notFound" | "refused" | "running" | "closing" | "overloaded" | "storage" | "internal";

export type Event = { 
/**
 * The thread, unless it is about the whole app.
 */
threadId: ThreadId | null, 
/**
 * Its number in that thread (0 for app events).
 */
n: number, 
/**
 * What happened.
 */
body: EventBody, };

export type EventBody = { "type": "message", 
/**
 * The message.
 */
message: Message, } | { "type": "messageState", 
/**
 * Which.
 */
messageId: MessageId, 
/**
 * How it stands.
 */
state: MessageState, 
/**
 * When it ended.
 */
endedAt: number | null, 
/**
 * Who answers or was asked.
 */
provider: ProviderId | null, } | { "type": "messageModel", 
/**
 * Which reply.
 */
messageId: MessageId, 
/**
 * The model.
 */
model: string, } | { "type": "partStatus", 
/**
 * In which message.
 */
messageId: MessageId, 
/**
 * Which part.
 */
key: string, 
/**
 * How it stands.
 */
status: WorkStatus, 
/**
 * A command's exit code, once known.
 */
exitCode: number | null, } | { "type": "messageFlags", 
/**
 * Which.
 */
messageId: MessageId, 
/**
 * Pinned.
 */
pinned: boolean, 
/**
 * Excluded.
 */
excluded: boolean, } | { "type": "part", 
/**
 * In which message.
 */
messageId: MessageId, 
/**
 * The part.
 */
part: Part, } | { "type": "text", 
/**
 * In which message.
 */
messageId: MessageId, 
/**
 * Which part.
 */
key: string, 
/**
 * What to append.
 */
text: string, } | { "type": "superseded", 
/**
 * In which message.
 */
messageId: MessageId, 
/**
 * Which parts.
 */
keys: Array<string>, } | { "type": "turn", 
/**
 * The turn.
 */
turn: TurnView | null, } | { "type": "queue", 
/**
 * The queue.
 */
queue: Array<Queued>, } | { "type": "approval", 
/**
 * The approval.
 */
approval: Approval, } | { "type": "sessions", 
/**
 * The sessions.
 */
sessions: Array<SessionView>, } | { "type": "warning", 
/**
 * What.
 */
message: string, } | { "type": "thread", 
/**
 * The thread.
 */
thread: ThreadSummary, } | { "type": "threadDeleted", } | { "type": "project", 
/**
 * The project.
 */
project: ProjectSummary, } | { "type": "projectRemoved", 
/**
 * Which.
 */
projectId: ProjectId, } | { "type": "providers", 
/**
 * All of them.
 */
providers: Array<ProviderView>, } | { "type": "storage", 
/**
 * What is wrong.
 */
problem: string | null, };

export type EventWatchParams = { 
/**
 * At most 16.
 */
threadIds: Array<ThreadId>, };

export type Failure = { 
/**
 * What kind.
 */
kind: FailureKind, 
/**
 * What happened, in one sentence; the provider's own words where it has some.
 */
message: string, 
/**
 * What to do about it.
 */
hint: string | null, 
/**
 * When a limit ends, if the provider said so (X6).
 */
retryAt: number | null, };

export type FailureKind = "notLoggedIn" | "notInstalled" | "folderGone" | "rateLimited" | "unavailable" | "overflow" | "badModel" | "rejected" | "sessionGone" | "exited" | "noProgress" | "protocol";

export type FileDelta = { 
/**
 * Path as the agent named it.
 */
path: string, 
/**
 * Unified diff, or the new text where the agent gives no diff.
 */
diff: string, };

export type HandoffPreviewParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * For whom; absent: the thread's choice.
 */
target: Target | null, 
/**
 * A refused or failed message that would be sent again (T8); absent: a new one.
 */
messageId: MessageId | null, 
/**
 * With the exact text.
 */
withText: boolean, };

export type HandoffPreviewResponse = { 
/**
 * For whom.
 */
target: Target, 
/**
 * Which transition.
 */
kind: TransitionKind, 
/**
 * What is told; absent for fresh and reuse.
 */
handover: Handover | null, 
/**
 * The exact text, if asked for.
 */
text: string | null, 
/**
 * What stays behind, one row each, newest first (at most 200).
 */
leftOut: Array<LeftOutRow>, 
/**
 * What to give to `turn/start`.
 */
hash: string, };

export type HandoffTextResponse = { 
/**
 * The text, byte for byte as sent.
 */
text: string, 
/**
 * What stayed behind, newest first (at most 200).
 */
leftOut: Array<LeftOutRow>, };

export type Handover = { 
/**
 * Who took over.
 */
provider: ProviderId, 
/**
 * Its model, as far as known.
 */
model: string | null, 
/**
 * Who answered before, for "Back to …" and the rail.
 */
from: ProviderId | null, 
/**
 * Handoff, delta or replay.
 */
kind: TransitionKind, 
/**
 * Messages told, as seq ranges.
 */
told: Array<SeqRange>, 
/**
 * Messages left out, with the reason.
 */
leftOut: Array<LeftOut>, 
/**
 * How many content messages were told.
 */
messagesTold: number, 
/**
 * How many content messages there were to tell.
 */
messagesTotal: number, 
/**
 * How many commands were told.
 */
commandsTold: number, 
/**
 * How many commands there were to tell.
 */
commandsTotal: number, 
/**
 * What the chosen items cost of the budget, in bytes.
 */
used: number, 
/**
 * The budget, in bytes.
 */
budget: number, 
/**
 * Length of the exact text, in bytes.
 */
bytes: number, 
/**
 * SHA-256 of the exact text, in hex.
 */
hash: string, 
/**
 * The chosen items in chronological order (for the strip).
 */
items: Array<ItemMark>, };

export type HistoryBlock = { "type": "text", 
/**
 * The text.
 */
text: string, 
/**
 * Bytes that were left away where the text says so; 0: it is whole.
 */
cut: number, } | { "type": "command", 
/**
 * The command line.
 */
command: string, 
/**
 * How it stands.
 */
status: WorkStatus, 
/**
 * Exit code, once known.
 */
exitCode: number | null, 
/**
 * Its output.
 */
output: string, 
/**
 * Bytes that were left away of line and output where they say so; 0: both are whole.
 */
cut: number, } | { "type": "gap", 
/**
 * How many texts and commands.
 */
blocks: number, };

export type HistoryHit = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * Its title.
 */
title: string, 
/**
 * Which message.
 */
seq: number, 
/**
 * Who wrote it.
 */
role: Role, 
/**
 * Who answered; for a user message, who was asked last.
 */
provider: ProviderId | null, 
/**
 * When it was written.
 */
at: number, 
/**
 * The same as text.
 */
time: string, 
/**
 * The text around the hit, on one line.
 */
excerpt: string, };

export type HistoryListResponse = { 
/**
 * The caller's own first, then last changed first.
 */
threads: Array<HistoryThread>, 
/**
 * How many more there are.
 */
more: number, };

export type HistoryMessage = { 
/**
 * Its number.
 */
seq: number, 
/**
 * Who it is from (never the system).
 */
role: Role, 
/**
 * Who answered; for a user message, who was asked last.
 */
provider: ProviderId | null, 
/**
 * The model that answered, as far as known.
 */
model: string | null, 
/**
 * How it stands.
 */
state: MessageState, 
/**
 * When it was written.
 */
at: number, 
/**
 * The same as text: `2026-11-30T08:00:12Z`.
 */
time: string, 
/**
 * Left out by the user (H2): its number and who it is from stand, nothing else.
 */
leftOut: boolean, 
/**
 * What was said and run, in order; superseded tries, reasoning, tool calls and file changes are not among it.
 */
blocks: Array<HistoryBlock>, };

export type HistoryReadParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * Only messages below this number; absent: the newest.
 */
beforeSeq: number | null, 
/**
 * At most so many (1 to 100; default 20); the page is bounded in bytes too.
 */
limit: number | null, };

export type HistoryReadResponse = { 
/**
 * The thread.
 */
threadId: ThreadId, 
/**
 * Its title.
 */
title: string, 
/**
 * Oldest first.
 */
messages: Array<HistoryMessage>, 
/**
 * What to give as `beforeSeq` for the page before this one; absent: this page begins with the first message.
 */
nextBeforeSeq: number | null, };

export type HistoryRelation = "own" | "ancestor" | "branch" | "any";

export type HistorySearchParams = { 
/**
 * Words, or phrases in double quotes; all must occur. 1 to 256 characters.
 */
words: string, 
/**
 * At most so many (1 to 50; default 20).
 */
limit: number | null, };

export type HistorySearchResponse = { 
/**
 * Newest first.
 */
hits: Array<HistoryHit>, 
/**
 * What was not searched, in words, if anything.
 */
notSearched: string | null, };

export type HistoryThread = { 
/**
 * The thread.
 */
threadId: ThreadId, 
/**
 * Its title.
 */
title: string, 
/**
 * What it is to the caller.
 */
relation: HistoryRelation, 
/**
 * The thread it was forked from.
 */
parentThreadId: ThreadId | null, 
/**
 * Its highest message number (0: none yet).
 */
lastSeq: number, 
/**
 * When something last happened in it.
 */
updatedAt: number, 
/**
 * The same as text.
 */
updated: string, };

export type ItemKind = "summary" | "user" | "assistant" | "command";

export type ItemMark = { 
/**
 * The message it belongs to.
 */
seq: number, 
/**
 * What it is.
 */
kind: ItemKind, 
/**
 * What it costs of the budget, in bytes (rendered plus 64, B3).
 */
bytes: number, };

export type JsonValue = number | string | boolean | Array<JsonValue> | { [key in string]: JsonValue } | null;

export type LeftOut = { 
/**
 * The messages; notices in between do not count.
 */
range: SeqRange, 
/**
 * Why.
 */
reason: LeftOutReason, };

export type LeftOutReason = "budget" | "excluded" | "secret" | "document";

export type LeftOutRow = { 
/**
 * Its number.
 */
seq: number, 
/**
 * Whether the user wrote it.
 */
user: boolean, 
/**
 * Its first line, at most 120 characters.
 */
line: string, 
/**
 * Its size in bytes.
 */
bytes: number, 
/**
 * Why it stays.
 */
reason: LeftOutReason, };

export type LeftOutView = { 
/**
 * Which messages.
 */
range: SeqRange, 
/**
 * Why.
 */
reason: LeftOutReason, };

export type Message = { 
/**
 * Its identity; the same in every fork that holds it.
 */
id: MessageId, 
/**
 * Its number in this thread.
 */
seq: number, 
/**
 * Who it is from.
 */
role: Role, 
/**
 * How it stands.
 */
state: MessageState, 
/**
 * Who answered; for a user message, who was asked last.
 */
provider: ProviderId | null, 
/**
 * The model that answered, as far as known.
 */
model: string | null, 
/**
 * The session that gave this reply, and its incarnation (B8).
 */
session: SessionStamp | null, 
/**
 * When it was written.
 */
createdAt: number, 
/**
 * When a reply ended.
 */
endedAt: number | null, 
/**
 * Offered to every handoff first (H2).
 */
pinned: boolean, 
/**
 * Kept out of every handoff (H2).
 */
excluded: boolean, 
/**
 * Its parts in order; empty for a notice.
 */
parts: Array<Part>, 
/**
 * What a system row says.
 */
notice: Notice | null, };

export type MessageId = string;

export type MessageParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * Which.
 */
messageId: MessageId, };

export type MessageState = "open" | "done" | "notAnswered" | "interrupted" | "failed";

export type MessageSwitchParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * Which.
 */
messageId: MessageId, 
/**
 * On or off.
 */
on: boolean, };

export type ModelView = { 
/**
 * The provider's own name.
 */
id: string, 
/**
 * The name that people read.
 */
name: string, 
/**
 * Its window in tokens, if known.
 */
window: number | null, 
/**
 * Reasoning efforts, weakest first.
 */
efforts: Array<string>, 
/**
 * The provider's default.
 */
default: boolean, };

export type Nothing = Record<symbol, never>;

export type Notice = { "type": "handover" } & Handover | { "type": "sessionGone", 
/**
 * Whose session.
 */
provider: ProviderId, 
/**
 * The CLI's own words.
 */
reason: string, } | { "type": "error", 
/**
 * Whose turn.
 */
provider: ProviderId, 
/**
 * What went wrong.
 */
failure: Failure, } | { "type": "compacted", 
/**
 * Whose session.
 */
provider: ProviderId, };

export type PageAt = { "type": "newest" } | { "type": "before", 
/**
 * Its number.
 */
seq: number, } | { "type": "after", 
/**
 * Its number.
 */
seq: number, } | { "type": "around", 
/**
 * Its number.
 */
seq: number, };

export type Part = { 
/**
 * The runtime's item id, unique within the message.
 */
key: string, 
/**
 * Replaced by a later try of the same item (S2): folded away, in no handoff.
 */
superseded: boolean, 
/**
 * What it is.
 */
body: PartBody, };

export type PartBody = { "type": "text", 
/**
 * The text.
 */
text: string, } | { "type": "reasoning", 
/**
 * The text.
 */
text: string, } | { "type": "command", 
/**
 * The command line as the agent ran it, without the shell wrapper.
 */
command: string, 
/**
 * How it stands.
 */
status: WorkStatus, 
/**
 * Exit code, once known.
 */
exitCode: number | null, 
/**
 * Standard output and error, merged as the runtime gives them.
 */
output: string, } | { "type": "tool", 
/**
 * The tool's name.
 */
name: string, 
/**
 * Its input, as JSON text.
 */
input: string, 
/**
 * Its output as text, once known.
 */
output: string | null, 
/**
 * How it stands.
 */
status: WorkStatus, } | { "type": "fileChange", 
/**
 * The changes.
 */
files: Array<FileDelta>, 
/**
 * How it stands.
 */
status: WorkStatus, } | { "type": "plan", 
/**
 * Its entries in order.
 */
entries: Array<PlanEntry>, } | { "type": "attachment", 
/**
 * File name.
 */
name: string, 
/**
 * Media type.
 */
kind: string, 
/**
 * Where it lies.
 */
path: string, 
/**
 * Its size in bytes.
 */
bytes: number, };

export type PartReadParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * In which message.
 */
messageId: MessageId, 
/**
 * The part's key.
 */
key: string, };

export type PartReadResponse = { 
/**
 * The part.
 */
part: Part, };

export type PlanEntry = { 
/**
 * What is to be done.
 */
text: string, 
/**
 * Whether it is done, under way, or not begun (`None`).
 */
status: WorkStatus | null, };

export type Power = "resume" | "fork" | "usage" | "window" | "mcp" | "commandResult" | "compactionOff" | "cutReply";

export type ProjectId = string;

export type ProjectListResponse = { 
/**
 * Newest first.
 */
projects: Array<ProjectSummary>, };

export type ProjectOpenParams = { 
/**
 * Absolute path of a folder; `~` is the home folder.
 */
path: string, };

export type ProjectOpenResponse = { 
/**
 * The project.
 */
project: ProjectSummary, };

export type ProjectRemoveParams = { 
/**
 * Which.
 */
projectId: ProjectId, };

export type ProjectRemoveResponse = { 
/**
 * Threads that are kept, and listed no more.
 */
threads: number, };

export type ProjectSummary = { 
/**
 * Its id.
 */
id: ProjectId, 
/**
 * The folder's name, or the name the user gave.
 */
name: string, 
/**
 * The folder's real path.
 */
path: string, 
/**
 * Whether the folder exists right now.
 */
exists: boolean, 
/**
 * When it was opened first.
 */
createdAt: number, };

export type ProviderCheckParams = { 
/**
 * Which provider.
 */
provider: ProviderId, };

export type ProviderId = string;

export type ProviderListParams = { 
/**
 * Look again.
 */
refresh: boolean, };

export type ProviderListResponse = { 
/**
 * In the picker's order.
 */
providers: Array<ProviderView>, };

export type ProviderPickParams = { 
/**
 * Which provider.
 */
provider: ProviderId, 
/**
 * Absolute path of its program; absent: find it again.
 */
path: string | null, };

export type ProviderState = "looking" | "ready" | "notFound" | "notLoggedIn" | "broken";

export type ProviderTestParams = { 
/**
 * Which.
 */
provider: ProviderId, };

export type ProviderTestResponse = { 
/**
 * What kept it from starting, and the way on; absent: it started, shook hands and ended.
 */
problem: Failure | null, 
/**
 * The program that was started.
 */
path: string | null, 
/**
 * How long it took, in milliseconds.
 */
took: number, };

export type ProviderView = { 
/**
 * Its id.
 */
id: ProviderId, 
/**
 * The name that people read.
 */
name: string, 
/**
 * How it stands.
 */
state: ProviderState, 
/**
 * Its version.
 */
version: string | null, 
/**
 * The program that is run.
 */
path: string | null, 
/**
 * How it was found.
 */
found: string | null, 
/**
 * How it is logged in.
 */
login: string | null, 
/**
 * What keeps it from being used, and the way on.
 */
problem: Failure | null, 
/**
 * What it cannot do, each in a sentence (R2).
 */
cannot: Array<Cannot>, 
/**
 * Its models, once known.
 */
models: Array<ModelView>, };

export type QueueEditParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * Which.
 */
queuedId: QueuedId, 
/**
 * The new text; absent: take it back.
 */
text: string | null, };

export type QueueGoParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, };

export type Queued = { 
/**
 * Its id.
 */
id: QueuedId, 
/**
 * The caller's id for the request.
 */
clientId: string, 
/**
 * What will be sent.
 */
text: string, 
/**
 * To whom.
 */
target: Target, 
/**
 * When it was queued.
 */
at: number, };

export type QueuedId = string;

export type RetryView = { 
/**
 * Which try, from 1.
 */
attempt: number, 
/**
 * Of how many, if known.
 */
max: number | null, 
/**
 * Why.
 */
message: string, };

export type Role = "user" | "assistant" | "system";

export type SearchHit = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * Which message.
 */
seq: number, 
/**
 * The text around the hit.
 */
excerpt: string, 
/**
 * When it was written.
 */
at: number, };

export type SearchParams = { 
/**
 * Words; all must occur. 1 to 256 characters.
 */
words: string, 
/**
 * At most so many (1 to 100; default 50).
 */
limit: number | null, };

export type SearchResponse = { 
/**
 * The hits.
 */
hits: Array<SearchHit>, 
/**
 * What was not searched, in words, if anything.
 */
notSearched: string | null, };

export type SeqRange = { 
/**
 * First number in the range.
 */
from: number, 
/**
 * Last number in the range, included.
 */
to: number, };

export type SessionSets = { 
/**
 * The session.
 */
session: SessionView, 
/**
 * Its own replies.
 */
own: Array<SeqRange>, 
/**
 * Told, each in exactly one turn.
 */
told: Array<SeqRange>, 
/**
 * Left out, with the reason.
 */
leftOut: Array<LeftOutView>, 
/**
 * Not seen yet.
 */
above: Array<SeqRange>, };

export type SessionStamp = { 
/**
 * The provider's own session id.
 */
id: string, 
/**
 * The incarnation at the time of the reply.
 */
incarnation: number, };

export type SessionView = { 
/**
 * Whose.
 */
provider: ProviderId, 
/**
 * The provider's own id.
 */
sessionId: string, 
/**
 * Counts up whenever its history lost something.
 */
incarnation: number, 
/**
 * How far it has seen.
 */
knownUptoSeq: number, 
/**
 * Context and window as last reported.
 */
context: ContextFigure | null, };

export type SettingGetParams = { 
/**
 * Its name.
 */
name: string, };

export type SettingPutParams = { 
/**
 * Its name: letters, digits, dots; at most 64.
 */
name: string, 
/**
 * Its value; `null` removes it. At most 64 KiB.
 */
value: JsonValue, };

export type SettingResponse = { 
/**
 * Its value, `null` if never set.
 */
value: JsonValue, };

export type Target = { 
/**
 * Who answers.
 */
provider: ProviderId, 
/**
 * The model by the provider's own name; absent: the provider's default.
 */
model: string | null, 
/**
 * Reasoning effort by the provider's own name; absent: its default.
 */
effort: string | null, 
/**
 * What it may do without asking.
 */
mode: ApprovalMode, };

export type ThreadArchiveParams = { 
/**
 * Which.
 */
threadId: ThreadId, 
/**
 * Away or back.
 */
on: boolean, 
/**
 * Whether its turn may be stopped for it, if one runs: the person was asked (S4). Else that is an error (`running`).
 */
stop: boolean, };

export type ThreadDeleteParams = { 
/**
 * Which.
 */
threadId: ThreadId, 
/**
 * Whether its turn may be stopped for it, if one runs: the person was asked (S4). Else that is an error (`running`).
 */
stop: boolean, };

export type ThreadDraftParams = { 
/**
 * Which.
 */
threadId: ThreadId, 
/**
 * At most 1 MiB.
 */
text: string, };

export type ThreadId = string;

export type ThreadListParams = { 
/**
 * Of one project only.
 */
projectId: ProjectId | null, 
/**
 * Archived ones too.
 */
archived: boolean, };

export type ThreadListResponse = { 
/**
 * The threads.
 */
threads: Array<ThreadSummary>, };

export type ThreadMark = "idle" | "running" | "waiting" | "failed";

export type ThreadParams = { 
/**
 * Which.
 */
threadId: ThreadId, };

export type ThreadReadParams = { 
/**
 * Which thread.
 */
threadId: ThreadId, 
/**
 * Where.
 */
at: PageAt, 
/**
 * At most so many messages (1 to 200; default 60).
 */
limit: number | null, };

export type ThreadReadResponse = { 
/**
 * The thread.
 */
thread: ThreadSummary, 
/**
 * Ascending by seq.
 */
messages: Array<Message>, 
/**
 * Older messages exist.
 */
hasBefore: boolean, 
/**
 * Newer messages exist.
 */
hasAfter: boolean, 
/**
 * Texts of this page that are given in short, each with where; `part/read` gives the whole.
 */
cuts: Array<CutView>, 
/**
 * The open turn.
 */
turn: TurnView | null, 
/**
 * Messages that wait.
 */
queue: Array<Queued>, 
/**
 * Open approvals, and settled ones of the open turn.
 */
approvals: Array<Approval>, 
/**
 * Its live sessions.
 */
sessions: Array<SessionView>, 
/**
 * The unsent text of the composer.
 */
draft: string, 
/**
 * Number of the last event that this answer includes; later ones come by the channel.
 */
event: number, };

export type ThreadRenameParams = { 
/**
 * Which.
 */
threadId: ThreadId, 
/**
 * 1 to 200 characters.
 */
title: string, };

export type ThreadResponse = { 
/**
 * The thread.
 */
thread: ThreadSummary, };

export type ThreadSeenParams = { 
/**
 * Which.
 */
threadId: ThreadId, 
/**
 * The highest seq on screen.
 */
seq: number, };

export type ThreadSessionsResponse = { 
/**
 * One entry a session.
 */
sessions: Array<SessionSets>, };

export type ThreadStartParams = { 
/**
 * In which project.
 */
projectId: ProjectId, 
/**
 * Provider and model of its first turn; absent: as last used.
 */
target: Target | null, };

export type ThreadSummary = { 
/**
 * Its id.
 */
id: ThreadId, 
/**
 * Its project.
 */
projectId: ProjectId, 
/**
 * Its title; empty until the first message.
 */
title: string, 
/**
 * Provider and model of its next turn.
 */
target: Target, 
/**
 * Its highest message number.
 */
lastSeq: number, 
/**
 * How far the user has read.
 */
seenSeq: number, 
/**
 * What its row shows.
 */
mark: ThreadMark, 
/**
 * When it was made.
 */
createdAt: number, 
/**
 * When something last happened in it.
 */
updatedAt: number, 
/**
 * Put away.
 */
archived: boolean, 
/**
 * Kept on top.
 */
pinned: boolean, 
/**
 * The thread it was forked from.
 */
parentThreadId: ThreadId | null, };

export type ThreadSwitchParams = { 
/**
 * Which.
 */
threadId: ThreadId, 
/**
 * On or off.
 */
on: boolean, };

export type ThreadTargetParams = { 
/**
 * Which.
 */
threadId: ThreadId, 
/**
 * The choice.
 */
target: Target, };

export type TransitionKind = "fresh" | "reuse" | "handoff" | "delta" | "replay";

export type TurnAgainParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * The caller's id for this request.
 */
clientTurnId: string, 
/**
 * The message.
 */
messageId: MessageId, 
/**
 * Who answers; absent: the thread's choice.
 */
target: Target | null, 
/**
 * The hash of the preview on screen (H1): if what would be told differs, nothing is sent.
 */
previewHash: string | null, };

export type TurnId = string;

export type TurnPhase = "preparing" | "sent" | "taken" | "streaming" | "waiting" | "interrupting" | "completed" | "interrupted" | "failed" | "refused";

export type TurnStartParams = { 
/**
 * In which thread.
 */
threadId: ThreadId, 
/**
 * The caller's id for this request (1 to 64 characters): a second request with it is answered, not repeated.
 */
clientTurnId: string, 
/**
 * The message, 1 byte to 8 MiB.
 */
text: string, 
/**
 * Who answers; absent: the thread's choice.
 */
target: Target | null, 
/**
 * The hash of the preview on screen (H1): if what would be told differs, nothing is sent.
 */
previewHash: string | null, };

export type TurnStartResponse = { "type": "started", 
/**
 * The turn.
 */
turnId: TurnId, 
/**
 * The message.
 */
messageId: MessageId, 
/**
 * Its number.
 */
seq: number, } | { "type": "queued", 
/**
 * Its id.
 */
queuedId: QueuedId, } | { "type": "changed", 
/**
 * The new preview.
 */
preview: HandoffPreviewResponse, };

export type TurnView = { 
/**
 * Its id.
 */
id: TurnId, 
/**
 * Its user message.
 */
messageId: MessageId, 
/**
 * Who answers.
 */
target: Target, 
/**
 * Where it stands.
 */
phase: TurnPhase, 
/**
 * When it began.
 */
startedAt: number, 
/**
 * Which attempt, from 1.
 */
attempt: number, 
/**
 * A retry that goes on right now.
 */
retry: RetryView | null, };

export type WorkStatus = "running" | "completed" | "failed" | "declined" | "interrupted";

export interface Methods {
  "app/info": { params: Nothing; response: AppInfoResponse };
  "app/diagnostics": { params: Nothing; response: DiagnosticsResponse };
  "project/open": { params: ProjectOpenParams; response: ProjectOpenResponse };
  "project/list": { params: Nothing; response: ProjectListResponse };
  "project/remove": { params: ProjectRemoveParams; response: ProjectRemoveResponse };
  "thread/start": { params: ThreadStartParams; response: ThreadResponse };
  "thread/list": { params: ThreadListParams; response: ThreadListResponse };
  "thread/read": { params: ThreadReadParams; response: ThreadReadResponse };
  "thread/sessions": { params: ThreadParams; response: ThreadSessionsResponse };
  "thread/rename": { params: ThreadRenameParams; response: ThreadResponse };
  "thread/archive": { params: ThreadArchiveParams; response: ThreadResponse };
  "thread/pin": { params: ThreadSwitchParams; response: ThreadResponse };
  "thread/delete": { params: ThreadDeleteParams; response: Nothing };
  "thread/restore": { params: ThreadParams; response: ThreadResponse };
  "thread/seen": { params: ThreadSeenParams; response: Nothing };
  "thread/draft": { params: ThreadDraftParams; response: Nothing };
  "thread/target": { params: ThreadTargetParams; response: ThreadResponse };
  "event/watch": { params: EventWatchParams; response: Nothing };
  "turn/start": { params: TurnStartParams; response: TurnStartResponse };
  "turn/again": { params: TurnAgainParams; response: TurnStartResponse };
  "turn/interrupt": { params: ThreadParams; response: Nothing };
  "queue/edit": { params: QueueEditParams; response: Nothing };
  "queue/go": { params: QueueGoParams; response: Nothing };
  "approval/answer": { params: ApprovalAnswerParams; response: Nothing };
  "approval/list": { params: Nothing; response: ApprovalListResponse };
  "handoff/preview": { params: HandoffPreviewParams; response: HandoffPreviewResponse };
  "handoff/text": { params: MessageParams; response: HandoffTextResponse };
  "history/read": { params: HistoryReadParams; response: HistoryReadResponse };
  "history/search": { params: HistorySearchParams; response: HistorySearchResponse };
  "history/list": { params: Nothing; response: HistoryListResponse };
  "message/pin": { params: MessageSwitchParams; response: Nothing };
  "message/exclude": { params: MessageSwitchParams; response: Nothing };
  "part/read": { params: PartReadParams; response: PartReadResponse };
  "provider/list": { params: ProviderListParams; response: ProviderListResponse };
  "provider/check": { params: ProviderCheckParams; response: Nothing };
  "provider/pick": { params: ProviderPickParams; response: ProviderListResponse };
  "provider/test": { params: ProviderTestParams; response: ProviderTestResponse };
  "agent/list": { params: Nothing; response: AgentListResponse };
  "agent/set": { params: AgentSetParams; response: AgentListResponse };
  "agent/remove": { params: AgentRemoveParams; response: AgentListResponse };
  "agent/test": { params: AgentTestParams; response: AgentTestResponse };
  "search/messages": { params: SearchParams; response: SearchResponse };
  "setting/get": { params: SettingGetParams; response: SettingResponse };
  "setting/put": { params: SettingPutParams; response: SettingResponse };
}
