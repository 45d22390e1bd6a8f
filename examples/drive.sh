#!/bin/sh
# Drives a workflow over newline JSON with jq.
# Usage: drive.sh WORKSPACE QUESTION [SERVER COMMAND...]
set -eu
if [ $# -lt 2 ]; then sed -n '2,3s/^# //p' "$0" >&2; exit 2; fi
workspace=$(cd -- "$1" && pwd -P) question=$2
shift 2
if [ $# -eq 0 ]; then set -- flowdrive serve --stdio; fi

pipes=$(mktemp -d)
trap 'rm -rf "$pipes"' EXIT
mkfifo "$pipes/to" "$pipes/from"
"$@" <"$pipes/to" >"$pipes/from" &
server=$!
exec 3>"$pipes/to" 4<"$pipes/from"
trap '' PIPE # a server that is gone is told by its missing answer
jq -nc --arg workspace "$workspace" --arg question "$question" '{
  jsonrpc: "2.0", id: 1, method: "drive",
  params: { workspace: $workspace, workflow: { id: "quick-survey" }, inputs: { question: $question } }
}' 2>/dev/null >&3 || true

answer=null
while IFS= read -r line <&4; do
  printf '%s\n' "$line" | jq -r 'select(.method == "flowdrive/progress") | .params | "\(.seq) \(.type) \(.taskId // "")"' >&2
  if printf '%s\n' "$line" | jq -e '.id == 1' >/dev/null; then answer=$line; break; fi
done
exec 3>&-
if [ "$answer" = null ]; then
  wait "$server" && code=0 || code=$?
  echo "the server ended before it answered (exit code $code)" >&2
  exit 1
fi
printf '%s\n' "$answer" | jq '.result // .error'
wait "$server" || true
printf '%s\n' "$answer" | jq -e '.result.status == "complete"' >/dev/null
