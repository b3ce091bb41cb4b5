/** Numbers, sizes and times as they are written in the app. Sizes are decimal (1 kB = 1000 B), times local. */

const plain = new Intl.NumberFormat('en', { useGrouping: true });

export function count(n: number): string {
  return plain.format(n);
}

/** `640 B`, `12.1 kB`, `16 kB`, `1.2 MB`. */
export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const [value, unit] = bytes < 999_950 ? [bytes / 1000, 'kB'] : [bytes / 1_000_000, 'MB'];
  return `${value.toFixed(1).replace(/\.0$/, '')} ${unit}`;
}

/** A size among kilobytes: `0.4 kB`. */
export function sizeK(bytes: number): string {
  return bytes < 1000 ? `${Math.max(0.1, bytes / 1000).toFixed(1)} kB` : size(bytes);
}

/** Tokens of a window or a context: `0`, `812`, `18k`, `412k`, `1M`, `1.1M`. */
export function tokens(n: number): string {
  if (n < 1000) return `${n}`;
  if (n < 999_500) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toFixed(1).replace(/\.0$/, '')}M`;
}

/** A number of tokens that is an estimate: three leading figures would claim too much. */
export function about(n: number): string {
  if (n < 100) return count(n);
  const step = 10 ** Math.max(2, Math.floor(Math.log10(n)) - 1);
  return count(Math.round(n / step) * step);
}

/** `0.1 s`, `9 s`, `2 min 08 s`, `1 h 04 min`. */
export function duration(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 9.95) return `${s.toFixed(1).replace(/\.0$/, '')} s`;
  if (s < 59.5) return `${Math.round(s)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}

/** A clock that counts up: `0:38`, `12:04`, `1:02:04`. */
export function elapsed(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const h = Math.floor(s / 3600);
  return h > 0 ? `${h}:${pad(Math.floor((s % 3600) / 60))}:${pad(s % 60)}` : `${Math.floor(s / 60)}:${pad(s % 60)}`;
}

export function clock(at: number): string {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function midnight(at: number): number {
  return new Date(at).setHours(0, 0, 0, 0);
}

/** How long ago, as a thread row shows it. */
export function age(at: number, now: number): string {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return 'now';
  if (minutes < 60) return `${minutes} min`;
  const days = Math.round((midnight(now) - midnight(at)) / 86_400_000);
  if (days <= 0) return `${Math.floor(minutes / 60)} h`;
  if (days === 1) return 'yesterday';
  const date = new Date(at);
  if (days < 7) return WEEKDAYS[date.getDay()] ?? '';
  const day = `${date.getDate()} ${MONTHS[date.getMonth()]}`;
  return date.getFullYear() === new Date(now).getFullYear() ? day : `${day} ${date.getFullYear()}`;
}

/** Time of day, with the day where it was not today. */
export function moment(at: number, now: number): string {
  return midnight(at) === midnight(now) ? clock(at) : `${age(at, now)}, ${clock(at)}`;
}

function pad(n: number): string {
  return String(n).padStart(2, '0');
}

/** Length in UTF-8 bytes. */
export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** A text in two, at an offset in UTF-8 bytes that lies between two characters. */
export function splitAtByte(text: string, at: number): [string, string] {
  const before = new TextDecoder().decode(new TextEncoder().encode(text).subarray(0, at));
  return [before, text.slice(before.length)];
}

/** How the platform writes its main modifier. */
const mac = typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.platform);
export const keyNames = { mod: mac ? '⌘' : 'Ctrl+', shift: mac ? '⇧' : 'Shift+', alt: mac ? '⌥' : 'Alt+' };
