/** What is on the screen: which thread, which page, what is open beside it. Survives a restart. */
import type { ApiError, ProviderId, ThreadId } from './api/gen';
import { asApiError } from './api/transport/transport';
import { MediaQuery } from 'svelte/reactivity';
import { placeOf } from './thread/places';
import { Thread } from './thread/thread.svelte';

export type Page = 'thread' | 'settings';
export type Section = 'providers' | 'approvals' | 'handoff' | 'appearance' | 'keyboard' | 'data' | 'diagnostics';
export type Open = 'none' | 'folder' | 'palette' | 'keys';

interface Undo {
  text: string;
  undo: () => Promise<void>;
}

const STORED = 'changeover.view';

function stored(): { thread?: ThreadId; sidebar?: boolean; folded?: string[] } {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? '{}');
  } catch {
    return {};
  }
}

const narrow = new MediaQuery('max-width: 900px');

class View {
  page = $state<Page>('thread');
  /** What the settings show. */
  section = $state<Section>('providers');
  thread = $state.raw<Thread | null>(null);
  sidebar = $state(stored().sidebar ?? true);
  /** The sidebar over the page, in a narrow window. */
  drawer = $state(false);
  dialog = $state<Open>('none');
  picker = $state(false);
  /** The exact text of the next turn. */
  exact = $state(false);
  undo = $state.raw<Undo | null>(null);
  error = $state.raw<ApiError | null>(null);
  folded = $state.raw<ReadonlySet<string>>(new Set(stored().folded ?? []));
  /** Who starts, as chosen at the first start. */
  starter = $state.raw<ProviderId | null>(null);
  /** Counts up when the composer should take the focus. */
  focus = $state(0);
  /** Counts up when the search field should take the focus. */
  search = $state(0);

  private keep(): void {
    try {
      localStorage.setItem(
        STORED,
        JSON.stringify({ thread: this.thread?.id, sidebar: this.sidebar, folded: [...this.folded] }),
      );
    } catch {
      // A browser that keeps nothing is no error.
    }
  }

  lastThread(): ThreadId | undefined {
    return stored().thread;
  }

  show(id: ThreadId, seq?: number): void {
    this.page = 'thread';
    this.drawer = false;
    this.picker = false;
    if (this.thread?.id !== id) {
      this.thread?.close();
      this.thread = new Thread(id);
      const [thread, place] = [this.thread, seq === undefined ? placeOf(id) : { seq, px: undefined }];
      void thread.enter().then(() => (place ? thread.show(place.seq, place.px) : undefined));
      this.keep();
    } else if (seq !== undefined) void this.thread.show(seq);
    this.focus++;
  }

  leave(): void {
    this.thread?.close();
    this.thread = null;
    this.keep();
  }

  /** A window so narrow that the sidebar is a drawer; reactive. */
  get narrow(): boolean {
    return narrow.current;
  }

  showSidebar(): void {
    if (narrow.current) this.drawer = true;
    else this.sidebar = true;
    this.keep();
  }

  toggleSidebar(): void {
    if (narrow.current) this.drawer = !this.drawer;
    else this.sidebar = !this.sidebar;
    this.keep();
  }

  fold(id: string): void {
    const next = new Set(this.folded);
    if (!next.delete(id)) next.add(id);
    this.folded = next;
    this.keep();
  }

  fail(error: unknown): void {
    this.error = asApiError(error);
  }

  offerUndo(text: string, undo: () => Promise<void>): void {
    this.undo = { text, undo };
  }
}

export const view = new View();
