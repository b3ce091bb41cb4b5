/** The line inside the window: one command, one channel. The only file that knows Tauri. */
import { Channel, invoke } from '@tauri-apps/api/core';
import { getCurrentWindow } from '@tauri-apps/api/window';
import { open as openDialog } from '@tauri-apps/plugin-dialog';
import { isPermissionGranted, requestPermission, sendNotification } from '@tauri-apps/plugin-notification';
import { openUrl, revealItemInDir } from '@tauri-apps/plugin-opener';
import type { Event } from '../gen';
import {
  asApiError,
  isOutsideLink,
  type Listener,
  type Method,
  type Params,
  type Platform,
  type Response,
  type Transport,
} from './transport';

export function inWindow(): boolean {
  return '__TAURI_INTERNALS__' in window;
}

function windowPlatform(): Platform {
  return {
    kind: 'window',
    pickFolder: (title) => openDialog({ title, directory: true, multiple: false }),
    pickFile: (title) => openDialog({ title, directory: false, multiple: false }),
    reveal: (path) => revealItemInDir(path),
    async openLink(url) {
      if (isOutsideLink(url)) await openUrl(url);
    },
    setTitle(title) {
      document.title = title;
      getCurrentWindow()
        .setTitle(title)
        .catch(() => {});
    },
    async notify(title, body) {
      try {
        if ((await isPermissionGranted()) || (await requestPermission()) === 'granted')
          sendNotification({ title, body });
      } catch {
        // A desktop without notifications is not an error.
      }
    },
  };
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 8_000;

export function tauriTransport(): Transport {
  let listener: Listener | null = null;
  let pause = FIRST_PAUSE_MS;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let opened: () => void;
  const everOpen = new Promise<void>((resolve) => (opened = resolve));

  /** The channel goes with the first `event/watch`. */
  async function open() {
    clearTimeout(timer);
    // `null` says that the connection ended: another channel, and what is in view is read again.
    const channel = new Channel<Event[] | Event | null>();
    channel.onmessage = (message) => {
      if (message !== null) return listener?.events(Array.isArray(message) ? message : [message]);
      listener?.line('away');
      void open();
    };
    try {
      await invoke('rpc', { method: 'event/watch', params: { threadIds: [] }, channel });
      pause = FIRST_PAUSE_MS;
      opened();
      listener?.line('open');
    } catch (error) {
      listener?.line('away', asApiError(error));
      timer = setTimeout(open, pause);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }

  return {
    platform: windowPlatform(),
    connect(to) {
      listener = to;
      void open();
    },
    retryNow() {
      void open();
    },
    async call<M extends Method>(method: M, params: Params<M>) {
      // What is asked before this page hears events would be missed in the answer and in them: a page that was loaded anew
      // finds the line of the one before still open.
      await everOpen;
      try {
        return await invoke<Response<M>>('rpc', { method, params });
      } catch (error) {
        throw asApiError(error);
      }
    },
  };
}
