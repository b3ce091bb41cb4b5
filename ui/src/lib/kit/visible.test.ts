import { expect, test } from 'vitest';
import { visible } from './visible';

test('a command is read in the order in which it runs, and nothing of it is without shape', () => {
  expect(visible('echo safe \u202e#/ fr- mr\u202c')).toBe('echo safe ⟨U+202E⟩#/ fr- mr⟨U+202C⟩');
  expect(visible('rm\u200b -rf\u2066 x\ufeff\u00ad')).toBe('rm⟨U+200B⟩ -rf⟨U+2066⟩ x⟨U+FEFF⟩⟨U+00AD⟩');
  expect(visible('a\u001b[2Jb\u0007\r')).toBe('a⟨U+001B⟩[2Jb⟨U+0007⟩⟨U+000D⟩');
  expect(visible('rm\ufe0f a\u200db')).toBe('rm⟨U+FE0F⟩ a⟨U+200D⟩b');
  expect(visible('x\u{e0041}')).toBe('x⟨U+E0041⟩');
});

test('what has a shape is left alone: lines, tabs, other scripts, emoji', () => {
  const text = "echo 'grüße 中文 العربية עברית 🎬 ⚠️ 👩‍💻 é'\n\tls";
  expect(visible(text)).toBe(text);
});
