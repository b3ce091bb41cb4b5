import { describe, expect, it } from 'vitest';
import type { Handover } from '../api/gen';
import { facts, shortFacts, strip, tells, tookOver } from './facts';

const handover = (more: Partial<Handover> = {}): Handover => ({
  provider: 'codex',
  model: null,
  from: 'claude',
  kind: 'handoff',
  told: [],
  leftOut: [],
  messagesTold: 12,
  messagesTotal: 15,
  commandsTold: 1,
  commandsTotal: 2,
  used: 12_412,
  budget: 16_000,
  bytes: 13_000,
  hash: '',
  items: [],
  ...more,
});

describe('a transition in words', () => {
  it('says who took over', () => {
    expect(tookOver(handover(), 'claude', 'Codex')).toBe('Codex took over');
    expect(tookOver(handover({ kind: 'delta' }), 'claude', 'Codex')).toBe('Back to Codex');
    expect(tookOver(handover(), 'codex', 'Codex')).toBe('Codex, fresh session');
    expect(tookOver(handover({ kind: 'delta' }), 'codex', 'Codex')).toBe('Codex goes on');
  });
  it('says how much', () => {
    expect(facts(handover()).join(' · ')).toBe('handoff · 12 of 15 messages · 12.4 kB of 16 kB');
    expect(facts(handover({ kind: 'delta', messagesTold: 2, messagesTotal: 2, bytes: 420 })).join(' · ')).toBe(
      'same session · told the 2 messages it missed · 0.4 kB',
    );
    expect(facts(handover({ kind: 'delta', messagesTold: 1, messagesTotal: 3, bytes: 420 })).join(' · ')).toBe(
      'same session · told 1 of the 3 messages it missed · 0.4 kB',
    );
    expect(facts(handover({ kind: 'replay', messagesTold: 3, bytes: 3_100 })).join(' · ')).toBe(
      'reads the thread itself · 3 messages · 3.1 kB',
    );
    expect(facts(handover({ budget: 0, used: 0 })).join(' · ')).toBe('handoff · no room for any history');
    expect(shortFacts({ kind: 'fresh', handover: null })).toBe('fresh, nothing to hand over');
    expect(shortFacts({ kind: 'handoff', handover: handover() })).toBe('handoff · 12 of 15 · 12.4 kB');
  });
  it('a session that only hears itself misses nothing', () => {
    const own = handover({ kind: 'delta', messagesTold: 0, messagesTotal: 0, commandsTold: 0, commandsTotal: 0 });
    expect(facts(own)).toEqual(['goes on, nothing missed']);
    expect(tells({ handover: own })).toBe(false);
    expect(tells({ handover: handover() })).toBe(true);
  });
  it('the strip is as wide as the budget, or as what goes where that is more', () => {
    const items = [
      { seq: 1, kind: 'user' as const, bytes: 4_000 },
      { seq: 2, kind: 'command' as const, bytes: 4_000 },
    ];
    expect(strip(items, 16_000)).toEqual({
      frames: [
        { kind: 'you', share: 0.25 },
        { kind: 'command', share: 0.25 },
      ],
      room: 0.5,
    });
    expect(strip(items, 4_000).room).toBe(0);
    expect(strip([], 0)).toEqual({ frames: [], room: 1 });
  });
});
