/** What carries calls and events between the page and the engine, and what only a desktop can do. */
import type { ApiError, Event, Methods } from '../gen';

export type Method = keyof Methods;
export type Params<M extends Method> = Methods[M]['params'];
export type Response<M extends Method> = Methods[M]['response'];

/** How the line to the engine stands. `refused`: the engine does not know this page (its one-time code is used up). */
export type LineState = 'connecting' | 'open' | 'away' | 'refused';

export interface Listener {
  /** Events in the order in which the engine sent them. */
  events(batch: Event[]): void;
  /** The line changed. After `open` following `away` everything in view must be read again. */
  line(state: LineState, why?: ApiError): void;
}

export interface Transport {
  readonly platform: Platform;
  /** Opens the line; it is kept open, with growing pauses between tries, until the page goes. */
  connect(listener: Listener): void;
  /** Resolves to the response or rejects with an `ApiError`. */
  call<M extends Method>(method: M, params: Params<M>): Promise<Response<M>>;
  /** Tries now, instead of waiting for the next try. */
  retryNow(): void;
}

/** What only a desktop can do, or what a browser does in its own way. */
export interface Platform {
  readonly kind: 'window' | 'browser';
  /** Shows the system's folder dialog. `undefined`: there is none here, ask for a path in words. `null`: cancelled. */
  pickFolder?: (title: string) => Promise<string | null>;
  /** Shows the system's file dialog. */
  pickFile?: (title: string) => Promise<string | null>;
  /** Shows a file or folder in the file manager. */
  reveal?: (path: string) => Promise<void>;
  /** Opens a link outside; only ever called from a click, with an http, https or mailto address. */
  openLink(url: string): Promise<void>;
  setTitle(title: string): void;
  /** Tells the person that something ended or waits; does nothing where it is not allowed. */
  notify(title: string, body: string): Promise<void>;
}

export function apiError(message: string, more: Partial<ApiError> = {}): ApiError {
  return { code: 'internal', message, retryable: false, ...more };
}

export function isApiError(value: unknown): value is ApiError {
  return typeof value === 'object' && value !== null && 'code' in value && 'message' in value;
}

/** Whatever was thrown, as an `ApiError`. */
export function asApiError(value: unknown): ApiError {
  if (isApiError(value)) return value;
  return apiError(value instanceof Error ? value.message : String(value));
}

/** Addresses that may leave the app, and only after a click. */
export function isOutsideLink(url: string): boolean {
  try {
    return ['http:', 'https:', 'mailto:'].includes(new URL(url).protocol);
  } catch {
    return false;
  }
}
