import { expect, test } from '@playwright/test';
import { newThread, open, send } from './page';

// Nothing from a transcript runs script or loads anything (U3).
test('hostile Markdown runs nothing, loads nothing, and a link is opened outside only after a click', async ({
  page,
  baseURL,
}) => {
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  const complaints = await open(page, 'empty', 1);
  await newThread(page);
  const lines = [
    '<script>window.broken = 1</script>',
    '<img src="https://evil.example/a.png" onerror="window.broken = 2">',
    '![x](https://evil.example/b.png)',
    '[click](javascript:window.broken=3)',
    '<a href="https://evil.example" onmouseover="window.broken=4">over</a>',
    '<iframe srcdoc="<script>parent.broken=5</script>"></iframe>',
    '<style>body{background:url(https://evil.example/c.png)}</style>',
    '[https://good.example](https://evil.example/d)',
    '[mail](mailto:ana@example.com)',
  ];
  await send(page, `say ${lines.join('\n\n')}\n\nend of it`);
  await expect(page.locator('.prose')).toContainText('end of it');
  const prose = page.locator('.prose');
  await expect(prose.locator('script, img, iframe, style')).toHaveCount(0);
  await expect(prose).toContainText('<script>window.broken = 1</script>');
  await expect(prose).toContainText('(https://evil.example/d)');
  await prose.getByText('click javascript:window.broken=3').click();
  await prose.getByRole('link', { name: 'https://good.example' }).click();
  await prose.getByRole('link', { name: 'mail' }).click();
  expect(await page.evaluate(() => (window as never as { fake: { opened: string[] } }).fake.opened)).toEqual([
    'https://evil.example/d',
    'mailto:ana@example.com',
  ]);
  expect(await page.evaluate(() => (window as never as { broken?: number }).broken)).toBeUndefined();
  expect(asked.filter((url) => !url.startsWith(baseURL ?? '') && !url.startsWith('data:'))).toEqual([]);
  expect(page.url().startsWith(baseURL ?? 'no')).toBe(true);
  expect(complaints).toEqual([]);
});

test('what a command printed is text: no colour codes, no links of a terminal', async ({ page }) => {
  await open(page);
  await page.locator('.tx').evaluate((node) => (node.scrollTop = 0));
  await expect(page.getByText('AssertionError: expected 2 to be 1')).toBeVisible();
  const out = page.locator('pre.out').first();
  expect(await out.evaluate((node) => node.textContent)).not.toContain('\u001b');
  await expect(out.locator('.bad')).toHaveText('FAIL');
});
