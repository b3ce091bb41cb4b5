//! The sub-commands that the app runs as processes of their own, for this crate's tests: `guard`, `practice-agent`.

fn main() -> std::process::ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("guard") => changeover_runtime::guard::run_guard(),
        Some("practice-agent") => changeover_runtime::practice::practice_agent_main(),
        _ => Err(std::io::Error::other("use: changeover-parts guard | practice-agent")),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
