/** The agents that speak ACP: those that are known by name, and the person's own. */
import { call } from '../api/client.svelte';
import type { AgentDraft, AgentListResponse, AgentView } from '../api/gen';

let list = $state.raw<AgentView[]>([]);
let last = $state(true);

function take(answer: AgentListResponse): void {
  list = answer.agents;
  last = answer.secretsLast;
}

export const agents = (): readonly AgentView[] => list;
/** Whether a secret outlives this run. */
export const secretsLast = (): boolean => last;

export async function loadAgents(): Promise<void> {
  take(await call('agent/list', {}));
}

export async function saveAgent(agent: AgentDraft, change: boolean): Promise<void> {
  take(await call('agent/set', { agent, change }));
}

export async function removeAgent(name: string): Promise<void> {
  take(await call('agent/remove', { name }));
}

/** Arguments as one types them in a shell: words, with quotes around those that hold blanks. */
export function wordsOf(line: string): string[] {
  const found: string[] = [];
  const word = /\s*((?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+|["'\\])/gy;
  for (const [, one] of line.matchAll(word)) {
    if (one === undefined) continue;
    const plain = one.replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/g, (_, double, single, escaped) =>
      double !== undefined ? double.replace(/\\(["\\])/g, '$1') : (single ?? escaped),
    );
    found.push(plain);
  }
  return found;
}

/** The line that gives these words again. */
export function lineOf(words: readonly string[]): string {
  const quoted = (one: string) => (/^[\w./:=@%+,-]+$/.test(one) ? one : `"${one.replace(/["\\]/g, '\\$&')}"`);
  return words.map(quoted).join(' ');
}
