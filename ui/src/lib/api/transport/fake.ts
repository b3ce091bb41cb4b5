/** The line to the fake backend. `?fake`, `?fake=first|nothing|empty|long`, `&pace=0`. */
import { browserPlatform } from './browser';
import { FakeEngine, type Scene } from './fake/engine';
import type { Listener, Method, Params, Transport } from './transport';

declare global {
  interface Window {
    /** For the web tests: the backend itself, and the links that were opened. */
    fake?: { engine: FakeEngine; opened: string[]; titles: string[]; line(state: 'open' | 'away'): void };
  }
}

export function fakeTransport(query: URLSearchParams = new URLSearchParams()): Transport {
  const engine = new FakeEngine((query.get('fake') || 'plain') as Scene, Number(query.get('pace') ?? 30));
  let listener: Listener | null = null;
  let away = false;
  const opened: string[] = [];
  const titles: string[] = [];
  window.fake = {
    engine,
    opened,
    titles,
    line(state) {
      away = state === 'away';
      listener?.line(state);
    },
  };
  return {
    platform: {
      ...browserPlatform(),
      async openLink(url) {
        opened.push(url);
      },
      async notify(title) {
        titles.push(title);
      },
    },
    connect(to) {
      listener = to;
      engine.emit = (batch) => {
        if (!away && batch.length > 0) to.events(structuredClone(batch));
      };
      queueMicrotask(() => to.line('open'));
    },
    retryNow() {},
    call<M extends Method>(method: M, params: Params<M>) {
      return engine.call(method, params);
    },
  };
}
