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

export function tauriTransport(): Transport {
  return {
    platform: windowPlatform(),
    connect(listener) {
      const channel = new Channel<Event | Event[]>();
      channel.onmessage = (message) => listener.events(Array.isArray(message) ? message : [message]);
      invoke('connect', { channel }).then(
        () => listener.line('open'),
        () => listener.line('away'),
      );
    },
    retryNow() {},
    async call<M extends Method>(method: M, params: Params<M>) {
      try {
        return await invoke<Response<M>>('rpc', { method, params });
      } catch (error) {
        throw asApiError(error);
      }
    },
  };
}
