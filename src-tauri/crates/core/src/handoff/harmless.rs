//! Frame headings inside items are made harmless (B7). A body already stands in a fence that nothing inside can close; for
//! a reader that looks past fences, whatever reads like one of our headings gets a backslash before its mark. Everything
//! else is byte for byte, and [`restore`] gives the original back, so nothing is lost.
//!
//! "Reads like" is judged by what is seen: invisible characters, spaces and markup between the letters do not count, case
//! and look-alike letters do not matter, and headings are known by `#`, by an underline and as HTML.

/// What our headings read like: letters and digits only, in lower case. `render`'s tests hold them to its headings.
pub(super) const NAMES: [&str; 3] = ["historyfromchangeover", "newmessage", "handoffdocument"];

/// The body with frame headings made harmless.
pub fn neutralise(body: &str) -> String {
    let marks = marks(body);
    let mut out = String::with_capacity(body.len() + marks.len());
    let mut from = 0;
    for at in marks {
        out.push_str(body.get(from..at).unwrap_or_default());
        out.push('\\');
        from = at;
    }
    out.push_str(body.get(from..).unwrap_or_default());
    out
}

/// How many bytes [`neutralise`] adds.
pub fn added(body: &str) -> usize {
    marks(body).len()
}

/// The body that [`neutralise`] was given.
pub fn restore(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut from = 0;
    for at in marks(body) {
        let Some(before) = at.checked_sub(1).filter(|b| body.as_bytes().get(*b) == Some(&b'\\')) else {
            continue;
        };
        out.push_str(body.get(from..before).unwrap_or_default());
        from = at;
    }
    out.push_str(body.get(from..).unwrap_or_default());
    out
}

/// One thing that is seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Symbol {
    /// A letter or digit, folded.
    Letter(char),
    /// `#` in any guise.
    Hash,
    /// Where a line may begin.
    Break,
    /// An HTML tag; whether it is `h1` … `h6`. A line may begin after any tag.
    Tag { heading: bool },
    /// Anything else, seen or not.
    Other(char),
}

/// What lies before a letter since the letter before it.
#[derive(Clone, Copy, Default)]
struct Gap {
    /// The letter begins a line, list and quote marks aside.
    begins_line: bool,
    /// The first `#` of that line.
    hash: Option<usize>,
    /// How many there are.
    hashes: usize,
    /// A `#` is the last thing before the letter but for spaces and the invisible.
    ends_in_hash: bool,
    /// A heading tag.
    tag: Option<usize>,
}

impl Gap {
    fn take(&mut self, symbol: Symbol, at: usize) {
        match symbol {
            Symbol::Hash if self.begins_line || self.tag.is_some() => {
                self.hash.get_or_insert(at);
                self.hashes += 1;
                self.ends_in_hash = true;
            }
            Symbol::Break => *self = Self { begins_line: true, tag: self.tag, ..Self::default() },
            Symbol::Tag { heading } => {
                let tag = if heading { self.tag.or(Some(at)) } else { self.tag };
                *self = Self {
                    begins_line: true,
                    tag,
                    hash: self.hash,
                    hashes: self.hashes,
                    ends_in_hash: self.ends_in_hash,
                };
            }
            Symbol::Other(c) if !is_unseen(c) => self.ends_in_hash = false,
            Symbol::Hash | Symbol::Other(_) | Symbol::Letter(_) => {}
        }
    }
}

/// Where backslashes go, ascending.
fn marks(body: &str) -> Vec<usize> {
    let mut marks = Vec::new();
    let mut gap = Gap { begins_line: true, ..Gap::default() };
    // Names under way: which, how many letters are matched, and what lay before the first.
    let mut open: Vec<(&str, usize, Gap)> = Vec::new();
    let mut list_number = false;
    let mut at = 0;
    loop {
        if open.is_empty() && !gap.begins_line && gap.tag.is_none() && !list_number {
            // Within a line nothing matters before its end, a tag or a character reference.
            let rest = body.as_bytes().get(at..).unwrap_or_default();
            at += rest.iter().position(|b| !b.is_ascii() || b"\n\r\x0b\x0c<&".contains(b)).unwrap_or(rest.len());
            gap = Gap::default();
        }
        let Some((symbol, len)) = symbol_at(body, at) else { break };
        let end = at + len;
        if let Symbol::Letter(letter) = symbol {
            open.retain_mut(|(name, matched, _)| {
                let goes_on = name.as_bytes().get(*matched).copied() == u8::try_from(letter).ok();
                *matched += 1;
                goes_on
            });
            if gap.begins_line || gap.tag.is_some() {
                let starts = NAMES.iter().filter(|name| name.starts_with(letter));
                open.extend(starts.map(|name| (*name, 1, gap)));
            }
            for (_, _, before) in open.extract_if(.., |(name, matched, _)| name.len() == *matched) {
                mark(body, end, before, before.hashes > 0, &mut marks);
            }
            if letter.is_numeric() && gap.ends_in_hash {
                mark(body, end, gap, gap.hashes > 1, &mut marks);
            }
            list_number = letter.is_ascii_digit() && (list_number || (gap.begins_line && gap.hashes == 0));
            gap = Gap::default();
        } else {
            if list_number {
                gap.begins_line = matches!(symbol, Symbol::Other('.' | ')'));
                list_number = false;
            }
            gap.take(symbol, at);
        }
        at = end;
    }
    marks.sort_unstable();
    marks.dedup();
    marks
}

/// Marks one heading whose name ends at `end`; `before` is what lies before the name, `hashed` whether its `#`s alone
/// make it a heading.
fn mark(body: &str, end: usize, before: Gap, hashed: bool, marks: &mut Vec<usize>) {
    if let Some(hash) = before.hash.filter(|_| hashed) {
        marks.push(hash);
    }
    if let Some(tag) = before.tag {
        marks.push(tag);
    }
    if before.begins_line && !hashed && before.tag.is_none() {
        marks.extend(underline(body, end));
    }
}

/// The first mark of an underline below the line that `at` stands in, or below the one or two lines after it.
fn underline(body: &str, at: usize) -> Option<usize> {
    let mut line_end = at;
    for _ in 0..3 {
        line_end += body.get(line_end..)?.find(is_break)?;
        let rest = body.get(line_end..)?;
        let start = line_end + if rest.starts_with("\r\n") { 2 } else { rest.chars().next()?.len_utf8() };
        let mut first = None;
        let mut is_line = true;
        for (offset, c) in body.get(start..)?.char_indices().take_while(|(_, c)| !is_break(*c)) {
            match c {
                '=' | '-' => first = first.or(Some(start + offset)),
                '>' | '\\' => {}
                c if is_unseen(c) => {}
                _ => {
                    is_line = false;
                    break;
                }
            }
        }
        match first {
            Some(mark) if is_line => return Some(mark),
            _ => line_end = start,
        }
    }
    None
}

/// The symbol that begins at `at`, and its length in bytes.
fn symbol_at(body: &str, at: usize) -> Option<(Symbol, usize)> {
    let rest = body.get(at..)?;
    let c = rest.chars().next()?;
    let long = match c {
        '<' => tag(rest),
        '&' => entity(rest),
        _ => None,
    };
    Some(long.unwrap_or_else(|| (symbol(c), c.len_utf8())))
}

fn symbol(c: char) -> Symbol {
    match c {
        '#' | '\u{ff03}' | '\u{fe5f}' => Symbol::Hash,
        c if is_break(c) => Symbol::Break,
        c if c.is_ascii_alphanumeric() => Symbol::Letter(c.to_ascii_lowercase()),
        c if c.is_ascii() || is_unseen(c) => Symbol::Other(c),
        c if c.is_alphanumeric() || ('\u{24b6}'..='\u{24e9}').contains(&c) => Symbol::Letter(fold(c)),
        c => Symbol::Other(c),
    }
}

/// A tag within one line: `<`, a letter, `/` or `!`, then no other angle bracket up to `>`.
fn tag(rest: &str) -> Option<(Symbol, usize)> {
    let inner = rest.get(1..)?;
    let first = inner.chars().next()?;
    if !(first.is_ascii_alphabetic() || first == '/' || first == '!') {
        return None;
    }
    let end = inner.find(|c| c == '<' || c == '>' || c == '#' || is_break(c))?;
    if inner.as_bytes().get(end) != Some(&b'>') {
        return None;
    }
    let name = inner.as_bytes();
    let heading = name.first().is_some_and(|h| h.eq_ignore_ascii_case(&b'h'))
        && name.get(1).is_some_and(|n| (b'1'..=b'6').contains(n))
        && name.get(2).is_some_and(|after| !after.is_ascii_alphanumeric());
    Some((Symbol::Tag { heading }, end + 2))
}

/// A character reference: numeric ones are what they stand for, `&num;` is `#`, others are a mark of their own.
fn entity(rest: &str) -> Option<(Symbol, usize)> {
    let end = rest.bytes().take(12).position(|b| b == b';')?;
    let name = rest.get(1..end)?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'#') {
        return None;
    }
    let code = name.strip_prefix('#').and_then(|number| {
        let hex = number.strip_prefix(['x', 'X']);
        u32::from_str_radix(hex.unwrap_or(number), if hex.is_some() { 16 } else { 10 }).ok()
    });
    let seen = match (name, code) {
        ("num", _) => Symbol::Hash,
        (_, Some(code)) => char::from_u32(code).map_or(Symbol::Other('&'), symbol),
        _ => Symbol::Other(' '),
    };
    Some((seen, end + 1))
}

/// Where a line may end, for any reader.
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Spaces and characters that show nothing: zero-width, bidirectional controls, fillers, variation selectors, tags.
fn is_unseen(c: char) -> bool {
    (c.is_whitespace() && !is_break(c))
        || (c.is_control() && !is_break(c))
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' | '\u{300}'..='\u{36f}')
}

/// A letter in lower case; letters that look like one of ours are taken for it.
fn fold(c: char) -> char {
    let plain = match c {
        // Full width, circled, and the mathematical alphabets, which follow each other in runs of 52.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xff01 + 0x21),
        '\u{24b6}'..='\u{24e9}' => letter((u32::from(c) - 0x24b6) % 26),
        '\u{1d400}'..='\u{1d6a3}' => letter((u32::from(c) - 0x1d400) % 26),
        '\u{1d7ce}'..='\u{1d7ff}' => char::from_u32((u32::from(c) - 0x1d7ce) % 10 + 0x30),
        _ => None,
    };
    if let Some(plain) = plain {
        return plain.to_ascii_lowercase();
    }
    match c {
        'А' | 'а' | 'Α' | 'α' => 'a',
        'С' | 'с' | 'ϲ' | 'Ϲ' => 'c',
        'ԁ' | 'Ԁ' => 'd',
        'Е' | 'е' | 'Ε' | 'ё' | 'Ё' => 'e',
        'Ϝ' => 'f',
        'ɡ' | 'Ԍ' | 'ԍ' => 'g',
        'Н' | 'н' | 'һ' | 'Һ' | 'Η' => 'h',
        'І' | 'і' | 'Ι' | 'ι' | 'ı' | 'ɩ' | 'Ӏ' | 'ӏ' => 'i',
        'М' | 'м' | 'Μ' | 'Ϻ' => 'm',
        'Ν' | 'ո' => 'n',
        'О' | 'о' | 'Ο' | 'ο' | 'օ' => 'o',
        'ѕ' | 'Ѕ' | 'ſ' => 's',
        'Т' | 'т' | 'Τ' => 't',
        'υ' | 'ս' => 'u',
        'ν' | 'ѵ' | 'Ѵ' => 'v',
        'ԝ' | 'Ԝ' | 'ѡ' => 'w',
        'У' | 'у' | 'Υ' | 'Ү' | 'ү' => 'y',
        other => other.to_lowercase().next().unwrap_or(other),
    }
}

fn letter(n: u32) -> Option<char> {
    char::from_u32(u32::from('a') + n)
}
