# ./dev types: the TypeScript types, written from the Rust ones.
need_rust
need_packages "$packages_build"
cargo run --locked -p changeover-engine --bin types -- "$@"
