//! Tauri's build step; the window has one command of its own.

use std::{fs, io, path::Path};

/// A page must be there to be embedded. A plain `cargo build` does not run Node, so it gets one that says what is missing.
fn ensure_page(dist: &Path) -> io::Result<()> {
    let page = dist.join("index.html");
    if page.exists() {
        return Ok(());
    }
    fs::create_dir_all(dist)?;
    fs::write(
        page,
        "<!doctype html><title>Changeover</title><p>The interface was not built: run ./dev run</p>\n",
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ensure_page(Path::new("../ui/dist"))?;
    let app = tauri_build::AppManifest::new().commands(&["rpc"]);
    tauri_build::try_build(tauri_build::Attributes::new().app_manifest(app))?;
    Ok(())
}
