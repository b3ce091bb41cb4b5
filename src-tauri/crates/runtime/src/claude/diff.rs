//! Unified diffs out of what the CLI tells about an edit.

use std::fmt::Write as _;

use changeover_core::part::FileDelta;
use serde_json::Value;

/// The changes that a file tool's input asks for; `None` when the input is none of a file tool.
pub(super) fn of_input(tool: &str, input: &Value) -> Option<Vec<FileDelta>> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let path = text("file_path").or_else(|| text("notebook_path"))?;
    let diff = match tool {
        "Write" => hunk(0, "", 1, text("content")?),
        "Edit" => edit(input)?,
        "MultiEdit" => input.get("edits")?.as_array()?.iter().filter_map(edit).collect(),
        "NotebookEdit" => hunk(1, "", 1, text("new_source").unwrap_or_default()),
        _ => return None,
    };
    Some(vec![FileDelta { path: path.to_owned(), diff: with_head(path, tool == "Write", &diff) }])
}

/// The changes as they were made, by the CLI's own patch; `None` when it tells none.
pub(super) fn of_result(result: &Value) -> Option<Vec<FileDelta>> {
    let path = result.get("filePath")?.as_str()?;
    let created = result.get("type").and_then(Value::as_str) == Some("create");
    let hunks = result.get("structuredPatch")?.as_array()?;
    let mut diff = String::new();
    for hunk in hunks {
        let number = |key: &str| hunk.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (old, new) = ((number("oldStart"), number("oldLines")), (number("newStart"), number("newLines")));
        let _ = writeln!(diff, "@@ -{},{} +{},{} @@", old.0, old.1, new.0, new.1);
        for line in hunk.get("lines").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            diff.push_str(line);
            diff.push('\n');
        }
    }
    if hunks.is_empty() {
        diff = hunk(0, "", 1, result.get("content")?.as_str()?);
    }
    Some(vec![FileDelta { path: path.to_owned(), diff: with_head(path, created, &diff) }])
}

fn edit(input: &Value) -> Option<String> {
    let (old, new) = (input.get("old_string")?.as_str()?, input.get("new_string")?.as_str()?);
    // Where in the file it stands is the CLI's secret until it has been done.
    Some(hunk(1, old, 1, new))
}

fn with_head(path: &str, created: bool, hunks: &str) -> String {
    let old = if created { "/dev/null".to_owned() } else { format!("a/{}", path.trim_start_matches('/')) };
    format!("--- {old}\n+++ b/{}\n{hunks}", path.trim_start_matches('/'))
}

/// One hunk that replaces `old` with `new`; lines that both begin or end with stand as context.
fn hunk(old_start: usize, old: &str, new_start: usize, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let most = a.len().min(b.len()) - before;
    let after = a.iter().rev().zip(b.iter().rev()).take(most).take_while(|(x, y)| x == y).count();
    let mut out = format!("@@ -{old_start},{} +{new_start},{} @@\n", a.len(), b.len());
    let mut put = |sign: char, lines: &[&str]| {
        for line in lines {
            out.push(sign);
            out.push_str(line);
            out.push('\n');
        }
    };
    put(' ', &a[..before]);
    put('-', &a[before..a.len() - after]);
    put('+', &b[before..b.len() - after]);
    put(' ', &a[a.len() - after..]);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edit_shows_what_goes_and_what_comes_with_the_lines_they_share() {
        let input = json!({"file_path": "/w/f.txt", "old_string": "a\nb\nc", "new_string": "a\nB\nB2\nc", "replace_all": false});
        let files = of_input("Edit", &input).unwrap();
        assert_eq!(files[0].path, "/w/f.txt");
        assert_eq!(files[0].diff, "--- a/w/f.txt\n+++ b/w/f.txt\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+B2\n c\n");
        let repeated = json!({"file_path": "f", "old_string": "x\nx", "new_string": "x"});
        assert!(of_input("Edit", &repeated).unwrap()[0].diff.ends_with("@@ -1,2 +1,1 @@\n x\n-x\n"));
    }

    #[test]
    fn a_new_file_is_all_new_and_another_tool_is_no_edit() {
        let input = json!({"file_path": "n.txt", "content": "one\ntwo\n"});
        let diff = "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n";
        assert_eq!(of_input("Write", &input).unwrap()[0].diff, diff);
        assert_eq!(of_input("Read", &input), None);
        let result = json!({"type": "create", "filePath": "n.txt", "content": "one\ntwo\n", "structuredPatch": []});
        assert_eq!(of_result(&result).unwrap()[0].diff, diff);
    }

    #[test]
    fn the_patch_of_the_cli_is_taken_line_by_line() {
        let result = json!({"filePath": "/w/f", "oldString": "b", "newString": "B", "structuredPatch":
            [{"oldStart": 7, "oldLines": 3, "newStart": 7, "newLines": 3, "lines": [" a", "-b", "+B", " c"]}]});
        assert_eq!(of_result(&result).unwrap()[0].diff, "--- a/w/f\n+++ b/w/f\n@@ -7,3 +7,3 @@\n a\n-b\n+B\n c\n");
        assert_eq!(of_result(&json!("Error: no")), None);
    }
}
