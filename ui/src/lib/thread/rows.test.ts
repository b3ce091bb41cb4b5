import { describe, expect, it } from 'vitest';
import type { Message, Part, TransitionKind } from '../api/gen';
import { fromRead, type ThreadState } from './reduce';
import { RowMemory, rowsOf } from './rows';

const target = { provider: 'claude', model: null, effort: null, mode: 'ask' as const };
function message(seq: number, role: Message['role'], provider: string | null, more: Partial<Message> = {}): Message {
  return {
    id: `m${seq}`,
    seq,
    role,
    state: 'done',
    provider,
    model: null,
    session: null,
    createdAt: 0,
    endedAt: 1,
    pinned: false,
    excluded: false,
    parts: [],
    notice: null,
    ...more,
  };
}
const takeover = (seq: number, provider: string, from: string | null, kind: TransitionKind = 'handoff') =>
  message(seq, 'system', null, {
    notice: {
      type: 'handover',
      provider,
      model: null,
      from,
      kind,
      told: [],
      leftOut: [],
      messagesTold: 1,
      messagesTotal: 1,
      commandsTold: 0,
      commandsTotal: 0,
      used: 0,
      budget: 1,
      bytes: 0,
      hash: '',
      items: [],
    },
  });
const part = (key: string, body: Part['body'], superseded = false): Part => ({ key, superseded, body });
const said = (key: string) => part(key, { type: 'text', text: key });
const ran = (key: string) => part(key, { type: 'command', command: key, status: 'completed', exitCode: 0, output: '' });

function state(messages: Message[], more: Partial<ThreadState> = {}): ThreadState {
  const thread = {
    id: 't',
    projectId: 'p',
    title: '',
    target,
    lastSeq: 9,
    seenSeq: 9,
    mark: 'idle' as const,
    createdAt: 0,
    updatedAt: 0,
    archived: false,
    pinned: false,
    parentThreadId: null,
  };
  return {
    ...fromRead({
      thread,
      messages,
      hasBefore: false,
      cuts: [],
      hasAfter: false,
      turn: null,
      queue: [],
      approvals: [],
      sessions: [],
      draft: '',
      event: 1,
    }),
    ...more,
  };
}
const shape = (s: ThreadState) => rowsOf(s, new RowMemory()).map((row) => [row.kind, row.who, row.lane]);

describe('rows', () => {
  it('a changeover swaps the lane, stands after the message that asked, and the message stays with who had it', () => {
    const two = state([
      message(1, 'user', 'claude'),
      message(2, 'assistant', 'claude', { parts: [said('a')] }),
      message(3, 'user', 'codex'),
      takeover(4, 'codex', 'claude'),
      message(5, 'assistant', 'codex', { parts: [said('b')] }),
      message(6, 'user', 'claude'),
      takeover(7, 'claude', 'codex', 'delta'),
      message(8, 'assistant', 'claude', { parts: [said('c')] }),
    ]);
    expect(shape(two)).toEqual([
      ['user', 'claude', 0],
      ['head', 'claude', 0],
      ['text', 'claude', 0],
      ['user', 'claude', 0],
      ['divider', 'codex', 1],
      ['head', 'codex', 1],
      ['text', 'codex', 1],
      ['user', 'codex', 1],
      ['divider', 'claude', 0],
      ['head', 'claude', 0],
      ['text', 'claude', 0],
    ]);
  });

  it('work in a row is one stack; prose parts it; what was begun again is folded before its second try', () => {
    const reply = message(2, 'assistant', 'claude', {
      parts: [ran('1'), ran('2'), said('a'), part('x', { type: 'text', text: 'cut' }, true), said('b'), ran('3')],
    });
    const rows = rowsOf(state([message(1, 'user', 'claude'), reply]), new RowMemory());
    expect(
      rows.map((row) => [
        row.kind,
        'parts' in row ? row.parts.map((one) => one.key) : 'part' in row ? row.part.key : null,
      ]),
    ).toEqual([
      ['user', null],
      ['head', null],
      ['work', ['1', '2']],
      ['text', 'a'],
      ['superseded', ['x']],
      ['text', 'b'],
      ['work', ['3']],
    ]);
  });

  it('rows of messages that did not change are the same objects', () => {
    const memory = new RowMemory();
    const [first, second] = [
      message(1, 'user', 'claude'),
      message(2, 'assistant', 'claude', { state: 'open', parts: [said('a')] }),
    ];
    const before = rowsOf(state([first, second]), memory);
    const after = rowsOf(state([first, { ...second, parts: [said('a'), said('b')] }]), memory);
    expect(after[0]).toBe(before[0]);
    expect(after).toHaveLength(before.length + 1);
  });

  it('an open turn without a reply says who is starting; open approvals stand at the end; the newest error has the message to send again', () => {
    const turn = {
      id: 'turn',
      messageId: 'm1',
      target,
      phase: 'preparing' as const,
      startedAt: 0,
      attempt: 1,
      retry: null,
    };
    const approval = {
      id: 'a',
      turn: 'turn',
      request: { key: 'k', item: null, subject: { type: 'command' as const, command: 'ls', cwd: null }, reason: null },
      state: 'open' as const,
      askedAt: 0,
      settledAt: null,
    };
    expect(shape(state([message(1, 'user', 'claude')], { turn, approvals: [approval] })).map(([kind]) => kind)).toEqual(
      ['user', 'starting', 'approval'],
    );
    const error = message(2, 'system', null, {
      notice: {
        type: 'error',
        provider: 'claude',
        failure: { kind: 'notLoggedIn', message: 'no', hint: null, retryAt: null },
      },
    });
    const row = rowsOf(state([message(1, 'user', 'claude', { state: 'notAnswered' }), error]), new RowMemory()).at(-1);
    expect(row).toMatchObject({ kind: 'error', last: true, again: { id: 'm1' } });
    const older = rowsOf(
      state([message(1, 'user', 'claude'), error, message(3, 'user', 'claude')]),
      new RowMemory(),
    )[1];
    expect(older).toMatchObject({ kind: 'error', last: false });
  });

  it('a message that was not answered and has no error can be sent again', () => {
    expect(shape(state([message(1, 'user', 'claude', { state: 'notAnswered' })])).map(([kind]) => kind)).toEqual([
      'user',
      'unanswered',
    ]);
    expect(shape(state([message(1, 'user', 'claude')])).map(([kind]) => kind)).toEqual(['user']);
  });
});
