# ./dev table: what every agent can do, as the contract scenarios show it, written into the README.
need_rust
need_node
need_packages "$packages_build" "$packages_window"
. scripts/agents.sh
CHANGEOVER_BIN=$target/debug/changeover
CHANGEOVER_SCENARIOS=$target/scenarios
export CHANGEOVER_BIN CHANGEOVER_SCENARIOS
build_bins
rm -rf "$CHANGEOVER_SCENARIOS"
say "the contract scenarios"
cargo test --workspace --locked --test contract -- scenarios::
"$target/debug/scenario-table" README.md "$CHANGEOVER_SCENARIOS"
