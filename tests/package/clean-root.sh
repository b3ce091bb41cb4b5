#!/usr/bin/env bash
# usage: tests/package/clean-root.sh FILE.deb [SUITE]
# Installs the package in a root that holds nothing but Debian's minimal system, as a person would (apt resolves what it
# depends on), and starts it there from its desktop entry as an ordinary user. Needs root, debootstrap, Xvfb, imagemagick.
set -euo pipefail
deb=$(realpath "${1:?usage: tests/package/clean-root.sh FILE.deb [SUITE]}")
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
top=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" = 0 ] || { echo "clean-root: needs root" >&2; exit 2; }
for tool in debootstrap Xvfb import identify xwininfo; do
  command -v $tool >/dev/null || { echo "clean-root: $tool is missing" >&2; exit 2; }
done

work=$(mktemp -d /var/tmp/changeover-root.XXXXXX)
new=$work/root
started=()
mounted=()
passed=0
finish() {
  code=$?
  # What was started in the root is ended by its root, not by its name.
  for process in /proc/[0-9]*; do
    if [ "$(readlink "$process/root" 2>/dev/null)" = "$new" ]; then kill -9 "${process#/proc/}" 2>/dev/null || true; fi
  done
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  for at in "${mounted[@]}"; do umount -l "$at" || true; done
  [ -n "${KEEP:-}" ] && echo "kept: $work" || rm -rf --one-file-system "$work"
  if [ $code = 0 ]; then echo "$passed passed, 0 failed"; else echo "$passed passed, 1 failed"; fi
}
trap finish EXIT
ok() { passed=$((passed + 1)); echo "ok: $*"; }
bad() { echo "clean-root: $*" >&2; exit 1; }
inside() { chroot "$new" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

# The mirror is the one this machine uses, with its apt settings and keys.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' | awk -v suite="$suite" '$2 == suite && $3 == "main" { print $1; exit }')
[ -n "$mirror" ] || bad "apt on this machine knows no mirror for $suite (apt-get update?)"
echo "== a minimal $suite"
debootstrap --variant=minbase "$suite" "$new" "$mirror" >"$work/debootstrap.log" 2>&1 || { tail -n 20 "$work/debootstrap.log" >&2; bad "debootstrap failed"; }
cp -a /etc/apt/apt.conf.d/. "$new/etc/apt/apt.conf.d/"
cp /etc/resolv.conf "$new/etc/resolv.conf" 2>/dev/null || true
for name in proc dev dev/pts; do
  mount --bind "/$name" "$new/$name"
  mounted=("$new/$name" "${mounted[@]}")
done
inside apt-get -q update >"$work/update.log" 2>&1 || { cat "$work/update.log" >&2; bad "apt-get update failed in the clean root"; }

echo "== install"
cp "$deb" "$new/tmp/changeover.deb"
inside apt-get -q install -y --no-install-recommends /tmp/changeover.deb >"$work/install.log" 2>&1 || { tail -n 30 "$work/install.log" >&2; bad "apt could not install the package"; }
inside dpkg --audit | grep . && bad "dpkg finds the installation broken"
ok "apt installed the package and what it depends on: $(dpkg-deb --field "$deb" Depends)"

for binary in changeover changeover-desktop; do
  [ -x "$new/usr/bin/$binary" ] || bad "/usr/bin/$binary is missing"
  missing=$(inside ldd "/usr/bin/$binary" | grep 'not found' || true)
  [ -z "$missing" ] || bad "$binary: $missing"
  ok "/usr/bin/$binary is there and finds its libraries"
  inside "/usr/bin/$binary" --version | grep -q "$(dpkg-deb --field "$deb" Version | sed 's/-.*//')" || bad "$binary --version does not say the package's version"
  ok "$binary --version says the package's version"
  for own in guard practice-agent; do
    inside "/usr/bin/$binary" $own --help >/dev/null || bad "$binary has no $own"
    ok "$binary has its $own"
  done
done

entry=$(find "$new/usr/share/applications" -name '*.desktop' | head -n 1)
[ -n "$entry" ] || bad "no desktop entry"
exec_line=$(sed -n 's/^Exec=//p' "$entry" | head -n 1 | sed 's/ *%[a-zA-Z]//g')
icon=$(sed -n 's/^Icon=//p' "$entry" | head -n 1)
inside sh -c "command -v ${exec_line%% *}" >/dev/null || bad "the desktop entry starts '$exec_line', which is not there"
find "$new/usr/share/icons" -name "$icon.*" | grep -q . || bad "the desktop entry's icon '$icon' is not there"
ok "the desktop entry's program and icon are there: $exec_line"

echo "== start, as an ordinary user"
inside useradd --create-home person
mkfifo "$work/display"
Xvfb -displayfd 9 -screen 0 1440x900x24 -nolisten tcp 9>"$work/display" >"$work/xvfb.log" 2>&1 &
started+=($!)
IFS= read -r -t 30 number <"$work/display" || bad "no screen"
install -d -m 1777 "$new/tmp/.X11-unix"
mount --bind /tmp/.X11-unix "$new/tmp/.X11-unix"
mounted=("$new/tmp/.X11-unix" "${mounted[@]}")
install -d -m 700 -o 1000 -g 1000 "$new/run/person"
chroot --userspec 1000:1000 "$new" /usr/bin/env -i HOME=/home/person USER=person PATH=/usr/bin:/bin LANG=C.UTF-8 \
  XDG_RUNTIME_DIR=/run/person DISPLAY=":$number" GDK_BACKEND=x11 sh -c "cd; exec $exec_line" >"$work/app.log" 2>&1 &
app=$!
started+=($app)

window=''
for _ in $(seq 300); do
  kill -0 $app 2>/dev/null || { cat "$work/app.log" >&2; bad "the app ended by itself"; }
  window=$(xwininfo -display ":$number" -root -tree 2>/dev/null | grep '"Changeover"' || true)
  [ -z "$window" ] || break
  sleep 0.1
done
[ -n "$window" ] || { cat "$work/app.log" >&2; bad "no window within 30 s"; }
ok "a window opened"

mkdir -p "$top/tests/output"
colours=0
for _ in $(seq 100); do
  DISPLAY=":$number" import -window root "$top/tests/output/package.png"
  colours=$(identify -format %k "$top/tests/output/package.png")
  [ "$colours" -gt 16 ] && break
  sleep 0.1
done
[ "$colours" -gt 16 ] || bad "the window shows nothing (tests/output/package.png)"
ok "it shows something: tests/output/package.png"

guard=''
for _ in $(seq 100); do
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/root" 2>/dev/null)" = "$new" ] || continue
    if tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -qE '^\S*changeover(-desktop)? guard'; then guard=$process; fi
  done
  [ -z "$guard" ] || break
  sleep 0.1
done
[ -n "$guard" ] || bad "the app runs without its guard"
ok "its guard runs: $(tr '\0' ' ' <"$guard/cmdline")"

kill -9 $app
for _ in $(seq 50); do
  left=$(for process in /proc/[0-9]*; do [ "$(readlink "$process/root" 2>/dev/null)" = "$new" ] && tr '\0' ' ' <"$process/cmdline" 2>/dev/null; done | grep changeover || true)
  [ -z "$left" ] && break
  sleep 0.1
done
[ -z "$left" ] || bad "5 s after kill -9 there are still: $left"
ok "nothing of it is left after kill -9"

inside apt-get -q purge -y changeover >"$work/purge.log" 2>&1 || { cat "$work/purge.log" >&2; bad "the package cannot be removed"; }
[ ! -e "$new/usr/bin/changeover" ] && [ ! -e "$new/usr/bin/changeover-desktop" ] || bad "removed, but its programs are still there"
ok "it can be removed"
