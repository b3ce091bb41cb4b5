/**
 * What a thread looks like after an event. Pure: the screen shows nothing that does not come from here or from
 * `thread/read`. Events of a thread are numbered without gaps; where one is missing, or speaks of something that was
 * never seen, `stale` is set and the store reads the thread again. There is no other repair.
 */
import type {
  Approval,
  CutView,
  Event,
  Message,
  MessageId,
  Part,
  Queued,
  SessionView,
  ThreadReadResponse,
  ThreadSummary,
  TurnView,
  WorkStatus,
} from '../api/gen';

export interface ThreadState {
  readonly thread: ThreadSummary;
  /** One unbroken stretch, ascending by seq. */
  readonly messages: readonly Message[];
  /** Parts too long for a page: what is left away of them, and where. */
  readonly cuts: readonly CutView[];
  readonly hasBefore: boolean;
  readonly hasAfter: boolean;
  readonly turn: TurnView | null;
  readonly queue: readonly Queued[];
  readonly approvals: readonly Approval[];
  readonly sessions: readonly SessionView[];
  /** The engine's last warning in this thread, until the next turn. */
  readonly warning: string | null;
  readonly deleted: boolean;
  /** Number of the last event that is in here. */
  readonly event: number;
  /** Something was missed: read again. */
  readonly stale: boolean;
  /** Changeovers before the first message here, modulo 2, so that lanes stay as they are when pages come and go. */
  readonly lane: 0 | 1;
}

/** Messages kept in memory; far ones are dropped beyond it, a page later at the latest. */
export const KEPT = 480;

export function fromRead(read: ThreadReadResponse, lane: 0 | 1 = 0): ThreadState {
  return {
    thread: read.thread,
    messages: read.messages,
    cuts: read.cuts,
    hasBefore: read.hasBefore,
    hasAfter: read.hasAfter,
    turn: read.turn,
    queue: read.queue,
    approvals: read.approvals,
    sessions: read.sessions,
    warning: null,
    deleted: false,
    event: read.event,
    stale: false,
    lane,
  };
}

export function isChangeover(message: Message): boolean {
  return message.notice?.type === 'handover';
}

function changeovers(messages: readonly Message[]): number {
  let count = 0;
  for (const message of messages) if (isChangeover(message)) count++;
  return count;
}

function flip(lane: 0 | 1, by: number): 0 | 1 {
  return ((lane + by) % 2) as 0 | 1;
}

/** The lane of a fresh reading, such that messages in both keep theirs. */
export function laneLike(old: ThreadState, messages: readonly Message[]): 0 | 1 {
  let lane = old.lane;
  const lanes = new Map<MessageId, 0 | 1>();
  for (const message of old.messages) {
    lanes.set(message.id, lane);
    if (isChangeover(message)) lane = flip(lane, 1);
  }
  let passed = 0;
  for (const message of messages) {
    const known = lanes.get(message.id);
    if (known !== undefined) return flip(known, passed);
    if (isChangeover(message)) passed++;
  }
  return 0;
}

/** An older page put before what is here. */
export function withOlder(
  state: ThreadState,
  page: Pick<ThreadReadResponse, 'messages' | 'cuts' | 'hasBefore'>,
): ThreadState {
  const first = state.messages[0];
  const older = first ? page.messages.filter((message) => message.seq < first.seq) : page.messages;
  return {
    ...state,
    messages: [...older, ...state.messages],
    cuts: [...page.cuts, ...state.cuts],
    hasBefore: page.hasBefore,
    lane: flip(state.lane, changeovers(older)),
  };
}

/** A newer page put after what is here. */
export function withNewer(
  state: ThreadState,
  page: Pick<ThreadReadResponse, 'messages' | 'cuts' | 'hasAfter'>,
): ThreadState {
  const last = state.messages.at(-1);
  const newer = last ? page.messages.filter((message) => message.seq > last.seq) : page.messages;
  return {
    ...state,
    messages: [...state.messages, ...newer],
    cuts: [...state.cuts, ...page.cuts],
    hasAfter: page.hasAfter,
  };
}

/** Drops what is more than is kept, at the end that is farther from what is read. */
export function trimmed(state: ThreadState, from: 'oldest' | 'newest'): ThreadState {
  const over = state.messages.length - KEPT;
  if (over <= 0) return state;
  if (from === 'newest') return { ...state, messages: state.messages.slice(0, KEPT), hasAfter: true };
  return {
    ...state,
    messages: state.messages.slice(over),
    hasBefore: true,
    lane: flip(state.lane, changeovers(state.messages.slice(0, over))),
  };
}

function find(state: ThreadState, id: MessageId): number {
  for (let at = state.messages.length - 1; at >= 0; at--) if (state.messages[at]?.id === id) return at;
  return -1;
}

/** Changes one message; one that is not here is on a page not in view, unless nothing is out of view. */
function change(
  state: ThreadState,
  id: MessageId,
  by: (message: Message) => Message | null,
  live = false,
): ThreadState {
  const at = find(state, id);
  const old = state.messages[at];
  if (!old) {
    const elsewhere = live ? state.hasAfter : state.hasBefore || state.hasAfter;
    return elsewhere ? state : { ...state, stale: true };
  }
  const next = by(old);
  if (!next) return { ...state, stale: true };
  const messages = state.messages.slice();
  messages[at] = next;
  return { ...state, messages };
}

function place(state: ThreadState, message: Message): ThreadState {
  const at = find(state, message.id);
  if (at >= 0) return change(state, message.id, () => message);
  const first = state.messages[0];
  const last = state.messages.at(-1);
  if (last && message.seq < last.seq) {
    if (first && message.seq < first.seq && state.hasBefore) return state;
    return { ...state, stale: true };
  }
  if (state.hasAfter) return state;
  return { ...state, messages: [...state.messages, message] };
}

function placePart(message: Message, part: Part): Message {
  const at = message.parts.findIndex((one) => one.key === part.key);
  const parts = message.parts.slice();
  if (at >= 0) parts[at] = part;
  else parts.push(part);
  return { ...message, parts };
}

/** A part as a whole, in the place of what was there of it. */
export function withPart(state: ThreadState, id: MessageId, part: Part): ThreadState {
  const seq = state.messages[find(state, id)]?.seq;
  const next = change(state, id, (message) => placePart(message, part));
  const cuts = state.cuts.filter((cut) => cut.seq !== seq || cut.key !== part.key);
  return cuts.length === state.cuts.length ? next : { ...next, cuts };
}

/** Text is appended to prose and reasoning, to a command's output and to a tool's. */
function append(part: Part, text: string): Part | null {
  const body = part.body;
  switch (body.type) {
    case 'text':
    case 'reasoning':
      return { ...part, body: { ...body, text: body.text + text } };
    case 'command':
      return { ...part, body: { ...body, output: body.output + text } };
    case 'tool':
      return { ...part, body: { ...body, output: (body.output ?? '') + text } };
    default:
      return null;
  }
}

function withStatus(part: Part, status: WorkStatus, exitCode: number | null): Part | null {
  const body = part.body;
  switch (body.type) {
    case 'command':
      return { ...part, body: { ...body, status, exitCode } };
    case 'tool':
    case 'fileChange':
      return { ...part, body: { ...body, status } };
    default:
      return null;
  }
}

export function reduce(state: ThreadState, event: Event): ThreadState {
  if (event.n !== 0) {
    if (event.n <= state.event) return state;
    if (event.n !== state.event + 1) return { ...state, stale: true };
  }
  const next = apply(state, event);
  return event.n === 0 ? next : { ...next, event: event.n };
}

function apply(state: ThreadState, { body }: Event): ThreadState {
  switch (body.type) {
    case 'message':
      return place(state, body.message);
    case 'messageState':
      return change(state, body.messageId, (message) => ({
        ...message,
        state: body.state,
        endedAt: body.endedAt,
        provider: body.provider ?? message.provider,
      }));
    case 'messageModel':
      return change(state, body.messageId, (message) => ({ ...message, model: body.model }));
    case 'messageFlags':
      return change(state, body.messageId, (message) => ({ ...message, pinned: body.pinned, excluded: body.excluded }));
    case 'part':
      return withPart(state, body.messageId, body.part);
    case 'text':
      return change(
        state,
        body.messageId,
        (message) => {
          const part = message.parts.find((one) => one.key === body.key);
          const longer = part && append(part, body.text);
          return longer ? placePart(message, longer) : null;
        },
        true,
      );
    case 'partStatus':
      return change(state, body.messageId, (message) => {
        const part = message.parts.find((one) => one.key === body.key);
        const next = part && withStatus(part, body.status, body.exitCode);
        return next ? placePart(message, next) : null;
      });
    case 'superseded': {
      const keys = new Set(body.keys);
      return change(state, body.messageId, (message) => ({
        ...message,
        parts: message.parts.map((part) => (keys.has(part.key) ? { ...part, superseded: true } : part)),
      }));
    }
    case 'turn': {
      const begins = body.turn !== null && body.turn.id !== state.turn?.id;
      return {
        ...state,
        turn: body.turn,
        warning: begins ? null : state.warning,
        // Settled approvals of an older turn are in the transcript's own rows by then.
        approvals: begins
          ? state.approvals.filter((one) => one.state === 'open' || one.turn === body.turn?.id)
          : state.approvals,
      };
    }
    case 'queue':
      return { ...state, queue: body.queue };
    case 'approval': {
      const at = state.approvals.findIndex((one) => one.id === body.approval.id);
      const approvals = state.approvals.slice();
      if (at >= 0) approvals[at] = body.approval;
      else approvals.push(body.approval);
      return { ...state, approvals };
    }
    case 'sessions':
      return { ...state, sessions: body.sessions };
    case 'warning':
      return { ...state, warning: body.message };
    case 'thread':
      return { ...state, thread: body.thread };
    case 'threadDeleted':
      return { ...state, deleted: true };
    case 'project':
    case 'projectRemoved':
    case 'providers':
    case 'storage':
      return state;
  }
}
