/** Which family a provider belongs to: its colour and its shape. Solid is an agent with a session, outline a model API. */
import type { ProviderId } from '../api/gen';

export type Family = 'claude' | 'codex' | 'opencode' | 'acp' | 'google' | 'practice';

export interface Look {
  family: Family;
  outline: boolean;
  /** A letter knocked out of the shape, where several share one. */
  letter: string | null;
}

const PLAIN: Record<string, Look> = {
  claude: { family: 'claude', outline: false, letter: null },
  anthropic: { family: 'claude', outline: true, letter: null },
  codex: { family: 'codex', outline: false, letter: null },
  openai: { family: 'codex', outline: true, letter: null },
  opencode: { family: 'opencode', outline: false, letter: null },
  google: { family: 'google', outline: true, letter: null },
  practice: { family: 'practice', outline: false, letter: null },
};

export function look(id: ProviderId): Look {
  const plain = PLAIN[id];
  if (plain) return plain;
  const name = id.slice(id.indexOf(':') + 1);
  return {
    family: 'acp',
    outline: id.startsWith('openai-compatible:'),
    letter: id.startsWith('acp:') ? (name[0] ?? '').toUpperCase() : null,
  };
}

const NAMES: Record<string, string> = {
  claude: 'Claude Code',
  anthropic: 'Anthropic',
  codex: 'Codex',
  openai: 'OpenAI',
  opencode: 'OpenCode',
  google: 'Google',
  practice: 'Practice agent',
};

/** A name for a provider that is not in the engine's list (any more). */
export function fallbackName(id: ProviderId): string {
  return NAMES[id] ?? id.slice(id.indexOf(':') + 1);
}
