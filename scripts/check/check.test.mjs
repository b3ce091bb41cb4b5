// The checks are themselves held to failing where they should.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowed, arrows, impurities, strayTauriImports } from './arrows.mjs';
import { acceptable, cargoLicences, npmLicences } from './licences.mjs';
import { names, unclaimed, unused } from './unused.mjs';
import { faults } from './reports.mjs';

/** A made-up workspace: { crate: [dependency or [dependency, kind]] }; anything that is not ours has no dependencies but those named. */
function workspace(graph) {
  const all = new Set([...Object.keys(graph), ...Object.values(graph).flat().map((d) => [d].flat()[0])]);
  const deps = (name) => (graph[name] ?? []).map((d) => ({ name: [d].flat()[0], kind: [d].flat()[1] ?? null }));
  return {
    workspace_members: [...all].filter((n) => n.startsWith('changeover-')),
    packages: [...all].map((name) => ({ id: name, name, version: '1.0.0', license: 'MIT', dependencies: deps(name) })),
    resolve: { nodes: [...all].map((id) => ({ id, deps: deps(id).map((d) => ({ pkg: d.name, dep_kinds: [{ kind: d.kind }] })) })) },
  };
}
const layout = () => structuredClone(allowed);

test('the layout itself has no stray arrow', () => {
  assert.deepEqual(arrows(workspace(layout())), []);
});

test('siblings do not know each other, in tests neither', () => {
  const graph = layout();
  graph['changeover-store'].push('changeover-runtime');
  graph['changeover-worktree'].push(['changeover-store', 'dev']);
  assert.deepEqual(arrows(workspace(graph)), [
    'changeover-store -> changeover-runtime: this arrow is not in the layout',
    'changeover-worktree -> changeover-store: this arrow is not in the layout',
  ]);
});

test('an arrow that points up is found', () => {
  const graph = layout();
  graph['changeover-engine'].push('changeover-server');
  assert.ok(arrows(workspace(graph)).includes('changeover-engine -> changeover-server: this arrow is not in the layout'));
});

test('the core may not pull in a runtime, also by way of another crate, but its tests may', () => {
  const graph = layout();
  graph['changeover-core'].push('innocent', ['proptest', 'dev']);
  graph.innocent = ['rustix'];
  graph.proptest = ['tempfile'];
  assert.deepEqual(arrows(workspace(graph)), [
    'changeover-core pulls in rustix: cargo tree -p changeover-core -i rustix shows how',
  ]);
});

test('a library with one owner is named by no other crate', () => {
  const graph = layout();
  graph['changeover-store'].push('rusqlite');
  graph['changeover-engine'].push('rusqlite');
  assert.deepEqual(arrows(workspace(graph)), ['changeover-engine -> rusqlite: only changeover-store may name it']);
});

test('a crate without a place in the layout is refused', () => {
  const graph = layout();
  graph['changeover-new'] = [];
  assert.equal(arrows(workspace(graph)).length, 1);
});

test('a clock or a disk in the core is found, in its tests not', () => {
  assert.deepEqual(impurities('let t = SystemTime::now();\n// std::fs in a comment\nuse std::fs;\n#[cfg(test)]\nmod tests { use std::fs; }'), [
    { line: 1, text: 'let t = SystemTime::now();' },
    { line: 3, text: 'use std::fs;' },
  ]);
});

test('the UI imports Tauri in its transport only', () => {
  const text = "import { invoke } from '@tauri-apps/api/core';";
  assert.equal(strayTauriImports('ui/src/lib/api/transport/tauri.ts', text), false);
  assert.equal(strayTauriImports('ui/src/lib/thread/Row.svelte', text), true);
});

test('licence expressions', () => {
  for (const yes of ['MIT', 'MIT OR GPL-3.0', 'Apache-2.0/MIT', '(MIT OR GPL-2.0) AND Unicode-3.0', 'Apache-2.0 WITH LLVM-exception OR GPL-2.0'])
    assert.equal(acceptable(yes), true, yes);
  for (const no of ['GPL-3.0', 'MIT AND GPL-3.0', 'SEE LICENSE IN LICENSE.md', 'MIT OR', '(MIT', 'MIT GPL-3.0', 'GPL-2.0 OR (MIT AND AGPL-3.0)'])
    assert.equal(acceptable(no), false, no);
});

test('a package without a licence counts as one that is not fine', () => {
  assert.deepEqual(npmLicences({ packages: { '': {}, 'node_modules/a/node_modules/@b/c': { version: '2.0.0' } } }), [{ name: '@b/c 2.0.0', licence: '' }]);
});

test('licences are read for what ships, not for what only tests use', () => {
  const graph = layout();
  graph['changeover-core'].push('shipped', ['only-in-tests', 'dev']);
  const found = cargoLicences(workspace(graph)).map((p) => p.name);
  assert.ok(found.includes('shipped 1.0.0'));
  assert.ok(!found.includes('only-in-tests 1.0.0'));
});

test('unused dependencies', () => {
  const pkg = { dependencies: [{ name: 'tokio-util', kind: null }, { name: 'serde', kind: null }, { name: 'tauri-build', kind: 'build' }, { name: 'x', rename: 'y', kind: 'dev' }] };
  const sources = [{ path: 'src/lib.rs', text: 'use tokio_util::codec;\n// serde\ny::go();' }, { path: 'build.rs', text: 'fn main() {}' }];
  assert.deepEqual(unused(pkg, sources), ['serde', 'tauri-build (build)']);
  assert.equal(names('my_serde::x', 'serde'), false);
  assert.deepEqual(unclaimed('[workspace.dependencies]\na = "1"\nb-c = "1"\n\n[profile.dev]\ndebug = 1', new Set(['a'])), ['b-c']);
});

test('a report names tests that exist, or says why it has none', () => {
  const table = [
    '| id | what | tests |',
    '| R001 | a | `r001_is_tested`, a word |',
    '| R002 | b | `r002_is_not_there` |',
    '| R003 | c | never |',
    '| R004 | d | none: no such machine |',
    '| R005 | e |',
  ].join('\n');
  assert.deepEqual(faults(table, new Set(['r001_is_tested'])), [
    'R002: there is no test r002_is_not_there',
    'R003 names no test and does not say why',
    'not three columns: | R005 | e |',
  ]);
});
