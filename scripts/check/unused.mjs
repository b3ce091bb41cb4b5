// Dependencies that are declared and not named in the code.
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { files, members, metadata, read, report, root } from './workspace.mjs';

/** Whether Rust code names a crate: as a path, in a `use`, or in an attribute. */
export function names(text, crate) {
  return new RegExp(`\\b${crate.replaceAll('-', '_')}\\b`).test(text.replace(/^\s*\/\/.*$/gm, ''));
}

/** Dependencies of a package that none of the given files names. Build dependencies are looked for in build.rs. */
export function unused(pkg, sources) {
  return pkg.dependencies
    .filter((dep) => {
      const crate = dep.rename ?? dep.name;
      const where = sources.filter(({ path }) => (dep.kind === 'build') === path.endsWith('build.rs'));
      return !where.some(({ text }) => names(text, crate));
    })
    .map((dep) => `${dep.rename ?? dep.name}${dep.kind ? ` (${dep.kind})` : ''}`);
}

/** Names in the workspace's list that no member takes. */
export function unclaimed(manifest, taken) {
  const table = manifest.split(/^\[workspace\.dependencies\]\s*$/m)[1]?.split(/^\[/m)[0] ?? '';
  return [...table.matchAll(/^([\w-]+)\s*=/gm)].map((m) => m[1]).filter((name) => !taken.has(name));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const ours = members(metadata());
  const problems = [];
  const folders = ours.map((p) => dirname(p.manifest_path));
  for (const pkg of ours) {
    const folder = dirname(pkg.manifest_path);
    // The shell's folder holds the other crates' folders.
    const inner = folders.filter((other) => other !== folder && other.startsWith(folder + '/'));
    const sources = files(folder, ['.rs'])
      .filter((path) => !inner.some((other) => path.startsWith(other + '/')))
      .map((path) => ({ path, text: read(path) }));
    for (const name of unused(pkg, sources)) problems.push(`${relative(root, pkg.manifest_path)}: ${name} is not used`);
  }
  const taken = new Set([...ours.map((p) => p.name), ...ours.flatMap((p) => p.dependencies.map((d) => d.rename ?? d.name))]);
  for (const name of unclaimed(read(join(root, 'Cargo.toml')), taken)) problems.push(`Cargo.toml: no member takes ${name}`);
  report('unused', problems, 'every dependency is named in the code');
}
