#!/usr/bin/env bash
# Runs the conformance cases and prints one line for each: statement, case, passed or failed, same or different.
# Usage: tests/conformance/run.sh [--fast]. With --fast, nothing is built first. Ends with 1 when a case failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/tools.sh
. tests/tools.sh

need_rust
need git git
need python3 python3
need_cargo_tool nextest "$NEXTEST_VERSION"
if [ "${1:-}" != --fast ]; then
  say "building"
  cargo build --workspace --bins --locked >&2
fi
FLOWDRIVE_BIN="${FLOWDRIVE_BIN:-${CARGO_TARGET_DIR:-$PWD/target}/debug/flowdrive}"
export FLOWDRIVE_BIN NEXTEST_EXPERIMENTAL_LIBTEST_JSON=1
exec python3 tests/conformance/run.py
