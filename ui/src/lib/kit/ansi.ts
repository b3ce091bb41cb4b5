/** What a program printed, for the eye: colours as classes, everything else of a terminal's language taken out. */
export interface Piece {
  readonly text: string;
  readonly class: string | null;
}

// CSI and OSC sequences, other two-character escapes, and control characters apart from tab and line feed.
const ESCAPES =
  /\u001b\[([0-9;:?]*)([ -/]*[@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ #%()*+\-./][0-9A-Za-z]|\u001b[@-Z\\-_a-z0-9=>]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

const COLOURS: Record<number, string> = {
  31: 'bad',
  91: 'bad',
  32: 'good',
  92: 'good',
  33: 'cue',
  93: 'cue',
  90: 'faint',
  34: 'k4',
  94: 'k4',
  35: 'k1',
  95: 'k1',
  36: 'k2',
  96: 'k2',
};

/** A carriage return begins its line again, as in a terminal: what stood there is gone. */
function returned(text: string): string {
  if (!text.includes('\r')) return text;
  return text
    .replace(/\r+\n/g, '\n')
    .split('\n')
    .map((line) => line.slice(line.lastIndexOf('\r', line.length - 2) + 1).replace(/\r$/, ''))
    .join('\n');
}

export function ansi(text: string): Piece[] {
  const pieces: Piece[] = [];
  let colour: string | null = null;
  let bold = false;
  let dim = false;
  const source = returned(text);
  let from = 0;
  const push = (to: number) => {
    if (to <= from) return;
    const its = [colour ?? (dim ? 'faint' : null), bold ? 'b' : null].filter(Boolean).join(' ') || null;
    const piece = source.slice(from, to);
    const last = pieces.at(-1);
    if (last && last.class === its) pieces[pieces.length - 1] = { text: last.text + piece, class: its };
    else pieces.push({ text: piece, class: its });
  };
  for (const match of source.matchAll(ESCAPES)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[2] !== 'm') continue;
    const codes = (match[1] ?? '').split(/[;:]/).map(Number);
    for (let at = 0; at < codes.length; at++) {
      const code = codes[at] ?? 0;
      if (code === 0) [colour, bold, dim] = [null, false, false];
      else if (code === 1) bold = true;
      else if (code === 2) dim = true;
      else if (code === 22) [bold, dim] = [false, false];
      else if (code === 39) colour = null;
      else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
      else if (COLOURS[code]) colour = COLOURS[code];
    }
  }
  push(source.length);
  return pieces;
}

/** The same as plain text. */
export function withoutAnsi(text: string): string {
  return ansi(text)
    .map((piece) => piece.text)
    .join('');
}
