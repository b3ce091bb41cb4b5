import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The program under test; without one, on a developer's machine, tests of the engine are skipped. */
export const program = process.env.CHANGEOVER_BIN;
export const skipped = !program && !process.env.CI;
export const why = 'CHANGEOVER_BIN names no program: `./dev test web` builds it and says where it is';

/** An engine with a home and a data folder of its own. */
export class Serving {
  readonly root = mkdtempSync(join(tmpdir(), 'changeover-web-'));
  readonly project = join(this.root, 'parcel-api');
  readonly data = join(this.root, 'data');
  private child?: ChildProcess;

  constructor(private readonly path = '/usr/local/bin:/usr/bin:/bin') {}

  /** The whole environment: what a person's session gives, and nothing of this one's. */
  env(): Record<string, string> {
    return {
      HOME: join(this.root, 'home'),
      XDG_RUNTIME_DIR: join(this.root, 'run'),
      PATH: this.path,
      SHELL: '/bin/sh',
    };
  }

  /** Starts it and returns the address with its one-time code. */
  async start(): Promise<string> {
    for (const folder of ['home', 'run', 'parcel-api']) mkdirSync(join(this.root, folder), { recursive: true });
    const child = spawn(program as string, ['serve', '--data', this.data], { env: this.env() });
    this.child = child;
    return new Promise((resolve, reject) => {
      let said = '';
      const hear = (chunk: Buffer) => {
        said += String(chunk);
        const address = /http:\/\/127\.0\.0\.1:\d+\/#code=[0-9a-f]+/.exec(said)?.[0];
        if (address) resolve(address);
      };
      child.stdout?.on('data', hear);
      child.stderr?.on('data', hear);
      child.once('exit', (code) => reject(new Error(`changeover serve ended (${code}): ${said}`)));
    });
  }

  async stop(how: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(how);
    await ended;
  }

  async end(): Promise<void> {
    await this.stop();
    rmSync(this.root, { recursive: true, force: true });
  }
}
