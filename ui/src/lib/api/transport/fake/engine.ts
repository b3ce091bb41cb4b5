/** The fake backend: the same list of methods, in memory. For work on the screen and for tests of the screen. */
import type {
  Approval,
  Event,
  EventBody,
  Message,
  Methods,
  Queued,
  SessionView,
  Target,
  ThreadId,
  TurnView,
} from '../../gen';
import { apiError, type Method, type Params, type Response } from '../transport';
import {
  agents,
  id,
  long,
  message,
  NOW,
  ownAgent,
  plain,
  project,
  providers,
  summary,
  target,
  text,
  webhooks,
  type FakeThread,
} from './data';
import { make } from './handoff';
import { play } from './script';

export interface Live extends FakeThread {
  event: number;
  turn: TurnView | null;
  queue: Queued[];
  approvals: Approval[];
  known: Map<string, number>;
  context: Map<string, number>;
  draft: string;
  stop: (() => void) | null;
  answers: Map<string, (decision: 'once' | 'thread' | 'deny') => void>;
}

/** What the page asks for; `history/*` is the agents' door (MCP). */
type Served = Exclude<Method, `history/${string}`>;

export type Scene = 'plain' | 'first' | 'nothing' | 'long' | 'empty';

export class FakeEngine {
  projects = [
    project('parcel-api', '/home/ana/code/parcel-api'),
    project('ledger-web', '/home/ana/code/ledger-web', NOW - 9e6),
  ];
  providers = providers();
  agents = agents();
  threads = new Map<ThreadId, Live>();
  settings = new Map<string, unknown>();
  watched = new Set<ThreadId>();
  /** Milliseconds between two pieces of a reply. */
  pace: number;
  emit: (batch: Event[]) => void = () => {};
  /** Every call, for tests. */
  calls: { method: string; params: unknown }[] = [];
  private seen = new Map<string, Response<'turn/start'>>();

  constructor(scene: Scene = 'plain', pace = 30) {
    this.pace = pace;
    const [first, second] = this.projects.map((one) => one.id) as [string, string];
    if (scene === 'first' || scene === 'nothing') {
      this.projects = [];
      if (scene === 'nothing')
        this.providers = this.providers.filter((one) => one.id === 'practice' || one.state === 'notFound');
      return;
    }
    if (scene === 'empty') {
      this.projects = this.projects.slice(0, 1);
      return;
    }
    const hour = 3_600_000;
    const main = this.add(webhooks(first));
    this.add(long(first, scene === 'long' ? 10_000 : 300));
    this.add(
      plain(
        first,
        'Rate limits per API key',
        target('codex', 'gpt-5.2-codex'),
        { mark: 'running', updatedAt: NOW - 4 * 60_000 },
        [['Add a limit per key.', 'Done: 429 now carries `Retry-After`, and the docs say so.']],
      ),
    );
    this.add(
      plain(first, '対応表を日本語に翻訳する', target('codex', 'gpt-5.2-codex'), { updatedAt: NOW - 26 * hour }, [
        [
          '部署之后，有些客户会收到两次通知。`lease_until` 用的是哪个时钟？',
          '写入用容器的时钟，读取用数据库的时钟，相差 41 秒。\n\nيستخدم `takeLease` ساعة الحاوية، بينما يقارن `reap` بساعة قاعدة البيانات. الفرق 41 ثانية.\n\n✅ テストは 24 件すべて成功しました。👩🏽‍💻',
        ],
      ]),
    );
    this.add(
      plain(first, 'Upgrade to Node 24', target('claude', 'opus'), { seenSeq: 1, updatedAt: NOW - 30 * hour }, [
        ['Upgrade to Node 24.', 'undici is out of the dependency tree. Two call sites still import its types.'],
      ]),
    );
    this.add(
      plain(
        first,
        'Why is the billing job slow on Mondays?',
        target('practice', 'practice'),
        { updatedAt: NOW - 80 * hour, archived: true },
        [['Why?', 'I am no model.']],
      ),
    );
    this.add(
      plain(
        second,
        'Invoice PDF wraps at 40 characters',
        target('claude', 'sonnet'),
        { mark: 'failed', updatedAt: NOW - 60 * hour },
        [['Fix the wrap.', 'The width was counted in bytes.']],
      ),
    );
    this.add(
      plain(
        second,
        'Investigate why the nightly reconciliation of the partner ledger sometimes posts the correcting entry before the entry that it corrects',
        target('acp:vLLM on gpu-box-07.internal.example.com', 'meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8'),
        { updatedAt: NOW - 9 * 24 * hour },
        [
          [
            '0x7f3ac0de9b1d4f62a8e05c17b94d0c3efa11d2b6e8c7f0a95d3b2e1c4f6a7b8c9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80912',
            '0x7f3ac0de9b1d4f62a8e05c17b94d0c3efa11d2b6e8c7f0a95d3b2e1c4f6a7b8c9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80912',
          ],
        ],
      ),
    );
    const last = main.messages.at(-1);
    main.turn = {
      id: id('turn'),
      messageId: main.messages.at(-3)?.id ?? '',
      target: main.summary.target,
      phase: 'waiting',
      startedAt: NOW - 72_000,
      attempt: 1,
      retry: null,
    };
    main.known = new Map([
      ['claude', 8],
      ['codex', 18],
    ]);
    main.context = new Map([
      ['claude', 412_000],
      ['codex', 18_000],
    ]);
    this.ask(
      main,
      last as Message,
      { type: 'command', command: 'kubectl --context staging rollout restart deploy/worker', cwd: null },
      null,
      () => {
        void play(
          this,
          main,
          last as Message,
          'The workers restarted. 0 of 1,204 deliveries would have gone out twice.',
        );
      },
      NOW - 42_000,
    );
  }

  add(thread: FakeThread): Live {
    const known = new Map<string, number>();
    const last = thread.messages.findLast((one) => one.role === 'assistant');
    if (last?.provider) known.set(last.provider, thread.summary.lastSeq);
    const live: Live = {
      ...thread,
      event: 0,
      turn: null,
      queue: [],
      approvals: [],
      known,
      context: new Map(),
      draft: '',
      stop: null,
      answers: new Map(),
    };
    this.threads.set(live.summary.id, live);
    return live;
  }

  // --- events

  tell(thread: Live, ...bodies: EventBody[]): void {
    const events = bodies.map((body) => ({ threadId: thread.summary.id, n: ++thread.event, body }));
    if (this.watched.has(thread.summary.id)) this.emit(events);
    else this.emit(events.filter((event) => event.body.type === 'thread' || event.body.type === 'threadDeleted'));
  }

  /** An event about the whole app. */
  broadcast(body: EventBody): void {
    this.emit([{ threadId: null, n: 0, body }]);
  }

  touch(thread: Live, more: Partial<Live['summary']> = {}): void {
    const last = thread.messages.at(-1)?.seq ?? 0;
    thread.summary = { ...thread.summary, lastSeq: last, updatedAt: Date.now(), ...more };
    this.tell(thread, { type: 'thread', thread: thread.summary });
  }

  put(thread: Live, one: Message): Message {
    const at = thread.messages.findIndex((other) => other.id === one.id);
    if (at >= 0) thread.messages[at] = one;
    else thread.messages.push(one);
    return one;
  }

  sessions(thread: Live): SessionView[] {
    return [...thread.known].map(([name, upto]) => {
      const models = this.providers.find((one) => one.id === name)?.models ?? [];
      const used = thread.context.get(name);
      return {
        provider: name,
        sessionId: `${name}-session`,
        incarnation: 1,
        knownUptoSeq: upto,
        context: used === undefined ? null : { used, window: models.find((one) => one.default)?.window ?? null },
      };
    });
  }

  ask(
    thread: Live,
    reply: Message,
    subject: Approval['request']['subject'],
    reason: string | null,
    then: (decision: 'once' | 'thread' | 'deny') => void,
    at = Date.now(),
  ): void {
    const approval: Approval = {
      id: id('approval'),
      turn: thread.turn?.id ?? '',
      request: { key: id('key'), item: reply.parts.at(-1)?.key ?? null, subject, reason },
      state: 'open',
      askedAt: at,
      settledAt: null,
    };
    thread.approvals.push(approval);
    thread.answers.set(approval.id, then);
    this.tell(thread, { type: 'approval', approval });
  }

  // --- calls

  async call<M extends Method>(method: M, params: Params<M>): Promise<Response<M>> {
    this.calls.push({ method, params });
    await new Promise((resolve) => setTimeout(resolve, this.pace === 0 ? 0 : 8));
    const answer = this.methods[method as Served] as unknown as (
      params: Params<M>,
    ) => Promise<Response<M>> | Response<M>;
    return structuredClone(await answer.call(this, params));
  }

  /** S4: a turn that runs is stopped for it, once the person was asked. */
  private stopFirst(threadId: string, stop: boolean): void {
    const thread = this.at(threadId);
    if (!thread.turn) return;
    if (!stop) throw apiError('The agent is working in this thread.', { code: 'running' });
    thread.stop?.();
  }

  private at(threadId: ThreadId): Live {
    const thread = this.threads.get(threadId);
    if (!thread || thread.summary.pinned === null)
      throw apiError('This thread does not exist any more.', { code: 'notFound' });
    return thread;
  }

  private gone = new Map<ThreadId, Live>();

  private methods: {
    [M in Served]: (params: Methods[M]['params']) => Methods[M]['response'] | Promise<Methods[M]['response']>;
  } = {
    'app/info': () => ({
      version: '0.1.0',
      dataFolder: '/home/ana/.local/share/changeover',
      platform: 'linux',
      window: false,
    }),
    'app/diagnostics': () => ({
      text: [
        '# Changeover diagnostics',
        '2026-11-30T08:00:12Z. No message is in it; of a key or token, the first four characters.',
        '',
        '## App',
        '- version: 0.1.0 (no window)',
        '- system: linux Debian GNU/Linux 12 6.1.0-31-amd64, x86_64',
        '- data folder: ~/.local/share/changeover (12.3 MB)',
        '',
        '## Providers',
        ...this.providers.map((one) => `- ${one.name} (${one.id}): ${one.state}; ${one.path ?? 'no program'}`),
        '',
      ].join('\n'),
    }),
    'project/list': () => ({ projects: this.projects }),
    'project/open': ({ path }) => {
      if (!/^[~/]/.test(path))
        throw apiError(`“${path}” is not an absolute path.`, { code: 'badRequest', hint: 'Begin with / or ~.' });
      const real = path.replace(/^~/, '/home/ana').replace(/\/+$/, '');
      if (real.includes('missing'))
        throw apiError(`There is no folder ${real}.`, {
          code: 'refused',
          hint: 'Make it first, or choose another one.',
        });
      let found = this.projects.find((one) => one.path === real);
      if (!found) {
        found = project(real.split('/').at(-1) ?? real, real);
        this.projects = [found, ...this.projects];
        this.broadcast({ type: 'project', project: found });
      }
      return { project: found };
    },
    'project/remove': ({ projectId }) => {
      this.broadcast({ type: 'projectRemoved', projectId });
      return { threads: [...this.threads.values()].filter((one) => one.summary.projectId === projectId).length };
    },
    'thread/start': ({ projectId, target: to }) => {
      const live = this.add({
        summary: summary(projectId, '', to ?? target('claude', 'opus', 'high'), { updatedAt: Date.now() }),
        messages: [],
        texts: new Map(),
      });
      live.known.clear();
      this.touch(live);
      return { thread: live.summary };
    },
    'thread/list': ({ projectId, archived }) => ({
      threads: [...this.threads.values()]
        .map((one) => one.summary)
        .filter((one) => (projectId === null || one.projectId === projectId) && (archived || !one.archived))
        .sort((a, b) => b.updatedAt - a.updatedAt),
    }),
    'thread/read': ({ threadId, at, limit }) => {
      const thread = this.at(threadId);
      const all = thread.messages;
      const most = limit ?? 60;
      const find = (seq: number) => all.findIndex((one) => one.seq >= seq);
      let from = Math.max(0, all.length - most);
      if (at.type === 'before') from = Math.max(0, find(at.seq) - most);
      if (at.type === 'after') from = find(at.seq) + 1;
      if (at.type === 'around') from = Math.max(0, find(at.seq) - Math.floor(most / 2));
      const to = at.type === 'before' ? find(at.seq) : Math.min(all.length, from + most);
      return {
        thread: thread.summary,
        messages: all.slice(from, to),
        cuts: [],
        hasBefore: from > 0,
        hasAfter: to < all.length,
        turn: thread.turn,
        queue: thread.queue,
        approvals: thread.approvals.filter((one) => one.state === 'open' || one.turn === thread.turn?.id),
        sessions: this.sessions(thread),
        draft: thread.draft,
        event: thread.event,
      };
    },
    'thread/sessions': ({ threadId }) => ({
      sessions: this.sessions(this.at(threadId)).map((session) => ({
        session,
        own: [],
        told: [],
        leftOut: [],
        above: [],
      })),
    }),
    'thread/rename': ({ threadId, title }) => this.summaryAfter(threadId, { title }),
    'thread/archive': ({ threadId, on, stop }) => {
      if (on) this.stopFirst(threadId, stop);
      return this.summaryAfter(threadId, { archived: on });
    },
    'thread/pin': ({ threadId, on }) => this.summaryAfter(threadId, { pinned: on }),
    'thread/delete': ({ threadId, stop }) => {
      this.stopFirst(threadId, stop);
      const thread = this.at(threadId);
      this.tell(thread, { type: 'threadDeleted' });
      this.gone.set(threadId, thread);
      this.threads.delete(threadId);
      return {};
    },
    'thread/restore': ({ threadId }) => {
      const thread = this.gone.get(threadId);
      if (!thread) throw apiError('This thread cannot be brought back any more.', { code: 'notFound' });
      this.threads.set(threadId, thread);
      this.touch(thread);
      return { thread: thread.summary };
    },
    'thread/seen': ({ threadId, seq }) => {
      const thread = this.at(threadId);
      if (seq > thread.summary.seenSeq)
        this.summaryAfter(threadId, { seenSeq: seq, updatedAt: thread.summary.updatedAt });
      return {};
    },
    'thread/draft': ({ threadId, text: draft }) => {
      this.at(threadId).draft = draft;
      return {};
    },
    'thread/target': ({ threadId, target: to }) =>
      this.summaryAfter(threadId, { target: to, updatedAt: this.at(threadId).summary.updatedAt }),
    'event/watch': ({ threadIds }) => {
      this.watched = new Set(threadIds);
      return {};
    },
    'turn/start': (params) => this.startTurn(params),
    'turn/again': async ({ threadId, messageId, target: to }) => {
      const thread = this.at(threadId);
      const one = thread.messages.find((other) => other.id === messageId);
      if (!one) throw apiError('This message does not exist any more.', { code: 'notFound' });
      if (to) thread.summary = { ...thread.summary, target: to };
      this.begin(thread, one, to ?? thread.summary.target);
      return { type: 'started', turnId: thread.turn?.id ?? '', messageId, seq: one.seq };
    },
    'turn/interrupt': ({ threadId }) => {
      this.at(threadId).stop?.();
      return {};
    },
    'queue/edit': ({ threadId, queuedId, text: next }) => {
      const thread = this.at(threadId);
      thread.queue =
        next === null
          ? thread.queue.filter((one) => one.id !== queuedId)
          : thread.queue.map((one) => (one.id === queuedId ? { ...one, text: next } : one));
      this.tell(thread, { type: 'queue', queue: thread.queue });
      return {};
    },
    'queue/go': ({ threadId }) => {
      this.goOn(this.at(threadId));
      return {};
    },
    'approval/answer': ({ threadId, approvalId, decision }) => {
      const thread = this.at(threadId);
      const at = thread.approvals.findIndex((one) => one.id === approvalId);
      const old = thread.approvals[at];
      if (!old || old.state !== 'open') throw apiError('This question is settled already.', { code: 'refused' });
      const approval: Approval = { ...old, state: decision === 'deny' ? 'denied' : decision, settledAt: Date.now() };
      thread.approvals[at] = approval;
      if (thread.turn) thread.turn = { ...thread.turn, phase: 'streaming' };
      this.tell(thread, { type: 'approval', approval }, { type: 'turn', turn: thread.turn });
      this.touch(thread, { mark: 'running' });
      thread.answers.get(approvalId)?.(decision);
      return {};
    },
    'approval/list': () => ({
      approvals: [...this.threads.values()].flatMap((thread) =>
        thread.approvals
          .filter((one) => one.state === 'open')
          .map((approval) => ({ threadId: thread.summary.id, approval })),
      ),
    }),
    'handoff/preview': ({ threadId, target: to, withText }) =>
      this.preview(this.at(threadId), to ?? this.at(threadId).summary.target, withText),
    'handoff/text': ({ threadId, messageId }) => {
      const thread = this.at(threadId);
      const one = thread.messages.find((other) => other.id === messageId);
      const exact = thread.texts.get(messageId);
      if (one?.notice?.type !== 'handover' || exact === undefined)
        throw apiError('This divider does not exist any more.', { code: 'notFound' });
      const lines: Record<number, [string, number]> = {
        10: ['worker.log, 06:00 to 07:00: “2026-11-30T06:00:01Z lease 9f2c taken by…”', 38_200],
        13: ['Here is the customer’s export, for the ids only', 4_100],
        16: ['STRIPE_KEY=sk_live_51H… for the replay', 210],
      };
      return {
        text: exact,
        leftOut: one.notice.leftOut.map(({ range, reason }) => ({
          seq: range.from,
          user: true,
          line: lines[range.from]?.[0] ?? `message ${range.from}`,
          bytes: lines[range.from]?.[1] ?? 800,
          reason,
        })),
      };
    },
    'message/pin': ({ threadId, messageId, on }) => this.flag(threadId, messageId, { pinned: on }),
    'message/exclude': ({ threadId, messageId, on }) => this.flag(threadId, messageId, { excluded: on }),
    'part/read': ({ threadId, messageId, key }) => {
      const found = this.at(threadId)
        .messages.find((one) => one.id === messageId)
        ?.parts.find((one) => one.key === key);
      if (!found) throw apiError('This part does not exist any more.', { code: 'notFound' });
      return { part: found };
    },
    'provider/list': () => ({ providers: this.providers }),
    'provider/check': () => ({}),
    'provider/pick': ({ provider, path }) => {
      if (path?.includes('missing')) throw apiError(`There is no program ${path}.`, { code: 'refused' });
      this.providers = this.providers.map((one) =>
        one.id === provider
          ? {
              ...one,
              path,
              state: 'ready',
              problem: null,
              found: path === null ? 'PATH' : 'picked by hand',
              version: '1.0.0',
            }
          : one,
      );
      this.broadcast({ type: 'providers', providers: this.providers });
      return { providers: this.providers };
    },
    'provider/test': ({ provider }) => {
      const one = this.providers.find((other) => other.id === provider);
      if (!one) throw apiError('There is no such provider.', { code: 'notFound' });
      return { problem: one.problem, path: one.path, took: 812 };
    },
    'agent/list': () => ({ agents: this.agents, secretsLast: false }),
    'agent/set': ({ agent, change }) => {
      const before = this.agents.find((one) => one.name === agent.name);
      if (before && !change) throw apiError(`There is an agent ${agent.name} already.`, { code: 'badRequest' });
      if (agent.command.includes('missing')) {
        throw apiError(`${agent.command} is not installed, or not on the PATH.`, { code: 'badRequest' });
      }
      const one = ownAgent(agent);
      this.agents = [...this.agents.filter((other) => other !== before), one];
      this.providers = [...this.providers.filter((other) => other.id !== one.id), one.provider];
      this.broadcast({ type: 'providers', providers: this.providers });
      return { agents: this.agents, secretsLast: false };
    },
    'agent/remove': ({ name }) => {
      const gone = this.agents.find((one) => one.name === name && !one.known);
      if (!gone) throw apiError('This agent does not exist any more.', { code: 'notFound' });
      this.agents = this.agents.filter((one) => one !== gone);
      this.providers = this.providers.filter((one) => one.id !== gone.id);
      this.broadcast({ type: 'providers', providers: this.providers });
      return { agents: this.agents, secretsLast: false };
    },
    'agent/test': ({ id, agent }) => {
      const known = this.agents.find((one) => one.id === id);
      const command = agent?.command ?? known?.command ?? '';
      if (command.includes('missing')) {
        const problem = {
          kind: 'notInstalled' as const,
          message: `${command} is not installed.`,
          hint: null,
          retryAt: null,
        };
        return { problem, report: null };
      }
      const report = {
        path: `/usr/local/bin/${command}`,
        name: command,
        version: '1.0.0',
        models: [],
        modes: ['default'],
        resumes: true,
        mcp: true,
      };
      return { problem: null, report };
    },
    'search/messages': ({ words }) => {
      const all = words.toLowerCase().split(/\s+/).filter(Boolean);
      const hits = [...this.threads.values()].flatMap((thread) =>
        thread.messages.flatMap((one) => {
          const whole = one.parts.map((other) => (other.body.type === 'text' ? other.body.text : '')).join(' ');
          if (!all.every((word) => whole.toLowerCase().includes(word))) return [];
          const from = Math.max(0, whole.toLowerCase().indexOf(all[0] ?? '') - 40);
          return [
            { threadId: thread.summary.id, seq: one.seq, excerpt: whole.slice(from, from + 140), at: one.createdAt },
          ];
        }),
      );
      return { hits: hits.sort((a, b) => b.at - a.at).slice(0, 50), notSearched: null };
    },
    'setting/get': ({ name }) => ({ value: (this.settings.get(name) ?? null) as never }),
    'setting/put': ({ name, value }) => {
      this.settings.set(name, value);
      return { value };
    },
  };

  private summaryAfter(threadId: ThreadId, more: Partial<Live['summary']>): Methods['thread/rename']['response'] {
    const thread = this.at(threadId);
    this.touch(thread, { updatedAt: thread.summary.updatedAt, ...more });
    return { thread: thread.summary };
  }

  private flag(threadId: ThreadId, messageId: string, flags: { pinned?: boolean; excluded?: boolean }) {
    const thread = this.at(threadId);
    const one = thread.messages.find((other) => other.id === messageId);
    if (!one) throw apiError('This message does not exist any more.', { code: 'notFound' });
    const next = this.put(thread, { ...one, ...flags });
    this.tell(thread, { type: 'messageFlags', messageId, pinned: next.pinned, excluded: next.excluded });
    return {};
  }

  private async preview(
    thread: Live,
    to: Target,
    withText: boolean,
    below?: Message,
  ): Promise<Methods['handoff/preview']['response']> {
    const messages = below ? thread.messages.filter((one) => one.seq < below.seq) : thread.messages;
    const made = await make(messages, to, thread.known.get(to.provider) ?? null);
    return {
      target: to,
      kind: made.kind,
      handover: made.handover,
      text: withText ? made.text : null,
      leftOut: made.leftOut,
      hash: made.hash,
    };
  }

  private async startTurn(params: Params<'turn/start'>): Promise<Response<'turn/start'>> {
    const known = this.seen.get(params.clientTurnId);
    if (known) return known;
    const thread = this.at(params.threadId);
    const to = params.target ?? thread.summary.target;
    if (thread.turn) {
      const queued: Queued = {
        id: id('queued'),
        clientId: params.clientTurnId,
        text: params.text,
        target: to,
        at: Date.now(),
      };
      thread.queue.push(queued);
      this.tell(thread, { type: 'queue', queue: thread.queue });
      return { type: 'queued', queuedId: queued.id };
    }
    const preview = await this.preview(thread, to, false);
    if (params.previewHash !== null && params.previewHash !== preview.hash) return { type: 'changed', preview };
    const seq = (thread.messages.at(-1)?.seq ?? 0) + 1;
    const one = this.put(
      thread,
      message('user', seq, Date.now(), { provider: to.provider, parts: [text(params.text)] }),
    );
    this.tell(thread, { type: 'message', message: one });
    if (thread.summary.title === '') this.touch(thread, { title: params.text.split('\n')[0]?.slice(0, 80) ?? '' });
    const turnId = this.begin(thread, one, to);
    const answer: Response<'turn/start'> = { type: 'started', turnId, messageId: one.id, seq };
    this.seen.set(params.clientTurnId, answer);
    return answer;
  }

  /** Sends the head of the queue. */
  goOn(thread: Live): void {
    const next = thread.turn ? undefined : thread.queue.shift();
    if (!next) return;
    this.tell(thread, { type: 'queue', queue: thread.queue });
    const seq = (thread.messages.at(-1)?.seq ?? 0) + 1;
    const queued = this.put(
      thread,
      message('user', seq, Date.now(), { provider: next.target.provider, parts: [text(next.text)] }),
    );
    this.tell(thread, { type: 'message', message: queued });
    this.begin(thread, queued, next.target);
  }

  /** Runs a turn for a message that stands in the transcript. */
  begin(thread: Live, one: Message, to: Target): string {
    thread.turn = {
      id: id('turn'),
      messageId: one.id,
      target: to,
      phase: 'preparing',
      startedAt: Date.now(),
      attempt: 1,
      retry: null,
    };
    if (one.state !== 'done') {
      this.put(thread, { ...one, state: 'done', provider: to.provider });
      this.tell(thread, {
        type: 'messageState',
        messageId: one.id,
        state: 'done',
        endedAt: null,
        provider: to.provider,
      });
    }
    this.tell(thread, { type: 'turn', turn: thread.turn });
    this.touch(thread, { mark: 'running' });
    const asked = one.parts.map((other) => (other.body.type === 'text' ? other.body.text : '')).join('');
    const turnId = thread.turn.id;
    void play(this, thread, null, asked, one, to);
    return turnId;
  }

  /** The transition's notice, once the agent has taken the message. */
  async handOver(thread: Live, one: Message, to: Target): Promise<void> {
    const made = await make(
      thread.messages.filter((other) => other.seq < one.seq),
      to,
      thread.known.get(to.provider) ?? null,
    );
    thread.known.set(to.provider, one.seq);
    if (!made.handover || made.text === null) return;
    const notice = this.put(
      thread,
      message('system', (thread.messages.at(-1)?.seq ?? 0) + 1, Date.now(), {
        notice: { type: 'handover', ...made.handover },
      }),
    );
    thread.texts.set(notice.id, made.text);
    this.tell(thread, { type: 'message', message: notice });
  }
}
