# ./dev check: what a reviewer should not have to look for.
need_rust
need_node
need_packages "$packages_build" "$packages_window" "$packages_check"

say "format"
cargo fmt --all --check

say "arrows, licences, unused dependencies"
node scripts/check/arrows.mjs
[ ! -d ui ] || npm_ci ui
node scripts/check/licences.mjs
node scripts/check/unused.mjs

say "reports"
node scripts/check/reports.mjs

say "spelling"
git ls-files -z | grep -zvE '(^|/)(package-lock\.json|Cargo\.lock|LICENSE)$|^tests/fixtures/|^ui/src/lib/api/gen\.ts$|\.(png|ico|icns|svg|woff2|snap|db|jsonl)$' |
  xargs -0 codespell --ignore-words scripts/check/spelling.txt

say "clippy"
build_ui
cargo clippy --workspace --all-targets --locked -- -D warnings

say "types"
build_bins
"$target/debug/types" --check ||
  fail "ui/src/lib/api/gen.ts is not what the Rust types say: run ./dev types and commit"

say "check passed"
