# Sourced by ./dev, with the repository's root as the current folder. Kept to what bash 3.2 (macOS) knows.

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'dev: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$root/$target ;; esac
os=$(uname -s)

# --- what is given, and how to get it ---

need_rust() {
  # rustup puts cargo where a shell opened before it does not look.
  if ! have cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then PATH=$HOME/.cargo/bin:$PATH; fi
  have cargo && have rustc || fail "Rust is missing. Get rustup from https://rustup.rs, then run this again; it brings the version in rust-toolchain.toml."
}

need_node() {
  have node && have npm || fail "Node is missing. Get version 20.19 or newer from https://nodejs.org (or nvm, fnm, your package manager), then run this again."
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
    fail "Node $(node --version) is too old: 20.19 or newer is needed. Get it from https://nodejs.org (or nvm, fnm, your package manager)."
}

# --- system packages ---
# One line each: probe | apt | dnf | pacman | brew. "-" means: not needed there.

packages_build='
cmd:cc            | build-essential       | gcc gcc-c++              | base-devel       | -
cmd:make          | build-essential       | make                     | base-devel       | -
cmd:pkg-config    | pkg-config            | pkgconf-pkg-config       | pkgconf          | -
cmd:git           | git                   | git                      | git              | git
'
packages_window='
lib:webkit2gtk-4.1| libwebkit2gtk-4.1-dev | webkit2gtk4.1-devel      | webkit2gtk-4.1   | -
'
packages_test='
cmd:Xvfb          | xvfb                  | xorg-x11-server-Xvfb     | xorg-server-xvfb | -
cmd:WebKitWebDriver| webkit2gtk-driver    | /usr/bin/WebKitWebDriver | webkitgtk-6.0    | -
cmd:dbus-run-session| dbus                | dbus-daemon              | dbus             | -
cmd:gnome-keyring-daemon| gnome-keyring   | gnome-keyring            | gnome-keyring    | -
cmd:import        | imagemagick           | ImageMagick              | imagemagick      | -
cmd:zsh           | zsh                   | zsh                      | zsh              | -
cmd:fish          | fish                  | fish                     | fish             | fish
cmd:xdotool       | xdotool               | xdotool                  | xdotool          | -
font              | fonts-dejavu-core fontconfig | dejavu-sans-fonts fontconfig | ttf-dejavu fontconfig | -
chromium          | chromium              | chromium                 | chromium         | --cask:chromium
'
packages_check='
cmd:codespell     | codespell             | codespell                | codespell        | codespell
'

chromium_path() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if have "$name"; then command -v "$name"; return 0; fi
  done
  name="/Applications/Chromium.app/Contents/MacOS/Chromium"
  [ -x "$name" ] && printf '%s\n' "$name"
}

present() {
  case $1 in
    cmd:*) have "${1#cmd:}" ;;
    lib:*) [ "$os" != Linux ] || { have pkg-config && pkg-config --exists "${1#lib:}"; } ;;
    font) have fc-list && [ -n "$(fc-list 2>/dev/null | head -n 1)" ] ;;
    chromium) [ -n "$(chromium_path)" ] ;;
    *) fail "no such probe: $1" ;;
  esac
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  have sudo || fail "as root, please run: $*"
  if [ -t 0 ]; then
    local answer
    printf 'Changeover needs system packages. May sudo run this?\n  %s\n[Y/n] ' "$*"
    read -r answer
    case $answer in '' | y | Y | yes) ;; *) fail "nothing was installed; run it yourself, then run this again" ;; esac
    sudo "$@"
  else
    sudo -n "$@" || fail "system packages are missing and nobody can be asked for a password here. Please run: sudo $*"
  fi
}

# need_packages LIST...: installs what the probes of these lists do not find.
need_packages() {
  local column manager missing='' probe line names
  if [ "$os" = Darwin ]; then
    xcode-select -p >/dev/null 2>&1 || fail "Apple's command line tools are missing: xcode-select --install"
    manager=brew column=5
  elif have apt-get; then manager=apt column=2
  elif have dnf; then manager=dnf column=3
  elif have pacman; then manager=pacman column=4
  else manager=none column=2
  fi
  while IFS= read -r line; do
    probe=$(printf '%s' "$line" | cut -d'|' -f1 | tr -d ' ')
    [ -n "$probe" ] || continue
    names=$(printf '%s' "$line" | cut -d'|' -f$column | sed 's/^ *//; s/ *$//')
    [ "$names" = - ] && continue
    present "$probe" || missing="$missing $names"
  done <<LIST
$(printf '%s\n' "$@")
LIST
  missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ' | sed 's/ *$//')
  [ -n "$missing" ] || return 0
  say "installing system packages: $missing"
  case $manager in
    apt)
      as_root apt-get -q update
      as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing
      ;;
    dnf) as_root dnf install -y $missing ;;
    pacman) as_root pacman -S --needed --noconfirm $missing ;;
    brew)
      have brew || fail "please install: $missing (Homebrew, https://brew.sh, would do it for you)"
      local name
      for name in $missing; do
        case $name in --cask:*) brew install --cask "${name#--cask:}" ;; *) brew install "$name" ;; esac
      done
      ;;
    *) fail "no package manager that this script knows (apt, dnf, pacman, brew). Please install what corresponds to Debian's: $missing" ;;
  esac
  # What was asked for must now be there: a package that did not bring its program is an error here, not later.
  while IFS= read -r line; do
    probe=$(printf '%s' "$line" | cut -d'|' -f1 | tr -d ' ')
    names=$(printf '%s' "$line" | cut -d'|' -f$column | tr -d ' ')
    [ -n "$probe" ] && [ "$names" != - ] || continue
    present "$probe" || fail "'$probe' is still missing after installing: $missing"
  done <<LIST
$(printf '%s\n' "$@")
LIST
}

# --- Node packages ---

# npm_ci FOLDER [ARGUMENTS]: npm ci, unless this lock file is what is installed already.
npm_ci() {
  local folder=$1 lock stamp
  shift
  lock="$folder/package-lock.json" stamp="$folder/node_modules/.changeover-lock"
  [ -f "$lock" ] || fail "$lock is missing"
  if [ -f "$stamp" ] && cmp -s "$lock" "$stamp"; then return 0; fi
  say "npm ci in $folder"
  (cd "$folder" && npm ci --no-audit --no-fund "$@")
  mkdir -p "$folder/node_modules"
  cp "$lock" "$stamp"
}

# The page that the window and the server carry inside them.
build_ui() {
  need_node
  npm_ci ui
  say "UI: build"
  (cd ui && npm run build)
}

# Build, test and lint name the whole workspace, so that cargo joins the same features each time and builds once.
build_bins() {
  say "Rust: build"
  cargo build --workspace --bins --locked
}
