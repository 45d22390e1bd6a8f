#!/usr/bin/env bash
# Drives a workflow over newline JSON with jq.
# Usage: drive.sh WORKSPACE QUESTION [SERVER COMMAND...]
set -euo pipefail
if [ $# -lt 2 ]; then sed -n '2,3s/^# //p' "$0" >&2; exit 2; fi
workspace=$(realpath -- "$1") question=$2
shift 2
if [ $# -eq 0 ]; then set -- flowdrive serve --stdio; fi

coproc SERVER { "$@"; }
server=$SERVER_PID to=${SERVER[1]} from=${SERVER[0]}
jq -nc --arg workspace "$workspace" --arg question "$question" '{
  jsonrpc: "2.0", id: 1, method: "drive",
  params: { workspace: $workspace, workflow: { id: "quick-survey" }, inputs: { question: $question } }
}' >&"$to"

while IFS= read -r line <&"$from"; do
  jq -r 'select(.method == "flowdrive/progress") | .params | "\(.seq) \(.type) \(.taskId // "")"' <<<"$line" >&2
  if jq -e '.id == 1' >/dev/null <<<"$line"; then answer=$line; break; fi
done
exec {to}>&-
jq '.result // .error' <<<"$answer"
wait "$server" 2>/dev/null || true
jq -e '.result.status == "complete"' >/dev/null <<<"$answer"
