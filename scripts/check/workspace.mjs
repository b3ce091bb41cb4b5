// What cargo and the file system know about this workspace, for the checks beside this file.
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** The resolved workspace, all platforms and all features that are on. */
export function metadata() {
  const out = execFileSync('cargo', ['metadata', '--format-version', '1', '--locked'], {
    cwd: root, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'],
  });
  return JSON.parse(out);
}

/** The packages of the workspace itself. */
export function members(meta) {
  const ids = new Set(meta.workspace_members);
  return meta.packages.filter((p) => ids.has(p.id));
}

/** Ids of everything a package pulls in by normal and build dependencies, itself left out. */
export function closure(meta, id) {
  const nodes = new Map(meta.resolve.nodes.map((n) => [n.id, n]));
  const seen = new Set([id]);
  const open = [id];
  while (open.length > 0) {
    for (const dep of nodes.get(open.pop())?.deps ?? []) {
      if (dep.dep_kinds.every((k) => k.kind === 'dev') || seen.has(dep.pkg)) continue;
      seen.add(dep.pkg);
      open.push(dep.pkg);
    }
  }
  seen.delete(id);
  return seen;
}

/** Files below a folder with one of these endings; build output and installed packages left out. A missing folder has none. */
export function files(folder, endings) {
  let entries;
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return ['node_modules', 'target', 'dist', 'gen'].includes(entry.name) ? [] : files(path, endings);
    return endings.some((end) => entry.name.endsWith(end)) ? [path] : [];
  });
}

export const read = (path) => readFileSync(path, 'utf8');

/** Prints what is wrong, or that nothing is, and ends the process accordingly. */
export function report(name, problems, good) {
  for (const problem of problems) console.error(`${name}: ${problem}`);
  if (problems.length > 0) process.exit(1);
  console.log(`${name}: ${good}`);
}
