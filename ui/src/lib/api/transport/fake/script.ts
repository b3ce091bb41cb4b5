/**
 * What the fake agents do, by plain rules on what they are asked:
 * `run`: commands · `approve` or `approve: COMMAND`: asks first · `edit`: asks to change a file · `fail`: stops in the middle · `refuse`: never takes it ·
 * `slow`: a long reply · `gone`: the session is gone · anything else: says a few words back.
 */
import type { Message, Target } from '../../gen';
import { command, id, message, part, text } from './data';
import type { FakeEngine, Live } from './engine';

const ANSWER = `Here is what I would do, in order:

1. Read the failing test and say **what it proves**.
2. Change the one place that is wrong.
3. Run the whole suite.

\`\`\`ts
export function lease(ms: number): Date {
  return new Date(Date.now() + ms);
}
\`\`\`

| step | state |
| --- | --- |
| read | done |
| change | next |

Nothing else is touched.`;

export async function play(
  engine: FakeEngine,
  thread: Live,
  goOn: Message | null,
  asked: string,
  one?: Message,
  to?: Target,
): Promise<void> {
  let stopped = false;
  let wake: (() => void) | null = null;
  thread.stop = () => {
    stopped = true;
    wake?.();
  };
  const pause = () =>
    new Promise<void>((resolve) => {
      wake = resolve;
      setTimeout(resolve, engine.pace);
    });
  const phase = (next: NonNullable<Live['turn']>['phase']) => {
    if (!thread.turn) return;
    thread.turn = { ...thread.turn, phase: next };
    engine.tell(thread, { type: 'turn', turn: thread.turn });
  };
  const end = (reply: Message, state: Message['state']) => {
    const done = engine.put(thread, {
      ...(thread.messages.find((other) => other.id === reply.id) ?? reply),
      state,
      endedAt: Date.now(),
    });
    engine.tell(thread, {
      type: 'messageState',
      messageId: done.id,
      state,
      endedAt: done.endedAt,
      provider: done.provider,
    });
    finish(state === 'done' ? 'idle' : 'failed');
  };
  const finish = (mark: 'idle' | 'failed') => {
    thread.turn = null;
    thread.stop = null;
    engine.tell(thread, { type: 'turn', turn: null }, { type: 'sessions', sessions: engine.sessions(thread) });
    engine.touch(thread, { mark });
    if (mark === 'idle') engine.goOn(thread);
  };
  const grow = async (reply: Message, words: string) => {
    let current = thread.messages.find((other) => other.id === reply.id) ?? reply;
    const piece = text('');
    current = engine.put(thread, { ...current, parts: [...current.parts, piece] });
    engine.tell(thread, { type: 'part', messageId: reply.id, part: piece });
    for (const word of words.match(/\S+\s*/g) ?? []) {
      if (stopped) return;
      await pause();
      const body = current.parts.at(-1)?.body;
      if (body?.type !== 'text') return;
      const longer = { ...piece, body: { ...body, text: body.text + word } };
      current = engine.put(thread, { ...current, parts: [...current.parts.slice(0, -1), longer] });
      engine.tell(thread, { type: 'text', messageId: reply.id, key: piece.key, text: word });
    }
  };
  const add = (reply: Message, made: ReturnType<typeof part>) => {
    const current = thread.messages.find((other) => other.id === reply.id) ?? reply;
    engine.put(thread, { ...current, parts: [...current.parts.filter((other) => other.key !== made.key), made] });
    engine.tell(thread, { type: 'part', messageId: reply.id, part: made });
  };
  const fail = (
    provider: string,
    failure: { kind: 'notLoggedIn' | 'unavailable'; message: string; hint: string | null },
  ) => {
    const notice = engine.put(
      thread,
      message('system', (thread.messages.at(-1)?.seq ?? 0) + 1, Date.now(), {
        notice: { type: 'error', provider, failure: { ...failure, retryAt: null } },
      }),
    );
    engine.tell(thread, { type: 'message', message: notice });
  };

  if (goOn) {
    await grow(goOn, asked);
    return end(goOn, stopped ? 'interrupted' : 'done');
  }
  if (!one || !to) return;
  const low = asked.toLowerCase();
  await pause();
  const seen = thread.texts.get(`refused ${one.id}`);
  if (low.includes('refuse') && seen === undefined) {
    thread.texts.set(`refused ${one.id}`, '');
    engine.put(thread, { ...one, state: 'notAnswered' });
    engine.tell(thread, {
      type: 'messageState',
      messageId: one.id,
      state: 'notAnswered',
      endedAt: null,
      provider: to.provider,
    });
    fail(to.provider, {
      kind: 'notLoggedIn',
      message: 'Not logged in · Please run /login',
      hint: 'Run `claude` in a terminal and log in, then send it again.',
    });
    return finish('failed');
  }
  phase('sent');
  await pause();
  await engine.handOver(thread, one, to);
  const reply = engine.put(
    thread,
    message('assistant', (thread.messages.at(-1)?.seq ?? 0) + 1, Date.now(), {
      provider: to.provider,
      model:
        to.model ??
        engine.providers.find((other) => other.id === to.provider)?.models.find((other) => other.default)?.id ??
        null,
      state: 'open',
      endedAt: null,
    }),
  );
  engine.tell(thread, { type: 'message', message: reply });
  phase('streaming');
  if (low.includes('think')) add(reply, part({ type: 'reasoning', text: 'First the test, then the lease.' }));
  if (low.includes('run')) {
    const key = id('part');
    add(reply, { ...command('pnpm vitest run', null, ''), key });
    await pause();
    add(reply, { ...command('pnpm vitest run', 1, ' FAIL  tests/limits.spec.ts\n1 failed | 23 passed (24)\n'), key });
    add(reply, command('git status --short', 0, ''));
  }
  if (low.includes('approve') || low.includes('edit')) {
    const key = id('part');
    const wanted = asked.split('approve: ')[1] ?? 'rm -rf build';
    add(reply, { ...command(wanted, null, ''), key });
    phase('waiting');
    engine.touch(thread, { mark: 'waiting' });
    const decision = await new Promise<string>((resolve) => {
      const current = thread.messages.find((other) => other.id === reply.id) ?? reply;
      if (low.includes('edit'))
        engine.ask(
          thread,
          current,
          {
            type: 'edit',
            files: [{ path: 'src/a.ts', diff: '@@ -1,2 +1,2 @@\n-const a = 1;\n+const a = 2;\n export { a };\n' }],
          },
          null,
          resolve,
        );
      else
        engine.ask(
          thread,
          current,
          { type: 'command', command: wanted, cwd: '/home/ana/code/parcel-api' },
          'The old build is in the way.',
          resolve,
        );
    });
    if (decision === 'deny')
      add(reply, {
        ...part({ type: 'command', command: wanted, status: 'declined', exitCode: null, output: '' }),
        key,
      });
    else add(reply, { ...command(wanted, 0, ''), key });
  }
  const words = low.includes('slow')
    ? `${ANSWER}\n\n${'More of the same, slowly. '.repeat(60)}`
    : low.includes('say ')
      ? asked.slice(low.indexOf('say ') + 4)
      : low.includes('fail')
        ? 'The bucket refills per key, so a burst from one key cannot starve another. Next I'
        : ANSWER;
  await grow(reply, words);
  thread.context.set(to.provider, (thread.context.get(to.provider) ?? 12_000) + 1_800);
  thread.known.set(to.provider, thread.messages.at(-1)?.seq ?? 0);
  if (low.includes('fail') && !stopped) {
    const cut = engine.put(thread, {
      ...(thread.messages.find((other) => other.id === reply.id) ?? reply),
      state: 'failed',
      endedAt: Date.now(),
    });
    engine.tell(thread, {
      type: 'messageState',
      messageId: cut.id,
      state: 'failed',
      endedAt: cut.endedAt,
      provider: cut.provider,
    });
    fail(to.provider, { kind: 'unavailable', message: '529, overloaded. Tried 3 times in 41 s.', hint: null });
    return finish('failed');
  }
  end(reply, stopped ? 'interrupted' : 'done');
}
