// The window opens, shows the page that is inside the app and nothing else, and there is one of it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { after, before, test } from 'node:test';
import { Window, colours, desktop, folder, photograph, until } from './driver.mjs';

let window, home;
before(async () => {
  home = folder('window');
  window = await Window.open({ env: { CHANGEOVER_DATA_DIR: home.path } });
}, { timeout: 120_000 });
after(async () => {
  await window?.close();
  home?.remove();
});

test('the page inside the app is shown', { timeout: 150_000 }, async () => {
  assert.equal(await window.run('return location.protocol'), 'tauri:');
  assert.match(await window.run('return document.title'), /Changeover/);
  await window.find('[data-testid=starter-practice]', 60_000);
  await window.screenshot('window-opens.png');
  await until('the screen to show it', () => colours(photograph('window-opens-screen.png')) > 16, 60_000);
});

test('the page has its line to the engine, and an error keeps its code on the way', { timeout: 60_000 }, async () => {
  const call = (method, params) => window.wait('return window.__TAURI_INTERNALS__.invoke("rpc", { method: args[0], params: args[1] })', method, params);
  const { value: info } = await call('app/info', {});
  assert.equal(info.window, true);
  assert.equal(info.dataFolder, home.path);
  const { refused } = await call('no/such', {});
  assert.equal(refused.code, 'badRequest');
  assert.equal(refused.retryable, false);
});

test('no script from elsewhere, no eval, no network, no global Tauri object', { timeout: 60_000 }, async () => {
  assert.equal(await window.run('return typeof window.__TAURI__'), 'undefined');
  const blocked = await window.wait(`
    const seen = [];
    document.addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
    const script = document.createElement('script');
    script.textContent = 'window.injected = true';
    document.head.append(script);
    try { (0, eval)('window.evaluated = true'); } catch {}
    await fetch('http://127.0.0.1:9/').catch(() => {});
    await new Promise((done) => setTimeout(done, 0));
    return { injected: window.injected ?? false, evaluated: window.evaluated ?? false, seen };
  `);
  assert.equal(blocked.value.injected, false);
  assert.equal(blocked.value.evaluated, false);
  assert.ok(blocked.value.seen.includes('connect-src'), `the network was not refused: ${blocked.value.seen}`);
});

test('a second start brings the open window forward and ends well', { timeout: 60_000 }, async () => {
  const second = spawn(desktop, [], { stdio: 'inherit', env: { ...process.env, CHANGEOVER_DATA_DIR: home.path } });
  const code = await new Promise((done, failed) => second.once('error', failed).once('exit', done));
  assert.equal(code, 0);
  assert.match(await window.run('return document.title'), /Changeover/);
});
