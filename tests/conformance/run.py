"""Prints `statement, case, passed or failed, same or different` for every row of table.toml. Called by run.sh."""

import json
import pathlib
import subprocess
import sys
import tomllib

TABLE = pathlib.Path(__file__).with_name("table.toml")
OWN = "flowdrive-tests::conformance"


def main():
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["statement"]
    units = sorted({unit["test"] for row in rows for unit in row.get("units", [])})
    wanted = " | ".join(f"test(/(^|::){name}$/)" for name in units)
    command = ["cargo", "nextest", "run", "--locked", "--config-file", "tests/nextest.toml", "--no-fail-fast"]
    command += ["-p", "flowdrive-tests", "-p", "flowdrive-engine", "--message-format", "libtest-json"]
    command += ["-E", f"binary_id({OWN}) | (package(flowdrive-engine) & ({wanted}))"]
    found = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if told.get("type") == "test" and told.get("event") in ("ok", "failed"):
                binary, _, name = told["name"].partition("$")
                place = "case" if binary == OWN else "unit"
                key = (place, name.rsplit("::", 1)[-1])
                found[key] = found.get(key, True) and told["event"] == "ok"
    failed = 0
    for row in rows:
        cases = [("case", case) for case in row.get("cases", [])]
        cases += [("unit", unit["test"]) for unit in row.get("units", [])]
        if not cases:
            print(f"{row['id']}, none, pending, {row['is']}")
        for key in cases:
            # What did not run has not passed.
            passed = found.get(key, False)
            failed += not passed
            print(f"{row['id']}, {key[1]}, {'passed' if passed else 'failed'}, {row['is']}")
    kinds = {kind: sum(row["is"] == kind for row in rows) for kind in ("same", "different", "better", "pending")}
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    print(f"{len(rows)} statements ({counted}), {failed} lines failed", file=sys.stderr)
    return 1 if failed or process.returncode not in (0, 100) or not all(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
