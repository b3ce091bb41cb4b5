# ./dev run: from a fresh clone to an open window.
need_rust
need_node
if [ "$os" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  fail "there is no display here, so no window can open. The same interface in a browser is \`changeover serve\`: run ./dev serve"
fi
need_packages "$packages_build" "$packages_window"
build_ui
build_bins
say "opening the window"
exec "$target/debug/changeover-desktop" "$@"
