//! `scenario-table README RESULTS [--check]`: writes what the contract scenarios have shown into the README, or says that it
//! is not what stands there.

use std::process::ExitCode;

use changeover_tests::scenarios;

fn run(readme: &str, results: &str, check: bool) -> Result<(), String> {
    let shown = scenarios::read(results.as_ref())?;
    let text = std::fs::read_to_string(readme).map_err(|why| format!("{readme}: {why}"))?;
    let wanted = scenarios::placed(&text, &scenarios::table(&shown)).map_err(|why| format!("{readme}: {why}"))?;
    match (text == wanted, check) {
        (true, _) => Ok(()),
        (false, true) => {
            Err(format!("the table in {readme} is not what the scenarios have shown: run ./dev table and commit"))
        }
        (false, false) => std::fs::write(readme, wanted).map_err(|why| format!("{readme}: {why}")),
    }
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let done = match &given[..] {
        [readme, results] => run(readme, results, false),
        [readme, results, flag] if flag == "--check" => run(readme, results, true),
        _ => Err("usage: scenario-table README RESULTS [--check]".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
