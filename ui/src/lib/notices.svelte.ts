/** Tells the person that a turn ended or waits, when the window is not in front (U5). */
import { platform } from './api/client.svelte';
import type { Event, ThreadMark } from './api/gen';
import { threadSummary } from './project/projects.svelte';
import { words } from './words/en';

/** Called before the batch is taken into the lists, so that the mark before it is known. */
export function hearForNotices(batch: readonly Event[]): void {
  if (document.hasFocus() && !document.hidden) return;
  const before = new Map<string, ThreadMark | undefined>();
  for (const { body } of batch) {
    if (body.type !== 'thread') continue;
    const { id, mark, title } = body.thread;
    const old = before.has(id) ? before.get(id) : threadSummary(id)?.mark;
    before.set(id, mark);
    if (old === mark || old === undefined) continue;
    const name = title || words.side.untitled;
    if (mark === 'waiting') void platform().notify(words.notify.waits(name), '');
    else if (mark === 'idle' && old === 'running') void platform().notify(words.notify.ended(name), '');
    else if (mark === 'failed') void platform().notify(words.notify.failed(name), '');
  }
}
