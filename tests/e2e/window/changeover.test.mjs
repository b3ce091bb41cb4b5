// FC10: one thread in the real window, Claude Code, Codex and back, with the real CLIs on the fake model API. What the divider
// shows, what the engine stored and what the CLI sent are the same bytes; a terminal beside the window works through its engine.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { randomUUID } from 'node:crypto';
import { Window, desktop, folder, until } from './driver.mjs';

const bins = dirname(desktop);
const changeover = process.env.CHANGEOVER_BIN ?? join(bins, 'changeover');
const MINUTE = 60_000;

/** The fake model API with a fenced-in home that has both CLIs: one JSON command a line, one answer a line, in order. */
class FakeApi {
  static async start() {
    const api = new FakeApi();
    api.child = spawn(join(bins, 'fake-api'), { stdio: ['pipe', 'pipe', 'inherit'] });
    api.lines = createInterface({ input: api.child.stdout })[Symbol.asyncIterator]();
    Object.assign(api, await api.#line());
    return api;
  }
  async #line() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error('the fake API ended');
    const answer = JSON.parse(value);
    if (answer.error) throw new Error(answer.error);
    return answer;
  }
  async do(command, fields = {}) {
    this.child.stdin.write(`${JSON.stringify({ do: command, ...fields })}\n`);
    return this.#line();
  }
  async stop() {
    const ended = new Promise((done) => this.child.once('exit', done));
    this.child.stdin.end();
    await ended;
  }
}

let api, window, home;
before(async () => {
  api = await FakeApi.start();
  home = folder('changeover');
  window = await Window.open({ env: { ...api.env, CHANGEOVER_DATA_DIR: home.path, CHANGEOVER_NO_SHELL: '1' } });
}, { timeout: 3 * MINUTE });
after(async () => {
  // What it looked like at the end says more than the error, when there was one.
  await window?.screenshot('changeover-end.png').catch(() => {});
  await window?.close();
  await api?.stop();
  home?.remove();
});

const call = async (method, params) => {
  const { value, refused } = await window.wait(
    'return window.__TAURI_INTERNALS__.invoke("rpc", { method: args[0], params: args[1] })', method, params);
  if (refused) throw new Error(`${method}: ${JSON.stringify(refused)}`);
  return value;
};

/** Chooses a provider as a person does, writes a message, and waits until its turn has ended well. */
async function say(provider, text, reply) {
  await window.click('[data-testid=provider-picker]');
  await window.click(`[data-testid=provider-option-${provider}]`);
  await window.click('[data-testid=picker-use]');
  await until(`${provider} to be next`, async () => (await window.run('return document.querySelector("[data-testid=next-turn]").textContent')).includes(provider === 'claude' ? 'Claude Code' : 'Codex'));
  await window.type('[data-testid=composer-text]', text);
  await window.click('[data-testid=send]');
  await until(`the reply of ${provider}`, async () => (await window.run('return document.querySelector("[data-testid=transcript]").textContent')).includes(reply), MINUTE);
  await until('the turn to end', async () => !(await window.has('[data-testid=stop]')), MINUTE);
}

test('Claude Code, Codex, and back to Claude Code', { timeout: 6 * MINUTE }, async () => {
  const nonces = Object.fromEntries(['q1', 'a1', 'q2', 'a2', 'q3', 'a3'].map((key) => [key, `n${randomUUID().slice(0, 8)}`]));
  await api.do('put_text', { key: 'one', text: `The lease uses the database clock, ${nonces.a1}.` });
  await api.do('put_text', { key: 'two', text: `Both suites are green, ${nonces.a2}.` });
  await api.do('put_text', { key: 'three', text: `I see what Codex did, ${nonces.a3}.` });

  await window.find('[data-testid=starter-practice]', MINUTE);
  const { project } = await call('project/open', { path: api.work });
  await until('both CLIs to be found', async () => {
    const { providers } = await call('provider/list', { refresh: false });
    return providers.filter((one) => one.state === 'ready').length >= 3;
  }, MINUTE);
  await call('thread/start', { projectId: project.id, target: null });
  await window.click('[data-testid=thread-row]');
  await window.find('[data-testid=composer-text]');

  await say('claude', `Why do webhooks go out twice? ${nonces.q1} [[text:one]]`, nonces.a1);
  await say('codex', `Run the tests. ${nonces.q2} [[text:two]]`, nonces.a2);
  await say('claude', `What did Codex do? ${nonces.q3} [[text:three]]`, nonces.a3);

  // The dividers open to the exact text: in the page, in the database, in the request.
  const { threads } = await call('thread/list', { projectId: null, archived: false });
  const thread = threads[0];
  const { messages } = await call('thread/read', { threadId: thread.id, at: { type: 'newest' }, limit: null });
  const notices = messages.filter((one) => one.notice?.type === 'handover');
  assert.deepEqual(notices.map((one) => [one.notice.provider, one.notice.kind]), [['codex', 'handoff'], ['claude', 'delta']]);
  const { turns } = await api.do('turns');
  for (const [at, notice] of notices.entries()) {
    const { text } = await call('handoff/text', { threadId: thread.id, messageId: notice.id });
    const divider = (then) => window.run(`const one = document.querySelectorAll("[data-testid=divider]")[arguments[0]]; ${then}`, at);
    await until('the divider', () => divider('return Boolean(one)'));
    await divider('one.click()');
    const shown = await until('the whole text', () => window.run('return document.querySelector("[data-testid=handover-text]")?.textContent'));
    assert.equal(shown, text, 'the divider shows the stored bytes');
    if (at === 1) await window.screenshot('changeover-open.png');
    await divider('one.click()');
    await until('the divider to close', async () => !(await window.has('[data-testid=handover-text]')));
    const prompt = `${text}\n\n## New message\n\n`;
    const wire = at === 0 ? 'responses' : 'anthropic';
    const sent = turns.filter((turn) => turn.wire === wire).flatMap((turn) => turn.messages).map(([, said]) => said);
    assert.ok(sent.some((said) => said.startsWith(prompt)), 'the CLI sent the stored bytes');
  }

  // T6: in each session's last request every nonce of what it was told or said stands once.
  const { rows, table } = await api.do('nonces', { nonces: Object.values(nonces) });
  console.log(table);
  const last = (nonce, wire) => rows.find((row) => row.nonce === nonce && row.wire === wire)?.last ?? 0;
  const held = (wire) => Object.entries(nonces).map(([key, nonce]) => [key, last(nonce, wire)]);
  assert.deepEqual(Object.fromEntries(held('anthropic')), { q1: 1, a1: 1, q2: 1, a2: 1, q3: 1, a3: 0 });
  assert.deepEqual(Object.fromEntries(held('responses')), { q1: 1, a1: 1, q2: 1, a2: 0, q3: 0, a3: 0 });
  const { strays } = await api.do('strays');
  assert.deepEqual(strays, []);

  // U9: a terminal command beside the open window works through its engine.
  const env = { ...api.env, CHANGEOVER_DATA_DIR: home.path, CHANGEOVER_NO_SHELL: '1' };
  const { stdout } = await promisify(execFile)(changeover, ['thread', 'list', '--json'], { env });
  assert.equal(JSON.parse(stdout).threads[0].id, thread.id);
  await promisify(execFile)(changeover, ['thread', 'rename', thread.id, 'Webhooks sent twice'], { env });
  await until('the new title in the window', async () => (await window.run('return document.body.textContent')).includes('Webhooks sent twice'));
  await window.screenshot('changeover-light.png');
});
