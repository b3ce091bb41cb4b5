/** A unified diff as numbered lines. Pure. */
export interface DiffLine {
  readonly kind: 'same' | 'add' | 'del' | 'hunk';
  readonly old: number | null;
  readonly new: number | null;
  readonly text: string;
}

export interface Diff {
  readonly lines: readonly DiffLine[];
  readonly added: number;
  readonly removed: number;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/;

export function parseDiff(text: string): Diff {
  const source = text.replace(/\n$/, '').split('\n');
  const lines: DiffLine[] = [];
  let [added, removed] = [0, 0];
  if (!source.some((line) => HUNK.test(line))) {
    // No hunk: with signs at every line it is a bare diff, else the new text itself.
    const bare =
      source.some((line) => /^[+-]/.test(line)) && source.every((line) => line === '' || /^[ +\-\\]/.test(line));
    source.forEach((line, at) => {
      const sign = bare ? line[0] : '+';
      const rest = bare ? line.slice(1) : line;
      if (sign === '+') added++;
      if (sign === '-') removed++;
      lines.push({
        kind: sign === '+' ? 'add' : sign === '-' ? 'del' : 'same',
        old: null,
        new: bare ? null : at + 1,
        text: rest,
      });
    });
    return { lines, added, removed };
  }
  let [from, to] = [0, 0];
  let inside = false;
  for (const line of source) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      inside = true;
      from = Number(hunk[1]);
      to = Number(hunk[2]);
      lines.push({ kind: 'hunk', old: null, new: null, text: line });
    } else if (!inside || line.startsWith('\\')) {
      if (/^(?:diff |index |--- |\+\+\+ )/.test(line) || line.startsWith('\\')) continue;
    } else if (line.startsWith('+')) {
      added++;
      lines.push({ kind: 'add', old: null, new: to++, text: line.slice(1) });
    } else if (line.startsWith('-')) {
      removed++;
      lines.push({ kind: 'del', old: from++, new: null, text: line.slice(1) });
    } else if (/^diff --git /.test(line)) {
      inside = false;
    } else {
      lines.push({ kind: 'same', old: from++, new: to++, text: line.slice(1) });
    }
  }
  return { lines, added, removed };
}
