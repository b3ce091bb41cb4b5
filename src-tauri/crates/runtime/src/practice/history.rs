//! What a session of the practice agent has seen: in memory, and in one file per session if it has a home.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// One line of a session's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// A whole prompt.
    User(String),
    /// What was answered to it, as far as the turn got.
    Agent(String),
    /// From here on the context counts from this many tokens.
    Filled(u64),
}

/// A session's history.
#[derive(Debug)]
pub(super) struct History {
    file: Option<File>,
    records: Vec<Record>,
}

impl History {
    /// Of a new session.
    pub fn create(home: Option<&Path>, id: &str) -> io::Result<Self> {
        let file = match home {
            Some(home) => {
                fs::create_dir_all(home)?;
                Some(OpenOptions::new().append(true).create_new(true).open(path(home, id))?)
            }
            None => None,
        };
        Ok(Self { file, records: Vec::new() })
    }

    /// Of an earlier session; `NotFound` when there is none. A last line that a crash cut off is left out.
    pub fn open(home: Option<&Path>, id: &str) -> io::Result<Self> {
        let known = uuid::Uuid::try_parse(id).is_ok();
        let path = home.filter(|_| known).map(|home| path(home, id)).ok_or(io::ErrorKind::NotFound)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        let lines = BufReader::new(File::open(&path)?).lines();
        let records = lines.map_while(|line| serde_json::from_str(&line.ok()?).ok()).collect();
        Ok(Self { file: Some(file), records })
    }

    /// Adds a record; it is in the file before it counts.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            let mut line = serde_json::to_vec(&record)?;
            line.push(b'\n');
            file.write_all(&line)?;
        }
        self.records.push(record);
        Ok(())
    }

    /// All records, oldest first.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// All prompts, oldest first.
    pub fn prompts(&self) -> impl Iterator<Item = &str> {
        self.records.iter().filter_map(|record| match record {
            Record::User(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The context in tokens: what it was filled with, and a token for every 4 bytes since.
    pub fn tokens(&self) -> u64 {
        self.records.iter().fold(0, |tokens, record| match record {
            Record::User(text) | Record::Agent(text) => tokens + text.len().div_ceil(4) as u64,
            Record::Filled(now) => *now,
        })
    }
}

fn path(home: &Path, id: &str) -> PathBuf {
    home.join(format!("{id}.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_back_up_to_a_line_that_a_crash_cut_off() {
        let home = tempfile::tempdir().unwrap();
        let id = uuid::Uuid::new_v4().to_string();
        let mut history = History::create(Some(home.path()), &id).unwrap();
        for record in [Record::User("one\ntwo".into()), Record::Filled(100), Record::Agent("12345".into())] {
            history.push(record).unwrap();
        }
        let mut file = OpenOptions::new().append(true).open(path(home.path(), &id)).unwrap();
        file.write_all(b"{\"user\":\"hal").unwrap();
        let again = History::open(Some(home.path()), &id).unwrap();
        assert_eq!(again.records(), history.records());
        assert_eq!(again.tokens(), 102);
        assert_eq!(again.prompts().collect::<Vec<_>>(), ["one\ntwo"]);
        for (home, id) in
            [(Some(home.path()), uuid::Uuid::new_v4().to_string()), (None, id), (Some(home.path()), "../x".into())]
        {
            assert_eq!(History::open(home, &id).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }
}
