# ./dev bench: the figures that are published, each beside what it is held against.
need_rust
need_node
need_packages "$packages_build"

say "handoff: the core beside plain Node"
cargo bench --locked -p changeover-core --features naive --bench handoff
node tests/bench/handoff.mjs

say "store: out of a million messages, and what a stream costs the disk"
cargo bench --locked -p changeover-store --bench store
