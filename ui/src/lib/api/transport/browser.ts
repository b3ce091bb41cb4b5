/** The platform in a plain browser. */
import type { Platform } from './transport';
import { isOutsideLink } from './transport';

export function browserPlatform(): Platform {
  return {
    kind: 'browser',
    async openLink(url) {
      if (isOutsideLink(url)) window.open(url, '_blank', 'noopener,noreferrer');
    },
    setTitle(title) {
      document.title = title;
    },
    async notify(title, body) {
      if (typeof Notification === 'undefined') return;
      if (Notification.permission === 'default') await Notification.requestPermission();
      if (Notification.permission === 'granted') new Notification(title, { body });
    },
  };
}
