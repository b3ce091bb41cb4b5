//! The sub-commands of the app that run without it, for this crate's own tests: `guard`, `practice-agent`.

fn main() -> std::process::ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("guard") => changeover_runtime::guard::run_guard(),
        _ => Err(std::io::Error::other("use: changeover-parts guard")),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
