# ./dev bench: the figures that are published, each beside what it is held against, in one table at the end.
need_rust
need_node
need_packages "$packages_build"

CHANGEOVER_BENCH_ROWS=$(mktemp)
export CHANGEOVER_BENCH_ROWS
trap 'rm -f "$CHANGEOVER_BENCH_ROWS"' EXIT

# One call, so that all of them are built of the same parts; each is run by itself, one after the other.
benches=(
  --locked -p changeover-core -p changeover-store -p changeover-engine -p changeover-tests
  --features changeover-core/naive
)
say "building"
cargo bench "${benches[@]}" --bench handoff --bench store --bench relay --bench serve --no-run

say "handoff: the core beside plain Node"
cargo bench -q "${benches[@]}" --bench handoff
node tests/bench/handoff.mjs

say "store: out of a million messages, and what a stream costs the disk"
cargo bench -q "${benches[@]}" --bench store

say "relay: a million deltas from the wire to the event hub"
cargo bench -q "${benches[@]}" --bench relay

say "serve: on a million messages"
cargo bench -q "${benches[@]}" --bench serve

say "all of it"
node tests/bench/rows.mjs
