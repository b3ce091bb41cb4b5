import { expect, type Page, test } from '@playwright/test';
import { Serving, skipped, why } from './serving';

// The same page on the engine itself: `changeover serve` with the practice agent, which is no model and needs no account.
test.skip(skipped, why);

async function openProject(page: Page, serving: Serving): Promise<void> {
  await page.getByTestId('starter-practice').click();
  await page.getByTestId('open-folder').click();
  await page.getByTestId('folder-path').fill(serving.project);
  await page.getByTestId('folder-open').click();
  await expect(page.getByTestId('composer-text')).toBeFocused();
  await expect(page.getByTestId('next-turn')).toContainText('fresh, nothing to hand over');
}

test.describe('on changeover serve', () => {
  let serving: Serving;
  test.beforeEach(() => {
    serving = new Serving();
  });
  test.afterEach(() => serving.end());

  test('the address works once, its code is gone at once, and without it nobody is let in', async ({
    page,
    browser,
  }) => {
    const address = await serving.start();
    await page.goto(address);
    await expect(page.getByTestId('open-folder')).toBeVisible();
    expect(page.url()).not.toContain('code');
    await page.reload();
    await expect(page.getByTestId('open-folder')).toBeVisible();

    for (const url of [address, address.split('#')[0] ?? '']) {
      const stranger = await (await browser.newContext()).newPage();
      await stranger.goto(url);
      await expect(stranger.getByRole('heading', { name: 'This page is not let in' })).toBeVisible();
      await stranger.context().close();
    }
  });

  test('a command that asks first is allowed, its output and exit code stand; stop marks what streams; a kill loses nothing', async ({
    page,
  }) => {
    const complaints: string[] = [];
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => {
      if (/Content Security Policy/.test(message.text())) complaints.push(message.text());
    });
    await page.goto(await serving.start());
    await openProject(page, serving);
    await page.getByTestId('composer-text').fill('run: echo out; exit 3');
    await page.getByTestId('send').click();
    const card = page.getByTestId('approval-card');
    await expect(card).toContainText('echo out; exit 3');
    await page.getByTestId('approve-once').click();
    await expect(page.getByText('exit 3', { exact: true })).toBeVisible();
    await expect(page.locator('pre.out', { hasText: 'out' })).toBeVisible();
    await expect(page.getByTestId('stop')).toHaveCount(0);

    await page.getByTestId('composer-text').fill('stream 400 every 25 ms');
    await page.getByTestId('send').click();
    await expect(page.getByTestId('message-4')).toBeVisible();
    await expect(page.locator('.prose').last()).toContainText(/\d/);
    await page.getByTestId('stop').click();
    await expect(page.getByText(/^Interrupted at/)).toBeVisible();
    const said = await page.locator('.prose').last().textContent();

    await serving.stop('SIGKILL');
    await expect(page.getByTestId('line-away')).toBeVisible();
    await page.goto(await serving.start());
    await expect(page.getByTestId('thread-row')).toHaveCount(1);
    await expect(page.getByText('exit 3', { exact: true })).toBeVisible();
    expect(await page.locator('.prose').last().textContent()).toBe(said);
    await expect(page.getByText(/^Interrupted at/)).toBeVisible();
    expect(complaints).toEqual([]);
  });
});
