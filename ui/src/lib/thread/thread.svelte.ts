/** One thread in view: reads it, follows its events, pages through it, and asks for changes. */
import { SvelteMap } from 'svelte/reactivity';
import { call, onEvents, onReturn } from '../api/client.svelte';
import type {
  ApiError,
  ApprovalDecision,
  ApprovalId,
  CutView,
  Event,
  HandoffPreviewResponse,
  MessageId,
  QueuedId,
  Target,
  ThreadId,
} from '../api/gen';
import { asApiError } from '../api/transport/transport';
import { fromRead, laneLike, reduce, trimmed, withNewer, withOlder, withPart, type ThreadState } from './reduce';
import { RowMemory, rowsOf, type Row } from './rows';

const PAGE = 60;
/** A message that was asked for stands so far below the upper edge. */
const ABOVE_PX = -24;

interface Pending {
  clientId: string;
  text: string;
}

export type Sent =
  { type: 'sent' } | { type: 'changed'; preview: HandoffPreviewResponse } | { type: 'failed'; error: ApiError };

export class Thread {
  readonly id: ThreadId;
  state = $state.raw<ThreadState | null>(null);
  error = $state.raw<ApiError | null>(null);
  pending = $state.raw<readonly Pending[]>([]);
  /** A page is being read at this end. */
  reading = $state.raw<'older' | 'newer' | null>(null);
  /** What the composer held when the thread was read first. */
  draft = $state.raw('');
  /** Counts up when the person sends something: the view goes to the end. */
  sending = $state(0);
  /** Counts up when the person opened or closed something: the view stays where it is. */
  held = $state(0);
  /** What the person opened or closed; rows out of view are not kept, so it stands here. */
  private opened = new SvelteMap<string, boolean>();
  /** Counts up when the view should go to a message. */
  goTo = $state.raw<{ seq: number; px: number; at: number } | null>(null);

  private memory = new RowMemory();
  readonly rows: Row[] = $derived(this.state ? rowsOf(this.state, this.memory, this.pending) : []);

  private waiting: Event[] | null = [];
  private again = false;
  private closed = false;
  private readonly stops: (() => void)[];

  constructor(id: ThreadId) {
    this.id = id;
    this.stops = [onEvents((batch) => this.hear(batch)), onReturn(() => this.enter())];
  }

  isOpen(key: string, otherwise = false): boolean {
    return this.opened.get(key) ?? otherwise;
  }
  setOpen(key: string, to: boolean): void {
    this.opened.set(key, to);
    this.held++;
  }

  /** Whether a part of the reply waits for the person's leave. */
  asks(key: string): boolean {
    return this.state?.approvals.some((one) => one.state === 'open' && one.request.item === key) ?? false;
  }

  /** Watches and reads. */
  async enter(): Promise<void> {
    try {
      await call('event/watch', { threadIds: [this.id] });
    } catch (error) {
      this.fail(error);
      return;
    }
    await this.read();
  }

  close(): void {
    this.closed = true;
    for (const stop of this.stops) stop();
  }

  private fail(error: unknown): void {
    this.error = asApiError(error);
  }

  private hear(batch: Event[]): void {
    const mine = batch.filter((event) => event.threadId === this.id);
    if (mine.length === 0) return;
    if (this.waiting) {
      this.waiting.push(...mine);
      return;
    }
    this.take(mine);
  }

  private take(events: Event[]): void {
    let state = this.state;
    if (!state) return;
    for (const event of events) {
      state = reduce(state, event);
      if (state.stale) break;
    }
    this.state = state;
    this.settlePending();
    if (state.stale) void this.read();
  }

  /** Reads what is in view again; the only repair path. */
  async read(): Promise<void> {
    if (this.waiting && this.state) {
      this.again = true;
      return;
    }
    this.waiting ??= [];
    try {
      do {
        this.again = false;
        const old = this.state;
        const middle = old?.hasAfter ? old.messages[Math.floor(old.messages.length / 2)] : undefined;
        const read = await call('thread/read', {
          threadId: this.id,
          at: middle ? { type: 'around', seq: middle.seq } : { type: 'newest' },
          limit: Math.min(200, Math.max(PAGE, old?.messages.length ?? 0)),
        });
        if (this.closed) return;
        if (!old) this.draft = read.draft;
        this.state = fromRead(read, old ? laneLike(old, read.messages) : 0);
        this.error = null;
      } while (this.again);
      const waited = this.waiting ?? [];
      this.waiting = null;
      this.take(waited);
    } catch (error) {
      this.waiting = this.state ? null : [];
      if (!this.closed) this.fail(error);
    }
  }

  async older(): Promise<void> {
    const first = this.state?.messages[0];
    if (!this.state?.hasBefore || !first || this.reading) return;
    this.reading = 'older';
    try {
      const page = await call('thread/read', {
        threadId: this.id,
        at: { type: 'before', seq: first.seq },
        limit: PAGE,
      });
      if (this.state && this.state.messages[0]?.id === first.id) this.state = withOlder(this.state, page);
    } catch (error) {
      this.fail(error);
    } finally {
      this.reading = null;
    }
  }

  async newer(): Promise<void> {
    const last = this.state?.messages.at(-1);
    if (!this.state?.hasAfter || !last || this.reading) return;
    this.reading = 'newer';
    try {
      const page = await call('thread/read', { threadId: this.id, at: { type: 'after', seq: last.seq }, limit: PAGE });
      if (!this.state || this.state.messages.at(-1)?.id !== last.id) return;
      this.state = withNewer(this.state, page);
      // What was said while this end was out of view came with no event: the newest page is read once more.
      if (!page.hasAfter) await this.read();
    } catch (error) {
      this.fail(error);
    } finally {
      this.reading = null;
    }
  }

  /** What is left away of a part, because it is too long for a page. */
  cut(seq: number, key: string): CutView | undefined {
    return this.state?.cuts.find((one) => one.seq === seq && one.key === key);
  }

  /** Reads a part whole. */
  async readPart(messageId: MessageId, key: string): Promise<void> {
    try {
      const { part } = await call('part/read', { threadId: this.id, messageId, key });
      if (this.state) this.state = withPart(this.state, messageId, part);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Lets go of far messages. Apart from adding any: the list can follow one end at a time. */
  trim(from: 'oldest' | 'newest'): void {
    if (this.state) this.state = trimmed(this.state, from);
  }

  /** Goes to the newest message, reading it where it is not in memory. */
  async newest(): Promise<void> {
    if (this.state?.hasAfter) await this.readAt({ type: 'newest' });
  }

  /** Goes to a message, reading around it where it is not in memory; `px` below its upper edge. */
  async show(seq: number, px = ABOVE_PX): Promise<void> {
    const here = this.state?.messages.some((message) => message.seq === seq);
    if (!here) await this.readAt({ type: 'around', seq });
    this.goTo = { seq, px, at: Date.now() };
  }

  private async readAt(at: { type: 'newest' } | { type: 'around'; seq: number }): Promise<void> {
    this.waiting ??= [];
    try {
      const read = await call('thread/read', { threadId: this.id, at, limit: PAGE });
      if (this.closed) return;
      this.state = fromRead(read, 0);
      const waited = this.waiting ?? [];
      this.waiting = null;
      this.take(waited);
    } catch (error) {
      this.waiting = null;
      this.fail(error);
    }
  }

  async send(text: string, previewHash: string | null): Promise<Sent> {
    const clientId = crypto.randomUUID();
    this.sending++;
    if (!this.state?.turn) this.pending = [...this.pending, { clientId, text }];
    try {
      const answer = await call('turn/start', {
        threadId: this.id,
        clientTurnId: clientId,
        text,
        target: null,
        previewHash,
      });
      if (answer.type === 'changed') {
        this.unpend(clientId);
        return { type: 'changed', preview: answer.preview };
      }
      if (answer.type === 'queued') this.unpend(clientId);
      else this.sentIds.set(clientId, answer.messageId);
      this.settlePending();
      return { type: 'sent' };
    } catch (error) {
      this.unpend(clientId);
      return { type: 'failed', error: asApiError(error) };
    }
  }

  private sentIds = new Map<string, MessageId>();

  /** A pending row goes when the message itself has come. */
  private settlePending(): void {
    if (this.pending.length === 0) return;
    const here = new Set(this.state?.messages.slice(-20).map((message) => message.id));
    this.pending = this.pending.filter((one) => {
      const id = this.sentIds.get(one.clientId);
      return id === undefined || !here.has(id);
    });
  }

  private unpend(clientId: string): void {
    this.pending = this.pending.filter((one) => one.clientId !== clientId);
  }

  private async ask(asking: Promise<unknown>): Promise<ApiError | null> {
    try {
      await asking;
      return null;
    } catch (error) {
      this.error = asApiError(error);
      return this.error;
    }
  }

  /** Sends a refused or failed message again as itself (T8). */
  sendAgain(messageId: MessageId, target: Target | null) {
    const params = { threadId: this.id, clientTurnId: crypto.randomUUID(), messageId, target, previewHash: null };
    return this.ask(call('turn/again', params));
  }
  stop() {
    return this.ask(call('turn/interrupt', { threadId: this.id }));
  }
  answer(approvalId: ApprovalId, decision: ApprovalDecision) {
    return this.ask(call('approval/answer', { threadId: this.id, approvalId, decision }));
  }
  editQueued(queuedId: QueuedId, text: string | null) {
    return this.ask(call('queue/edit', { threadId: this.id, queuedId, text }));
  }
  sendQueued() {
    return this.ask(call('queue/go', { threadId: this.id }));
  }
  pin(messageId: MessageId, on: boolean) {
    return this.ask(call('message/pin', { threadId: this.id, messageId, on }));
  }
  exclude(messageId: MessageId, on: boolean) {
    return this.ask(call('message/exclude', { threadId: this.id, messageId, on }));
  }
  async choose(target: Target) {
    // Shown at once; the engine's own answer follows as an event.
    if (this.state) this.state = { ...this.state, thread: { ...this.state.thread, target } };
    const error = await this.ask(call('thread/target', { threadId: this.id, target }));
    if (error) await this.read();
    return error;
  }
}
