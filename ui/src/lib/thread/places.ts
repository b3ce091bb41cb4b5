/** Where one was reading in each thread (U5): survives a restart. Who was at the end stands nowhere here and comes back to the end. */
import type { ThreadId } from '../api/gen';

/** The message at the upper edge, and how far into it, in pixels. */
export interface Place {
  seq: number;
  px: number;
}

const STORED = 'changeover.places';
/** So many threads are remembered; the one left longest ago goes first. */
const BOUND = 200;

function stored(): [ThreadId, Place][] {
  try {
    const read: unknown = JSON.parse(localStorage.getItem(STORED) ?? '[]');
    return Array.isArray(read) ? read : [];
  } catch {
    return [];
  }
}

export function placeOf(thread: ThreadId): Place | undefined {
  return stored().find(([id]) => id === thread)?.[1];
}

/** `null`: at the end. */
export function keepPlace(thread: ThreadId, place: Place | null): void {
  const others = stored().filter(([id]) => id !== thread);
  const kept = place ? [...others, [thread, place]] : others;
  try {
    localStorage.setItem(STORED, JSON.stringify(kept.slice(-BOUND)));
  } catch {
    // A browser that keeps nothing is no error.
  }
}
