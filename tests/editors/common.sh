# shellcheck shell=bash
# Shared by the tests in this folder: where the server is, a workspace to drive, counting, and cleaning up.
# Sourced, never run. Expects FLOWDRIVE_CACHE and `root`.

passed=0 failed=0 skipped=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/flowdrive-editors.XXXXXX")
# The user's own configuration must play no part, nor may anything be written beside it.
export XDG_CONFIG_HOME=$scratch/config XDG_STATE_HOME=$scratch/state XDG_DATA_HOME=$scratch/data XDG_CACHE_HOME=$scratch/cache
export HOME=$scratch/home
mkdir -p "$HOME" "$XDG_CONFIG_HOME" "$XDG_STATE_HOME" "$XDG_DATA_HOME" "$XDG_CACHE_HOME"
for name in $(compgen -e | grep '^CW_'); do unset "$name"; done

clean_up() {
  rm -rf "$scratch"
}
trap clean_up EXIT

report_passed() { passed=$((passed + 1)) && printf 'ok - %s\n' "$*"; }
report_failed() { failed=$((failed + 1)) && printf 'not ok - %s\n' "$*"; }
report_skipped() { skipped=$((skipped + 1)) && printf 'skip - %s\n' "$*"; }

conclude() {
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

find_server() {
  if [ -z "${FLOWDRIVE_BIN:-}" ]; then
    local candidate
    for candidate in "$root"/target/{release,debug}/flowdrive; do
      [ -x "$candidate" ] && { [ -z "${FLOWDRIVE_BIN:-}" ] || [ "$candidate" -nt "$FLOWDRIVE_BIN" ]; } && FLOWDRIVE_BIN=$candidate
    done
  fi
  if [ ! -x "${FLOWDRIVE_BIN:-}" ]; then
    printf 'no server program at "%s". Run `cargo build`, or set FLOWDRIVE_BIN.\n' "${FLOWDRIVE_BIN:-$root/target}" >&2
    exit 1
  fi
  FLOWDRIVE_BIN=$(realpath "$FLOWDRIVE_BIN")
  export FLOWDRIVE_BIN
}

# A small git repository that has something to say about the question the tests ask.
new_workspace() {
  FLOWDRIVE_WORKSPACE=$(mktemp -d "$scratch/workspace.XXXXXX")
  export FLOWDRIVE_WORKSPACE
  mkdir -p "$FLOWDRIVE_WORKSPACE/src"
  cat >"$FLOWDRIVE_WORKSPACE/README.md" <<'TEXT'
# Sample
The retry limit is decided in `src/retry.py`, and read by `src/main.py`.
TEXT
  cat >"$FLOWDRIVE_WORKSPACE/src/retry.py" <<'TEXT'
"""Where the retry limit is decided."""

DEFAULT_RETRY_LIMIT = 3


def retry_limit(configured):
    """The configured limit, else the default."""
    return configured if configured is not None else DEFAULT_RETRY_LIMIT
TEXT
  cat >"$FLOWDRIVE_WORKSPACE/src/main.py" <<'TEXT'
from retry import retry_limit


def main():
    for attempt in range(retry_limit(None)):
        print("retry", attempt)


main()
TEXT
  git -C "$FLOWDRIVE_WORKSPACE" init -q
  git -C "$FLOWDRIVE_WORKSPACE" -c user.name=Test -c user.email=test@example.invalid add .
  git -C "$FLOWDRIVE_WORKSPACE" -c user.name=Test -c user.email=test@example.invalid commit -qm "Add the sample"
}

gone() { # PID; a zombie that only waits to be reaped is gone
  local state
  state=$(sed -n 's/^State:[[:space:]]*\([A-Z]\).*/\1/p' "/proc/$1/status" 2>/dev/null)
  [ -z "$state" ] || [ "$state" = Z ]
}

eventually() { # COMMAND...: until it succeeds, for at most 30 s
  local try
  for ((try = 0; try < 300; try++)); do
    "$@" && return 0
    sleep 0.1
  done
  return 1
}
