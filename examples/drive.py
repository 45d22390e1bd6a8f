#!/usr/bin/env python3
"""Drives a workflow over newline JSON, with nothing but the standard library.
Usage: drive.py WORKSPACE QUESTION [SERVER COMMAND...]"""
import json, os, subprocess, sys

if len(sys.argv) < 3:
    sys.exit(__doc__)
workspace, question, *command = sys.argv[1:]
command = command or ["flowdrive", "serve", "--stdio"]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
params = {"workspace": os.path.abspath(workspace), "workflow": {"id": "quick-survey"}, "inputs": {"question": question}}
answer = None
try:
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "drive", "params": params}) + "\n")
    server.stdin.flush()
except BrokenPipeError:
    pass  # told below, by the missing answer
for line in server.stdout:
    message = json.loads(line)
    if message.get("method") == "flowdrive/progress":
        event = message["params"]
        print(event["seq"], event["type"], event.get("taskId", ""), file=sys.stderr)
    elif message.get("id") == 1:
        answer = message
        break
try:
    server.stdin.close()
except BrokenPipeError:
    pass
code = server.wait()
if answer is None:
    sys.exit(f"the server ended before it answered (exit code {code})")
print(json.dumps(answer.get("result") or answer.get("error"), indent=2))
sys.exit(code or (0 if answer.get("result", {}).get("status") == "complete" else 1))
