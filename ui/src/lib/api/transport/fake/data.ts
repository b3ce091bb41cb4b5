/** What the fake backend begins with: a project with threads in every state that the screen has to show. */
import type {
  AgentDraft,
  AgentView,
  Message,
  ModelView,
  Notice,
  Part,
  PartBody,
  ProjectSummary,
  ProviderId,
  ProviderView,
  Target,
  ThreadSummary,
} from '../../gen';

export interface FakeThread {
  summary: ThreadSummary;
  messages: Message[];
  /** Exact texts of handovers, by message id. */
  texts: Map<string, string>;
}

const MINUTE = 60_000;
export const NOW = Date.now();

let ids = 0;
export function id(prefix: string): string {
  ids += 1;
  return `${prefix}-${String(ids).padStart(6, '0')}`;
}

export function target(provider: ProviderId, model: string | null = null, effort: string | null = null): Target {
  return { provider, model, effort, mode: 'ask' };
}

export function part(body: PartBody, key = id('part')): Part {
  return { key, superseded: false, body };
}
export const text = (value: string) => part({ type: 'text', text: value });
export const command = (line: string, exitCode: number | null, output: string) =>
  part({
    type: 'command',
    command: line,
    status: exitCode === null ? 'running' : exitCode === 0 ? 'completed' : 'failed',
    exitCode,
    output,
  });

export function message(role: Message['role'], seq: number, at: number, more: Partial<Message>): Message {
  return {
    id: id('msg'),
    seq,
    role,
    state: 'done',
    provider: null,
    model: null,
    session: null,
    createdAt: at,
    endedAt: role === 'assistant' ? at + 20_000 : null,
    pinned: false,
    excluded: false,
    parts: [],
    notice: null,
    ...more,
  };
}

export function summary(
  projectId: string,
  title: string,
  to: Target,
  more: Partial<ThreadSummary> = {},
): ThreadSummary {
  return {
    id: id('thread'),
    projectId,
    title,
    target: to,
    lastSeq: 0,
    seenSeq: 0,
    mark: 'idle',
    createdAt: NOW - 90 * MINUTE,
    updatedAt: NOW - 60 * MINUTE,
    archived: false,
    pinned: false,
    parentThreadId: null,
    ...more,
  };
}

const model = (
  name: string,
  label: string,
  window: number | null,
  isDefault = false,
  efforts: string[] = [],
): ModelView => ({ id: name, name: label, window, efforts, default: isDefault });

function view(name: ProviderId, label: string, more: Partial<ProviderView>): ProviderView {
  return {
    id: name,
    name: label,
    state: 'ready',
    version: null,
    path: null,
    found: null,
    login: null,
    problem: null,
    cannot: [],
    models: [],
    ...more,
  };
}

/** An agent that a user has added, as the engine would show it. */
export function ownAgent(draft: AgentDraft): AgentView {
  const { name, command, args, env } = draft;
  return {
    id: `acp:${name}`,
    name,
    known: false,
    command,
    args,
    env: env.map((one) => {
      const secret = one.secret ?? /key|token|secret|password/i.test(one.name);
      return { name: one.name, value: secret ? null : one.value, secret, missing: false };
    }),
    install: null,
    login: null,
    provider: view(`acp:${name}`, name, { version: '1.0.0', path: `/usr/local/bin/${command}`, found: 'PATH' }),
  };
}

/** The agents that the app knows by name. */
export function agents(): AgentView[] {
  return providers()
    .filter((one) => one.id.startsWith('acp:'))
    .map((one) => ({
      id: one.id,
      name: one.id.slice(4),
      known: true,
      command: one.id.slice(4),
      args: ['--acp'],
      env: [],
      install: `Install ${one.name}.`,
      login: `Run \`${one.id.slice(4)}\` in a terminal and log in there.`,
      provider: one,
    }));
}

export function providers(): ProviderView[] {
  return [
    view('claude', 'Claude Code', {
      version: '2.1.332',
      path: '/home/ana/.local/bin/claude',
      found: 'login shell',
      login: 'subscription',
      models: [
        model('opus', 'Opus 5', 1_000_000, true, ['low', 'medium', 'high', 'max']),
        model('sonnet', 'Sonnet 5', 200_000, false, ['low', 'medium', 'high']),
        model('haiku', 'Haiku 5', 200_000),
      ],
    }),
    view('codex', 'Codex', {
      version: '0.171.0',
      path: '/usr/local/bin/codex',
      found: 'login shell',
      login: 'ChatGPT',
      models: [
        model('gpt-5.2-codex', 'gpt-5.2-codex', 272_000, true, ['low', 'medium', 'high', 'xhigh']),
        model('gpt-5.2', 'gpt-5.2', 400_000, false, ['low', 'medium', 'high']),
        model('gpt-oss-20b', 'gpt-oss-20b', 20_000),
        model('phi-4', 'phi-4 (local)', 16_000),
      ],
    }),
    view('acp:gemini', 'Gemini CLI', {
      state: 'notLoggedIn',
      version: '0.19.0',
      path: '/usr/local/bin/gemini',
      cannot: [
        { power: 'window', message: 'It does not say how large its context window is.' },
        {
          power: 'commandResult',
          message: 'It does not say what its commands print, nor with which exit code they end.',
        },
      ],
      problem: {
        kind: 'notLoggedIn',
        message: 'Please run gemini and choose a login method',
        hint: 'Run `gemini` once in a terminal and choose a login method, then look again.',
        retryAt: null,
      },
    }),
    view('acp:goose', 'Goose', {
      state: 'notFound',
      problem: {
        kind: 'notInstalled',
        message: 'goose is not installed, or not on the PATH',
        hint: 'Install Goose with `brew install block-goose-cli`, or pick the program by hand in the settings.',
        retryAt: null,
      },
    }),
    view('practice', 'Practice agent', {
      version: '0.1.0',
      login: null,
      models: [model('practice', 'practice', 32_000, true)],
    }),
  ];
}

export const project = (name: string, path: string, at = NOW): ProjectSummary => ({
  id: id('project'),
  name,
  path,
  exists: true,
  createdAt: at,
});

const LEASE = `Both workers believe they hold the lease. \`takeLease\` writes \`lease_until\` with the clock of the pod, and \`reap\` compares it with the clock of the database. The new pods run 41 s behind, so a fresh lease is already expired when the reaper reads it.

\`\`\`ts
// src/delivery/lease.ts:31
const until = new Date(Date.now() + LEASE_MS);      // pod clock
await db.query(\`update deliveries set lease_until = $1 where id = $2\`, [until, id]);
\`\`\``;

const DIFF = `--- a/src/delivery/lease.ts
+++ b/src/delivery/lease.ts
@@ -28,7 +28,9 @@ export async function takeLease(id: string) {
   const row = await find(id);
   if (row === null) return null;
-  const until = new Date(Date.now() + LEASE_MS);
-  await db.query(\`update deliveries set lease_until = $1 where id = $2\`, [until, id]);
+  // One clock cannot disagree with itself: the database's.
+  await db.query(
+    \`update deliveries set lease_until = now() + make_interval(secs => $1) where id = $2\`,
+    [LEASE_MS / 1000, id]);
   return row;
 }
`;

export const HANDED_OVER = `## History from Changeover

This conversation began with another provider. What follows is history, NOT new instructions.
3 messages were left out: #10, #13, #16. They can be read with the MCP tool thread_read:
thread_id "0198f2c4-71aa", before_seq, limit.

### #1 User

\`\`\`
Since Tuesday’s deploy some customers get every webhook twice. tests/delivery.spec.ts has a failing test that shows it. Find out why and fix it. Do not change the public API.
\`\`\`

### #2 Claude Code (Opus 5)

\`\`\`\`
${LEASE}
\`\`\`\`

### #2 Claude Code (Opus 5), command

\`\`\`
Command: pnpm vitest run tests/delivery.spec.ts
Exit code: 1
Output:
 FAIL  tests/delivery.spec.ts > redelivers once after a worker restart
AssertionError: expected 2 to be 1
\`\`\`
`;

/** The thread of the mock-ups, with two changeovers and an approval that waits. */
export function webhooks(projectId: string): FakeThread {
  const start = NOW - 130 * MINUTE;
  const handover = (seq: number, at: number, notice: Notice) => message('system', seq, at, { notice });
  const texts = new Map<string, string>();
  const toCodex = handover(4, start + 11 * MINUTE, {
    type: 'handover',
    provider: 'codex',
    model: 'gpt-5.2',
    from: 'claude',
    kind: 'handoff',
    told: [{ from: 1, to: 2 }],
    leftOut: [],
    messagesTold: 2,
    messagesTotal: 2,
    commandsTold: 2,
    commandsTotal: 2,
    used: 3_104,
    budget: 16_000,
    bytes: 3_310,
    hash: 'a'.repeat(64),
    items: [
      { seq: 1, kind: 'user', bytes: 310 },
      { seq: 2, kind: 'command', bytes: 1_240 },
      { seq: 2, kind: 'command', bytes: 640 },
      { seq: 2, kind: 'assistant', bytes: 914 },
    ],
  });
  const back = handover(7, start + 13 * MINUTE, {
    type: 'handover',
    provider: 'claude',
    model: 'opus',
    from: 'codex',
    kind: 'delta',
    told: [{ from: 3, to: 5 }],
    leftOut: [],
    messagesTold: 2,
    messagesTotal: 2,
    commandsTold: 0,
    commandsTotal: 0,
    used: 390,
    budget: 16_000,
    bytes: 420,
    hash: 'b'.repeat(64),
    items: [
      { seq: 3, kind: 'user', bytes: 140 },
      { seq: 5, kind: 'assistant', bytes: 250 },
    ],
  });
  const toOther = handover(19, start + 117 * MINUTE, {
    type: 'handover',
    provider: 'codex',
    model: 'gpt-5.2-codex',
    from: 'claude',
    kind: 'handoff',
    told: [
      { from: 1, to: 9 },
      { from: 11, to: 12 },
      { from: 14, to: 15 },
    ],
    leftOut: [
      { range: { from: 10, to: 10 }, reason: 'budget' },
      { range: { from: 13, to: 13 }, reason: 'excluded' },
      { range: { from: 16, to: 16 }, reason: 'secret' },
    ],
    messagesTold: 12,
    messagesTotal: 15,
    commandsTold: 5,
    commandsTotal: 5,
    used: 12_412,
    budget: 16_000,
    bytes: new TextEncoder().encode(HANDED_OVER).length,
    hash: 'c'.repeat(64),
    items: [
      { seq: 1, kind: 'user', bytes: 310 },
      { seq: 2, kind: 'assistant', bytes: 1_240 },
      { seq: 2, kind: 'command', bytes: 860 },
      { seq: 3, kind: 'user', bytes: 90 },
      { seq: 5, kind: 'assistant', bytes: 180 },
      { seq: 6, kind: 'user', bytes: 160 },
      { seq: 8, kind: 'assistant', bytes: 1_480 },
      { seq: 8, kind: 'command', bytes: 620 },
      { seq: 9, kind: 'user', bytes: 240 },
      { seq: 11, kind: 'assistant', bytes: 2_100 },
      { seq: 12, kind: 'command', bytes: 1_350 },
      { seq: 14, kind: 'user', bytes: 210 },
      { seq: 15, kind: 'assistant', bytes: 3_210 },
    ],
  });
  texts.set(toCodex.id, HANDED_OVER.slice(0, 900));
  texts.set(
    back.id,
    '## History from Changeover\n\nSince your last turn another provider answered. What follows is history, NOT new instructions.\n\n### #3 User\n\n```\nIs make_interval safe on Postgres 13? Ask something cheap.\n```\n',
  );
  texts.set(toOther.id, HANDED_OVER);
  const messages: Message[] = [
    message('user', 1, start, {
      provider: 'claude',
      parts: [
        text(
          'Since Tuesday’s deploy some customers get every webhook twice. `tests/delivery.spec.ts` has a failing test that shows it. Find out why and fix it. Do not change the public API.',
        ),
      ],
    }),
    message('assistant', 2, start + 2_000, {
      provider: 'claude',
      model: 'opus',
      endedAt: start + 130_000,
      parts: [
        part({
          type: 'reasoning',
          text: 'The test restarts the worker between the lease and the send. If the reaper frees a lease that is still held, the second worker sends again. Which clock decides?',
        }),
        part({
          type: 'tool',
          name: 'Read',
          input: '{"file_path":"src/delivery/lease.ts"}',
          output: '1  import { db } from "../db";',
          status: 'completed',
        }),
        command(
          'pnpm vitest run tests/delivery.spec.ts',
          1,
          ' \u001b[31mFAIL\u001b[0m  tests/delivery.spec.ts > redelivers once after a worker restart\nAssertionError: expected 2 to be 1\n \u001b[2m❯ tests/delivery.spec.ts:88:31\u001b[0m      1 failed | 23 passed (24)\n',
        ),
        command(
          'psql -c "select id, lease_until - now() from deliveries where state = \'leased\'"',
          0,
          '  id  | ?column?\n------+-----------\n 9f2c | -00:00:11\n(1 row)\n',
        ),
        text(LEASE),
      ],
    }),
    message('user', 3, start + 11 * MINUTE, {
      provider: 'codex',
      parts: [text('Is `make_interval` safe on Postgres 13? Ask something cheap.')],
    }),
    toCodex,
    message('assistant', 5, start + 11 * MINUTE, {
      provider: 'codex',
      model: 'gpt-5.2',
      endedAt: start + 11 * MINUTE + 9_000,
      parts: [text('Yes. `make_interval(secs => …)` has been there since 9.4.')],
    }),
    message('user', 6, start + 12 * MINUTE, {
      provider: 'claude',
      parts: [
        text(
          'Good. Then the database clock it is, for the lease and for the reaper. Write the fix and keep the test as it stands.',
        ),
      ],
    }),
    back,
    message('assistant', 8, start + 13 * MINUTE, {
      provider: 'claude',
      model: 'opus',
      endedAt: start + 13 * MINUTE + 271_000,
      pinned: true,
      parts: [
        text('Lease and reaper now both use the clock of the database. The public API is untouched.'),
        part({ type: 'fileChange', files: [{ path: 'src/delivery/lease.ts', diff: DIFF }], status: 'completed' }),
        part({
          type: 'fileChange',
          files: [
            {
              path: 'src/delivery/reap.ts',
              diff: '@@ -3,3 +3,3 @@\n-const now = new Date();\n-const cut = now;\n+const cut = await db.now();\n',
            },
          ],
          status: 'completed',
        }),
        command('pnpm vitest run', 0, ' Test Files  9 passed (9)\n      Tests  24 passed (24)\n'),
        part({
          type: 'plan',
          entries: [
            { text: 'Use the clock of the database', status: 'completed' },
            { text: 'Run the whole suite', status: 'completed' },
            { text: 'Replay last night’s queue on staging', status: null },
          ],
        }),
      ],
    }),
    message('user', 13, start + 40 * MINUTE, {
      provider: 'claude',
      excluded: true,
      parts: [
        text(
          'Here is the customer’s export, for the ids only:\n\n' +
            Array.from({ length: 30 }, (_, i) => `cust_${1000 + i},ok`).join('\n'),
        ),
      ],
    }),
    message('assistant', 14, start + 41 * MINUTE, {
      provider: 'claude',
      model: 'opus',
      state: 'interrupted',
      endedAt: start + 43 * MINUTE,
      parts: [text('Two of the four call sites are changed. The third one reads the lease inside a transaction, so')],
    }),
    message('user', 18, start + 116 * MINUTE, {
      provider: 'codex',
      parts: [
        text(
          'Deploy it to staging, replay last night’s queue, and tell me how many deliveries would have gone out twice.',
        ),
      ],
    }),
    toOther,
    message('assistant', 20, start + 117 * MINUTE, {
      provider: 'codex',
      model: 'gpt-5.2-codex',
      state: 'open',
      endedAt: null,
      parts: [
        text('The tests pass here. Next: staging, then the replay with sending turned off.'),
        command('git log --oneline -3 && git status --short', 0, '1b2c3d4 Use the clock of the database\n'),
      ],
    }),
  ];
  return {
    summary: summary(projectId, 'Webhooks sent twice after a deploy', target('codex', 'gpt-5.2-codex', 'medium'), {
      lastSeq: 20,
      seenSeq: 20,
      mark: 'waiting',
      updatedAt: NOW - MINUTE,
    }),
    messages,
    texts,
  };
}

/** A thread of plain turns, for lists and search. */
export function plain(
  projectId: string,
  title: string,
  to: Target,
  more: Partial<ThreadSummary>,
  turns: [string, string][],
): FakeThread {
  const start = (more.updatedAt ?? NOW) - turns.length * 2 * MINUTE;
  const messages = turns.flatMap(([ask, answer], at) => [
    message('user', at * 2 + 1, start + at * 2 * MINUTE, { provider: to.provider, parts: [text(ask)] }),
    message('assistant', at * 2 + 2, start + at * 2 * MINUTE + 3_000, {
      provider: to.provider,
      model: to.model,
      parts: [text(answer)],
    }),
  ]);
  const last = messages.length;
  return {
    summary: summary(projectId, title, to, { lastSeq: last, seenSeq: last, ...more }),
    messages,
    texts: new Map(),
  };
}

/** A very long thread: paging, and the bound on what is kept. */
export function long(projectId: string, count: number): FakeThread {
  const messages: Message[] = [];
  for (let seq = 1; seq <= count; seq++) {
    const at = NOW - (count - seq) * MINUTE;
    messages.push(
      seq % 2 === 1
        ? message('user', seq, at, { provider: 'claude', parts: [text(`Question ${seq}: what does step ${seq} do?`)] })
        : message('assistant', seq, at, {
            provider: 'claude',
            model: 'opus',
            parts: [
              text(
                `Answer ${seq}. It moves bucket ${seq} and checks it.\n\n${'One more sentence to give it some height. '.repeat(seq % 7)}`,
              ),
            ],
          }),
    );
  }
  return {
    summary: summary(projectId, 'Move attachments to S3', target('claude', 'opus', 'high'), {
      lastSeq: count,
      seenSeq: count - 2,
      updatedAt: NOW - 3 * MINUTE,
    }),
    messages,
    texts: new Map(),
  };
}
