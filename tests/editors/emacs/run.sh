#!/usr/bin/env bash
# Drives the real server from a real Emacs, through Eglot, without any code of ours in Emacs beyond what the docs show.
# Optional: where Emacs or Eglot is not there, it is skipped and said; setup.sh emacs installs both on Debian as root.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
export FLOWDRIVE_CACHE=${FLOWDRIVE_CACHE:-$root/.cache}
"$here/../setup.sh" emacs || exit 1
# shellcheck source=../common.sh
. "$here/../common.sh"
find_server

if ! command -v emacs >/dev/null || ! emacs --batch --eval "(require 'eglot)" >/dev/null 2>&1; then
  printf 'skip - Emacs with Eglot is not there\n0 passed, 0 failed, 1 skipped\n'
  exit 0
fi
shown=$(sed -n '/^(defun flowdrive-drive/,/^;; ---/p' "$here/eglot.el" | sed '$d')
if [[ -n $shown && $(<"$root/docs/editors.md") == *"$shown"* ]]; then
  report_passed "docs/editors.md shows the lines that run here"
else
  report_failed "docs/editors.md does not show flowdrive-drive as it is in eglot.el"
fi
new_workspace
log=$scratch/eglot.log
timeout 200 emacs --batch --load "$here/eglot.el" >"$log" 2>"$log.err"
status=$?
cat "$log"
passed=$((passed + $(grep -c '^ok - ' "$log")))
failed=$((failed + $(grep -c '^not ok - ' "$log")))
if ! grep -q '^# end of ' "$log"; then
  report_failed "eglot.el ends early (exit code $status): $(tail -n 3 "$log.err" | tr '\n' ' ')"
fi
conclude
