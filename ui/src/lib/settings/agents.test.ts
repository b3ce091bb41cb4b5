import { describe, expect, test } from 'vitest';
import { lineOf, wordsOf } from './agents.svelte';

describe('arguments', () => {
  test('are split as a shell does', () => {
    expect(wordsOf('--acp  --model "big one" \'a "b"\' x\\ y --k="v w"')).toEqual([
      '--acp',
      '--model',
      'big one',
      'a "b"',
      'x y',
      '--k=v w',
    ]);
    expect(wordsOf('  ')).toEqual([]);
    expect(wordsOf('""')).toEqual(['']);
  });
  test('come back as they were', () => {
    for (const words of [['--acp'], ['a b', ''], ['"', '\\', "it's"], ['C:\\x y\\', '$HOME', '日本']])
      expect(wordsOf(lineOf(words))).toEqual(words);
  });
});
