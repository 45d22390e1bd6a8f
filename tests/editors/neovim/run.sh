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

plugin=$root/editor-clients/neovim
mapfile -t sources < <(find "$plugin" "$here" -name '*.lua' -not -path '*/meta/*' | sort)

# What a command says is shown only when it fails.
check() { # NAME COMMAND...
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then
    report_passed "$name"
  else
    report_failed "$name: $said"
  fi
}

check "the types are what the schema says" "$nvim" --clean --headless -l "$plugin/scripts/types.lua" --check
if [ -f "$FLOWDRIVE_CACHE/stylua/package.json" ] && command -v node >/dev/null; then
  check "every Lua file is formatted (StyLua)" \
    node "$here/format.mjs" "$(realpath "$FLOWDRIVE_CACHE/stylua")" "$plugin/stylua.toml" "${sources[@]}"
else
  report_skipped "the formatting of Lua: StyLua or Node.js is not there"
fi
if command -v luacheck >/dev/null; then
  check "no Lua file has a warning (luacheck)" luacheck --config "$plugin/.luacheckrc" -q --no-color "${sources[@]}"
else
  report_skipped "the linting of Lua: luacheck is not there"
fi

scenarios() { # NAME EDITOR...
  local name=$1
  shift
  suite "unit$name" "$@" --clean --headless -l "$here/unit.lua"
  suite "view$name" "$@" --clean --headless -l "$here/view.lua"
  new_workspace
  suite "e2e$name" "$@" --clean --headless -l "$here/e2e.lua"
  new_workspace
  suite "asking$name" "$@" --clean --headless -l "$here/asking.lua"
  new_workspace
  suite "crash$name" "$@" --clean --headless -l "$here/crash.lua"
}

suite help "$nvim" --clean --headless -l "$here/help.lua"
scenarios "" "$nvim"
# Not a real 0.10, but the plugin's path for it: see pretend.lua.
FLOWDRIVE_PRETEND=0.10 scenarios " as 0.10" "$nvim"

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
    export -f debian_nvim
    export debian
    scenarios " $version" bash -c 'debian_nvim "$@"' _
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
