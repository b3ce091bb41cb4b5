/** The picker's list: each content message, whether it goes, what it costs. Pure. */
import type { HandoffPreviewResponse, LeftOutReason, Message, ProviderId } from '../api/gen';

export interface ToldRow {
  readonly seq: number;
  readonly message: Message | null;
  readonly user: boolean;
  readonly provider: ProviderId | null;
  readonly line: string;
  readonly bytes: number;
  /** Why it stays; `null`: it goes. */
  readonly reason: LeftOutReason | null;
}

function firstLine(message: Message): string {
  for (const part of message.parts) {
    if (part.body.type !== 'text' || part.superseded) continue;
    const line = part.body.text.split('\n').find((one) => one.trim() !== '');
    if (line) return line.replace(/^#+\s+|\*\*|`/g, '').slice(0, 160);
  }
  return message.parts.some((part) => part.body.type === 'command') ? '$ …' : '';
}

/** Newest first: what goes and is in memory, and what stays. */
export function toldRows(preview: HandoffPreviewResponse, messages: readonly Message[]): ToldRow[] {
  const handover = preview.handover;
  if (!handover) return [];
  const cost = new Map<number, number>();
  for (const item of handover.items) cost.set(item.seq, (cost.get(item.seq) ?? 0) + item.bytes);
  const told = (seq: number) => handover.told.some((range) => seq >= range.from && seq <= range.to);
  const rows: ToldRow[] = [];
  for (const message of messages) {
    if (message.role === 'system' || !told(message.seq)) continue;
    rows.push({
      seq: message.seq,
      message,
      user: message.role === 'user',
      provider: message.provider,
      line: firstLine(message),
      bytes: cost.get(message.seq) ?? 0,
      reason: null,
    });
  }
  for (const left of preview.leftOut) {
    const message = messages.find((one) => one.seq === left.seq) ?? null;
    rows.push({
      seq: left.seq,
      message,
      user: left.user,
      provider: message?.provider ?? null,
      line: left.line,
      bytes: left.bytes,
      reason: left.reason,
    });
  }
  return rows.sort((a, b) => b.seq - a.seq);
}
