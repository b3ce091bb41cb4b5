/** The page's one door to the engine. */
import type { ApiError, Event } from './gen';
import type { LineState, Method, Params, Platform, Response, Transport } from './transport/transport';

type Hear = (batch: Event[]) => void;

let transport: Transport | undefined;
const hearers = new Set<Hear>();
const returners = new Set<() => void>();
const line = $state({ state: 'connecting' as LineState, why: null as ApiError | null });

/** Opens the line. Called once, before the page is shown. */
export function open(by: Transport): void {
  transport = by;
  let wasAway = false;
  by.connect({
    events(batch) {
      for (const hear of hearers) hear(batch);
    },
    line(state, why) {
      line.state = state;
      line.why = why ?? null;
      if (state === 'away') wasAway = true;
      if (state === 'open' && wasAway) {
        wasAway = false;
        for (const again of returners) again();
      }
    },
  });
}

/** How the line stands; reactive. */
export function lineState(): LineState {
  return line.state;
}

/** Why the line is cut, where that is known; reactive. */
export function lineProblem(): ApiError | null {
  return line.why;
}

export function retryNow(): void {
  transport?.retryNow();
}

export function platform(): Platform {
  if (!transport) throw new Error('the line is not open yet');
  return transport.platform;
}

/** Asks the engine; rejects with an `ApiError`. */
export function call<M extends Method>(method: M, params: Params<M>): Promise<Response<M>> {
  if (!transport) throw new Error('the line is not open yet');
  return transport.call(method, params);
}

/** Hears every batch of events; returns how to stop. */
export function onEvents(hear: Hear): () => void {
  hearers.add(hear);
  return () => hearers.delete(hear);
}

/** Called when the line is back after it was cut: read again what is in view. */
export function onReturn(again: () => void): () => void {
  returners.add(again);
  return () => returners.delete(again);
}

/**
 * Asks for something that events tell of too. The answer may be older than an event that overtook it, so what was heard
 * meanwhile is heard once more after it was taken.
 */
export async function readAlong<T>(ask: () => Promise<T>, take: (answer: T) => void, hear: Hear): Promise<void> {
  const meanwhile: Event[] = [];
  const stop = onEvents((batch) => meanwhile.push(...batch));
  try {
    take(await ask());
  } finally {
    stop();
  }
  if (meanwhile.length > 0) hear(meanwhile);
}
