# ./dev serve: the UI in a browser, by the server on loopback. Builds no webview, so it needs none of its libraries.
need_rust
need_packages "$packages_build"
build_ui
say "Rust: build"
cargo build -p changeover-server --bin changeover --locked
exec "$target/debug/changeover" serve "$@"
