import { describe, expect, it } from 'vitest';
import { ansi, withoutAnsi } from './ansi';
import { parseDiff } from './diff';

describe('ansi', () => {
  it('colours what it knows and takes everything else out', () => {
    expect(ansi('a\u001b[31mred\u001b[0m b\u001b[1;32mok\u001b[m')).toEqual([
      { text: 'a', class: null },
      { text: 'red', class: 'bad' },
      { text: ' b', class: null },
      { text: 'ok', class: 'good b' },
    ]);
    expect(withoutAnsi('\u001b]0;title\u0007x\u001b[2J\u001b[1;1H\u001b[?25ly\u001b(Bz\u0007\u009b')).toBe('xyz');
    expect(withoutAnsi('\u001b[38;5;196mred\u001b[48;2;1;2;3mon\u001b[0m')).toBe('redon');
  });
  it('a carriage return begins its line again', () => {
    expect(withoutAnsi('10%\r50%\r100%\r\ndone')).toBe('100%\ndone');
  });
  it('hyperlinks of a terminal leave their words only', () => {
    expect(withoutAnsi('\u001b]8;;https://evil.example\u001b\\click\u001b]8;;\u001b\\')).toBe('click');
  });
});

describe('diff', () => {
  it('numbers lines on both sides and counts', () => {
    const { lines, added, removed } = parseDiff(
      '--- a/x\n+++ b/x\n@@ -2,3 +2,4 @@ fn\n same\n-old\n+new\n+more\n\\ No newline at end of file\n',
    );
    expect([added, removed]).toEqual([2, 1]);
    expect(lines).toEqual([
      { kind: 'hunk', old: null, new: null, text: '@@ -2,3 +2,4 @@ fn' },
      { kind: 'same', old: 2, new: 2, text: 'same' },
      { kind: 'del', old: 3, new: null, text: 'old' },
      { kind: 'add', old: null, new: 3, text: 'new' },
      { kind: 'add', old: null, new: 4, text: 'more' },
    ]);
  });
  it('a changed line that looks like a file header is a line', () => {
    expect(parseDiff('@@ -1,1 +1,1 @@\n--- a\n+++ b\n').lines.slice(1)).toEqual([
      { kind: 'del', old: 1, new: null, text: '-- a' },
      { kind: 'add', old: null, new: 1, text: '++ b' },
    ]);
  });
  it('text without a hunk is new text', () => {
    expect(parseDiff('a\n-b\n')).toEqual({
      added: 2,
      removed: 0,
      lines: [
        { kind: 'add', old: null, new: 1, text: 'a' },
        { kind: 'add', old: null, new: 2, text: '-b' },
      ],
    });
  });
});
