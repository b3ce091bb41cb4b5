//! The plain rules by which the practice agent answers. Pure.

use std::time::Duration;

/// How a turn is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failing {
    Auth,
    Limit,
    Overload,
    Overflow,
    Crash,
    Hang,
    Cut,
    Protocol,
}

/// One thing that a message asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Help,
    Stream { words: u32, every: Duration },
    Run(String),
    Edit(String),
    Think,
    Plan,
    Fail(Failing),
    Fill(u64),
    Recall { whole: bool },
}

/// The words it understands, for people.
pub(super) const HELP: &str = "\
Words I understand, one a line:
- `help`: this list
- `stream N` or `stream N every MS ms`: N numbered words, as slowly as you like
- `run: COMMAND`: asks for leave, then really runs it in this folder
- `edit: PATH`: asks for leave, then writes a line into the file
- `think` and `plan`: some reasoning, a plan of three steps
- `recall`: the messages this session has seen; `recall all`: every prompt, word for word
- `fill N`: from now on I report a context of N tokens
- `fail: auth`, `limit`, `overload`, `overflow`, `cut`, `crash`, `hang` or `protocol`: things that go wrong";

/// A prompt's two parts: what was told before the new message, and the new message.
pub(super) fn split(prompt: &str) -> (&str, &str) {
    let mut at = 0;
    let mut found = None;
    for line in prompt.split_inclusive('\n') {
        if line.trim_end() == "## New message" {
            found = Some((at, at + line.len()));
        }
        at += line.len();
    }
    found.map_or(("", prompt.trim()), |(from, to)| (prompt[..from].trim(), prompt[to..].trim()))
}

/// What a new message asks for, in order; nothing: it is talk.
pub(super) fn acts(message: &str) -> Vec<Act> {
    message.lines().filter_map(|line| act(line.trim())).collect()
}

fn act(line: &str) -> Option<Act> {
    if let Some((word, rest)) = line.split_once(':') {
        let rest = rest.trim();
        return match word.trim_end().to_ascii_lowercase().as_str() {
            "run" if !rest.is_empty() => Some(Act::Run(rest.to_owned())),
            "edit" if !rest.is_empty() => Some(Act::Edit(rest.to_owned())),
            "fail" => failing(rest).map(Act::Fail),
            _ => None,
        };
    }
    let lower = line.to_ascii_lowercase();
    let words: Vec<&str> = lower.trim_end_matches(['.', '!']).split_whitespace().collect();
    match words[..] {
        ["help"] => Some(Act::Help),
        ["think"] => Some(Act::Think),
        ["plan"] => Some(Act::Plan),
        ["recall"] => Some(Act::Recall { whole: false }),
        ["recall", "all"] => Some(Act::Recall { whole: true }),
        ["fill", n] => n.parse().ok().map(Act::Fill),
        ["stream", n] => n.parse().ok().map(|words| Act::Stream { words, every: Duration::ZERO }),
        ["stream", n, "every", ms, "ms"] => {
            let every = Duration::from_millis(ms.parse::<u32>().ok()?.into());
            n.parse().ok().map(|words| Act::Stream { words, every })
        }
        _ => None,
    }
}

fn failing(word: &str) -> Option<Failing> {
    Some(match word.to_ascii_lowercase().as_str() {
        "auth" => Failing::Auth,
        "limit" => Failing::Limit,
        "overload" => Failing::Overload,
        "overflow" => Failing::Overflow,
        "crash" => Failing::Crash,
        "hang" => Failing::Hang,
        "cut" => Failing::Cut,
        "protocol" => Failing::Protocol,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_message_is_what_follows_the_last_such_line() {
        assert_eq!(split("hello\n"), ("", "hello"));
        let told = "# Before\n## New message\nold\n\n## New message\nrun: ls\n";
        assert_eq!(split(told), ("# Before\n## New message\nold", "run: ls"));
        assert_eq!(split("say ## New message\nx"), ("", "say ## New message\nx"));
    }

    #[test]
    fn each_line_that_is_a_rule_is_an_act_and_talk_is_none() {
        let message = "Please do this:\nThink.\nrun: echo 'a: b' | cat\nSTREAM 3\nstream 2 every 5 ms\nfill 9\nrecall all\nfail: CUT";
        let expected = [
            Act::Think,
            Act::Run("echo 'a: b' | cat".into()),
            Act::Stream { words: 3, every: Duration::ZERO },
            Act::Stream { words: 2, every: Duration::from_millis(5) },
            Act::Fill(9),
            Act::Recall { whole: true },
            Act::Fail(Failing::Cut),
        ];
        assert_eq!(acts(message), expected);
        for talk in ["", "how do I plan a trip?", "fail: other", "stream many", "run:", "note: run it"] {
            assert_eq!(acts(talk), [], "{talk}");
        }
    }
}
