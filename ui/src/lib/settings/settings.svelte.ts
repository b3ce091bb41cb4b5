/** Settings that this page knows: read once, written when changed. */
import { call } from '../api/client.svelte';
import type { ApprovalMode } from '../api/gen';

export type Theme = 'system' | 'light' | 'dark';

let theme = $state<Theme>('system');
let mode = $state<ApprovalMode>('ask');

function show(): void {
  if (theme === 'system') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.setAttribute('data-theme', theme);
}

export async function loadSettings(): Promise<void> {
  const [seen, asked] = await Promise.all([
    call('setting/get', { name: 'ui.theme' }),
    call('setting/get', { name: 'approval.default' }),
  ]);
  if (seen.value === 'light' || seen.value === 'dark' || seen.value === 'system') theme = seen.value;
  if (asked.value === 'ask' || asked.value === 'edits' || asked.value === 'all') mode = asked.value;
  show();
}

export const currentTheme = () => theme;
export const defaultMode = () => mode;

export async function setTheme(next: Theme): Promise<void> {
  theme = next;
  show();
  await call('setting/put', { name: 'ui.theme', value: next });
}

export async function setDefaultMode(next: ApprovalMode): Promise<void> {
  mode = next;
  await call('setting/put', { name: 'approval.default', value: next });
}
