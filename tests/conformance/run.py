"""Prints `statement, case, passed or failed, same or different` for every row of table.toml. Called by run.sh."""

import json
import pathlib
import subprocess
import sys
import tomllib

TABLE = pathlib.Path(__file__).with_name("table.toml")


def run(package, binaries, wanted):
    """Whether each test that is wanted passed, by its name without its module."""
    command = ["cargo", "nextest", "run", "--locked", "--config-file", "tests/nextest.toml", "--no-fail-fast"]
    command += ["-p", package, *binaries, "--message-format", "libtest-json", "-E", wanted]
    found = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if told.get("type") == "test" and told.get("event") in ("ok", "failed"):
                name = told["name"].partition("$")[2].rsplit("::", 1)[-1]
                found[name] = found.get(name, True) and told["event"] == "ok"
    return found


def main():
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["statement"]
    cases = run("flowdrive-tests", ["--test", "conformance"], "all()")
    units = [unit for row in rows for unit in row.get("units", [])]
    files = [pathlib.PurePosixPath(unit["file"]) for unit in units]
    binaries = {("--test", file.stem) if file.parts[2] == "tests" else ("--lib",) for file in files}
    wanted = " | ".join(sorted({f"test(/(^|::){unit['test']}$/)" for unit in units}))
    units = run("flowdrive-engine", [option for binary in sorted(binaries) for option in binary], wanted)
    failed = 0
    for row in rows:
        lines = [(case, cases) for case in row.get("cases", [])]
        lines += [(unit["test"], units) for unit in row.get("units", [])]
        if not lines:
            print(f"{row['id']}, none, pending, {row['is']}")
        for name, found in lines:
            # What did not run has not passed.
            passed = found.get(name, False)
            failed += not passed
            print(f"{row['id']}, {name}, {'passed' if passed else 'failed'}, {row['is']}")
    kinds = {kind: sum(row["is"] == kind for row in rows) for kind in ("same", "different", "better", "pending")}
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    print(f"{len(rows)} statements ({counted}), {failed} lines failed", file=sys.stderr)
    return 1 if failed or not all([*cases.values(), *units.values()]) else 0


if __name__ == "__main__":
    sys.exit(main())
