#!/usr/bin/env bash
# Makes docs/images/neovim-*.png: a real Neovim in a real terminal (tmux), its screen turned into a page and that into a
# picture (Chromium). Not part of the tests: run it when the look has changed, and look at the pictures. Needs tmux,
# chromium and python3. The agent is made up, and says so by its name.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
export FLOWDRIVE_CACHE=${FLOWDRIVE_CACHE:-$root/.cache}
"$here/../setup.sh" neovim
# shellcheck source=../common.sh
. "$here/../common.sh"
find_server
nvim=$(realpath "$FLOWDRIVE_CACHE/nvim")
socket=flowdrive-screenshots.$$
in_tmux() { tmux -L "$socket" "$@"; }
trap 'in_tmux kill-server 2>/dev/null; clean_up' EXIT

workspace=$scratch/parcel
mkdir -p "$workspace/src/server" "$workspace/src/store"
cat >"$workspace/README.md" <<'TEXT'
# Parcel
Takes jobs over HTTP, keeps them in a queue and runs them one after the other.
TEXT
cat >"$workspace/src/server/routes.py" <<'TEXT'
"""Where requests enter."""


def submit(request, queue):
    """Puts a job into the queue and answers at once."""
    job = request.json()
    queue.put(job)
    return {"id": job["id"], "position": len(queue)}
TEXT
cat >"$workspace/src/queue.py" <<'TEXT'
"""The queue between the server and the workers."""


class Queue:
    def __init__(self):
        self.jobs = []

    def put(self, job):
        self.jobs.append(job)

    def __len__(self):
        return len(self.jobs)
TEXT
cat >"$workspace/src/store/runs.py" <<'TEXT'
"""Where runs are kept."""

import json
from pathlib import Path


def save(run, folder):
    path = Path(folder) / (run["id"] + ".json")
    path.write_text(json.dumps(run))
TEXT
git -C "$workspace" init -q
git -C "$workspace" add .
git -C "$workspace" -c user.name=Test -c user.email=test@example.invalid commit -qm "Add the sample"

cat >"$scratch/init.lua" <<LUA
vim.opt.runtimepath:prepend("$root/editor-clients/neovim")
vim.o.termguicolors, vim.o.number, vim.o.swapfile = true, true, false
vim.opt.shortmess:append("IWc")
vim.o.background = vim.env.SHOT_BACKGROUND
vim.o.statusline = " %f %m%=%{v:lua.require('flowdrive').status()}  %l:%c "
vim.diagnostic.config({ virtual_text = true })
vim.cmd.runtime("plugin/flowdrive.lua")
require("flowdrive").setup({
  cmd = { "$FLOWDRIVE_BIN", "serve", "--stdio" },
  init_options = {
    defaultAgent = vim.env.SHOT_AGENT,
    agents = { demo = { command = { "python3", "$here/screenshot_agent.py", "{{input}}", "{{result}}" } } },
  },
})
LUA

start() { # BACKGROUND AGENT COLUMNS
  in_tmux kill-server 2>/dev/null || true
  rm -rf "$workspace/.cw"
  in_tmux -f /dev/null new-session -d -s shot -x "$3" -y 36 -c "$workspace" \
    "env TERM=tmux-256color COLORTERM=truecolor SHOT_BACKGROUND=$1 SHOT_AGENT=$2 $nvim --clean -u $scratch/init.lua src/queue.py"
  in_tmux set -ga terminal-overrides ",*:Tc"
  shows "class Queue"
}
on_screen() { in_tmux capture-pane -p -t shot | grep -qF -- "$1"; }
shows() { eventually on_screen "$1" || { echo "never on the screen: $1" >&2 && exit 1; }; }
keys() { in_tmux send-keys -t shot "$@"; }
picture() { # NAME FOREGROUND BACKGROUND COLUMNS
  local rows
  in_tmux capture-pane -e -N -p -t shot >"$scratch/screen"
  rows=$(wc -l <"$scratch/screen")
  python3 "$here/screen.py" "$1" "$2" "$3" <"$scratch/screen" >"$scratch/screen.html"
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1 \
    --window-size="$(($4 * 843 / 100 + 12)),$((rows * 19 + 12))" \
    --screenshot="$root/docs/images/$1.png" "file://$scratch/screen.html" >/dev/null 2>&1
  echo "docs/images/$1.png"
}

for background in dark light; do
  start $background demo 112
  keys ':Flowdrive! drive architecture-review question="Can this take ten times the load?"' Enter
  shows "attempt 2"
  shows "  4/6"
  keys ':' Escape
  if [ $background = dark ]; then
    picture neovim-run '#e0e2ea' '#14161b' 112
  else
    picture neovim-run-light '#14161b' '#e0e2ea' 112
  fi
done

start dark builtin:survey 140
keys ':Flowdrive! drive quick-survey question="Where are jobs kept in the queue?"' Enter
shows "quick-survey complete, 5 of 5"
keys ':vertical Flowdrive report' Enter
shows "Find where a question"
keys C-w b ':q' Enter ':Flowdrive findings' Enter
shows "[Quickfix List]"
keys C-w =
picture neovim-report '#e0e2ea' '#14161b' 140
