/** Asks the worker for colours. What it does not know, or what is too long, stays plain. */
export type Kind = 'k1' | 'k2' | 'k3' | 'k4' | 'kc' | 'add' | 'del' | null;
export type Coloured = [string, Kind][][] | null;
export interface ColourRequest {
  id: number;
  code: string;
  lang: string;
}

const ALIASES: Record<string, string> = {
  typescript: 'ts',
  mts: 'ts',
  cts: 'ts',
  javascript: 'js',
  mjs: 'js',
  cjs: 'js',
  jsx: 'tsx',
  jsonc: 'json',
  json5: 'json',
  svelte: 'html',
  vue: 'html',
  xml: 'html',
  scss: 'css',
  rs: 'rust',
  py: 'python',
  golang: 'go',
  kotlin: 'java',
  'c++': 'c',
  cpp: 'c',
  h: 'c',
  sh: 'bash',
  shell: 'bash',
  zsh: 'bash',
  console: 'bash',
  yml: 'yaml',
  patch: 'diff',
  md: 'markdown',
};
const KNOWN = new Set([
  'ts',
  'tsx',
  'js',
  'json',
  'html',
  'css',
  'rust',
  'python',
  'go',
  'java',
  'c',
  'bash',
  'sql',
  'yaml',
  'toml',
  'diff',
  'markdown',
]);
const LONGEST = 60_000;
const KEPT = 200;

let worker: Worker | null = null;
let nextId = 1;
const waiting = new Map<number, (lines: Coloured) => void>();
const done = new Map<string, Coloured>();

function theWorker(): Worker {
  if (worker) return worker;
  worker = new Worker(new URL('./highlight.worker.ts', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }: MessageEvent<{ id: number; lines: Coloured }>) => {
    waiting.get(data.id)?.(data.lines);
    waiting.delete(data.id);
  };
  worker.onerror = () => {
    for (const give of waiting.values()) give(null);
    waiting.clear();
  };
  return worker;
}

export function canColour(code: string, lang: string): boolean {
  return code.length <= LONGEST && KNOWN.has(ALIASES[lang] ?? lang) && typeof Worker !== 'undefined';
}

/** What is known already, without asking. */
export function colouredBefore(code: string, lang: string): Coloured | undefined {
  return done.get(`${lang}\n${code}`);
}

export async function colour(code: string, lang: string): Promise<Coloured> {
  const key = `${lang}\n${code}`;
  const old = done.get(key);
  if (old !== undefined) return old;
  if (!canColour(code, lang)) return null;
  const id = nextId++;
  const lines = await new Promise<Coloured>((resolve) => {
    waiting.set(id, resolve);
    theWorker().postMessage({ id, code, lang: ALIASES[lang] ?? lang } satisfies ColourRequest);
  });
  if (done.size >= KEPT) done.delete(done.keys().next().value ?? '');
  done.set(key, lines);
  return lines;
}
