/** What the next turn will be (H1), kept up to date while the thread, the choice or the transcript changes. */
import { call } from '../api/client.svelte';
import type { ApiError, HandoffPreviewResponse, Target, ThreadId } from '../api/gen';
import { asApiError } from '../api/transport/transport';

const PAUSE_MS = 120;

export class Preview {
  value = $state.raw<HandoffPreviewResponse | null>(null);
  /** What is shown is not yet what the last change made of it. */
  stale = $state(true);
  error = $state.raw<ApiError | null>(null);

  private timer: ReturnType<typeof setTimeout> | undefined;
  private asked = 0;

  /** Asks soon; a later call replaces an earlier one. */
  refresh(threadId: ThreadId, target: Target): void {
    this.stale = true;
    const mine = ++this.asked;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        const answer = await call('handoff/preview', { threadId, target, messageId: null, withText: false });
        if (mine !== this.asked) return;
        this.value = answer;
        this.error = null;
        this.stale = false;
      } catch (error) {
        if (mine !== this.asked) return;
        this.error = asApiError(error);
        this.stale = false;
      }
    }, PAUSE_MS);
  }

  /** A preview that came with an answer. */
  put(value: HandoffPreviewResponse): void {
    this.asked++;
    clearTimeout(this.timer);
    this.value = value;
    this.error = null;
    this.stale = false;
  }

  close(): void {
    this.asked++;
    clearTimeout(this.timer);
  }
}
