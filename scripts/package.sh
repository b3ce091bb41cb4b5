# ./dev package [--debug]: a .deb and a .rpm that hold the window and the command line. --debug is for trying the packaging itself.
need_rust
need_node
need_packages "$packages_build" "$packages_window"
[ "$os" = Linux ] || fail "packages are made on Linux: .deb and .rpm"
build_ui
npm_ci tests/package

profile=release
[ "${1:-}" != --debug ] || profile=debug
# The bundler knows one binary; the command line goes into the package as a file beside it.
command_line=$target/$profile/changeover
overlay=$(node -e '
  const files = { "/usr/bin/changeover": process.argv[1] };
  process.stdout.write(JSON.stringify({ bundle: { linux: { deb: { files }, rpm: { files } } } }))' "$command_line")

say "package ($profile)"
rm -rf "$target/$profile/bundle"
tauri=$root/tests/package/node_modules/.bin/tauri
if [ $profile = debug ]; then
  (cd src-tauri && "$tauri" build --ci --debug --config "$overlay" -- --locked -p changeover-desktop -p changeover-server)
else
  (cd src-tauri && "$tauri" build --ci --config "$overlay" -- --locked -p changeover-desktop -p changeover-server)
fi
find "$target/$profile/bundle" -name '*.deb' -o -name '*.rpm' | while IFS= read -r file; do ls -lh "$file"; done
say "tests/package/clean-root.sh installs the .deb in a clean root and starts it there"
