import { describe, expect, it } from 'vitest';
import type { Event, EventBody, Message, Part, ThreadSummary } from '../api/gen';
import { fromRead, KEPT, laneLike, reduce, trimmed, withNewer, withPart, withOlder, type ThreadState } from './reduce';

const thread: ThreadSummary = {
  id: 't',
  projectId: 'p',
  title: 'A',
  target: { provider: 'claude', model: null, effort: null, mode: 'ask' },
  lastSeq: 2,
  seenSeq: 0,
  mark: 'idle',
  createdAt: 0,
  updatedAt: 0,
  archived: false,
  pinned: false,
  parentThreadId: null,
};
const text = (key: string, value: string): Part => ({ key, superseded: false, body: { type: 'text', text: value } });
function message(seq: number, more: Partial<Message> = {}): Message {
  return {
    id: `m${seq}`,
    seq,
    role: seq % 2 ? 'user' : 'assistant',
    state: 'done',
    provider: 'claude',
    model: null,
    session: null,
    createdAt: 0,
    endedAt: null,
    pinned: false,
    excluded: false,
    parts: [],
    notice: null,
    ...more,
  };
}
const handover = (seq: number) =>
  message(seq, {
    role: 'system',
    notice: {
      type: 'handover',
      provider: 'codex',
      model: null,
      from: 'claude',
      kind: 'handoff',
      told: [],
      leftOut: [],
      messagesTold: 0,
      messagesTotal: 0,
      commandsTold: 0,
      commandsTotal: 0,
      used: 0,
      budget: 1,
      bytes: 0,
      hash: '',
      items: [],
    },
  });
function state(messages: Message[], more: Partial<ThreadState> = {}): ThreadState {
  return {
    ...fromRead({
      thread,
      messages,
      hasBefore: false,
      cuts: [],
      hasAfter: false,
      turn: null,
      queue: [],
      approvals: [],
      sessions: [],
      draft: '',
      event: 10,
    }),
    ...more,
  };
}
const event = (n: number, body: EventBody): Event => ({ threadId: 't', n, body });

describe('reduce', () => {
  it('appends text to the part it names, byte for byte', () => {
    const before = state([message(1), message(2, { state: 'open', parts: [text('a', 'Hel'), text('b', '')] })]);
    const after = reduce(before, event(11, { type: 'text', messageId: 'm2', key: 'a', text: 'lo\r\n\u0000 ' }));
    expect(after.messages[1]?.parts).toEqual([text('a', 'Hello\r\n\u0000 '), text('b', '')]);
    expect(after.event).toBe(11);
    expect(before.messages[1]?.parts[0]).toEqual(text('a', 'Hel'));
  });

  it('appends to the output of a command and of a tool', () => {
    const command: Part = {
      key: 'c',
      superseded: false,
      body: { type: 'command', command: 'ls', status: 'running', exitCode: null, output: 'a' },
    };
    const tool: Part = {
      key: 't',
      superseded: false,
      body: { type: 'tool', name: 'Read', input: '{}', output: null, status: 'running' },
    };
    let now = state([message(2, { parts: [command, tool] })]);
    now = reduce(now, event(11, { type: 'text', messageId: 'm2', key: 'c', text: 'b' }));
    now = reduce(now, event(12, { type: 'text', messageId: 'm2', key: 't', text: 'x' }));
    expect(now.messages[0]?.parts.map((part) => ('output' in part.body ? part.body.output : null))).toEqual([
      'ab',
      'x',
    ]);
  });

  it('takes an event once: one that is in the reading already changes nothing', () => {
    const before = state([message(2, { parts: [text('a', 'x')] })]);
    expect(reduce(before, event(10, { type: 'text', messageId: 'm2', key: 'a', text: 'x' }))).toBe(before);
  });

  it('is stale after a gap, and takes nothing from beyond it', () => {
    const before = state([message(2, { parts: [text('a', 'x')] })]);
    const after = reduce(before, event(12, { type: 'text', messageId: 'm2', key: 'a', text: 'y' }));
    expect(after.stale).toBe(true);
    expect(after.messages).toBe(before.messages);
    expect(after.event).toBe(10);
  });

  it('is stale when an event speaks of a message or part that was never seen', () => {
    for (const body of [
      { type: 'text', messageId: 'm9', key: 'a', text: 'x' },
      { type: 'text', messageId: 'm2', key: 'unknown', text: 'x' },
      { type: 'messageState', messageId: 'm9', state: 'done', endedAt: 1, provider: null },
      { type: 'part', messageId: 'm9', part: text('a', '') },
    ] satisfies EventBody[])
      expect(reduce(state([message(2)]), event(11, body)).stale, JSON.stringify(body)).toBe(true);
  });

  it('is not stale for a message on a page that is out of view', () => {
    const older = reduce(
      state([message(60)], { hasBefore: true }),
      event(11, { type: 'part', messageId: 'm2', part: text('a', '') }),
    );
    expect([older.stale, older.event]).toEqual([false, 11]);
    const newer = reduce(
      state([message(2)], { hasAfter: true }),
      event(11, { type: 'text', messageId: 'm99', key: 'a', text: 'x' }),
    );
    expect(newer.stale).toBe(false);
    const added = reduce(state([message(2)], { hasAfter: true }), event(11, { type: 'message', message: message(99) }));
    expect(added.messages.map((one) => one.seq)).toEqual([2]);
  });

  it('puts a new message at the end and an old one in its place', () => {
    let now = reduce(state([message(1)]), event(11, { type: 'message', message: message(2, { state: 'open' }) }));
    now = reduce(now, event(12, { type: 'message', message: message(2, { state: 'done', model: 'opus' }) }));
    expect(now.messages.map((one) => [one.seq, one.state, one.model])).toEqual([
      [1, 'done', null],
      [2, 'done', 'opus'],
    ]);
  });

  it('adds and replaces parts by their key and folds those that were begun again', () => {
    let now = state([message(2, { parts: [text('a', 'old')] })]);
    now = reduce(now, event(11, { type: 'part', messageId: 'm2', part: text('b', 'new') }));
    now = reduce(now, event(12, { type: 'superseded', messageId: 'm2', keys: ['a'] }));
    now = reduce(now, event(13, { type: 'part', messageId: 'm2', part: text('b', 'newer') }));
    expect(now.messages[0]?.parts).toEqual([{ ...text('a', 'old'), superseded: true }, text('b', 'newer')]);
  });

  it('keeps the provider and model that it knew when the end of a reply names none', () => {
    const after = reduce(
      state([message(2, { model: 'opus', state: 'open' })]),
      event(11, { type: 'messageState', messageId: 'm2', state: 'interrupted', endedAt: 5, provider: null }),
    );
    expect(after.messages[0]).toMatchObject({ state: 'interrupted', endedAt: 5, provider: 'claude', model: 'opus' });
  });

  it('takes the status of work without its bytes, and a model once it is known', () => {
    const command: Part = {
      key: 'c',
      superseded: false,
      body: { type: 'command', command: 'ls', status: 'running', exitCode: null, output: 'a' },
    };
    let now = state([message(2, { parts: [command, text('a', '')] })]);
    now = reduce(now, event(11, { type: 'partStatus', messageId: 'm2', key: 'c', status: 'failed', exitCode: 3 }));
    now = reduce(now, event(12, { type: 'messageModel', messageId: 'm2', model: 'opus' }));
    expect(now.messages[0]).toMatchObject({
      model: 'opus',
      parts: [{ body: { status: 'failed', exitCode: 3, output: 'a' } }, text('a', '')],
    });
    expect(
      reduce(now, event(13, { type: 'partStatus', messageId: 'm2', key: 'a', status: 'failed', exitCode: null })).stale,
    ).toBe(true);
  });

  it('settles an approval in its place and forgets settled ones when another turn begins', () => {
    const approval = (id: string, turn: string, is: 'open' | 'once') => ({
      id,
      turn,
      request: { key: id, item: null, subject: { type: 'command' as const, command: 'ls', cwd: null }, reason: null },
      state: is,
      askedAt: 0,
      settledAt: null,
    });
    let now = reduce(state([]), event(11, { type: 'approval', approval: approval('a', 'turn1', 'open') }));
    now = reduce(now, event(12, { type: 'approval', approval: approval('a', 'turn1', 'once') }));
    expect(now.approvals).toEqual([approval('a', 'turn1', 'once')]);
    now = reduce(
      now,
      event(13, {
        type: 'turn',
        turn: {
          id: 'turn2',
          messageId: 'm3',
          target: thread.target,
          phase: 'preparing',
          startedAt: 0,
          attempt: 1,
          retry: null,
        },
      }),
    );
    expect(now.approvals).toEqual([]);
  });

  it('takes events about the whole app without a number', () => {
    const after = reduce(state([]), {
      threadId: 't',
      n: 0,
      body: { type: 'thread', thread: { ...thread, title: 'B' } },
    });
    expect([after.thread.title, after.event, after.stale]).toEqual(['B', 10, false]);
  });
});

describe('pages', () => {
  const stretch = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => message(from + at));

  it('puts an older page before what is here, once', () => {
    const after = withOlder(state(stretch(61, 120), { hasBefore: true }), {
      messages: stretch(55, 64),
      cuts: [],
      hasBefore: true,
    });
    expect(after.messages.map((one) => one.seq)).toEqual(stretch(55, 120).map((one) => one.seq));
  });

  it('keeps a bounded number: the far end is dropped, and lanes stay', () => {
    const up = trimmed(
      withOlder(state(stretch(101, 100 + KEPT), { hasBefore: true }), {
        messages: stretch(41, 100),
        cuts: [],
        hasBefore: true,
      }),
      'newest',
    );
    expect([up.messages.length, up.messages[0]?.seq, up.hasAfter]).toEqual([KEPT, 41, true]);
    const down = trimmed(
      withNewer(state([message(1), handover(2), ...stretch(3, KEPT)], { hasAfter: true }), {
        messages: stretch(KEPT + 1, KEPT + 60),
        cuts: [],
        hasAfter: true,
      }),
      'oldest',
    );
    expect([down.messages.length, down.messages[0]?.seq, down.hasBefore, down.lane]).toEqual([KEPT, 61, true, 1]);
    const few = state(stretch(1, 10));
    expect(trimmed(few, 'oldest')).toBe(few);
  });

  it('knows what a page gives in short, until the part comes whole', () => {
    const cut = (seq: number) => ({ seq, key: 'a', at: 2, bytes: 40 });
    const now = withOlder(state([message(3, { parts: [text('a', 'xy')] })], { cuts: [cut(3)], hasBefore: true }), {
      messages: [message(2, { parts: [text('a', 'ab')] })],
      cuts: [cut(2)],
      hasBefore: false,
    });
    expect(now.cuts).toEqual([cut(2), cut(3)]);
    const whole = withPart(now, 'm2', text('a', 'a…b'));
    expect([whole.cuts, whole.messages[0]?.parts]).toEqual([[cut(3)], [text('a', 'a…b')]]);
    expect(reduce(whole, event(11, { type: 'part', messageId: 'm3', part: text('a', 'x…y') })).cuts).toEqual([]);
  });

  it('keeps every message in its lane when pages come, go and are read again', () => {
    const now = state([message(5), handover(6), message(7)], { hasBefore: true });
    const up = withOlder(now, { messages: [message(2), handover(3), message(4)], cuts: [], hasBefore: true });
    expect(up.lane).toBe(1);
    expect(laneLike(up, [message(5), handover(6)])).toBe(0);
    expect(laneLike(up, [handover(6), message(7), message(8)])).toBe(0);
    expect(laneLike(up, [message(7), message(8)])).toBe(1);
  });
});
