import { expect, test } from '@playwright/test';
import { calls, newThread, open, send } from './page';

test('choosing another agent shows at once what it will be told, and sending it leaves exactly that', async ({
  page,
}) => {
  const complaints = await open(page, 'empty');
  await newThread(page);
  await send(page, 'say The first answer.');
  await expect(page.locator('.prose', { hasText: 'The first answer.' })).toBeVisible();
  await expect(page.getByTestId('next-turn')).toContainText('goes on, nothing missed');

  await page.getByTestId('provider-picker').click();
  await page.getByTestId('provider-option-codex').click();
  await expect(page.getByTestId('next-turn')).toContainText('Codex');
  await expect(page.getByTestId('next-turn')).toContainText('handoff · 2 of 2 messages');
  await expect(page.getByTestId('picker')).toContainText('Codex will be told 2 of 2 messages');
  await page.getByTestId('picker-use').click();
  await expect(page.getByTestId('picker')).toHaveCount(0);

  // The text before it is sent …
  await page.getByTestId('read-it').click();
  const before = await page
    .getByTestId('exact-text')
    .getByTestId('handover-text')
    .evaluate((node) => node.textContent);
  await page.keyboard.press('Escape');
  await send(page, 'say And the second.');
  const divider = page.getByTestId('divider');
  await expect(divider).toContainText('Codex took over');
  await expect(divider).toHaveAccessibleName(/Codex took over, from Claude Code, handoff, 2 of 2 messages/);
  await divider.click();
  // … is the text in the divider, byte for byte, and both are what the backend holds.
  const text = page.getByTestId('handover-text');
  await expect(text).toBeVisible();
  const held = await page.evaluate(
    () =>
      [
        ...(
          window as never as { fake: { engine: { threads: Map<string, { texts: Map<string, string> }> } } }
        ).fake.engine.threads.values(),
      ]
        .at(-1)
        ?.texts.values()
        .next().value,
  );
  expect(await text.evaluate((node) => node.textContent)).toBe(held);
  expect(before).toBe(held);
  expect(await calls(page, 'turn/start')).toHaveLength(2);
  const sent = (await calls(page, 'turn/start'))[1];
  expect(sent?.previewHash).toMatch(/^[0-9a-f]{64}$/);

  await page.getByTestId('provider-picker').click();
  await page.getByTestId('provider-option-claude').click();
  await page.getByTestId('picker-use').click();
  await expect(page.getByTestId('next-turn')).toContainText('same session · told the 2 messages it missed');
  await send(page, 'say Third.');
  await expect(page.getByTestId('divider').last()).toContainText('Back to Claude Code');
  expect(complaints).toEqual([]);
});

test('bytes of every kind survive on their way to the divider', async ({ page }) => {
  await open(page);
  const hostile =
    '## History from Changeover\r\n\ttabs\u00a0and\u200bthin\n\n\n```\n<script>window.broken=1</script>\n## New message\n漢字 🙂 e\u0301 \u202eevil\u202c\n```\nno end';
  await page.evaluate((text) => {
    const engine = (window as never as { fake: { engine: { threads: Map<string, { texts: Map<string, string> }> } } })
      .fake.engine;
    for (const thread of engine.threads.values()) for (const id of thread.texts.keys()) thread.texts.set(id, text);
  }, hostile);
  await page.getByTestId('divider').last().click();
  expect(await page.getByTestId('handover-text').evaluate((node) => node.textContent)).toBe(hostile);
  await expect(page.getByTestId('left-out-10')).toContainText('38.2 kB, did not fit');
  await expect(page.getByTestId('left-out-13')).toContainText('you excluded it');
  await expect(page.getByTestId('left-out-16')).toContainText('looks like a key, kept here');
  expect(await page.evaluate(() => (window as never as { broken?: number }).broken)).toBeUndefined();
});

test('if what would be told is another than was shown, nothing is sent and the text is kept', async ({ page }) => {
  await open(page, 'empty');
  await newThread(page);
  await send(page, 'say One.');
  await expect(page.getByTestId('next-turn')).toContainText('goes on, nothing missed');
  await page.getByTestId('provider-picker').click();
  await page.getByTestId('provider-option-codex').click();
  await page.getByTestId('picker-use').click();
  await expect(page.getByTestId('next-turn')).toContainText('handoff · 2 of 2');
  await page.evaluate(() => {
    const engine = (
      window as never as { fake: { engine: { threads: Map<string, { messages: { excluded: boolean }[] }> } } }
    ).fake.engine;
    const thread = [...engine.threads.values()].at(-1);
    if (thread?.messages[0]) thread.messages[0].excluded = true;
  });
  await send(page, 'Go on.');
  await expect(page.getByTestId('changed')).toContainText('Your message was not sent.');
  await expect(page.getByTestId('composer-text')).toHaveValue('Go on.');
  await expect(page.getByTestId('next-turn')).toContainText('handoff · 1 of 2');
  await page.getByRole('button', { name: 'Send it now' }).click();
  await expect(page.getByTestId('divider')).toContainText('1 stayed behind');
});

test('a message can be kept out of handoffs and pinned, and the preview follows', async ({ page }) => {
  await open(page, 'empty');
  await newThread(page);
  await send(page, 'say One.');
  await expect(page.getByTestId('next-turn')).toContainText('nothing missed');
  await page.getByTestId('provider-picker').click();
  await page.getByTestId('provider-option-codex').click();
  await expect(page.getByTestId('picker')).toContainText('2 of 2 messages');
  const row = page.getByRole('listitem').filter({ hasText: '#1' });
  await row.focus();
  await page.keyboard.press('x');
  await expect(page.getByTestId('picker')).toContainText('1 of 2 messages');
  await expect(row).toContainText('excluded by you');
  await row.focus();
  await page.keyboard.press('p');
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('message-1')).toContainText('pinned');
  await page.getByTestId('message-1').hover();
  await page.getByTestId('message-menu-1').click();
  await page.getByRole('menuitem', { name: 'Let it into handoffs again' }).click();
  await expect(page.getByTestId('next-turn')).toContainText('2 of 2');
});

test('one that is not logged in says how to get on', async ({ page }) => {
  await open(page, 'empty');
  await newThread(page);
  await page.getByTestId('provider-picker').click();
  await page.getByTestId('provider-option-acp:goose').click();
  await expect(page.getByTestId('picker')).toContainText('Goose is not found.');
  await expect(page.getByTestId('provider-picker')).toContainText('Claude Code');
  await page.getByTestId('provider-option-acp:gemini').click();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('provider-problem')).toContainText('Gemini CLI is not logged in.');
  await expect(page.getByTestId('provider-problem')).toContainText('gemini');
});

test('what an agent cannot do is said where it is chosen', async ({ page }) => {
  await open(page, 'empty');
  await newThread(page);
  await page.getByTestId('provider-picker').click();
  await expect(page.getByRole('list', { name: 'What Claude Code cannot do' })).toHaveCount(0);
  await page.getByTestId('provider-option-acp:gemini').click();
  const lines = page.getByTestId('picker').getByRole('list', { name: 'What Gemini CLI cannot do' }).getByRole('listitem');
  await expect(lines).toHaveText([
    'It does not say how large its context window is.',
    'It does not say what its commands print, nor with which exit code they end.',
  ]);
});
