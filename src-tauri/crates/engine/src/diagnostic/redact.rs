//! A page without secrets: keys and tokens by their first four characters, the home folder as `~`.

use changeover_runtime::session::Environment;

use super::secrets;

/// What keys of known vendors begin with.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "pk-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "AIza",
    "xoxb",
    "xoxp",
    "eyJ",
    "AKIA",
    "ASIA",
    "ya29",
    "hf_",
    "gsk_",
    "xai-",
    "npm_",
    "tvly-",
    "r8_",
];

/// A page in the making.
pub(super) struct Redacted {
    text: String,
    secrets: Vec<String>,
    home: Option<String>,
}

impl Redacted {
    pub(super) fn new(env: &Environment) -> Self {
        let home = env.get("HOME").or_else(|| env.get("USERPROFILE")).filter(|home| home.len() > 1);
        let mut secrets = secrets(env);
        // The longest first: one may begin with another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { text: String::new(), secrets, home: home.map(|home| home.trim_end_matches(['/', '\\']).to_owned()) }
    }

    /// Adds a line; line ends inside it become blanks, but for one at its beginning.
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        let (gap, rest) = line.strip_prefix('\n').map_or(("", line), |rest| ("\n", rest));
        let mut rest = rest.replace(['\n', '\r'], " ");
        for secret in &self.secrets {
            rest = rest.replace(secret.as_str(), &shortened(secret));
        }
        if let Some(home) = &self.home {
            rest = rest.replace(home.as_str(), "~");
        }
        self.text.push_str(gap);
        self.text.push_str(&clean(&rest));
        self.text.push('\n');
    }

    pub(super) fn none_if_empty(&mut self, empty: bool) {
        if empty {
            self.line("- none");
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// The first four characters of a secret.
pub(super) fn shortened(secret: &str) -> String {
    format!("{}…", secret.chars().take(4).collect::<String>())
}

/// Shortens whatever looks like a key, a token, or a name and password in an address.
fn clean(line: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("://") {
            out.push_str("://");
            let end = after.find(['/', ' ', '?', '#']).unwrap_or(after.len());
            rest = match after[..end].rfind('@') {
                Some(at) => {
                    out.push('…');
                    &after[at..]
                }
                None => after,
            };
            continue;
        }
        let word_end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if word_end == 0 {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            out.push_str(&rest[..next]);
            rest = &rest[next..];
            continue;
        }
        let word = &rest[..word_end];
        if is_secret(word, &out) {
            out.push_str(&shortened(word))
        } else {
            out.push_str(word)
        }
        rest = &rest[word_end..];
    }
    out
}

fn is_secret(word: &str, before: &str) -> bool {
    let before = before.to_ascii_lowercase();
    let announced = ["bearer ", "token=", "key=", "key: ", "token: ", "secret=", "password=", "code="];
    if word.len() >= 8 && announced.iter().any(|words| before.ends_with(words)) {
        return true;
    }
    if word.len() >= 12 && BEGINNINGS.iter().any(|beginning| word.starts_with(beginning)) {
        return true;
    }
    // Chance makes 32 characters of all three kinds; an id is lower case, a name has no digits.
    let has = |kind: fn(&char) -> bool| word.chars().any(|c| kind(&c));
    word.len() >= 32 && has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(env: &[(&str, &str)], line: &str) -> String {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut page = Redacted::new(&env);
        page.line(line);
        page.finish().trim_end().to_owned()
    }

    #[test]
    fn keys_and_tokens_keep_four_characters() {
        for (line, shown) in [
            ("401: invalid x-api-key sk-ant-api03-AbCdEf012345", "401: invalid x-api-key sk-a…"),
            ("Authorization: Bearer abcdefghij", "Authorization: Bearer abcd…"),
            ("http://127.0.0.1:4000/?code=0123456789", "http://127.0.0.1:4000/?code=0123…"),
            ("https://ada:hunter2@proxy.example:8080/x", "https://…@proxy.example:8080/x"),
            ("got ghp_0123456789abcdefghij.", "got ghp_…."),
            ("AbCdEfGhIjKlMnOpQrStUvWxYz0123456789", "AbCd…"),
        ] {
            assert_eq!(page(&[], line), shown);
        }
        let env = [("MY_TOKEN", "plainword"), ("HOME", "/home/ada"), ("SHORT_KEY", "on")];
        assert_eq!(page(&env, "plainword is on in /home/ada/x"), "plai… is on in ~/x");
    }

    #[test]
    fn what_is_no_secret_stays() {
        for line in [
            "- session 0198c2f4-7a51-7000-8000-0123456789ab is gone",
            "/opt/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
            "x86_64-unknown-linux-musl, Ünïcödé, 日本語",
            "3f786850e387550fdab836ed7e6dc881de23001b",
            "skip the-key-that-is-none",
        ] {
            assert_eq!(page(&[("HOME", "/")], line), line);
        }
        assert_eq!(page(&[], "one\ntwo"), "one two");
    }
}
