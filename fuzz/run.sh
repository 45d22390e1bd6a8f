#!/usr/bin/env bash
# Fuzzes all that reads what others wrote, guided by coverage. Usage: fuzz/run.sh [SECONDS] [TARGET]...
# SECONDS (60) for each target; all targets when none is named. Needs a C++ compiler; no nightly Rust, no cargo-fuzz, though
# `cargo +nightly fuzz run TARGET` works as well, with its sanitizers. What was found interesting is kept in target/fuzz/corpus;
# an input that fails is kept in target/fuzz/found, and named with the command that repeats it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=60
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then targets=(framing results workflows journal streams); fi

host=$(rustc -vV | sed -n 's/^host: //p')
# What cargo-fuzz sets. With --target, build scripts and macros are built without it.
flags=(--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares)
export RUSTFLAGS="${flags[*]}"
export CARGO_TARGET_DIR="$PWD/target/fuzz"
cargo build --release --locked --manifest-path fuzz/Cargo.toml --target "$host" >&2

failed=0
for name in "${targets[@]}"; do
  program="$CARGO_TARGET_DIR/$host/release/$name"
  corpus="$CARGO_TARGET_DIR/corpus/$name" found="$CARGO_TARGET_DIR/found/$name"
  mkdir -p "$corpus" "$found"
  log="$CARGO_TARGET_DIR/$name.log"
  if "$program" "$corpus" "fuzz/seeds/$name" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$found/" -print_final_stats=1 >"$log" 2>&1; then
    printf '%s: %s inputs in %s s, nothing found\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$seconds"
  else
    tail -n 40 "$log" >&2
    printf '%s: FAILED; the whole log is %s. Repeat it with: %s FILE\n' "$name" "$log" "$program"
    failed=1
  fi
  rm -rf /dev/shm/flowdrive-fuzz-* "${TMPDIR:-/tmp}"/flowdrive-fuzz-*
done
exit $failed
