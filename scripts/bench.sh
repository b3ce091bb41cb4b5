# ./dev bench: the benchmarks of the tests' package, with the figures they are held against.
need_rust
need_node
need_packages "$packages_build"
build_ui
cargo bench --locked -p changeover-tests --bench '*' "$@"
