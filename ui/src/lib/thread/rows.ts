/** A thread as the rows of the virtual list. Pure; a row that did not change is the same object as before. */
import type { Approval, Handover, Message, MessageId, Notice, Part, ProviderId, TurnView } from '../api/gen';
import { isChangeover, type ThreadState } from './reduce';

export type Lane = 0 | 1;

interface Place {
  readonly key: string;
  /** Whose stretch it stands in. */
  readonly who: ProviderId | null;
  readonly lane: Lane;
  /** Nothing of the thread is above: the rail begins here. */
  readonly first: boolean;
}

export type Row = Place &
  (
    | { readonly kind: 'user'; readonly message: Message }
    | { readonly kind: 'pending'; readonly text: string }
    | { readonly kind: 'head'; readonly message: Message; readonly live: boolean }
    | { readonly kind: 'starting'; readonly turn: TurnView }
    | { readonly kind: 'text'; readonly message: Message; readonly part: Part; readonly live: boolean }
    | { readonly kind: 'reasoning'; readonly message: Message; readonly part: Part; readonly live: boolean }
    | { readonly kind: 'plan'; readonly part: Part }
    | { readonly kind: 'work'; readonly message: Message; readonly parts: readonly Part[] }
    | { readonly kind: 'superseded'; readonly message: Message; readonly parts: readonly Part[] }
    | { readonly kind: 'approval'; readonly approval: Approval }
    | { readonly kind: 'end'; readonly message: Message }
    | { readonly kind: 'unanswered'; readonly message: Message }
    | { readonly kind: 'retry'; readonly turn: TurnView }
    | {
        readonly kind: 'divider';
        readonly message: Message;
        readonly handover: Handover;
        readonly from: ProviderId | null;
        readonly fromLane: Lane;
      }
    | {
        readonly kind: 'error';
        readonly message: Message;
        readonly notice: Extract<Notice, { type: 'error' }>;
        readonly last: boolean;
        readonly again: Message | null;
      }
    | { readonly kind: 'notice'; readonly message: Message; readonly notice: Notice }
  );

/** Work rows in one bordered stack; a longer run of work is several stacks. */
const STACK = 24;

interface Kept {
  message: Message;
  context: string;
  rows: readonly Row[];
}

/** Remembers the rows of messages that did not change. One a thread. */
export class RowMemory {
  private kept = new Map<MessageId, Kept>();

  get(message: Message, context: string, make: () => Row[]): readonly Row[] {
    const old = this.kept.get(message.id);
    if (old && old.message === message && old.context === context) return old.rows;
    const rows = make();
    this.kept.set(message.id, { message, context, rows });
    return rows;
  }

  /** Forgets messages that are not in memory any more. */
  forget(messages: readonly Message[]): void {
    if (this.kept.size < messages.length * 2 + 100) return;
    const here = new Set(messages.map((message) => message.id));
    for (const id of this.kept.keys()) if (!here.has(id)) this.kept.delete(id);
  }
}

/** Who holds the stretch that the first message stands in. */
function firstHolder(messages: readonly Message[]): ProviderId | null {
  for (const message of messages) {
    if (message.notice?.type === 'handover') return message.notice.from ?? message.notice.provider;
    if (message.role === 'assistant') return message.provider;
    if (message.notice?.type === 'error') return message.notice.provider;
  }
  return messages.find((message) => message.provider !== null)?.provider ?? null;
}

export function rowsOf(
  state: ThreadState,
  memory: RowMemory,
  pending: readonly { clientId: string; text: string }[] = [],
): Row[] {
  const rows: Row[] = [];
  let lane: Lane = state.lane;
  let who = firstHolder(state.messages);
  const open = state.approvals.filter((one) => one.state === 'open');
  const placed = new Map<string, Approval[]>();
  for (const one of state.approvals) {
    if (one.state === 'open' || one.request.item === null) continue;
    placed.set(one.request.item, [...(placed.get(one.request.item) ?? []), one]);
  }
  const turnMessage = state.turn && state.messages.find((message) => message.id === state.turn?.messageId);
  const lastContent = state.messages.findLastIndex((one) => one.role !== 'system');
  let answered = false;
  let lastUser: Message | null = null;

  state.messages.forEach((message, at) => {
    const first = at === 0 && !state.hasBefore;
    if (message.notice?.type === 'handover') {
      const from = message.notice.from ?? who;
      const fromLane = lane;
      lane = lane === 0 ? 1 : 0;
      who = message.notice.provider;
      const place = { who, lane, first };
      const handover = message.notice;
      rows.push(
        ...memory.get(message, `${who} ${lane} ${from}`, () => [
          { ...place, kind: 'divider', key: message.id, message, handover, from, fromLane },
        ]),
      );
      return;
    }
    if (message.role === 'assistant' && message.provider !== null) who = message.provider;
    if (message.role === 'user' && who === null) who = message.provider;
    const place = { who, lane, first };
    const last = at >= lastContent;
    if (message.role === 'user') {
      lastUser = message;
      const idle = state.turn === null && last && !state.hasAfter && state.messages.at(-1) === message;
      const unanswered = idle && message.state !== 'open' && message.state !== 'done';
      rows.push(
        ...memory.get(message, `${who} ${lane} ${first} ${unanswered}`, () => {
          const own: Row[] = [{ ...place, kind: 'user', key: message.id, message }];
          if (unanswered) own.push({ ...place, first: false, kind: 'unanswered', key: `${message.id} end`, message });
          return own;
        }),
      );
      return;
    }
    if (message.role === 'assistant') {
      const live = message.state === 'open' && state.turn !== null && !state.hasAfter && last;
      if (turnMessage && message.seq > turnMessage.seq) answered = true;
      const settled = message.parts
        .map((part) => (placed.get(part.key) ?? []).map((one) => one.state).join())
        .join('|');
      // An error that follows says it all.
      const said = message.state === 'failed' && state.messages[at + 1]?.notice?.type === 'error';
      rows.push(
        ...memory.get(message, `${who} ${lane} ${first} ${live} ${said} ${settled}`, () =>
          reply(message, place, live, said, placed),
        ),
      );
      return;
    }
    if (message.notice?.type === 'error') {
      const notice = message.notice;
      const again = lastUser;
      const live = last && state.turn === null && !state.hasAfter && state.messages.at(-1) === message;
      rows.push(
        ...memory.get(message, `${who} ${lane} ${live} ${again?.id}`, () => [
          { ...place, kind: 'error', key: message.id, message, notice, last: live, again },
        ]),
      );
      return;
    }
    if (message.notice) {
      const notice = message.notice;
      rows.push(
        ...memory.get(message, `${who} ${lane}`, () => [
          { ...place, kind: 'notice', key: message.id, message, notice },
        ]),
      );
    }
  });

  const place = { who, lane, first: rows.length === 0 && !state.hasBefore };
  if (!state.hasAfter) {
    if (state.turn && !answered)
      rows.push({ ...place, first: false, kind: 'starting', key: `starting ${state.turn.id}`, turn: state.turn });
    if (state.turn?.retry)
      rows.push({ ...place, first: false, kind: 'retry', key: `retry ${state.turn.id}`, turn: state.turn });
    for (const approval of open)
      rows.push({ ...place, first: false, kind: 'approval', key: `approval ${approval.id}`, approval });
    for (const one of pending) rows.push({ ...place, kind: 'pending', key: `pending ${one.clientId}`, text: one.text });
  }
  memory.forget(state.messages);
  return rows;
}

function reply(
  message: Message,
  place: Omit<Place, 'key'>,
  live: boolean,
  said: boolean,
  settled: Map<string, Approval[]>,
): Row[] {
  const after = { ...place, first: false };
  const rows: Row[] = [{ ...place, kind: 'head', key: message.id, message, live }];
  let stack: Part[] = [];
  let gone: Part[] = [];
  const key = (part: Part) => `${message.id} ${part.key}`;
  const flush = () => {
    const [work, old] = [stack[0], gone[0]];
    if (old) rows.push({ ...after, kind: 'superseded', key: `${key(old)} old`, message, parts: gone });
    if (work) rows.push({ ...after, kind: 'work', key: key(work), message, parts: stack });
    stack = [];
    gone = [];
  };
  message.parts.forEach((part, at) => {
    const growing = live && at === message.parts.length - 1;
    if (part.superseded) {
      if (stack.length > 0) flush();
      gone.push(part);
      return;
    }
    if (gone.length > 0 && stack.length === 0) flush();
    switch (part.body.type) {
      case 'text':
        flush();
        rows.push({ ...after, kind: 'text', key: key(part), message, part, live: growing });
        break;
      case 'reasoning':
        // Some models reason without showing any of it.
        if (part.body.text.trim() === '') break;
        flush();
        rows.push({ ...after, kind: 'reasoning', key: key(part), message, part, live: growing });
        break;
      case 'plan':
        flush();
        rows.push({ ...after, kind: 'plan', key: key(part), part });
        break;
      default:
        stack.push(part);
        if (stack.length === STACK) flush();
    }
    for (const approval of settled.get(part.key) ?? []) {
      flush();
      rows.push({ ...after, kind: 'approval', key: `approval ${approval.id}`, approval });
    }
  });
  flush();
  if (message.state === 'interrupted' || (message.state === 'failed' && !said))
    rows.push({ ...after, kind: 'end', key: `${message.id} end`, message });
  return rows;
}

/** Where the row of a message is. */
export function rowIndex(rows: readonly Row[], seq: number): number {
  return rows.findIndex((row) => 'message' in row && row.message.seq >= seq);
}

export { isChangeover };
