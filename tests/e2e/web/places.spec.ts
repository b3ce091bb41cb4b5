import { expect, test } from '@playwright/test';
import { calls, newThread, open, send } from './page';

test('a long thread opens at its end; older pages come without a jump; memory is bounded', async ({ page }) => {
  await open(page, 'long');
  await page.getByTestId('thread-row').filter({ hasText: 'Move attachments' }).click();
  await expect(page.getByTestId('message-10000')).toBeVisible();
  const tx = page.getByTestId('transcript');
  // Up, page by page: what is on the screen stays where it is while more comes above it.
  for (let at = 0; at < 14; at++) {
    const before = await calls(page, 'thread/read').then((all) => all.length);
    // Away from the end of what is in memory, then nearer: the next page is read while a row is looked at.
    await tx.evaluate((node) => (node.scrollTop = 1_600));
    await page.waitForTimeout(150); // two frames for the list to show the new place
    const seen = await tx.evaluate((node) => {
      const row = [...node.querySelectorAll('[data-testid^="message-"]')].find(
        (one) => one.getBoundingClientRect().top > 100,
      );
      const top = row?.getBoundingClientRect().top ?? 0;
      node.scrollTop -= 450;
      return { id: row?.getAttribute('data-testid') ?? '', top: top + 450 };
    });
    await expect.poll(() => calls(page, 'thread/read').then((all) => all.length)).toBeGreaterThan(before);
    await expect.poll(() => tx.evaluate((node) => node.scrollTop)).toBeGreaterThan(2_000);
    const top = () => page.getByTestId(seen.id).evaluate((node) => node.getBoundingClientRect().top);
    await expect.poll(async () => Math.abs((await top()) - seen.top), { message: seen.id }).toBeLessThan(8);
  }
  const kept = await page.evaluate(() => document.querySelectorAll('[data-testid^="message-"]').length);
  expect(kept).toBeLessThan(80);
  await page.getByTestId('jump').click();
  await expect(page.getByTestId('message-10000')).toBeVisible();
  await expect(page.getByTestId('jump')).toHaveCount(0);
});

test('reading up, one is not pulled down by what streams', async ({ page }) => {
  await open(page, 'long', 20);
  await page.getByTestId('thread-row').filter({ hasText: 'Move attachments' }).click();
  await expect(page.getByTestId('message-10000')).toBeVisible();
  await send(page, 'slow');
  await expect(page.getByText('Here is what I would do')).toBeVisible();
  const tx = page.getByTestId('transcript');
  const rest = () => tx.evaluate((node) => node.scrollHeight - node.scrollTop - node.clientHeight);
  await expect.poll(rest).toBeLessThan(60);
  await page.mouse.move(700, 300);
  await page.mouse.wheel(0, -900);
  await expect(page.getByTestId('jump')).toBeVisible();
  const there = await tx.evaluate((node) => node.scrollTop);
  await expect(page.getByTestId('jump')).toContainText('New below');
  await expect.poll(rest).toBeGreaterThan(800);
  expect(Math.abs((await tx.evaluate((node) => node.scrollTop)) - there)).toBeLessThan(4);
  await page.getByTestId('jump').click();
  await expect.poll(rest).toBeLessThan(60);
});

test('U5: the place in a thread survives a reload and a look into another thread', async ({ page }) => {
  await open(page, 'long');
  const long = page.getByTestId('thread-row').filter({ hasText: 'Move attachments' });
  await long.click();
  await expect(page.getByTestId('message-10000')).toBeVisible();
  await page.mouse.move(700, 300);
  await page.mouse.wheel(0, -1_500);
  await expect(page.getByTestId('jump')).toBeVisible();
  const place = () => page.evaluate(() => localStorage.getItem('changeover.places'));
  await expect.poll(place).toContain('"seq"');
  const upper = () =>
    page.getByTestId('transcript').evaluate((node) => {
      const edge = node.getBoundingClientRect().top;
      const rows = [...node.querySelectorAll('[data-testid^="message-"]')];
      const row = rows.find((one) => one.getBoundingClientRect().bottom > edge + 1);
      return [row?.getAttribute('data-testid'), Math.round((row?.getBoundingClientRect().top ?? 0) - edge)];
    });
  const was = await upper();
  const same = async () => {
    const [id, px] = await upper();
    return id === was[0] && Math.abs(Number(px) - Number(was[1])) < 4;
  };
  await page.getByTestId('thread-row').filter({ hasNotText: 'Move attachments' }).first().click();
  await expect(page.getByTestId('message-10000')).toHaveCount(0);
  await long.click();
  await expect.poll(same).toBe(true);
  await page.reload();
  await expect.poll(same).toBe(true);
  await page.getByTestId('jump').click();
  await expect(page.getByTestId('message-10000')).toBeVisible();
  await expect.poll(place).toBe('[]');
});

test('a cut line says so, and everything in view is read again when it is back', async ({ page }) => {
  await open(page, 'empty', 10);
  await newThread(page);
  await send(page, 'slow');
  await expect(page.getByText('Here is what I would do')).toBeVisible();
  await page.evaluate(() => (window as never as { fake: { line(to: string): void } }).fake.line('away'));
  await expect(page.getByTestId('line-away')).toBeVisible();
  await page.waitForTimeout(700); // what is said meanwhile is missed
  await page.evaluate(() => (window as never as { fake: { line(to: string): void } }).fake.line('open'));
  await expect(page.getByTestId('line-away')).toHaveCount(0);
  await page.getByTestId('stop').click();
  await expect(page.getByText(/^Interrupted at/)).toBeVisible();
  const [shown, held] = await page.evaluate(() => {
    const thread = [
      ...(
        window as never as {
          fake: { engine: { threads: Map<string, { messages: { parts: { body: { text?: string } }[] }[] }> } };
        }
      ).fake.engine.threads.values(),
    ].at(-1);
    return [
      document.querySelector('.prose')?.textContent ?? '',
      thread?.messages
        .at(-1)
        ?.parts.map((part) => part.body.text)
        .join('') ?? '',
    ];
  });
  expect(shown.match(/slowly/g)?.length ?? 0).toBe(held.match(/slowly/g)?.length ?? 0);
});

test('threads: rename, archive, delete with undo, search', async ({ page }) => {
  await open(page);
  const rows = page.getByTestId('thread-row');
  const first = rows.filter({ hasText: 'Rate limits' });
  await first.click({ button: 'right' });
  await page.getByRole('menuitem', { name: 'Rename' }).click();
  await page.getByRole('textbox', { name: 'Title of the thread' }).fill('Limits per key');
  await page.keyboard.press('Enter');
  await expect(rows.filter({ hasText: 'Limits per key' })).toBeVisible();
  const before = await rows.count();
  await rows.filter({ hasText: 'Limits per key' }).click({ button: 'right' });
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await expect(rows).toHaveCount(before - 1);
  await page.getByTestId('undo').getByRole('button', { name: 'Undo' }).click();
  await expect(rows).toHaveCount(before);
  await page.getByTestId('search-field').fill('lease clock');
  await page.getByTestId('search-hit').first().click();
  await expect(page.getByTestId('message-8')).toBeInViewport();
});

test('narrow: the sidebar is a drawer, nothing is cut off', async ({ page }) => {
  await page.setViewportSize({ width: 640, height: 720 });
  const complaints = await open(page);
  await expect(page.getByTestId('thread-row').first()).toBeHidden();
  await page.getByRole('button', { name: 'Show the sidebar' }).click();
  await page.getByTestId('thread-row').nth(1).click();
  await expect(page.getByTestId('thread-row').first()).toBeHidden();
  for (const id of ['provider-picker', 'mode', 'send']) await expect(page.getByTestId(id)).toBeInViewport({ ratio: 1 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(640);
  await page.getByTestId('provider-picker').click();
  await page.getByTestId('provider-option-codex').click();
  await expect(page.getByTestId('picker-use')).toBeInViewport({ ratio: 1 });
  expect(complaints).toEqual([]);
});

test('dark and light follow the system, or the setting', async ({ page }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await open(page);
  const canvas = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await canvas()).toBe('rgb(23, 24, 26)');
  await page.getByTestId('settings').click();
  await page.getByTestId('settings-appearance').click();
  await page.getByTestId('theme-light').click();
  expect(await canvas()).toBe('rgb(255, 255, 255)');
  expect(await calls(page, 'setting/put')).toEqual([{ name: 'ui.theme', value: 'light' }]);
});

test('by keyboard alone: a thread, another agent, a message, an approval', async ({ page }) => {
  await open(page);
  await expect(page.getByTestId('composer-text')).toBeVisible();
  await page.keyboard.press('Control+n');
  await expect(page.getByTestId('composer-text')).toBeFocused();
  await page.keyboard.press('Control+Alt+2');
  await expect(page.getByTestId('provider-picker')).toContainText('Codex');
  await page.keyboard.press('Control+Shift+M');
  await expect(page.getByTestId('provider-option-codex')).toBeFocused();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('provider-picker')).toContainText('Claude Code');
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('composer-text')).toBeFocused();
  await page.keyboard.type('approve');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('approval-card')).toBeFocused();
  await page.waitForTimeout(450); // keys count from 400 ms on
  await page.keyboard.press('Backspace');
  await expect(page.getByText('You denied it.')).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('dark');
  await page.keyboard.press('Enter');
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  await page.keyboard.press('Control+Shift+F');
  await expect(page.getByTestId('search-field')).toBeFocused();
});
