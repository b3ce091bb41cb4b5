//! Overflow by its wording (G8), on errors as people met them, and on a second list that the rules were not made from.

use changeover_core::document::overflow::is_overflow;

/// Rows of `provider, text, yes/no`.
fn rows(list: &str) -> Vec<(&str, &str, bool)> {
    let rows = list.lines().skip(1).map(|line| {
        let mut cells = line.split('\t');
        let (provider, text, verdict) = (cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap());
        (provider, text, verdict == "yes")
    });
    rows.collect()
}

fn wrong<'a>(rows: &[(&'a str, &'a str, bool)]) -> Vec<(&'a str, &'a str, bool)> {
    rows.iter().filter(|(_, text, overflow)| is_overflow(&[text]) != *overflow).copied().collect()
}

#[test]
fn g8_every_wording_seen() {
    let rows = rows(include_str!("fixtures/overflow.tsv"));
    assert_eq!(rows.len(), 95);
    let wrong = wrong(&rows);
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

#[test]
fn g8_wordings_the_rules_were_not_made_from() {
    let rows = rows(include_str!("fixtures/overflow_held_out.tsv"));
    assert_eq!(rows.len(), 80);
    let wrong = wrong(&rows);
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

/// The same words with other case, separators and numbers, inside a JSON body, and beside an HTTP status line.
#[test]
fn g8_dress_does_not_matter() {
    let dresses: [fn(&str) -> String; 4] = [
        |text| text.to_uppercase(),
        |text| {
            format!(
                "API Error: 400 {}",
                serde_json::json!({ "error": { "type": "invalid_request_error", "message": text } })
            )
        },
        |text| text.chars().map(|c| if c.is_ascii_digit() { '7' } else { c }).collect(),
        |text| format!("\n  {text}\n"),
    ];
    for (_, text, overflow) in rows(include_str!("fixtures/overflow.tsv")) {
        if text.contains("413 status code") || text.contains("1039") {
            continue; // the number itself is the message
        }
        for dress in dresses {
            let dressed = dress(text);
            assert_eq!(is_overflow(&[&dressed]), overflow, "{dressed}");
        }
    }
}

#[test]
fn g8_texts_of_one_error_are_judged_together() {
    assert!(is_overflow(&["Bad Request", "context_length_exceeded"]));
    assert!(!is_overflow(&["Request too large for model", "rate_limit_exceeded"]));
    assert!(!is_overflow(&[]) && !is_overflow(&[""]));
}
