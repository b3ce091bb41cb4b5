import { describe, expect, it } from 'vitest';
import { blocks } from './markdown';

const html = (text: string) =>
  blocks(text, false)
    .map((block) => (block.kind === 'html' ? block.html : `[${block.lang}]${block.code}`))
    .join('');

describe('markdown', () => {
  it('shows raw HTML as text and runs none of it', () => {
    for (const hostile of [
      '<script>alert(1)</script>',
      '<img src=x onerror=alert(1)>',
      '<svg onload=alert(1)>',
      '<iframe src="https://example.com"></iframe>',
      'a <b onclick="alert(1)">b</b>',
      '<style>*{display:none}</style>',
    ]) {
      const made = new DOMParser().parseFromString(html(hostile), 'text/html');
      expect(made.querySelectorAll('script,img,svg,iframe,style,b'), hostile).toHaveLength(0);
      expect(made.body.textContent?.trim()).toBe(hostile);
    }
  });

  it('loads no image: its words and a link to it', () => {
    const made = new DOMParser().parseFromString(html('![a cat](https://example.com/cat.png "t")'), 'text/html');
    expect(made.querySelector('img')).toBeNull();
    expect(made.querySelector('a')?.getAttribute('href')).toBe('https://example.com/cat.png');
    expect(made.body.textContent).toContain('a cat');
  });

  it('links only to http, https and mailto, and says where a link goes that claims to go elsewhere', () => {
    for (const bad of [
      '[x](javascript:alert(1))',
      '[x](data:text/html,hi)',
      '[x](file:///etc/passwd)',
      '[x](vbscript:x)',
      '![x](javascript:alert(1))',
      '[x](JaVaScRiPt:alert(1))',
    ])
      expect(new DOMParser().parseFromString(html(bad), 'text/html').querySelector('a'), bad).toBeNull();
    expect(html('[https://good.example](https://evil.example/x)')).toContain('(https://evil.example/x)');
    expect(html('[good.example/path](https://evil.example)')).toContain('evil.example)');
    expect(html('[good.example](https://www.good.example/x)')).not.toContain('real-target');
    expect(html('[read this](https://evil.example)')).toContain('title="https://evil.example"');
  });

  it('gives each block its own direction, and code always left to right', () => {
    expect(html('يستخدم `takeLease` ساعة')).toMatch(/^<p dir="auto">.*<code dir="ltr">takeLease<\/code>/);
    expect(html('- أ\n- b')).toMatch(/<li dir="auto">أ<\/li>\s*<li dir="auto">b<\/li>/);
  });

  it('keeps fenced code as it is, with its language', () => {
    expect(blocks('```ts title="x"\nconst a = `<b>`;\n```', false)).toEqual([
      { kind: 'code', raw: '```ts title="x"\nconst a = `<b>`;\n```', lang: 'ts', code: 'const a = `<b>`;' },
    ]);
  });

  it('a growing text gives the same blocks in the end as the whole text at once', () => {
    const whole =
      'One **bold** word.\n\n- a\n- b\n  1. c\n\n```ts\nconst x = 1;\n\nconst y = 2;\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n> quoted\n\nThe [end](https://example.com).';
    let grown = blocks('', true);
    for (let at = 1; at <= whole.length; at++) grown = blocks(whole.slice(0, at), true, grown);
    const shown = (list: ReturnType<typeof blocks>) =>
      list.map((block) => (block.kind === 'html' ? block.html : block.code));
    expect(shown(blocks(whole, false, grown))).toEqual(shown(blocks(whole, false)));
    expect(shown(grown)).toEqual(shown(blocks(whole, false)));
  });

  it('keeps finished blocks as the same objects while the text grows', () => {
    const first = blocks('One.\n\nTwo.\n\nThree.\n\nFo', true);
    const next = blocks('One.\n\nTwo.\n\nThree.\n\nFour', true, first);
    expect(next[0]).toBe(first[0]);
    expect(next[1]).toBe(first[1]);
  });
});
