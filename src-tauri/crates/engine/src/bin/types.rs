//! Writes `ui/src/lib/api/gen.ts`, or with `--check` says whether it is up to date.

use std::{path::Path, process::ExitCode};

fn main() -> std::io::Result<ExitCode> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../ui/src/lib/api/gen.ts");
    let wanted = changeover_engine::api::typescript();
    if std::env::args().any(|a| a == "--check") {
        if std::fs::read_to_string(&path).unwrap_or_default() == wanted {
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("ui/src/lib/api/gen.ts is out of date: run `cargo run -p changeover-engine --bin types`.");
        return Ok(ExitCode::FAILURE);
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, wanted)?;
    Ok(ExitCode::SUCCESS)
}
