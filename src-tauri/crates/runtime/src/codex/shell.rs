//! The command line that the agent wrote, without the shell that Codex wraps around it (S2).

/// Codex gives a command as one line, quoted as a shell would need it: `/bin/bash -lc 'touch a; exit 3'`. What the agent
/// wrote is the last word. A line of another shape is left as it is.
pub(super) fn unwrapped(line: &str) -> String {
    let Some(words) = shlex::split(line) else { return line.to_owned() };
    let Some((program, rest)) = words.split_first() else { return line.to_owned() };
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.strip_suffix(".exe").unwrap_or(name);
    let script = match (name, rest) {
        ("bash" | "sh" | "zsh" | "dash" | "ksh", [flag, script]) if flag == "-lc" || flag == "-c" => Some(script),
        ("pwsh" | "powershell", [flags @ .., flag, script])
            if flag == "-Command" && flags.iter().all(|flag| flag.starts_with('-')) =>
        {
            Some(script)
        }
        ("cmd", [flag, script]) if flag.eq_ignore_ascii_case("/c") => Some(script),
        _ => None,
    };
    script.map_or_else(|| line.to_owned(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::unwrapped;

    #[test]
    fn the_shell_goes_and_the_words_stay() {
        // The third is recorded: a line with single quotes in it comes back in pieces.
        for (line, script) in [
            ("/bin/bash -lc 'touch a; exit 3'", "touch a; exit 3"),
            ("/bin/bash -lc ls", "ls"),
            (
                r#"/bin/bash -lc "trap '' TERM INT HUP; echo "'$$ > pid; (trap '"'' TERM; sleep 987 ) & sleep 986; echo x""#,
                "trap '' TERM INT HUP; echo $$ > pid; (trap '' TERM; sleep 987 ) & sleep 986; echo x",
            ),
            ("/bin/zsh -c 'a\nb # c'", "a\nb # c"),
            ("powershell.exe -NoProfile -Command 'Get-Item x'", "Get-Item x"),
        ] {
            assert_eq!(unwrapped(line), script);
        }
        for line in ["git status", "bash script.sh", "/bin/bash -lc 'a' b", "/bin/bash -lc 'never closed", ""] {
            assert_eq!(unwrapped(line), line);
        }
    }
}
