#!/usr/bin/env python3
"""Check the journal of a Flowdrive run. Needs nothing but Python; the format is in docs/journal-format.md.

usage: verify_run.py WORKSPACE/.cw/runs/RUN-ID      exit code: 0 it adds up, 1 it does not, 2 it cannot be read
"""
import hashlib
import os
import re
import sys

LINE = re.compile(
    rb'\{"at":"[^"]*","event":.+(,"hash":"(sha256:[0-9a-f]{64})")'
    rb',"prev":"(sha256:[0-9a-f]{64})","seq":(\d+),"v":\d+\}\n',
    re.DOTALL,
)


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def check(run_dir):
    path = os.path.join(run_dir, "journal.jsonl")
    run_id = os.path.basename(os.path.realpath(run_dir))
    head, events, problems = sha256(b"flowdrive-journal:" + run_id.encode()), 0, 0
    with open(path, "rb") as journal:
        for number, line in enumerate(journal, start=1):
            wrong = []
            found = LINE.fullmatch(line)
            if not found:
                wrong.append("not a whole journal line")
            else:
                events += 1
                body = line[: found.start(1)] + line[found.end(1) : -1]
                if sha256(body) != found[2].decode():
                    wrong.append("changed: its hash does not fit")
                if found[3].decode() != head:
                    wrong.append("does not follow on the line before it")
                if int(found[4]) != number:
                    wrong.append(f"event {int(found[4])} stands where event {number} should")
                head = found[2].decode()
            for problem in wrong:
                print(f"{path}:{number}: {problem}")
            problems += len(wrong)
    print(f"{events} events, head {head}, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(check(sys.argv[1]))
    except OSError as fault:
        print(f"cannot read the journal: {fault}", file=sys.stderr)
        sys.exit(2)
