/** Colours code away from the page's own thread. Grammars come when they are first needed. */
import { createHighlighterCore, type HighlighterCore, type LanguageInput } from 'shiki/core';
import { createCssVariablesTheme } from 'shiki/core';
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript';
import type { Coloured, ColourRequest, Kind } from './highlight';

const grammars: Record<string, () => Promise<{ default: LanguageInput }>> = {
  ts: () => import('shiki/langs/typescript.mjs') as never,
  tsx: () => import('shiki/langs/tsx.mjs') as never,
  js: () => import('shiki/langs/javascript.mjs') as never,
  json: () => import('shiki/langs/json.mjs') as never,
  html: () => import('shiki/langs/html.mjs') as never,
  css: () => import('shiki/langs/css.mjs') as never,
  rust: () => import('shiki/langs/rust.mjs') as never,
  python: () => import('shiki/langs/python.mjs') as never,
  go: () => import('shiki/langs/go.mjs') as never,
  java: () => import('shiki/langs/java.mjs') as never,
  c: () => import('shiki/langs/c.mjs') as never,
  bash: () => import('shiki/langs/bash.mjs') as never,
  sql: () => import('shiki/langs/sql.mjs') as never,
  yaml: () => import('shiki/langs/yaml.mjs') as never,
  toml: () => import('shiki/langs/toml.mjs') as never,
  diff: () => import('shiki/langs/diff.mjs') as never,
  markdown: () => import('shiki/langs/markdown.mjs') as never,
};

const theme = createCssVariablesTheme({ name: 'ours', variablePrefix: '--k-', fontStyle: false });
let highlighter: Promise<HighlighterCore> | undefined;
const loaded = new Map<string, Promise<void>>();

const KINDS: Record<string, Kind> = {
  'token-keyword': 'k1',
  'token-function': 'k2',
  'token-string': 'k3',
  'token-string-expression': 'k3',
  'token-constant': 'k4',
  'token-comment': 'kc',
  'token-inserted': 'add',
  'token-deleted': 'del',
};

async function colour({ code, lang }: ColourRequest): Promise<Coloured> {
  highlighter ??= createHighlighterCore({
    themes: [theme],
    langs: [],
    engine: createJavaScriptRegexEngine({ forgiving: true }),
  });
  const h = await highlighter;
  const grammar = grammars[lang];
  if (!grammar) return null;
  let load = loaded.get(lang);
  if (!load) loaded.set(lang, (load = grammar().then((module) => h.loadLanguage(module.default))));
  await load;
  const name = { ts: 'typescript', js: 'javascript' }[lang] ?? lang;
  return h
    .codeToTokensBase(code, { lang: name, theme: 'ours' })
    .map((line) =>
      line.map((token) => [token.content, KINDS[/--k-([\w-]+)/.exec(token.color ?? '')?.[1] ?? ''] ?? null]),
    );
}

self.onmessage = async (message: MessageEvent<ColourRequest>) => {
  const lines = await colour(message.data).catch(() => null);
  self.postMessage({ id: message.data.id, lines });
};
