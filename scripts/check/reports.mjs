// tests/REPORTS.md: every test that it names exists, and every row names one or says why not.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** The faults of a table of reports, given the names of all tests. */
export function faults(table, tests) {
  const found = [];
  for (const line of table.split('\n').filter((one) => /^\| R\d/.test(one))) {
    const [, ids, , proof] = line.split(' | ').length === 3 ? ['', ...line.slice(2).split(' | ')] : [];
    if (proof === undefined) {
      found.push(`not three columns: ${line}`);
      continue;
    }
    const cell = proof.replace(/ \|$/, '');
    const named = [...cell.matchAll(/`([a-z0-9_]{8,})`/g)].map((match) => match[1]).filter((name) => name.includes('_'));
    if (named.length === 0 && !cell.startsWith('none')) found.push(`${ids} names no test and does not say why`);
    for (const name of named) if (!tests.has(name)) found.push(`${ids}: there is no test ${name}`);
  }
  return found;
}

/** The names of all test functions in the repository. */
function testNames() {
  const files = execFileSync('git', ['ls-files', '-z', '*.rs'], { encoding: 'utf8' }).split('\0').filter(Boolean);
  const names = new Set();
  for (const file of files) {
    const text = readFileSync(file, 'utf8');
    const attribute = /#\[(?:tokio::)?test(?:\([^)]*\))?\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn ([a-z0-9_]+)/g;
    for (const match of text.matchAll(attribute)) names.add(match[1]);
  }
  return names;
}

if (process.argv[1] === import.meta.filename) {
  const wrong = faults(readFileSync('tests/REPORTS.md', 'utf8'), testNames());
  for (const line of wrong) console.error(`tests/REPORTS.md: ${line}`);
  process.exit(wrong.length === 0 ? 0 : 1);
}
