import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Event } from '../gen';
import type { LineState } from './transport';
import { exchangeCode, wsTransport } from './ws';

/** A socket that the test holds the other end of. */
class Socket {
  static all: Socket[] = [];
  static OPEN = 1;
  readyState = 0;
  sent: { id: number; method: string; params: unknown }[] = [];
  onopen?: () => void;
  onclose?: () => void;
  onmessage?: (message: { data: string }) => void;
  constructor(readonly url: URL) {
    Socket.all.push(this);
  }
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  open() {
    this.readyState = 1;
    this.onopen?.();
  }
  close() {
    this.readyState = 3;
    this.onclose?.();
  }
  say(frame: unknown) {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
}
const last = () => Socket.all.at(-1) as Socket;

describe('the line by WebSocket', () => {
  const heard: Event[][] = [];
  const states: LineState[] = [];
  const listener = {
    events: (batch: Event[]) => void heard.push(batch),
    line: (state: LineState) => void states.push(state),
  };
  let status = 400;

  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal('WebSocket', Socket);
    vi.stubGlobal('fetch', async () => ({ ok: status < 400, status }));
    [Socket.all, heard.length, states.length, status] = [[], 0, 0, 400];
    history.replaceState(null, '', '/');
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('answers by id, passes errors and events on, single and in batches', async () => {
    const line = wsTransport();
    line.connect(listener);
    const first = line.call('project/list', {});
    await vi.advanceTimersByTimeAsync(0);
    expect(last().url.pathname).toBe('/rpc');
    last().open();
    const second = line.call('thread/delete', { threadId: 't', stop: false });
    expect(last().sent).toEqual([
      { id: 1, method: 'project/list', params: {} },
      { id: 2, method: 'thread/delete', params: { threadId: 't', stop: false } },
    ]);
    const error = { code: 'notFound', message: 'gone', retryable: false };
    const failed = expect(second).rejects.toEqual(error);
    last().say({ id: 2, error });
    last().say({ id: 1, result: { projects: [] } });
    expect(await first).toEqual({ projects: [] });
    await failed;
    const event: Event = { threadId: null, n: 0, body: { type: 'storage', problem: null } };
    last().say({ event });
    last().say({ events: [event, event] });
    expect(heard).toEqual([[event], [event, event]]);
    expect(states).toEqual(['open']);
  });

  it('comes back with growing pauses, and rejects what was under way', async () => {
    const line = wsTransport();
    line.connect(listener);
    await vi.advanceTimersByTimeAsync(0);
    last().open();
    const lost = expect(line.call('project/list', {})).rejects.toMatchObject({ retryable: true });
    last().close();
    await lost;
    await expect(line.call('project/list', {})).rejects.toMatchObject({ retryable: true });
    expect(states).toEqual(['open', 'away']);
    await vi.advanceTimersByTimeAsync(250);
    expect(Socket.all).toHaveLength(2);
    last().close();
    await vi.advanceTimersByTimeAsync(499);
    expect(Socket.all).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(1);
    expect(Socket.all).toHaveLength(3);
    last().open();
    expect(states.at(-1)).toBe('open');
  });

  it('says so when the engine does not let the page in, and tries no more', async () => {
    status = 401;
    const line = wsTransport();
    line.connect(listener);
    const waiting = expect(line.call('project/list', {})).rejects.toMatchObject({
      message: 'This page is not let in.',
    });
    await vi.advanceTimersByTimeAsync(0);
    last().close();
    await vi.advanceTimersByTimeAsync(60_000);
    await waiting;
    expect(states).toEqual(['refused']);
    expect(Socket.all).toHaveLength(1);
  });

  it('takes the code out of the address before it is used', async () => {
    history.replaceState(null, '', '/?a=1#code=secret');
    const posted: [string, string, string][] = [];
    const good = await exchangeCode(window.location, window.history, (async (url: string, init: RequestInit) => {
      posted.push([url, String(init.body), window.location.href]);
      return { ok: true };
    }) as never);
    expect(good).toBe(true);
    expect(posted).toEqual([['/session', '{"code":"secret"}', 'http://localhost:3000/?a=1']]);
    expect(
      await exchangeCode(window.location, window.history, (() => Promise.reject(new Error('not asked'))) as never),
    ).toBe(true);
  });
});
