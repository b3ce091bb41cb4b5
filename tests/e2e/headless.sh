#!/usr/bin/env bash
# usage: tests/e2e/headless.sh COMMAND...
# Runs a command with a screen, a session bus, a Secret Service and XDG folders of its own, and ends them all with it.
# KEYRING=off leaves the Secret Service out.
set -euo pipefail

home=$(mktemp -d "${TMPDIR:-/tmp}/changeover-screen.XXXXXX")
export XDG_CONFIG_HOME=$home/config XDG_DATA_HOME=$home/data XDG_CACHE_HOME=$home/cache XDG_STATE_HOME=$home/state XDG_RUNTIME_DIR=$home/run
mkdir -p "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_CACHE_HOME" "$XDG_STATE_HOME"
mkdir -m 700 "$XDG_RUNTIME_DIR"

screen=''
finish() {
  [ -z "$screen" ] || kill "$screen" 2>/dev/null || true
  rm -rf "$home"
}
trap finish EXIT

# Xvfb itself picks a free display and says which, once it takes connections.
mkfifo "$home/display"
Xvfb -displayfd 9 -screen 0 1440x900x24 -nolisten tcp 9>"$home/display" >"$home/xvfb.log" 2>&1 &
screen=$!
if ! IFS= read -r -t 30 number <"$home/display"; then
  cat "$home/xvfb.log" >&2
  echo "headless: no screen" >&2
  exit 1
fi
export DISPLAY=:$number GDK_BACKEND=x11
unset WAYLAND_DISPLAY
# With either of these a WebDriver screenshot of WebKitGTK hangs for ever.
unset WEBKIT_DISABLE_DMABUF_RENDERER WEBKIT_DISABLE_COMPOSITING_MODE

dbus-run-session -- bash -c '
  if [ "${KEYRING:-on}" != off ]; then
    # A first unlock with any password that is not empty makes the keyring.
    printf %s unlocked | gnome-keyring-daemon --unlock --components=secrets >/dev/null
  fi
  "$@"' headless "$@"
