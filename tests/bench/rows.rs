// The one table of `./dev bench`: every benchmark gives its rows here. They are printed as they come, and kept in the file
// that `CHANGEOVER_BENCH_ROWS` names for the table at the end.

use std::{fs::OpenOptions, io::Write as _};

/// One figure beside what it is held against. `met`: `None` where nothing is asked of it.
pub fn row(what: &str, number: &str, target: &str, met: Option<bool>) {
    let verdict = match met {
        Some(true) => "ok",
        Some(false) => "MISSED",
        None => "",
    };
    println!("{what:<72}{number:>40}   {target:<26}{verdict}");
    let Some(path) = std::env::var_os("CHANGEOVER_BENCH_ROWS") else { return };
    let line = format!("{what}\t{number}\t{target}\t{verdict}\n");
    let kept =
        OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = kept {
        eprintln!("the row could not be kept in {}: {error}", path.display());
        std::process::exit(1);
    }
}
