//! The command line without a window.

fn main() -> std::process::ExitCode {
    changeover_server::cli::main()
}
