#!/usr/bin/env python3
"""Records a conversation with a real server into docs/protocol.md. Standard library only.

Usage: record_session.py [--check] [SERVER]      (target/debug/flowdrive when no server is named)

The agents are made up, so that the conversation is the same on every machine; times, hashes and folders are replaced.
--check compares the shape of what is recorded with what the server says now, and fails when they differ.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "protocol.md"
BEGIN, END = "<!-- recorded: begin -->", "<!-- recorded: end -->"

AGENT = """
import pathlib, sys
prompt, result = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
told = "Look in src/store.rs" in prompt
evidence = '"src/store.rs:2"' if told or "entry points" in prompt else ""
print("reading src/store.rs")
result.write_text('```cw:result\\n{"summary": "Runs are stored by store_run.", "evidence": [%s]}\\n```\\n' % evidence)
"""

WORKFLOW = {
    "schemaVersion": 1,
    "id": "where-stored",
    "title": "Where is it stored?",
    "inputs": {"question": {"type": "string", "required": True}},
    "phases": [
        {
            "id": "map",
            "mode": "parallel",
            "tasks": [
                {"id": "map:entry", "prompt": "Find the entry points for: {{question}}"},
                {"id": "map:store", "prompt": "Find the place for: {{question}}", "requiresEvidence": True},
            ],
        }
    ],
}


class Session:
    """A server, and everything that was said to and by it."""

    def __init__(self, server, config):
        self.process = subprocess.Popen(
            [server, "serve", "--stdio", "--config", config],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        )
        self.lines, self.count = [], 0

    def call(self, method, params):
        """Asks, records, and returns the answer."""
        self.count += 1
        request = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        self.lines.append(("→", request))
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            message = json.loads(line)
            self.lines.append(("←", message))
            if message.get("id") == self.count and "method" not in message:
                return message.get("result")
        raise SystemExit("the server ended before it answered")

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit("the server did not end well")


def record(server):
    """Holds the conversation and returns its lines."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        workspace = folder / "project"
        (workspace / "src").mkdir(parents=True)
        (workspace / "src" / "store.rs").write_text("/// Stores a run.\npub fn store_run() {}\n")
        (folder / "agent.py").write_text(AGENT)
        command = json.dumps([sys.executable, str(folder / "agent.py"), "{{input}}", "{{result}}"])
        config = folder / "config.toml"
        config.write_text(f'defaultAgent = "made-up"\n[agents.made-up]\ncommand = {command}\n')
        session = Session(server, str(config))
        here = {"workspace": str(workspace)}
        session.call("serverInfo", {"protocolVersion": 1})
        chosen = {**here, "workflow": {"inline": WORKFLOW}, "inputs": {"question": "Where are runs stored?"}}
        session.call("preview", chosen)
        run = session.call("drive", {**chosen, "runId": "example-run", "concurrency": 1, "maxAttempts": 1})["runId"]
        session.call("resume", {**here, "runId": "no-such-run"})
        opened = session.call("listFeedback", {**here, "runId": run, "status": "open"})["feedback"][0]
        session.call("resolveFeedback", {
            **here, "runId": run, "feedbackId": opened["id"], "resolution": "retry", "guidance": "Look in src/store.rs.",
        })
        session.call("resume", {**here, "runId": run})
        session.call("verifyRun", {**here, "runId": run})
        session.end()
        return [f"{who} {plain(message, folder)}" for who, message in session.lines]


def plain(message, folder):
    """A message as it is printed: the machine's own values replaced, long lists and texts cut."""
    if message.get("method") != "drive" and "workflow" in message.get("params", {}):
        message = {**message, "params": {**message["params"], "workflow": {"inline": "…"}}}
    text = json.dumps(cut(message), ensure_ascii=False)
    text = text.replace(json.dumps(sys.executable)[1:-1], "python3").replace(str(folder), "/home/me")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-01-02T03:04:05.678Z", text)
    return re.sub(r"sha256:[0-9a-f]{64}", "sha256:…", text)


def cut(value):
    if isinstance(value, dict):
        return {name: cut(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [cut(inner) for inner in value[:3]] + (["…"] if len(value) > 3 else [])
    if isinstance(value, str) and len(value) > 160 and "/" not in value:
        return value[:160] + "…"
    return value


def shape(lines):
    """What must not change unnoticed: who said which kind of thing, with which fields. Live lines may come and go."""
    shapes = []
    for line in lines:
        who, message = line[0], json.loads(line[2:])
        kind = message.get("method", "answer")
        body = message.get("params") or message.get("result") or message.get("error") or {}
        if body.get("type") != "agentActivity":
            shapes.append((who, kind, body.get("type"), sorted(body)))
    return shapes


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    arguments = [argument for argument in arguments if argument != "--check"]
    server = arguments[0] if arguments else str(ROOT / "target" / "debug" / "flowdrive")
    lines = record(server)
    document = DOCUMENT.read_text(encoding="utf-8")
    before, rest = document.split(BEGIN)
    recorded, after = rest.split(END)
    if check:
        old = [line for line in recorded.splitlines() if line[:2] in ("→ ", "← ")]
        if shape(old) != shape(lines):
            differing = next(pair for pair in zip(shape(lines) + [None], shape(old) + [None]) if pair[0] != pair[1])
            raise SystemExit(f"docs/protocol.md is stale; run examples/record_session.py\nnow  {differing[0]}\nthen {differing[1]}")
        return
    block = "\n".join(lines)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n```text\n{block}\n```\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
