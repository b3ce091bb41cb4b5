// The real window over WebDriver: WebKitWebDriver itself, no library between. Linux only, on a display.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
const elementKey = 'element-6066-11e4-a52e-4f735466cecf';
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** The app under test, built by ./dev. */
export const desktop = process.env.CHANGEOVER_DESKTOP_BIN ?? join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'debug/changeover-desktop');

/** Where pictures go; not kept by git. */
export const output = join(root, 'tests/output');

/** Asks again until the answer is truthy and gives it; an element that is not there yet counts as "not yet". */
export async function until(what, ask, ms = 15_000) {
  const end = Date.now() + ms;
  for (;;) {
    let last;
    try {
      const answer = await ask();
      if (answer) return answer;
    } catch (error) {
      if (!['no such element', 'stale element reference'].includes(error.code)) throw error;
      last = error;
    }
    if (Date.now() > end) throw new Error(`gave up after ${ms} ms waiting for: ${what}`, { cause: last });
    await pause(30);
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((done, failed) => server.once('error', failed).listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** A folder that goes with the test. */
export function folder(name) {
  const path = mkdtempSync(join(tmpdir(), `changeover-${name}-`));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export class Window {
  #driver;
  #base;
  #session;
  #id;

  /** Starts the app with these variables on top of the environment and waits until WebDriver has its page. */
  static async open({ env = {}, args = [], binary = desktop } = {}) {
    const window = new Window();
    const port = await freePort();
    window.#base = `http://127.0.0.1:${port}`;
    // The driver hands its own environment to the app; without the variable the app does not let itself be driven.
    window.#driver = spawn('WebKitWebDriver', [`--port=${port}`, '--host=127.0.0.1'], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, ...env, TAURI_WEBVIEW_AUTOMATION: 'true' },
    });
    const died = new Promise((_, failed) => {
      window.#driver.once('error', failed);
      window.#driver.once('exit', (code) => failed(new Error(`WebKitWebDriver ended with ${code}`)));
    });
    died.catch(() => {});
    try {
      await Promise.race([died, until('the driver', () => window.#call('GET', '/status').then(() => true, () => false))]);
      const capabilities = { alwaysMatch: { 'webkitgtk:browserOptions': { binary, args } } };
      window.#id = (await Promise.race([died, window.#call('POST', '/session', { capabilities }, 60_000)])).sessionId;
      window.#session = `/session/${window.#id}`;
      await until('the page', () => window.run('return document.readyState === "complete"'));
    } catch (error) {
      await window.close();
      throw error;
    }
    return window;
  }

  async #call(method, path, body, ms = 20_000) {
    const answer = await fetch(this.#base + path, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(ms),
    });
    const { value } = await answer.json();
    if (value?.error) throw Object.assign(new Error(`${value.error}: ${value.message}`), { code: value.error });
    return value;
  }

  /** The first element for a CSS selector, as WebDriver's id; waits for it. */
  async find(css, ms) {
    return until(css, async () => (await this.#call('POST', `${this.#session}/element`, { using: 'css selector', value: css }))[elementKey], ms);
  }

  /** Whether an element is there now. */
  async has(css) {
    return (await this.#call('POST', `${this.#session}/elements`, { using: 'css selector', value: css })).length > 0;
  }

  async click(css) {
    await this.#call('POST', `${this.#session}/element/${await this.find(css)}/click`, {});
  }

  /** Types into an element as a person would. "\uE007" is Enter, "\uE008" Shift. */
  async type(css, text) {
    await this.#call('POST', `${this.#session}/element/${await this.find(css)}/value`, { text });
  }

  /** The text of an element as it is shown. */
  async text(css) {
    return this.#call('GET', `${this.#session}/element/${await this.find(css)}/text`);
  }

  /** Runs script text in the page and gives what it returns. */
  async run(script, ...args) {
    return this.#call('POST', `${this.#session}/execute/sync`, { script, args });
  }

  /** The same for a script that ends with a promise: it is awaited, and a refusal comes back as `{ refused }`. */
  async wait(script, ...args) {
    return this.#call('POST', `${this.#session}/execute/async`, {
      script: `const done = arguments[arguments.length - 1];
        (async (...args) => { ${script} })(...Array.from(arguments).slice(0, -1))
          .then((value) => done({ value }), (error) => done({ refused: error instanceof Error ? String(error) : error }));`,
      args,
    });
  }

  /** A picture of the page. */
  async screenshot(name) {
    mkdirSync(output, { recursive: true });
    const path = join(output, name);
    writeFileSync(path, Buffer.from(await this.#call('GET', `${this.#session}/screenshot`), 'base64'));
    return path;
  }

  /** Ends the app and the driver. Does nothing the second time. */
  async close() {
    if (this.#id) await this.#call('DELETE', this.#session).catch(() => {});
    this.#id = undefined;
    const driver = this.#driver;
    this.#driver = undefined;
    if (!driver || driver.exitCode !== null || driver.signalCode !== null) return;
    const ended = new Promise((done) => driver.once('exit', done));
    driver.kill();
    await ended;
  }
}

/** A picture of the whole screen, dialogs and all. */
export function photograph(name) {
  mkdirSync(output, { recursive: true });
  const path = join(output, name);
  execFileSync('import', ['-window', 'root', path]);
  return path;
}

/** How many colours a picture has: one that shows nothing has very few. */
export function colours(path) {
  return Number(execFileSync('identify', ['-format', '%k', path], { encoding: 'utf8' }));
}

/** Types a path into the open folder dialog and accepts it. WebDriver does not reach a native dialog; keys of the X server do. */
export async function pickFolder(title, path) {
  const key = (...keys) => execFileSync('xdotool', keys);
  const dialog = await until(`the dialog "${title}"`, () => {
    try {
      return execFileSync('xdotool', ['search', '--onlyvisible', '--name', `^${title}$`], { encoding: 'utf8' }).trim().split('\n')[0];
    } catch {
      return '';
    }
  });
  key('windowfocus', '--sync', dialog);
  // The first "/" opens the dialog's line for a path, and what follows too fast is lost: so the path is typed over it whole.
  key('type', '--delay', '60', '/');
  key('key', '--delay', '60', 'ctrl+a');
  key('type', '--delay', '20', path);
  key('key', '--delay', '60', 'Return');
}
