/** The line inside the window: one command, one channel. The only file that knows Tauri. */
import { Channel, invoke } from '@tauri-apps/api/core';
import { getCurrentWindow } from '@tauri-apps/api/window';
import { open as openDialog } from '@tauri-apps/plugin-dialog';
import { isPermissionGranted, requestPermission, sendNotification } from '@tauri-apps/plugin-notification';
import { openUrl, revealItemInDir } from '@tauri-apps/plugin-opener';
import type { Event } from '../gen';
import { asApiError, isOutsideLink, type Method, type Params, type Platform, type Response, type Transport } from './transport';

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
        if ((await isPermissionGranted()) || (await requestPermission()) === 'granted') sendNotification({ title, body });
      } catch {
        // A desktop without notifications is not an error.
      }
    },
  };
}

const PAUSE_MS = 1_000;

export function tauriTransport(): Transport {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let retry: (() => void) | undefined;

  return {
    platform: windowPlatform(),
    connect(listener) {
      const away = () => {
        listener.line('away');
        timer = setTimeout(open, PAUSE_MS);
      };
      const open = () => {
        clearTimeout(timer);
        const channel = new Channel<Event[] | null>();
        // `null`: the connection behind the channel ended, because the page was too slow or the engine of another process is gone.
        channel.onmessage = (batch) => (batch ? listener.events(batch) : away());
        invoke('rpc', { method: 'event/watch', params: { threadIds: [] }, channel }).then(() => listener.line('open'), away);
      };
      retry = open;
      open();
    },
    retryNow() {
      retry?.();
    },
    async call<M extends Method>(method: M, params: Params<M>) {
      try {
        return await invoke<Response<M>>('rpc', { method, params });
      } catch (error) {
        throw asApiError(error);
      }
    },
  };
}
