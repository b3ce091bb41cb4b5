/** Settings that this page knows: read once, written when changed. */
import { call } from '../api/client.svelte';
import type { ApprovalMode } from '../api/gen';

export type Theme = 'system' | 'light' | 'dark';

/** The handoff budget where nothing is set, and the most that can be set (B1). */
export const BUDGET = 16_000;
export const BUDGET_CAP = 65_536;

let theme = $state<Theme>('system');
let mode = $state<ApprovalMode>('ask');
let budget = $state(BUDGET);

function show(): void {
  if (theme === 'system') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.setAttribute('data-theme', theme);
}

export async function loadSettings(): Promise<void> {
  const [seen, asked, bytes] = await Promise.all([
    call('setting/get', { name: 'ui.theme' }),
    call('setting/get', { name: 'approval.default' }),
    call('setting/get', { name: 'handoff.budget' }),
  ]);
  if (seen.value === 'light' || seen.value === 'dark' || seen.value === 'system') theme = seen.value;
  if (asked.value === 'ask' || asked.value === 'edits' || asked.value === 'all') mode = asked.value;
  if (typeof bytes.value === 'number') budget = Math.min(BUDGET_CAP, bytes.value);
  show();
}

export const currentTheme = () => theme;
export const defaultMode = () => mode;
export const handoffBudget = () => budget;

export async function setTheme(next: Theme): Promise<void> {
  theme = next;
  show();
  await call('setting/put', { name: 'ui.theme', value: next });
}

export async function setDefaultMode(next: ApprovalMode): Promise<void> {
  mode = next;
  await call('setting/put', { name: 'approval.default', value: next });
}

/** Whole bytes from 0 to the cap; the default is no setting. */
export async function setHandoffBudget(next: number): Promise<void> {
  budget = next;
  await call('setting/put', { name: 'handoff.budget', value: next === BUDGET ? null : next });
}
