// The arrows of the architecture: core <- store, worktree, runtime <- engine <- server <- shell, and nothing else.
// Read from cargo's own resolved graph, so a dependency that comes in by way of another crate counts too.
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { closure, files, members, metadata, read, report, root } from './workspace.mjs';

/** Which crates of ours a crate may name, whatever the kind of dependency. */
export const allowed = {
  'changeover-core': [],
  'changeover-store': ['changeover-core'],
  'changeover-worktree': ['changeover-core'],
  'changeover-runtime': ['changeover-core'],
  'changeover-engine': ['changeover-core', 'changeover-store', 'changeover-worktree', 'changeover-runtime'],
  'changeover-server': ['changeover-core', 'changeover-runtime', 'changeover-engine'],
  'changeover-desktop': ['changeover-engine', 'changeover-server'],
};
/** The package of tests looks at everything; nothing that ships may look at it. */
const tests = 'changeover-tests';

/** Libraries that one crate of ours alone may name. */
export const owners = {
  rusqlite: 'changeover-store',
  git2: 'changeover-worktree',
  'agent-client-protocol': 'changeover-runtime',
  'process-wrap': 'changeover-runtime',
  rmcp: 'changeover-server',
  axum: 'changeover-server',
  clap: 'changeover-server',
  tauri: 'changeover-desktop',
};

/** What may not even come in by way of another crate. */
export const banned = {
  'changeover-core': ['tokio', 'mio', 'async-io', 'rusqlite', 'libsqlite3-sys', 'git2', 'reqwest', 'hyper', 'axum', 'rmcp',
    'agent-client-protocol', 'process-wrap', 'rustix', 'tauri', 'tracing-subscriber', 'tempfile', 'chrono', 'time'],
  // Of tokio only its channels, which need no runtime: the writer's answers are awaited.
  'changeover-store': ['git2', 'reqwest', 'hyper', 'axum', 'tauri'],
  'changeover-worktree': ['tokio', 'rusqlite', 'reqwest', 'hyper', 'axum', 'tauri'],
  'changeover-runtime': ['rusqlite', 'git2', 'axum', 'tauri'],
  'changeover-engine': ['axum', 'rmcp', 'tauri'],
  'changeover-server': ['tauri', 'wry', 'webkit2gtk', 'gtk'],
};

/** Words that reach a disk, a clock, a process, the environment or a die. */
const impure = /\bstd::(fs|net|process|env|thread)\b|\bSystemTime\b|\bInstant\b|\bnow_v7\b|\bnew_v4\b|\bUuid::now|\brand::/;

export function arrows(meta) {
  const problems = [];
  const ours = members(meta);
  const names = new Map(meta.packages.map((p) => [p.id, p.name]));
  for (const crate of ours) {
    if (crate.name === tests) continue;
    const may = allowed[crate.name];
    if (!may) {
      problems.push(`${crate.name} has no place in the layout: give it one in scripts/check/arrows.mjs`);
      continue;
    }
    for (const dep of crate.dependencies) {
      const inside = ours.some((p) => p.name === dep.name);
      // A crate's tests may name the crate itself, with a feature that only they need.
      const itself = dep.name === crate.name && dep.kind === 'dev';
      // A crate may name itself for its tests, with a feature that only they want.
      if (inside && !may.includes(dep.name) && !(dep.name === crate.name && dep.kind === 'dev') && !itself && !(dep.name === tests && dep.kind === 'dev'))
        problems.push(`${crate.name} -> ${dep.name}: this arrow is not in the layout`);
      const owner = owners[dep.name];
      if (owner && owner !== crate.name && dep.kind !== 'dev') problems.push(`${crate.name} -> ${dep.name}: only ${owner} may name it`);
    }
    for (const id of closure(meta, crate.id))
      if (banned[crate.name]?.includes(names.get(id))) problems.push(`${crate.name} pulls in ${names.get(id)}: cargo tree -p ${crate.name} -i ${names.get(id)} shows how`);
  }
  return problems;
}

/** Lines of one file of the core that reach outside, its tests left out. */
export function impurities(text) {
  const code = text.split(/^\s*#\[cfg\(test\)\]\s*$/m)[0];
  return code.split('\n').flatMap((line, at) => (!/^\s*\/\//.test(line) && impure.test(line) ? [{ line: at + 1, text: line.trim() }] : []));
}

/** The UI talks to the shell in one folder only. */
export function strayTauriImports(path, text) {
  return !path.startsWith('ui/src/lib/api/transport/') && /from\s+['"]@tauri-apps\/|import\(\s*['"]@tauri-apps\//.test(text);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const problems = arrows(metadata());
  for (const path of files(join(root, 'src-tauri/crates/core/src'), ['.rs'])) {
    if (/(^|[/_])tests?\.rs$|\/tests\//.test(path)) continue;
    for (const found of impurities(read(path))) problems.push(`${relative(root, path)}:${found.line}: the core is pure: ${found.text}`);
  }
  for (const path of files(join(root, 'ui/src'), ['.ts', '.svelte', '.js']))
    if (strayTauriImports(relative(root, path), read(path))) problems.push(`${relative(root, path)}: @tauri-apps is imported in ui/src/lib/api/transport only`);
  report('arrows', problems, 'core <- store, worktree, runtime <- engine <- server <- shell; the core is pure');
}
