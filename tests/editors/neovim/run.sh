#!/usr/bin/env bash
# Runs the Neovim plugin's tests in real Neovims against the real server.
# FLOWDRIVE_BIN names the server (default: target/release/flowdrive or target/debug/flowdrive, the newer one).
# Ends with `N passed, N failed, N skipped`; leaves no process and no file behind.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
export FLOWDRIVE_CACHE=${FLOWDRIVE_CACHE:-$root/.cache}
"$here/../setup.sh" neovim || exit 1
# shellcheck source=../common.sh
. "$here/../common.sh"
find_server
nvim=$FLOWDRIVE_CACHE/nvim
debian=$FLOWDRIVE_CACHE/neovim-debian

debian_nvim() {
  local libraries
  libraries=$(find "$debian/usr/lib" -maxdepth 1 -type d -name '*-linux-gnu*' | head -n 1)
  LD_LIBRARY_PATH=$libraries VIMRUNTIME=$debian/usr/share/nvim/runtime "$debian/usr/bin/nvim" "$@"
}

# A suite must print its last line: one that ends early has not passed.
suite() { # NAME COMMAND...
  local name=$1 log status
  shift
  log=$scratch/$name.log
  printf '# %s\n' "$name"
  timeout 300 "$@" >"$log" 2>"$log.err"
  status=$?
  cat "$log"
  passed=$((passed + $(grep -c '^ok - ' "$log")))
  failed=$((failed + $(grep -c '^not ok - ' "$log")))
  if ! grep -q '^# end of ' "$log"; then
    report_failed "$name ends early (exit code $status): $(tail -n 3 "$log.err" | tr '\n' ' ')"
  fi
}

suite unit "$nvim" --clean --headless -l "$here/unit.lua"
new_workspace
suite e2e "$nvim" --clean --headless -l "$here/e2e.lua"

for leave in quit kill; do
  new_workspace
  pids=$scratch/pids-$leave
  FLOWDRIVE_PIDS=$pids FLOWDRIVE_LEAVE=$leave timeout 120 "$nvim" --clean --headless -l "$here/quit.lua" >"$pids.log" 2>&1 &
  editor=$!
  if ! eventually test -s "$pids"; then
    report_failed "$leave mid-drive: no drive under way: $(tail -n 3 "$pids.log" | tr '\n' ' ')"
    kill -9 "$editor" 2>/dev/null
    wait "$editor" 2>/dev/null
    continue
  fi
  if [ "$leave" = kill ]; then
    # `timeout` is the parent of the editor.
    kill -9 "$(pgrep -P "$editor")"
  fi
  wait "$editor" 2>/dev/null
  while read -r what pid; do
    if { [ "$leave" = quit ] && gone "$pid"; } || { [ "$leave" = kill ] && eventually gone "$pid"; }; then
      report_passed "$leave mid-drive leaves no $what"
    else
      report_failed "$leave mid-drive leaves $what $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
      kill -9 "$pid" 2>/dev/null
    fi
  done <"$pids"
done

if [ ! -x "$debian/usr/bin/nvim" ]; then
  report_skipped "the distribution's Neovim is not there"
else
  version=$(debian_nvim --version | head -n 1 | sed 's/^NVIM v//')
  if printf '0.10.0\n%s\n' "$version" | sort -CV; then
    new_workspace
    export -f debian_nvim
    export debian
    suite "e2e-$version" bash -c 'debian_nvim "$@"' _ --clean --headless -l "$here/e2e.lua"
  else
    said=$(debian_nvim --clean --headless --cmd "set runtimepath^=$root/editor-clients/neovim" \
      -c 'runtime plugin/flowdrive.lua' -c 'Flowdrive drive' -c 'qa!' 2>&1)
    if [ "$(printf '%s' "$said" | tr -d '\r')" = "flowdrive: needs Neovim 0.10 or newer" ]; then
      report_passed "Neovim $version is refused in one line"
    else
      report_failed "Neovim $version is refused in one line, not: $said"
    fi
  fi
fi

conclude
