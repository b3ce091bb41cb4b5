import { beforeEach, describe, expect, it, vi } from 'vitest';

const asked: { method: string; give(answer: unknown): void; fail(error: unknown): void }[] = [];

vi.mock('@tauri-apps/api/core', () => ({
  Channel: class {
    onmessage?: (message: unknown) => void;
  },
  invoke: (_: string, { method }: { method: string }) =>
    new Promise((give, fail) => void asked.push({ method, give, fail })),
}));
vi.mock('@tauri-apps/api/window', () => ({ getCurrentWindow: () => ({}) }));
vi.mock('@tauri-apps/plugin-dialog', () => ({}));
vi.mock('@tauri-apps/plugin-notification', () => ({}));
vi.mock('@tauri-apps/plugin-opener', () => ({}));

const { tauriTransport } = await import('./tauri');

describe('the line inside the window', () => {
  beforeEach(() => {
    asked.length = 0;
    vi.useFakeTimers();
    return () => vi.useRealTimers();
  });

  const methods = () => asked.map((one) => one.method);

  it('asks for nothing before its channel is open', async () => {
    const line = tauriTransport();
    const states: string[] = [];
    const list = line.call('project/list', {});
    line.connect({ events: () => {}, line: (state) => void states.push(state) });
    await vi.advanceTimersByTimeAsync(0);
    expect(methods()).toEqual(['event/watch']);
    asked[0]?.fail({ code: 'refused', message: 'not yet', retryable: true });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(methods()).toEqual(['event/watch', 'event/watch']);
    asked[1]?.give({});
    await vi.advanceTimersByTimeAsync(0);
    expect(states).toEqual(['away', 'open']);
    expect(methods()).toEqual(['event/watch', 'event/watch', 'project/list']);
    asked[2]?.give({ projects: [] });
    expect(await list).toEqual({ projects: [] });
  });
});
