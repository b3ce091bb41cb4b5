import { beforeEach, describe, expect, it } from 'vitest';
import { onEvents, open } from '../api/client.svelte';
import type { Event, ThreadSummary } from '../api/gen';
import type { Listener, Transport } from '../api/transport/transport';
import { hearProviders, loadProviders, provider } from '../runtime/providers.svelte';
import { hearProjects, loadProjects, threadSummary } from './projects.svelte';

const thread = (title: string) => ({ id: 't', projectId: 'p', title }) as ThreadSummary;
const event = (body: Event['body']): Event => ({ threadId: null, n: 0, body });

describe('lists that are read while something happens', () => {
  let listener: Listener;
  let answers: { method: string; give(answer: unknown): void }[];

  beforeEach(() => {
    answers = [];
    open({
      connect: (to) => void (listener = to),
      call: (method) => new Promise((resolve) => void answers.push({ method, give: resolve as () => void })),
    } as Partial<Transport> as Transport);
    listener.line('open');
  });

  const give = (method: string, answer: unknown) => answers.find((one) => one.method === method)?.give(answer);

  it('keeps what an event said that overtook the answer', async () => {
    const stop = onEvents(hearProjects);
    const loaded = loadProjects();
    listener.events([event({ type: 'thread', thread: thread('newer') })]);
    give('project/list', { projects: [] });
    give('thread/list', { threads: [thread('older')] });
    await loaded;
    expect(threadSummary('t')?.title).toBe('newer');
    stop();
  });

  it('takes the answer where nothing was said meanwhile', async () => {
    const stop = onEvents(hearProjects);
    listener.events([event({ type: 'thread', thread: thread('before') })]);
    const loaded = loadProjects();
    give('project/list', { projects: [] });
    give('thread/list', { threads: [thread('answer')] });
    await loaded;
    expect(threadSummary('t')?.title).toBe('answer');
    stop();
  });

  it('does the same for the providers', async () => {
    const view = (state: string) => ({ id: 'claude', state }) as never;
    const stop = onEvents(hearProviders);
    const loaded = loadProviders();
    listener.events([event({ type: 'providers', providers: [view('ready')] })]);
    give('provider/list', { providers: [view('looking')] });
    await loaded;
    expect(provider('claude')?.state).toBe('ready');
    stop();
  });
});
