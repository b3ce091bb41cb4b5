# ./dev test [types|ui|rust|web|window]...: all of it, in this order, or the parts named.
need_rust
need_node
parts=${*:-types ui rust web window}
wants() { case " $parts " in *" $1 "*) return 0 ;; *) return 1 ;; esac }
for part in $parts; do
  case $part in types | ui | rust | web | window) ;; *) fail "there is no part '$part': types, ui, rust, web, window" ;; esac
done

need_packages "$packages_build" "$packages_window" "$packages_test"

# Tests keep to folders of their own. These stand where a person's would be, and must be empty at the end.
sandbox=$(mktemp -d "${TMPDIR:-/tmp}/changeover-test.XXXXXX")
trap 'rm -rf "$sandbox"' EXIT
export XDG_DATA_HOME=$sandbox/data XDG_CONFIG_HOME=$sandbox/config XDG_STATE_HOME=$sandbox/state XDG_CACHE_HOME=$sandbox/cache
mkdir -p "$XDG_DATA_HOME" "$XDG_CONFIG_HOME" "$XDG_STATE_HOME" "$XDG_CACHE_HOME"

. scripts/agents.sh
CHROMIUM=$(chromium_path)
CHANGEOVER_BIN=$target/debug/changeover
CHANGEOVER_DESKTOP_BIN=$target/debug/changeover-desktop
# What the contract scenarios have shown: the README's table is made of it.
CHANGEOVER_SCENARIOS=$target/scenarios
export CHROMIUM CHANGEOVER_BIN CHANGEOVER_DESKTOP_BIN CHANGEOVER_SCENARIOS

if wants types; then
  say "types"
  build_bins
  "$target/debug/types" --check ||
    fail "ui/src/lib/api/gen.ts is not what the Rust types say: run ./dev types and commit"
fi

if wants ui; then
  npm_ci ui
  say "UI: svelte-check"
  (cd ui && npm run check)
  say "UI: vitest"
  (cd ui && npm test)
fi
# Everything below carries the built page inside it.
build_ui

if wants rust; then
  say "check tools"
  node --test scripts/check/
fi
if wants rust || wants web || wants window; then build_bins; fi

if wants rust; then
  rm -rf "$CHANGEOVER_SCENARIOS"
  if cargo nextest --version >/dev/null 2>&1; then
    say "Rust: nextest"
    cargo nextest run --workspace --locked --no-fail-fast
  else
    say "Rust: cargo test (cargo-nextest, where installed, runs them sooner)"
    cargo test --workspace --locked --no-fail-fast --lib --bins --tests
  fi
  say "README: what every agent can do"
  "$target/debug/scenario-table" README.md "$CHANGEOVER_SCENARIOS" --check
  npm_ci tests/mcp-conformance --ignore-scripts
  say "MCP: the public conformance runner"
  tests/mcp-conformance/run.sh "$target/debug/mcp-stand"
fi

if wants web; then
  npm_ci tests/e2e
  say "Playwright: the UI in Chromium on changeover serve"
  (cd tests/e2e && npm test)
fi

if wants window; then
  if [ "$os" = Linux ]; then
    say "the real window, under Xvfb"
    tests/e2e/headless.sh node --test tests/e2e/window/
  else
    say "the real window is driven on Linux only: $os gives its webview no WebDriver"
  fi
fi

left=$(find "$sandbox" -mindepth 1 -iname '*changeover*' | head -n 5)
[ -z "$left" ] || fail "a test wrote where a person's own data would be: $left"
say "all tests passed: $parts"
