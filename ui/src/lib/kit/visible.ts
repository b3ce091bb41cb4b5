/**
 * What an agent wants to run or has run, with every character seen: one that turns the writing direction round or has no shape
 * would let a command look like another one. Tabs and line breaks stay as they are. Pure.
 */
const UNSEEN =
  // Emoji, which join and vary in ways that have a shape. Then: controls, the soft hyphen, marks of writing direction, spaces
  // without width, separators that break no line, variants, tags.
  /\p{Extended_Pictographic}\ufe0f?(?:\u200d\p{Extended_Pictographic}\ufe0f?)*|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;
const EMOJI = /^\p{Extended_Pictographic}/u;

/** The text with unseen characters as `⟨U+202E⟩`. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (one) =>
    EMOJI.test(one) ? one : `⟨U+${(one.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );
}
