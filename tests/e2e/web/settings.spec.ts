import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, type Page, test } from '@playwright/test';
import { calls, open } from './page';
import { program, Serving, skipped, why } from './serving';

async function settings(page: Page, section?: string): Promise<void> {
  await page.getByTestId('settings').click();
  if (section !== undefined) await page.getByTestId(`settings-${section}`).click();
}

const fits = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth === innerWidth);

test('each provider says how it stands, and one that cannot be used says the way on (R2)', async ({ page }) => {
  const complaints = await open(page);
  await settings(page);
  await expect(page.getByText('2 of 3 ready')).toBeVisible();
  const claude = page.getByTestId('setting-claude');
  await expect(claude).toContainText('2.1.332');
  await expect(claude).toContainText('ready · logged in, subscription');
  await page.getByTestId('details-claude').click();
  for (const told of ['/home/ana/.local/bin/claude', 'on the PATH of your login shell', 'Opus 5, Sonnet 5, Haiku 5'])
    await expect(claude).toContainText(told);
  await page.getByTestId('test-claude').click();
  await expect(page.getByTestId('tested-claude')).toHaveText(
    'It started, answered and ended in 0.8 s. No model was asked.',
  );
  expect(await calls(page, 'provider/test')).toEqual([{ provider: 'claude' }]);

  const gemini = page.getByTestId('setting-acp:gemini');
  await expect(gemini).toContainText('not logged in');
  await expect(gemini.locator('code')).toHaveText('gemini');
  const goose = page.getByTestId('setting-acp:goose');
  await expect(goose.locator('code')).toHaveText('brew install block-goose-cli');
  await goose.getByRole('button', { name: 'Choose a file…' }).click();
  await goose.getByTestId('folder-path').fill('/opt/missing');
  await goose.getByTestId('folder-open').click();
  await expect(goose.getByRole('alert')).toContainText('There is no program /opt/missing.');
  await goose.getByTestId('folder-path').fill('/opt/goose');
  await goose.getByTestId('folder-open').click();
  await expect(page.getByText('3 of 4 ready')).toBeVisible();
  await page.getByTestId('details-acp:goose').click();
  await expect(goose).toContainText('chosen by you');
  expect(complaints).toEqual([]);
});

test('an agent of one’s own is added, tested, changed and removed (R1)', async ({ page }) => {
  const complaints = await open(page);
  await settings(page);
  await page.getByTestId('agent-add').click();
  await expect(page.getByTestId('agent-name')).toBeFocused();
  await page.getByTestId('agent-name').fill('mine');
  await page.getByTestId('agent-command').fill('missing');
  await page.getByTestId('agent-args').fill('--acp --model "big one"');
  await page.getByTestId('agent-test').click();
  await expect(page.getByTestId('agent-tested')).toContainText('missing is not installed.');
  await page.getByTestId('agent-save').click();
  await expect(page.getByTestId('agent-form').getByRole('alert')).toContainText('not on the PATH');
  await page.getByTestId('agent-command').fill('my-agent');
  await page.getByTestId('agent-variable').click();
  await page.getByLabel('Name of variable 1').fill('MY_TOKEN');
  await page.getByLabel('Value of variable 1').fill('hush');
  await page.getByRole('switch', { name: 'Variable 1 is a secret' }).click();
  await expect(page.getByLabel('Value of variable 1')).toHaveAttribute('type', 'password');
  await page.getByTestId('agent-test').click();
  await expect(page.getByTestId('agent-tested')).toContainText('my-agent 1.0.0 speaks it. No model was asked.');
  await page.getByTestId('agent-save').click();
  await expect(page.getByTestId('agent-form')).toHaveCount(0);
  const draft = {
    name: 'mine',
    command: 'my-agent',
    args: ['--acp', '--model', 'big one'],
    env: [{ name: 'MY_TOKEN', value: 'hush', secret: true }],
  };
  expect((await calls(page, 'agent/set')).at(-1)).toEqual({ agent: draft, change: false });

  await page.getByTestId('details-acp:mine').click();
  await page.getByTestId('agent-change').click();
  await expect(page.getByTestId('agent-args')).toHaveValue('--acp --model "big one"');
  await expect(page.getByLabel('Value of variable 1')).toHaveAttribute('placeholder', 'kept as it is');
  await page.getByTestId('agent-args').fill('');
  await page.getByTestId('agent-save').click();
  await expect(page.getByTestId('agent-form')).toHaveCount(0);
  const kept = { ...draft, args: [], env: [{ name: 'MY_TOKEN', value: null, secret: true }] };
  expect((await calls(page, 'agent/set')).at(-1)).toEqual({ agent: kept, change: true });
  await page.getByTestId('agent-remove').click();
  await expect(page.getByTestId('setting-acp:mine')).toHaveCount(0);
  expect(complaints).toEqual([]);
});

test('with nothing installed the page says what to do, and no row is a dead end', async ({ page }) => {
  await open(page, 'nothing');
  await page.getByRole('button', { name: 'Choose the program by hand' }).click();
  await expect(page.getByTestId('no-agent')).toContainText('No agent is ready on this machine.');
  await expect(page.getByTestId('setting-practice')).toContainText('no model, no account');
  await expect(page.getByTestId('setting-acp:goose').getByRole('button', { name: 'Choose a file…' })).toBeVisible();
  await page.getByTestId('look-again').click();
  await expect.poll(() => calls(page, 'provider/list')).toContainEqual({ refresh: true });
});

test('by keyboard: the sections, the budget, an approval default', async ({ page }) => {
  await open(page);
  await page.getByTestId('settings').focus();
  await page.keyboard.press('Enter');
  await page.getByTestId('settings-providers').focus();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByTestId('settings-approvals')).toBeFocused();
  await expect(page.getByRole('tabpanel')).toHaveAccessibleName('Approvals');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await expect(page.getByTestId('mode-edits')).toBeFocused();
  await page.keyboard.press('Space');
  await expect(page.getByTestId('mode-edits')).toHaveAttribute('aria-checked', 'true');
  await page.getByTestId('settings-approvals').focus();
  await page.keyboard.press('End');
  await expect(page.getByTestId('settings-diagnostics')).toBeFocused();
  await page.keyboard.press('Home');
  await expect(page.getByTestId('settings-providers')).toBeFocused();
  expect(await calls(page, 'setting/put')).toEqual([{ name: 'approval.default', value: 'edits' }]);
});

test('the handoff budget goes up to 65,536 and no further; the default is no setting (B1)', async ({ page }) => {
  await open(page);
  await settings(page, 'handoff');
  const field = page.getByTestId('budget');
  await expect(field).toHaveValue('16000');
  for (const wrong of ['65537', '-1', '1e4', 'much']) {
    await field.fill(wrong);
    await field.press('Enter');
    await expect(page.getByRole('alert')).toHaveText('A number from 0 to 65,536.');
  }
  expect(await calls(page, 'setting/put')).toEqual([]);
  await field.fill('65536');
  await field.press('Enter');
  await page.getByRole('slider').press('Home');
  await expect(field).toHaveValue('0');
  await page.getByTestId('budget-back').click();
  await expect(field).toHaveValue('16000');
  const put = (value: number | null) => ({ name: 'handoff.budget', value });
  expect(await calls(page, 'setting/put')).toEqual([put(65_536), put(0), put(null)]);
  await page.getByTestId('settings-data').click();
  await expect(page.getByTestId('data-folder')).toHaveText('/home/ana/.local/share/changeover');
});

test('the page for a report is copied as it stands', async ({ page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page);
  await settings(page, 'diagnostics');
  await expect(page.getByTestId('diagnostics')).toContainText('# Changeover diagnostics');
  await page.getByTestId('diagnostics-copy').click();
  await expect(page.getByTestId('diagnostics-copy')).toHaveText('Copied');
  const shown = await page.getByTestId('diagnostics').textContent();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(shown);
});

test('narrow: every section is reached and nothing is cut off', async ({ page }) => {
  await page.setViewportSize({ width: 420, height: 760 });
  await open(page);
  await page.getByRole('button', { name: 'Show the sidebar' }).click();
  await settings(page);
  for (const section of ['providers', 'approvals', 'handoff', 'appearance', 'keyboard', 'data', 'diagnostics']) {
    await page.getByTestId(`settings-${section}`).click();
    await expect(page.getByRole('tabpanel')).toBeVisible();
    expect(await fits(page), section).toBe(true);
    const wide = await page.getByRole('tabpanel').evaluate((node) => node.scrollWidth <= node.clientWidth);
    expect(wide, section).toBe(true);
  }
});

test.describe('on changeover serve', () => {
  test.skip(skipped, why);
  let serving: Serving;
  test.beforeEach(() => {
    // As a graphical session starts it; the agent is where only its installer put it.
    serving = new Serving('/usr/bin:/bin');
    const bin = join(serving.root, 'home/.local/bin');
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, 'claude'), '#!/bin/sh\n[ "$1" = --version ] && echo "9.8.7 (Claude Code)"\n');
    chmodSync(join(bin, 'claude'), 0o755);
  });
  test.afterEach(() => serving.end());

  test('the page says of each provider what the command line says (EA7)', async ({ page }) => {
    await page.goto(await serving.start());
    await page.getByRole('button', { name: 'Choose the program by hand' }).click();
    await page.getByTestId('look-again').click();
    await expect(page.getByTestId('look-again')).toBeEnabled();
    const run = promisify(execFile);
    const args = ['providers', '--json', '--data', serving.data];
    const { stdout } = await run(program as string, args, { env: serving.env() });
    const { providers } = JSON.parse(stdout) as {
      providers: {
        id: string;
        state: string;
        version: string | null;
        path: string | null;
        problem: { hint: string | null } | null;
      }[];
    };
    expect(providers.map((one) => one.id)).toEqual(expect.arrayContaining(['claude', 'codex', 'practice']));
    for (const one of providers.filter((other) => other.id !== 'practice')) {
      const row = page.getByTestId(`setting-${one.id}`);
      if (one.version) await expect(row).toContainText(one.version);
      if (one.path) await expect(row).toContainText(one.path);
      // Commands in it are shown as such, with something to copy them.
      for (const piece of (one.problem?.hint ?? '').split('`')) await expect(row).toContainText(piece.trim());
      if (one.state === 'ready') await expect(row).toContainText('ready');
    }
    expect(providers.find((one) => one.id === 'codex')?.state).toBe('notFound');
    expect(providers.find((one) => one.id === 'claude')?.path).toBe(join(serving.root, 'home/.local/bin/claude'));
    await page.getByTestId('test-practice').click();
    await expect(page.getByTestId('tested-practice')).toContainText('No model was asked.');
    await page.getByTestId('settings-diagnostics').click();
    await expect(page.getByTestId('diagnostics')).toContainText('version 9.8.7');
  });
});
