/** A transition in words: the divider and the composer's next-turn line say the same things in the same order. Pure. */
import type { Handover, HandoffPreviewResponse, ItemMark, ProviderId } from '../api/gen';
import { words } from '../words/en';
import { sizeK } from '../words/format';

/** Who took over, as the divider's head says it. */
export function tookOver(handover: Handover, from: ProviderId | null, name: string): string {
  if (handover.kind === 'delta')
    return from === handover.provider ? words.handoff.goesOn(name) : words.handoff.back(name);
  if (from === handover.provider)
    return handover.kind === 'handoff' ? words.handoff.freshSession(name) : words.handoff.goesOn(name);
  return words.handoff.took(name);
}

/** Nothing but the session's own words since it last spoke, as while its own turn runs. */
export function missesNothing(handover: Handover): boolean {
  return handover.kind === 'delta' && handover.messagesTotal === 0 && handover.commandsTotal === 0;
}

/** `handoff · 12 of 15 messages · 12.4 kB of 16 kB`, in pieces that a narrow line may drop from. */
export function facts(handover: Handover): string[] {
  if (missesNothing(handover)) return [words.handoff.kinds.reuse];
  const kind = words.handoff.kinds[handover.kind];
  switch (handover.kind) {
    case 'delta': {
      const { messagesTold: told, messagesTotal: total } = handover;
      return [
        kind,
        told === total ? words.handoff.missed(told) : words.handoff.missedSome(told, total),
        sizeK(handover.bytes),
      ];
    }
    case 'replay':
      return [kind, words.messages(handover.messagesTold), sizeK(handover.bytes)];
    default:
      if (handover.budget === 0) return [kind, words.handoff.noRoom];
      return [
        kind,
        words.handoff.ofMessages(handover.messagesTold, handover.messagesTotal),
        words.handoff.ofBudget(handover.used, handover.budget),
      ];
  }
}

/** The same for a model's row in the picker, where there is less room. */
export function shortFacts(preview: Pick<HandoffPreviewResponse, 'kind' | 'handover'>): string {
  const { kind, handover } = preview;
  if (!handover) return words.handoff.kinds[kind];
  if (kind === 'handoff' && handover.budget > 0)
    return [
      words.handoff.kinds.handoff,
      words.handoff.ofMessagesShort(handover.messagesTold, handover.messagesTotal),
      sizeK(handover.used),
    ].join(' · ');
  if (kind === 'delta' && !missesNothing(handover))
    return [words.handoff.missedShort(handover.messagesTold), sizeK(handover.bytes)].join(' · ');
  return facts(handover).join(' · ');
}

export function stayed(handover: Handover): number {
  return Math.max(0, handover.messagesTotal - handover.messagesTold);
}

export interface StripFrame {
  readonly kind: 'you' | 'agent' | 'command';
  /** Share of the whole strip, 0 to 1. */
  readonly share: number;
}

/** One frame an item, its width its bytes; what is left of the budget stays empty. */
export function strip(items: readonly ItemMark[], budget: number): { frames: StripFrame[]; room: number } {
  const sum = items.reduce((all, item) => all + item.bytes, 0);
  const whole = Math.max(budget, sum, 1);
  return {
    frames: items.map((item) => ({
      kind: item.kind === 'user' ? 'you' : item.kind === 'command' ? 'command' : 'agent',
      share: item.bytes / whole,
    })),
    room: Math.max(0, 1 - sum / whole),
  };
}

/** What a small strip says to someone who does not see it. */
export function stripWords(handover: Handover): string {
  const of = (kind: ItemMark['kind']) => handover.items.filter((item) => item.kind === kind).length;
  return words.handoff.strip(
    of('user'),
    of('assistant') + of('summary'),
    of('command'),
    handover.used,
    handover.budget,
  );
}

/** Whether there is something to read before it is sent. */
export function tells(preview: Pick<HandoffPreviewResponse, 'handover'>): boolean {
  return preview.handover !== null && !missesNothing(preview.handover);
}
