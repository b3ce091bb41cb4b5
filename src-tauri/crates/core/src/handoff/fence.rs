//! Fences around bodies (B7): longer than any run inside, so nothing inside can close one.

/// The shortest fence, which Markdown allows.
pub const SHORTEST: usize = 3;

/// How long the fence around `body` must be: one longer than the longest run of backticks or of tildes inside, and at
/// least [`SHORTEST`].
pub fn width(body: &str) -> usize {
    let (mut longest, mut run, mut before) = (0, 0, 0);
    for byte in body.bytes() {
        run = match byte {
            b'`' | b'~' if byte == before => run + 1,
            b'`' | b'~' => 1,
            _ => 0,
        };
        longest = longest.max(run);
        before = byte;
    }
    SHORTEST.max(longest + 1)
}

/// Appends `body` between fences, each on a line of its own; no line break after the last one.
pub fn push(out: &mut String, body: &str) {
    let width = width(body);
    let fence = |out: &mut String| out.extend(std::iter::repeat_n('`', width));
    fence(out);
    out.push('\n');
    out.push_str(body);
    out.push('\n');
    fence(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_longer_than_the_longest_run() {
        let widths = [("", 3), ("``", 3), ("```", 4), ("a ~~~~~ b ```", 6), ("`~`~`~`~", 3), ("`\u{200b}``", 3)];
        for (body, expected) in widths {
            assert_eq!(width(body), expected, "{body:?}");
        }
    }
}
