import { beforeEach, describe, expect, it } from 'vitest';
import { open } from '../api/client.svelte';
import type { Event, Methods, ThreadReadResponse } from '../api/gen';
import type { Listener, Transport } from '../api/transport/transport';
import { Thread } from './thread.svelte';

const summary = {
  id: 't',
  projectId: 'p',
  title: '',
  target: { provider: 'claude', model: null, effort: null, mode: 'ask' as const },
  lastSeq: 0,
  seenSeq: 0,
  mark: 'idle' as const,
  createdAt: 0,
  updatedAt: 0,
  archived: false,
  pinned: false,
  parentThreadId: null,
};
const reply = (text: string) => ({
  id: 'm2',
  seq: 2,
  role: 'assistant' as const,
  state: 'open' as const,
  provider: 'claude',
  model: null,
  session: null,
  createdAt: 0,
  endedAt: null,
  pinned: false,
  excluded: false,
  parts: [{ key: 'a', superseded: false, body: { type: 'text' as const, text } }],
  notice: null,
});
const read = (text: string, event: number): ThreadReadResponse => ({
  thread: summary,
  messages: [reply(text)],
  hasBefore: false,
  cuts: [],
  hasAfter: false,
  turn: null,
  queue: [],
  approvals: [],
  sessions: [],
  draft: 'd',
  event,
});
const say = (n: number, text: string): Event => ({
  threadId: 't',
  n,
  body: { type: 'text', messageId: 'm2', key: 'a', text },
});

/** A line whose answers the test gives one by one. */
class Line implements Transport {
  platform = {} as never;
  listener!: Listener;
  asked: { method: string; answer(value: unknown): void }[] = [];
  connect(listener: Listener) {
    this.listener = listener;
  }
  retryNow() {}
  call<M extends keyof Methods>(method: M) {
    return new Promise<Methods[M]['response']>((resolve) => this.asked.push({ method, answer: resolve as never }));
  }
  async answer(method: string, value: unknown) {
    const at = this.asked.findIndex((one) => one.method === method);
    expect(at, `${method} was asked`).toBeGreaterThanOrEqual(0);
    this.asked.splice(at, 1)[0]?.answer(value);
    for (let i = 0; i < 8; i++) await Promise.resolve();
  }
}

describe('a thread in view', () => {
  let line: Line;
  let thread: Thread;
  const text = () =>
    thread.state?.messages[0]?.parts.map((part) => (part.body.type === 'text' ? part.body.text : '')).join('');

  beforeEach(() => {
    line = new Line();
    open(line);
    thread = new Thread('t');
    void thread.enter();
  });

  it('watches before it reads, and takes what came in between once', async () => {
    await line.answer('event/watch', {});
    line.listener.events([say(4, 'x'), say(5, 'y')]);
    await line.answer('thread/read', read('abx', 4));
    expect(text()).toBe('abxy');
    line.listener.events([say(6, 'z')]);
    expect(text()).toBe('abxyz');
    expect(thread.draft).toBe('d');
    thread.close();
  });

  it('reads again after a gap, and nothing is lost or doubled', async () => {
    await line.answer('event/watch', {});
    await line.answer('thread/read', read('a', 1));
    line.listener.events([say(2, 'b'), say(4, 'd')]);
    expect(text()).toBe('ab');
    line.listener.events([say(5, 'e')]);
    await line.answer('thread/read', read('abcd', 4));
    expect(text()).toBe('abcde');
    expect(line.asked).toEqual([]);
    thread.close();
  });

  it('reads again when the line is back', async () => {
    await line.answer('event/watch', {});
    await line.answer('thread/read', read('a', 1));
    line.listener.line('away');
    line.listener.line('open');
    await line.answer('event/watch', {});
    // The engine was started again: its numbers begin anew.
    await line.answer('thread/read', read('a, and more', 0));
    line.listener.events([say(1, '!')]);
    expect(text()).toBe('a, and more!');
    thread.close();
  });
});
