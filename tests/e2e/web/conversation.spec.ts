import { expect, test } from '@playwright/test';
import { calls, newThread, open, send } from './page';

test('first start: who is there, a folder, the first message', async ({ page }) => {
  const complaints = await open(page, 'first');
  await expect(page.getByRole('heading', { name: 'Two agents are ready' })).toBeVisible();
  await expect(page.getByTestId('starter-claude')).toHaveAttribute('aria-checked', 'true');
  await page.getByTestId('starter-practice').click();
  await page.getByRole('button', { name: 'How to log in' }).click();
  await expect(page.getByText('once in a terminal')).toBeVisible();

  await page.getByTestId('open-folder').click();
  await page.getByTestId('folder-path').fill('/home/ana/missing');
  await page.getByTestId('folder-open').click();
  await expect(page.getByRole('alert')).toContainText('There is no folder /home/ana/missing.');
  await page.getByTestId('folder-path').fill('~/code/parcel-api');
  await page.getByTestId('folder-open').click();

  await expect(page.getByText('The first message starts it.')).toBeVisible();
  await expect(page.getByTestId('provider-picker')).toContainText('Practice agent');
  await expect(page.getByTestId('next-turn')).toContainText('fresh, nothing to hand over');
  await send(page, 'Hello');
  await expect(page.getByTestId('message-2')).toBeVisible();
  await expect(page.getByText('Nothing else is touched.')).toBeVisible();
  await expect(page.getByTestId('thread-row')).toContainText('Hello');
  expect((await calls(page, 'thread/start'))[0]).toMatchObject({
    target: { provider: 'practice', mode: 'ask' },
  });
  expect(complaints).toEqual([]);
});

test('nothing found: the practice agent is offered', async ({ page }) => {
  await open(page, 'nothing');
  await expect(page.getByRole('heading', { name: 'No agent is ready on this machine' })).toBeVisible();
  await expect(page.getByTestId('starter-practice')).toHaveAttribute('aria-checked', 'true');
});

test('a reply streams, its work is shown, a failed command is open, stop marks it', async ({ page }) => {
  const complaints = await open(page, 'empty', 20);
  await newThread(page);
  await send(page, 'think, run, slow');
  await expect(page.getByText('think, run, slow').first()).toBeVisible();
  await expect(page.getByText('exit 1')).toBeVisible();
  await expect(page.getByText('1 failed | 23 passed (24)')).toBeVisible();
  await expect(page.getByText('git status --short')).toBeVisible();
  await expect(page.locator('pre.code .k1').first()).toHaveText('export');
  await expect(page.getByRole('cell', { name: 'change' })).toBeVisible();
  await page.getByTestId('stop').click();
  await expect(page.getByText(/^Interrupted at \d\d:\d\d/)).toBeVisible();
  await expect(page.getByTestId('stop')).toHaveCount(0);
  expect(complaints).toEqual([]);
});

test('what is sent while a turn runs waits, can be edited and taken back, and goes by itself', async ({ page }) => {
  await open(page, 'empty', 15);
  await newThread(page);
  await send(page, 'slow');
  await expect(page.getByTestId('stop')).toBeVisible();
  await send(page, 'second');
  await send(page, 'third');
  await expect(page.getByTestId('queue-row')).toHaveCount(2);
  await page.getByTestId('queue-row').first().getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('textbox', { name: 'Edit' }).fill('second, better');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('queue-row').first()).toContainText('second, better');
  await page.getByTestId('queue-row').last().getByRole('button', { name: 'Take back' }).click();
  await expect(page.getByTestId('queue-row')).toHaveCount(1);
  // After a stop the queue is held: it goes when the person says so.
  await page.getByTestId('stop').click();
  await page.getByTestId('queue-go').click();
  await expect(page.getByTestId('message-3')).toContainText('second, better');
  await expect(page.getByTestId('queue-row')).toHaveCount(0);
});

test('an approval shows all of it; a key counts only from 400 ms on; the answer is what was chosen', async ({
  page,
}) => {
  await open(page, 'empty');
  await newThread(page);
  // Pressed as soon as it is there: by the page itself, since a busy machine is slower than the rule.
  await page.evaluate(() =>
    new MutationObserver((_, watch) => {
      const card = document.querySelector('[data-testid="approval-card"]');
      if (!card) return;
      watch.disconnect();
      card.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
      document.body.dataset.pressed = 'early';
    }).observe(document.body, { subtree: true, childList: true }),
  );
  await send(page, 'approve');
  const card = page.getByTestId('approval-card');
  await expect(card).toContainText('rm -rf build');
  await expect(card).toContainText('The old build is in the way.');
  await expect(card).toBeFocused();
  await expect(page.locator('body')).toHaveAttribute('data-pressed', 'early');
  expect(await calls(page, 'approval/answer')).toEqual([]);
  await page.waitForTimeout(450); // the very rule under test
  await page.keyboard.press('Shift+Enter');
  await expect(page.getByText('You allowed it in this thread.')).toBeVisible();
  expect(await calls(page, 'approval/answer')).toMatchObject([{ decision: 'thread' }]);

  await page.getByTestId('composer-text').fill('edit');
  await page.keyboard.press('Enter');
  await expect(card).toContainText('src/a.ts');
  await expect(card).toContainText('const a = 2;');
  await page.getByTestId('deny').click();
  await expect(page.getByText('You denied it.')).toBeVisible();
  expect(await calls(page, 'approval/answer')).toMatchObject([{ decision: 'thread' }, { decision: 'deny' }]);
});

test('R4: a command is seen whole, in the order in which it runs, before it can be allowed', async ({ page }) => {
  await open(page, 'empty');
  await newThread(page);
  await send(page, `approve: echo ${'A'.repeat(6_000)}; touch HIDDEN`);
  const card = page.getByTestId('approval-card');
  const end = () => card.locator('pre').evaluate((node) => node.scrollHeight - node.scrollTop - node.clientHeight);
  await expect(page.getByTestId('show-whole')).toBeVisible();
  expect(await end()).toBeGreaterThan(100);
  // The first yes only shows it.
  await page.getByTestId('approve-once').click();
  await expect.poll(end).toBeLessThan(2);
  expect(await calls(page, 'approval/answer')).toEqual([]);
  await page.getByTestId('approve-once').click();
  await expect(page.getByText('You allowed it once.')).toBeVisible();

  await send(page, 'approve: echo safe \u202e#/ fr- mr\u202c\u200b');
  await expect(card.locator('pre')).toHaveText('echo safe ⟨U+202E⟩#/ fr- mr⟨U+202C⟩⟨U+200B⟩');
  await expect(page.getByTestId('show-whole')).toHaveCount(0);
  const row = page.locator('.wr').last();
  await expect(row).toContainText('echo safe ⟨U+202E⟩#/ fr- mr');
  await expect(row).toContainText('waits for you');
  await page.getByTestId('deny').click();
  await expect(row).toContainText('not allowed');
});

test('H1: what waits is told what stands there when its turn comes, and the line says so', async ({ page }) => {
  await open(page, 'empty', 15);
  await newThread(page);
  await send(page, 'slow');
  await expect(page.getByTestId('stop')).toBeVisible();
  await expect(page.getByTestId('next-turn')).toContainText('settled when its turn comes');
  await expect(page.getByTestId('read-it')).toHaveCount(0);
  await page.getByTestId('stop').click();
  await expect(page.getByTestId('next-turn')).not.toContainText('settled when its turn comes');
});

test('a paste of 50,000 lines does not stop the page', async ({ page }) => {
  await open(page, 'empty');
  await newThread(page);
  const area = page.getByTestId('composer-text');
  await area.evaluate((node: HTMLTextAreaElement) => {
    node.value = 'z\n'.repeat(50_000);
    node.dispatchEvent(new InputEvent('input', { bubbles: true }));
  });
  await expect(page.getByTestId('send')).toBeEnabled();
  expect(await area.evaluate((node) => node.clientHeight)).toBeLessThan(800 / 3 + 4);
  await area.fill('short');
  await expect.poll(() => area.evaluate((node) => node.clientHeight)).toBeLessThan(80);
});

test('an approval takes no focus from someone who types', async ({ page }) => {
  await open(page, 'empty', 40);
  await newThread(page);
  await send(page, 'approve');
  await page.getByTestId('composer-text').fill('half a thought');
  await expect(page.getByTestId('approval-card')).toBeVisible();
  await expect(page.getByTestId('composer-text')).toBeFocused();
  await page.getByTestId('approve-once').click();
  await expect(page.getByText('You allowed it once.')).toBeVisible();
});

test('a refused message is sent again as itself, also by another agent', async ({ page }) => {
  await open(page, 'empty');
  await newThread(page);
  await send(page, 'please refuse');
  const error = page.getByTestId('error');
  await expect(error).toContainText('Claude Code is not logged in.');
  await expect(error).toContainText('Your message was not sent.');
  await page.getByTestId('send-again').click();
  await expect(page.getByText('Nothing else is touched.')).toBeVisible();
  expect(await calls(page, 'turn/again')).toHaveLength(1);
  expect(await calls(page, 'turn/start')).toHaveLength(1);
  await expect(page.locator('.user')).toHaveCount(1);

  await newThread(page);
  await send(page, 'refuse again');
  await page.getByRole('button', { name: 'Go on with Codex' }).click();
  await expect(page.getByText('Nothing else is touched.')).toBeVisible();
  expect((await calls(page, 'turn/again'))[1]).toMatchObject({
    target: { provider: 'codex', model: 'gpt-5.2-codex' },
  });
});

test('drafts are kept for each thread, and an input method’s Enter sends nothing (R131)', async ({ page }) => {
  await open(page);
  const text = page.getByTestId('composer-text');
  await text.fill('not yet');
  await page.getByTestId('thread-row').nth(1).click();
  await expect(text).toHaveValue('');
  await page.getByTestId('thread-row').first().click();
  await expect(text).toHaveValue('not yet');

  await text.fill('にほん');
  await text.evaluate((node) => {
    node.dispatchEvent(
      new KeyboardEvent('keydown', {
        key: 'Enter',
        isComposing: true,
        bubbles: true,
        cancelable: true,
      }),
    );
    node.dispatchEvent(
      new KeyboardEvent('keydown', {
        key: 'Enter',
        keyCode: 229,
        bubbles: true,
        cancelable: true,
      }),
    );
  });
  expect(await calls(page, 'turn/start')).toEqual([]);
  await page.keyboard.press('Shift+Enter');
  await expect(text).toHaveValue('にほん\n');
});
