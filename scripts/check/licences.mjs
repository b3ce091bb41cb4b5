// Every library that ships, and every Node package that builds the UI, under a licence we may pass on with MIT code.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { closure, members, metadata, read, report, root } from './workspace.mjs';

const fine = new Set(['0BSD', 'Apache-2.0', 'Apache-2.0 WITH LLVM-exception', 'BSD-2-Clause', 'BSD-3-Clause', 'BSL-1.0', 'BlueOak-1.0.0',
  'CC0-1.0', 'CDLA-Permissive-2.0', 'ISC', 'MIT', 'MIT-0', 'MPL-2.0', 'OFL-1.1', 'Python-2.0', 'Unicode-3.0', 'Unlicense', 'Zlib']);

/** Packages whose licence field says too little, with what their files say. */
const known = { 'svelte-toolbelt': 'MIT' };

/** Whether an SPDX expression leaves us a way that is fine; "/" is the old spelling of OR. */
export function acceptable(expression) {
  let whole = true;
  const tokens = expression.replaceAll('/', ' OR ').replace(/[()]/g, ' $& ').trim().split(/\s+/);
  const any = () => {
    let ok = all();
    while (tokens[0] === 'OR') {
      tokens.shift();
      ok = all() || ok;
    }
    return ok;
  };
  const all = () => {
    let ok = one();
    while (tokens[0] === 'AND') {
      tokens.shift();
      ok = one() && ok;
    }
    return ok;
  };
  const one = () => {
    let name = tokens.shift();
    if (name === undefined || name === ')' || name === 'OR' || name === 'AND') whole = false;
    if (name === '(') {
      const ok = any();
      whole = tokens.shift() === ')' && whole;
      return ok;
    }
    if (tokens[0] === 'WITH') name += ` ${tokens.shift()} ${tokens.shift()}`;
    return fine.has(name);
  };
  const ok = any();
  return whole && tokens.length === 0 && ok;
}

export function cargoLicences(meta) {
  const shipped = new Set(members(meta).filter((p) => p.name !== 'changeover-tests').flatMap((p) => [p.id, ...closure(meta, p.id)]));
  return meta.packages.filter((p) => shipped.has(p.id)).map((p) => ({ name: `${p.name} ${p.version}`, licence: known[p.name] ?? p.license ?? '' }));
}

export function npmLicences(lock) {
  return Object.entries(lock.packages)
    .filter(([path, p]) => path !== '' && !p.link)
    .map(([path, p]) => {
      const name = path.slice(path.lastIndexOf('node_modules/') + 13);
      return { name: `${name} ${p.version}`, licence: known[name] ?? p.license ?? '' };
    });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const all = [...cargoLicences(metadata()), ...npmLicences(JSON.parse(read(join(root, 'ui/package-lock.json'))))];
  const problems = all.filter((p) => !p.licence || !acceptable(p.licence)).map((p) => `${p.name}: '${p.licence}' is not on the list in scripts/check/licences.mjs`);
  report('licences', problems, `${all.length} packages`);
}
