/** The line to `changeover serve`: one WebSocket on the page's own origin. */
import type { ApiError, Event } from '../gen';
import { browserPlatform } from './browser';
import {
  apiError,
  type Listener,
  type LineState,
  type Method,
  type Params,
  type Response,
  type Transport,
} from './transport';

type Frame = { id: number; result: unknown } | { id: number; error: ApiError } | { event: Event } | { events: Event[] };

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 8_000;

/** Takes the one-time code out of the address and exchanges it for the session's cookie. `false`: it was refused. */
export async function exchangeCode(location: Location, history: History, post: typeof fetch): Promise<boolean> {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code === null) return true;
  // Gone from the address bar and from the history before anything else happens.
  history.replaceState(null, '', location.pathname + location.search);
  const answer = await post('/session', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ code }),
    credentials: 'same-origin',
  });
  return answer.ok;
}

export function wsTransport(): Transport {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: ApiError): void }>();
  let socket: WebSocket | null = null;
  let listener: Listener | null = null;
  let state: LineState = 'connecting';
  let nextId = 1;
  let pause = FIRST_PAUSE_MS;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let early: { send(): void; fail(): void }[] = [];
  let everOpen = false;
  let codeGood = true;

  function turn(to: LineState) {
    if (state === to && to !== 'open') return;
    state = to;
    listener?.line(to);
  }

  function take(frame: Frame) {
    if ('event' in frame) return listener?.events([frame.event]);
    if ('events' in frame) return listener?.events(frame.events);
    const call = waiting.get(frame.id);
    waiting.delete(frame.id);
    if (!call) return;
    if ('error' in frame) call.reject(frame.error);
    else call.resolve(frame.result);
  }

  function open() {
    clearTimeout(timer);
    const url = new URL('/rpc', window.location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const mine = new WebSocket(url);
    socket = mine;
    mine.onopen = () => {
      pause = FIRST_PAUSE_MS;
      everOpen = true;
      const calls = early;
      early = [];
      for (const call of calls) call.send();
      turn('open');
    };
    mine.onmessage = (message) => take(JSON.parse(String(message.data)) as Frame);
    mine.onclose = () => {
      if (socket !== mine) return;
      socket = null;
      const lost = apiError('The line to Changeover was cut.', { retryable: true });
      for (const call of waiting.values()) call.reject(lost);
      waiting.clear();
      void lookAgain();
    };
  }

  async function lookAgain() {
    if (!everOpen && (!codeGood || (await refused()))) {
      for (const call of early) call.fail();
      early = [];
      return turn('refused');
    }
    turn('away');
    timer = setTimeout(open, pause);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }

  // A WebSocket does not tell why it was not opened; a plain request that needs the same cookie does.
  async function refused(): Promise<boolean> {
    try {
      const answer = await fetch('/code', { method: 'POST', credentials: 'same-origin' });
      return answer.status === 401 || answer.status === 403;
    } catch {
      return false;
    }
  }

  return {
    platform: browserPlatform(),
    connect(to) {
      listener = to;
      exchangeCode(window.location, window.history, fetch.bind(window)).then(
        (good) => {
          codeGood = good;
          open();
        },
        () => open(),
      );
    },
    retryNow() {
      if (state === 'away') open();
    },
    call<M extends Method>(method: M, params: Params<M>) {
      return new Promise<Response<M>>((resolve, reject) => {
        if (state === 'refused') return reject(apiError('This page is not let in.'));
        const send = () => {
          const id = nextId++;
          waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
          socket?.send(JSON.stringify({ id, method, params }));
        };
        if (socket?.readyState === WebSocket.OPEN) send();
        else if (!everOpen) early.push({ send, fail: () => reject(apiError('This page is not let in.')) });
        else reject(apiError('The line to Changeover is cut. Nothing was sent.', { retryable: true }));
      });
    },
  };
}
