# The real agent CLIs, pinned in tests/agents. One that cannot be had fails the run: a test against it is never skipped.
npm_ci tests/agents --ignore-scripts

agent_opencode=
case "$os-$(uname -m)" in
  Linux-x86_64) agent_claude=claude-code-linux-x64 agent_codex=codex-linux-x64 agent_opencode=opencode-linux-x64 ;;
  Linux-aarch64) agent_claude=claude-code-linux-arm64 agent_codex=codex-linux-arm64 ;;
  Darwin-x86_64) agent_claude=claude-code-darwin-x64 agent_codex=codex-darwin-x64 ;;
  Darwin-arm64) agent_claude=claude-code-darwin-arm64 agent_codex=codex-darwin-arm64 ;;
  *) fail "the pinned agent CLIs have no build for $os on $(uname -m)" ;;
esac
CHANGEOVER_TEST_CLAUDE=$root/tests/agents/node_modules/@anthropic-ai/$agent_claude/claude
CHANGEOVER_TEST_CODEX=$(find "$root/tests/agents/node_modules/@openai/$agent_codex/vendor" -path '*/bin/codex' -type f 2>/dev/null | head -n 1)
CHANGEOVER_TEST_OPENCODE=$root/tests/agents/node_modules/${agent_opencode:-none}/bin/opencode
export CHANGEOVER_TEST_CLAUDE CHANGEOVER_TEST_CODEX CHANGEOVER_TEST_OPENCODE

# expect_agent NAME BINARY PACKAGE: it starts, and is the version that is pinned.
expect_agent() {
  local name=$1 binary=$2 pinned said home
  pinned=$(node -p "require('./tests/agents/package.json').optionalDependencies['$3']")
  [ -n "$binary" ] && [ -x "$binary" ] || fail "$name $pinned is not installed in tests/agents/node_modules: npm left its package for this platform out (rm -rf tests/agents/node_modules and run again to see why)"
  home=$(mktemp -d)
  said=$(env -i HOME="$home" PATH="$PATH" DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 "$binary" --version 2>&1)
  rm -rf "$home"
  case $said in
    *"$pinned"*) printf '%s %s: %s\n' "$name" "$pinned" "$binary" ;;
    *) fail "$name should be $pinned but says: $said" ;;
  esac
}
expect_agent "Claude Code" "$CHANGEOVER_TEST_CLAUDE" "@anthropic-ai/$agent_claude"
expect_agent Codex "$CHANGEOVER_TEST_CODEX" "@openai/codex"
if [ -n "$agent_opencode" ]; then
  expect_agent OpenCode "$CHANGEOVER_TEST_OPENCODE" "$agent_opencode"
else
  echo "OpenCode: no build is pinned for $os on $(uname -m); its tests will fail here"
fi
