//! The UI's files are built into the program. Where the UI has not been built there is an empty page, so that a plain
//! `cargo test` never needs Node.

use std::{fs, path::Path};

fn main() -> std::io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../ui/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    if !dist.join("index.html").exists() {
        fs::create_dir_all(&dist)?;
        fs::write(
            dist.join("index.html"),
            "<!doctype html><meta charset=\"utf-8\"><title>Changeover</title><p>The UI has not been built. Run ./dev run.</p>",
        )?;
    }
    Ok(())
}
