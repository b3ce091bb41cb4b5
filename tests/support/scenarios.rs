//! The contract scenarios by name, what a run of them leaves behind, and the README's table made of that.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Every scenario: its name as a test, and what a reader of the table is told.
pub const SCENARIOS: [(&str, &str); 20] = [
    ("start", "start, a first turn"),
    ("stream", "a reply as it streams"),
    ("command_exit_0", "a command with exit code 0"),
    ("command_exit_3", "a command with exit code 3"),
    ("approve", "approve a command"),
    ("deny", "deny a command"),
    ("interrupt", "interrupt a reply and a command"),
    ("resume_after_restart", "go on after a restart"),
    ("session_gone", "a session that is gone"),
    ("fork", "fork a session"),
    ("usage_and_window", "context used, window"),
    ("mcp_tool", "a tool of our MCP server"),
    ("compaction_off", "its own compaction off"),
    ("overflow", "a prompt that does not fit"),
    ("api_401", "401 from the model API"),
    ("api_429", "429"),
    ("api_529", "529"),
    ("cut_stream", "a reply cut off in the middle"),
    ("second_prompt_while_busy", "a second prompt while busy"),
    ("folder_gone", "the folder is gone"),
];

/// Every runtime under test, in the table's order.
pub const RUNTIMES: [&str; 3] = ["claude", "codex", "practice"];

/// What a scenario has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// It holds.
    Works,
    /// The product says that it cannot, in these words, and so it is.
    Cannot(String),
}

/// A cell as a test leaves it behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The runtime's name among [`RUNTIMES`].
    pub runtime: String,
    /// Its name for people, by the product.
    pub title: String,
    /// The scenario's name among [`SCENARIOS`].
    pub scenario: String,
    /// The product's words, if it cannot.
    pub cannot: Option<String>,
}

impl Shown {
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.{}.json", self.runtime, self.scenario))
    }

    /// Leaves it in the folder.
    pub fn keep(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("a folder for what was shown");
        fs::write(self.file(folder), serde_json::to_vec(self).expect("JSON")).expect("it is written");
    }

    /// Takes away what an earlier run left: a test that fails leaves none.
    pub fn forget(&self, folder: &Path) {
        let _ = fs::remove_file(self.file(folder));
    }
}

/// Reads what a run left.
///
/// # Errors
/// What is missing or cannot be read, one line each.
pub fn read(folder: &Path) -> Result<Vec<Shown>, String> {
    let mut all = Vec::new();
    let mut missing = Vec::new();
    for runtime in RUNTIMES {
        for (scenario, _) in SCENARIOS {
            let file = folder.join(format!("{runtime}.{scenario}.json"));
            let read = fs::read(&file).map_err(|why| why.to_string());
            match read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|why| why.to_string())) {
                Ok(shown) => all.push(shown),
                Err(why) => missing.push(format!("scenarios::{runtime}::{scenario} has shown nothing: {why}")),
            }
        }
    }
    if missing.is_empty() { Ok(all) } else { Err(missing.join("\n")) }
}

/// The table, Markdown. Words of the product stand once, below it.
pub fn table(shown: &[Shown]) -> String {
    let of =
        |runtime: &str, scenario: &str| shown.iter().find(|cell| cell.runtime == runtime && cell.scenario == scenario);
    let titles = RUNTIMES.map(|runtime| of(runtime, SCENARIOS[0].0).map_or(runtime, |cell| &cell.title));
    let mut out = format!("| | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(RUNTIMES.len()));
    let mut notes: Vec<&str> = Vec::new();
    for (scenario, words) in SCENARIOS {
        let cells = RUNTIMES.map(|runtime| match of(runtime, scenario).map(|cell| &cell.cannot) {
            Some(None) => "works".to_owned(),
            Some(Some(why)) => {
                let number = notes.iter().position(|note| note == why).unwrap_or_else(|| {
                    notes.push(why);
                    notes.len() - 1
                });
                format!("cannot ({})", number + 1)
            }
            None => "not run".to_owned(),
        });
        let _ = writeln!(out, "| {words} | {} |", cells.join(" | "));
    }
    for (index, note) in notes.iter().enumerate() {
        let _ = writeln!(out, "{}{}. “{note}”", if index == 0 { "\nThe app says:\n\n" } else { "" }, index + 1);
    }
    out
}

const BEGIN: &str = "<!-- scenarios: written by ./dev table -->\n";
const END: &str = "<!-- /scenarios -->";

/// A text with this table between its marks.
///
/// # Errors
/// The marks are not there.
pub fn placed(text: &str, table: &str) -> Result<String, String> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or("the marks of the table are missing")?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Vec<Shown> {
        let all = RUNTIMES.iter().flat_map(|runtime| SCENARIOS.map(|(scenario, _)| (*runtime, scenario)));
        all.map(|(runtime, scenario)| Shown {
            runtime: runtime.into(),
            title: runtime.to_uppercase(),
            scenario: scenario.into(),
            cannot: (runtime == "practice" && scenario.starts_with("command")).then(|| "It has no hands.".into()),
        })
        .collect()
    }

    #[test]
    fn a_table_says_works_or_why_not_and_is_read_back_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(read(folder.path()).is_err_and(|why| why.lines().count() == RUNTIMES.len() * SCENARIOS.len()));
        for cell in shown() {
            cell.keep(folder.path());
        }
        let table = table(&read(folder.path()).expect("all"));
        assert!(table.contains("| a command with exit code 3 | works | works | cannot (1) |"), "{table}");
        assert!(table.ends_with("\nThe app says:\n\n1. “It has no hands.”\n"), "{table}");
        shown()[0].forget(folder.path());
        assert!(read(folder.path()).is_err_and(|why| why.contains("scenarios::claude::start")));
        let text = placed(&format!("a\n{BEGIN}old{END}\nb"), &table).expect("marks");
        assert_eq!(text, format!("a\n{BEGIN}{table}{END}\nb"));
        assert!(placed("none", &table).is_err());
    }
}
