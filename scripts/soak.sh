# ./dev soak [FILTER]: the crash runs at their full length (./dev test has the short ones of the same tests), at other moments each
# time, and what they said. CHANGEOVER_SEED=N (it stands in each log) brings the moments of a run back.
need_rust
need_node
need_packages "$packages_build" "$packages_window"
. scripts/agents.sh
build_ui
build_bins
export CHANGEOVER_SOAK=1 CHANGEOVER_BIN=$target/debug/changeover CHANGEOVER_SEED=${CHANGEOVER_SEED:-$(date +%s)}
tests=(--workspace --locked --no-fail-fast --test it)
cargo test "${tests[@]}" --no-run
mkdir -p tests/soak
log=tests/soak/$(date -u +%Y-%m-%dT%H%MZ).txt
{
  printf 'commit %s, %s, %s\n' "$(git rev-parse --short HEAD)" "$(uname -srm)" "$(date -u)"
  cargo test -q "${tests[@]}" -- "${1:-crash::}" --nocapture --test-threads 1
} 2>&1 | tee "$log"
say "kept in $log"
