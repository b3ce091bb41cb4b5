//! A command's output as the practice agent keeps it: decoded as it comes, its middle left out when it is long.

/// How much of the beginning is kept, in bytes, and how much of the end.
const HALF: usize = 256 * 1024;

/// What a command has written so far, of which at most twice [`HALF`] is kept.
#[derive(Debug, Default)]
pub(super) struct Output {
    head: String,
    tail: String,
    /// Bytes of text that came.
    total: usize,
    /// The beginning of a character whose rest has not come yet.
    torn: Vec<u8>,
}

impl Output {
    /// Takes what came. Gives back what of it is to be told at once: the beginning, up to the bound.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.torn.extend_from_slice(bytes);
        let text = self.decode();
        self.keep(text)
    }

    /// Nothing more comes: the rest that is to be told at once.
    pub fn end(&mut self) -> String {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.torn)).into_owned();
        self.keep(text)
    }

    /// Bytes of text that came.
    pub fn total(&self) -> usize {
        self.total
    }

    /// All that is kept, with a line that says what is not.
    pub fn kept(&self) -> String {
        let left = self.total - self.head.len() - self.tail.len();
        match left {
            0 => format!("{}{}", self.head, self.tail),
            left => format!("{}\n({left} bytes left out)\n{}", self.head, self.tail),
        }
    }

    fn decode(&mut self) -> String {
        let mut text = String::with_capacity(self.torn.len());
        let mut rest = self.torn.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(good) => {
                    text.push_str(good);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(good));
                    let Some(skip) = error.error_len() else {
                        rest = bad;
                        break;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[skip..];
                }
            }
        }
        self.torn = rest.to_vec();
        text
    }

    fn keep(&mut self, text: String) -> String {
        self.total += text.len();
        let room = HALF - self.head.len();
        if self.tail.is_empty() && text.len() <= room {
            self.head.push_str(&text);
            return text;
        }
        let cut = if self.tail.is_empty() { text.floor_char_boundary(room) } else { 0 };
        self.head.push_str(&text[..cut]);
        self.tail.push_str(&text[cut..]);
        // In large steps, so that the cost is that of what came.
        if self.tail.len() > 2 * HALF {
            let from = self.tail.ceil_char_boundary(self.tail.len() - HALF);
            self.tail.drain(..from);
        }
        text[..cut].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_come_in_pieces_are_whole_and_bad_bytes_are_marked() {
        let mut output = Output::default();
        let told = [&b"a\xe6"[..], b"\x97", b"\xa5b\xffc", b"\xe6"].map(|bytes| output.push(bytes));
        assert_eq!(told, ["a", "", "日b\u{fffd}c", ""].map(str::to_owned));
        assert_eq!(output.end(), "\u{fffd}");
        assert_eq!((output.kept().as_str(), output.total()), ("a日b\u{fffd}c\u{fffd}", 12));
    }

    #[test]
    fn of_a_long_output_the_beginning_and_the_end_are_kept() {
        let mut output = Output::default();
        let mut told = 0;
        for n in 0..200_000 {
            told += output.push(format!("line {n}\n").as_bytes()).len();
        }
        assert!(told <= HALF && told > HALF - 16, "{told}");
        let kept = output.kept();
        assert!(kept.len() < 3 * HALF + 100, "{}", kept.len());
        assert!(kept.starts_with("line 0\n") && kept.ends_with("line 199999\n") && kept.contains(" bytes left out)\n"));
        let mut line = Output::default();
        line.push(&vec![b'x'; 20 * 1024 * 1024]);
        assert_eq!(line.total(), 20 * 1024 * 1024);
        assert!(line.kept().len() < 3 * HALF);
    }
}
