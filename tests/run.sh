#!/usr/bin/env bash
# Runs every test, and installs what the tests need first. Usage: tests/run.sh [--no-editors] [--no-node] [FILTER...]
# FILTER is handed to the test runner: names of tests, or its options. With a filter, the editors' own tests are left out.
# Needs Rust; on Debian as root it fetches the rest (Node.js 20, Python 3, jq, the editors), elsewhere it says what to
# install. Asks the network for nothing once that is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tests/tools.sh
. tests/tools.sh

editors=yes node=yes
filters=()
for argument in "$@"; do
  case $argument in
  --no-editors) editors=no ;;
  --no-node) node=no ;;
  -h | --help)
    sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  *) filters+=("$argument") ;;
  esac
done
if [ ${#filters[@]} -gt 0 ]; then editors=no; fi

need_rust
need git git
need python3 python3 python3-pip
need jq jq
python3 -c 'import ensurepip' 2>/dev/null || need python3-venv python3-venv
need_python_clients tests/clients/python/requirements.txt
if [ $node = yes ]; then
  need_node
  clients=tests/clients/node
  if [ ! -f $clients/node_modules/.package-lock.json ] || [ $clients/package-lock.json -nt $clients/node_modules/.package-lock.json ]; then
    say "installing the packages of the Node.js client"
    npm ci --no-fund --no-audit --prefix $clients >&2
  fi
  clients=clients/typescript
  if [ ! -f $clients/node_modules/.package-lock.json ] || [ $clients/package-lock.json -nt $clients/node_modules/.package-lock.json ]; then
    say "installing what builds the TypeScript client"
    npm ci --no-fund --no-audit --prefix $clients >&2
  fi
  say "building the TypeScript client"
  npm run --silent --prefix $clients build >&2
fi

say "building"
cargo build --workspace --bins --locked
# The crash matrix has a build of its own, that dies on demand. Nobody else gets it.
cargo build -p flowdrive --features fault-injection --target-dir target/fault-injection --locked
# The tests start these very binaries, never ones that happen to be on the PATH.
FLOWDRIVE_BIN="${FLOWDRIVE_BIN:-${CARGO_TARGET_DIR:-$PWD/target}/debug/flowdrive}"
export FLOWDRIVE_BIN

say "testing"
if [ $node = no ]; then skip=(vscode_jsonrpc the_typescript_client node_drives); else skip=(); fi
# The plain runner does without, so a machine that cannot get nextest still runs every test.
if need_cargo_tool nextest $NEXTEST_VERSION; then
  options=()
  for name in "${skip[@]}"; do options+=(-E "not test($name)"); done
  cargo nextest run --workspace --locked --config-file tests/nextest.toml "${options[@]}" "${filters[@]}"
else
  cargo test --workspace --locked "${filters[@]}" -- "${skip[@]/#/--skip=}"
fi
if [ ${#filters[@]} -eq 0 ]; then cargo test --workspace --locked --doc; fi

if [ $editors = yes ] && [ -x tests/editors/setup.sh ]; then
  say "testing in the editors"
  tests/editors/setup.sh
  for runner in tests/editors/*/run.sh; do [ ! -f "$runner" ] || bash "$runner"; done
  for runner in tests/editors/*/run.mjs; do [ ! -f "$runner" ] || node "$runner"; done
fi
say "every test passed"
