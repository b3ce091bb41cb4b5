/**
 * Markdown to safe HTML, block by block. Nothing of a transcript runs or loads: raw HTML is shown as text, an image is
 * its words and a link, a link says where it really goes and is opened outside after a click, and what is left passes
 * DOMPurify with a short list of allowed elements.
 */
import DOMPurify from 'dompurify';
import { Marked, type Token, type Tokens, type TokensList } from 'marked';
import remend from 'remend';
import { isOutsideLink } from '../api/transport/transport';

export type Block =
  | { readonly kind: 'html'; readonly raw: string; readonly html: string }
  | { readonly kind: 'code'; readonly raw: string; readonly lang: string; readonly code: string };

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** A link whose words claim another address than it has must show the one it has. */
function claimsOther(shown: string, href: string): boolean {
  const claim = /^\s*(?:https?:\/\/)?([\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+)(?:[/?#:]\S*)?\s*$/u.exec(shown);
  if (!claim) return false;
  try {
    return new URL(href).hostname.replace(/^www\./, '') !== claim[1]?.toLowerCase().replace(/^www\./, '');
  } catch {
    return true;
  }
}

function plainText(html: string): string {
  return html.replace(/<[^>]*>/g, '').replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)));
}

function link(href: string, inner: string): string {
  if (!isOutsideLink(href)) return `${inner} <code>${escapeHtml(href)}</code>`;
  const target = claimsOther(plainText(inner), href) ? ` <span class="real-target">(${escapeHtml(href)})</span>` : '';
  return `<a href="${escapeHtml(href)}" title="${escapeHtml(href)}">${inner}</a>${target}`;
}

const marked = new Marked({ gfm: true, breaks: false, async: false });
marked.use({
  renderer: {
    html({ text, block }: Tokens.HTML | Tokens.Tag) {
      const shown = escapeHtml(text);
      return block ? `<p dir="auto" class="raw-html">${shown}</p>` : shown;
    },
    image({ href, text }: Tokens.Image) {
      return link(href, escapeHtml(text || href));
    },
    link({ href, tokens }: Tokens.Link) {
      return link(href, this.parser.parseInline(tokens));
    },
    paragraph({ tokens }: Tokens.Paragraph) {
      return `<p dir="auto">${this.parser.parseInline(tokens)}</p>`;
    },
    heading({ tokens, depth }: Tokens.Heading) {
      return `<h${depth} dir="auto">${this.parser.parseInline(tokens)}</h${depth}>`;
    },
    listitem(item: Tokens.ListItem) {
      const box = item.task
        ? `<span class="task" role="img" aria-label="${item.checked ? 'done' : 'to do'}">${item.checked ? '☑' : '☐'}</span> `
        : '';
      return `<li dir="auto">${box}${this.parser.parse(item.tokens)}</li>`;
    },
    checkbox() {
      return '';
    },
    code({ text }: Tokens.Code) {
      return `<pre class="code" dir="ltr">${escapeHtml(text)}</pre>`;
    },
    codespan({ text }: Tokens.Codespan) {
      return `<code dir="ltr">${escapeHtml(text)}</code>`;
    },
  },
});

const ALLOWED = [
  'p',
  'h1',
  'h2',
  'h3',
  'h4',
  'h5',
  'h6',
  'ul',
  'ol',
  'li',
  'blockquote',
  'pre',
  'code',
  'em',
  'strong',
  'del',
  'br',
  'hr',
  'a',
  'span',
  'table',
  'thead',
  'tbody',
  'tr',
  'th',
  'td',
];

function clean(html: string): string {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: ALLOWED,
    ALLOWED_ATTR: ['href', 'title', 'class', 'dir', 'start', 'align', 'role', 'aria-label'],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    // The address rule is for addresses; without this it would take other attributes away too.
    ADD_URI_SAFE_ATTR: ['dir', 'start', 'align', 'role'],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  });
}

function block(token: Token, links: TokensList['links']): Block {
  if (token.type === 'code') {
    const code = token as Tokens.Code;
    return {
      kind: 'code',
      raw: token.raw,
      lang: (code.lang ?? '').trim().split(/\s+/)[0]?.toLowerCase() ?? '',
      code: code.text,
    };
  }
  const tokens = Object.assign([token], { links });
  return { kind: 'html', raw: token.raw, html: clean(marked.parser(tokens) as string) };
}

/**
 * The blocks of a text. While it grows, what came before is kept as it is: only the last two blocks are read again, and
 * what is still unclosed in the last one (bold, code, a link) is closed for the eye.
 */
export function blocks(text: string, growing: boolean, before: readonly Block[] = []): Block[] {
  const kept: Block[] = [];
  let at = 0;
  if (growing) {
    for (const old of before.slice(0, -2)) {
      if (!text.startsWith(old.raw, at)) break;
      kept.push(old);
      at += old.raw.length;
    }
  }
  const rest = text.slice(at);
  const tokens = marked.lexer(growing ? closed(rest) : rest);
  const known = new Map(before.map((one) => [one.raw, one]));
  for (const token of tokens) {
    if (token.type === 'space') {
      // Blank lines belong to the block before, so that the raw texts add up to the whole.
      const last = kept.pop();
      if (last) kept.push({ ...last, raw: last.raw + token.raw });
      else kept.push({ kind: 'html', raw: token.raw, html: '' });
      continue;
    }
    kept.push(known.get(token.raw) ?? block(token, tokens.links));
  }
  return kept;
}

/** Closes what is open at the end of a growing text; a fence is left to the lexer. */
function closed(text: string): string {
  const fences = text.match(/^(?:```|~~~)/gm)?.length ?? 0;
  return fences % 2 === 1 ? text : remend(text, { linkMode: 'text-only', images: false, katex: false });
}
