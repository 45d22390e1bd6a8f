#!/usr/bin/env python3
"""Checks a Flowdrive client: plays the server to it, and says which rules of the protocol it keeps.

    python3 check.py [--transcript FILE] [--schema FILE] -- CLIENT [ARGUMENTS...]

The client must start the program that stands where `{server}` stands in its arguments, or in the variable
FLOWDRIVE_SERVER, as its server; drive a workflow with it, whichever; and end. It is run once for each scenario. Arguments it
gives to the program are ignored. Prints one line for each check; the exit code is 1 when one failed, 2 when nothing could be
checked. Needs Python 3.9 and nothing else. Both framings are understood; the protocol is in docs/protocol.md.

    --transcript FILE  writes the conversation down
    --schema FILE      schema/protocol.schema.json, where this file stands apart from it
"""
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

SCENARIOS = {
    "complete": "a drive that ends well, told with everything a newer server may say",
    "refused": "a drive that is refused with an error",
    "dies": "a server that dies amid a drive",
}
PATIENCE = float(os.environ.get("CONFORMANCE_SECONDS", "30"))
# Seconds after a client's end in which a program in the place of the server may still appear; and the mark it leaves.
STARTING, STARTED = min(PATIENCE, 3), ".started"
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../schema/protocol.schema.json")
LSP_METHODS = {"initialize", "initialized", "shutdown", "exit", "$/cancelRequest", "$/setTrace", "$/progress"}


# --- the schema ------------------------------------------------------------------------------------------------------


def faults(schema, value, root, place="params"):
    """Where a value does not fit a JSON Schema; as much of the language as our schemas use."""
    if schema is True or schema == {}:
        return []
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            target = target[part]
        return faults(target, value, root, place)
    found = []
    for word in ("oneOf", "anyOf"):
        if word in schema and all(faults(one, value, root, place) for one in schema[word]):
            known = [one["const"] for one in schema[word] if "const" in one]
            found.append(f"{place}: {json.dumps(value)[:80]} is not one of {known or 'the shapes there are'}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{place}: not {schema['const']!r}")
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    checks = {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    if kinds and not any(checks[kind] for kind in kinds):
        return found + [f"{place}: {json.dumps(value)[:80]} is not {' or '.join(kinds)}"]
    if checks["integer"] and value < schema.get("minimum", value):
        found.append(f"{place}: less than {schema['minimum']}")
    if checks["string"] and "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{place}: {value!r} does not match {schema['pattern']}")
    if checks["array"] and "items" in schema:
        for index, item in enumerate(value):
            found += faults(schema["items"], item, root, f"{place}[{index}]")
    if checks["object"]:
        properties = schema.get("properties", {})
        found += [f"{place}.{name}: missing" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            if name in properties:
                found += faults(properties[name], item, root, f"{place}.{name}")
            elif schema.get("additionalProperties") is False and "patternProperties" not in schema:
                found.append(f"{place}.{name}: no such field")
    return found


# --- the server that is played ---------------------------------------------------------------------------------------


class Checks:
    """What was looked at, in order. A check fails once and for good."""

    def __init__(self):
        self.results = {}

    def passed(self, name):
        self.results.setdefault(name, [])

    def failed(self, name, why):
        self.results.setdefault(name, []).append(why)

    def hold(self, name, holds, why=""):
        self.passed(name) if holds else self.failed(name, why)


FRAMES = "messages are framed well"
JSONRPC = "every message is JSON-RPC 2.0"
IDS = "ids are texts or whole numbers, and not used twice at a time"
ORDER = "the client introduces itself before it asks for anything"
VERSION = "the protocol version it was made for is named"
PARAMS = "params fit the schema"
KNOWN = "methods exist"
ANSWERS = "requests of the server are answered, also unknown ones"
SILENT = "notifications are not answered"
DROVE = "something is driven"
MISSED = "what was missed is asked for (showRun with sinceSeq)"
END = "the server is told to end, and not killed: shutdown and exit, or the end of its input"
ENDS = "the client ends by itself"
CODE = "the client's exit code tells success from failure"


class Server:
    def __init__(self, scenario, transcript, schema):
        self.scenario, self.checks, self.transcript = scenario, Checks(), transcript
        self.input, self.output = sys.stdin.buffer, sys.stdout.buffer
        self.framing = None
        self.open_ids, self.asked = set(), set()
        self.introduced = self.drove = self.shut_down = self.ended = False
        self.next_id = 0
        # While a batch is answered: its answers.
        self.batch = None
        with open(schema, encoding="utf-8") as file:
            self.schema = json.load(file)

    # Framing

    def read(self):
        while self.framing is None:
            first = self.input.peek(1)[:1]
            if not first:
                return None
            if first in b"\xef\xbb\xbf \t\r\n":
                self.input.read(1)
            else:
                self.framing = "lsp" if first in b"Cc" else "ndjson"
        if self.framing == "ndjson":
            line = self.input.readline()
            return line.strip() or (self.read() if line else None)
        length = None
        while True:
            line = self.input.readline()
            if not line:
                return None
            self.checks.hold(FRAMES, line.endswith(b"\r\n"), f"a header line ends with {line[-2:]!r}, not \\r\\n")
            line = line.strip()
            if not line:
                break
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                if not value.strip().isdigit():
                    self.checks.failed(FRAMES, f"`Content-Length` is not a number of bytes: {value.strip()!r}")
                    return None
                length = int(value)
        if length is None:
            self.checks.failed(FRAMES, "a header without Content-Length")
            return b""
        body = self.input.read(length)
        self.checks.hold(FRAMES, len(body) == length, "the input ended within a message")
        return body

    def encode(self, message):
        body = json.dumps(message, ensure_ascii=False).encode()
        return body + b"\n" if self.framing == "ndjson" else b"Content-Length: %d\r\n\r\n" % len(body) + body

    def write(self, *messages, torn=False):
        if self.batch is not None:
            self.batch += [message for message in messages if "method" not in message]
            messages = [message for message in messages if "method" in message]
            if not messages:
                return
        self.transcript.write("".join(f"<- {json.dumps(message)}\n" for message in messages))
        data = b"".join(self.encode(message) for message in messages)
        try:
            for piece in [data[: len(data) // 2], data[len(data) // 2 :]] if torn else [data]:
                self.output.write(piece)
                self.output.flush()
        except BrokenPipeError:
            pass

    # The conversation

    def serve(self):
        while (body := self.read()) is not None:
            self.transcript.write(f"-> {body.decode(errors='replace')}\n")
            try:
                message = json.loads(body)
            except ValueError as error:
                self.checks.failed(FRAMES, f"a body is not JSON: {error}")
                continue
            self.checks.passed(FRAMES)
            if isinstance(message, list) and message and self.framing == "ndjson":
                self.batch, ends = [], False
                for one in message:
                    ends = not self.one(one) or ends
                answers, self.batch = self.batch, None
                if answers:
                    self.write(answers)
                if ends:
                    break
                continue
            if not self.one(message):
                break
        self.checks.hold(ORDER, self.introduced or self.framing == "ndjson", "no `initialize`")
        self.checks.hold(DROVE, self.drove, "`drive` was never called")
        if self.asked:
            self.checks.failed(ANSWERS, f"{len(self.asked)} got none")
        if self.scenario != "dies":
            self.checks.hold(END, self.shut_down or not self.ended, "`exit` without `shutdown`")

    def one(self, message):
        """Takes a message; false when it is the last."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self.checks.failed(JSONRPC, f"`jsonrpc` is not \"2.0\" in {json.dumps(message)[:80]}")
            return True
        self.checks.passed(JSONRPC)
        return self.message(message)

    def message(self, message):
        method, has_id, params = message.get("method"), "id" in message, message.get("params")
        if method is None:
            known = isinstance(message.get("id"), str) and message["id"] in self.asked
            self.checks.hold(SILENT, known, f"an answer to nothing that was asked: {json.dumps(message)[:80]}")
            if known:
                self.asked.discard(message["id"])
            self.checks.hold(ANSWERS, "result" in message or "error" in message, "neither result nor error")
            return True
        if method == "exit":
            self.ended = True
            return False
        if not has_id:
            ours = method in self.schema["methods"]
            self.checks.hold(KNOWN, not ours, f"`{method}` was sent without an id, so that it cannot be answered")
            return True
        ident = message["id"]
        whole = isinstance(ident, (int, float)) and not isinstance(ident, bool) and ident == ident // 1
        good = isinstance(ident, str) or (whole and abs(ident) < 2**53)
        self.checks.hold(IDS, good and ident not in self.open_ids, f"{json.dumps(ident)}")
        if not isinstance(params, (dict, type(None))):
            self.checks.failed(PARAMS, f"{method}: the params are no object: {json.dumps(params)[:80]}")
            params = None
        # As a server does: what cannot be an id is not given back.
        self.request(ident if good else None, method, {} if params is None else params)
        return self.scenario != "dies" or not self.drove

    def request(self, ident, method, params):
        if method == "initialize":
            self.introduced = True
            said = params.get("initializationOptions") or {}
            self.checks.hold(VERSION, "protocolVersion" in said, "`initializationOptions.protocolVersion` is absent")
            self.capabilities = params.get("capabilities", {})
            versions = {"protocolVersion": 1, "minProtocolVersion": 1}
            return self.answer(ident, {"capabilities": {"experimental": {"flowdrive": versions}, "later": [1]},
                                       "serverInfo": {"name": "flowdrive", "version": "0"}})
        self.checks.hold(ORDER, self.introduced or self.framing == "ndjson", f"`{method}` came before `initialize`")
        if method == "shutdown":
            self.shut_down = True
            return self.answer(ident, None)
        described = self.schema["methods"].get(method)
        if described is None:
            known = method in LSP_METHODS or method.startswith(("workspace/", "textDocument/"))
            self.checks.hold(KNOWN, known, f"`{method}`")
            return self.write({"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "no such method"}})
        self.checks.passed(KNOWN)
        wrong = faults(described["params"], params, self.schema)
        for fault in wrong:
            self.checks.failed(PARAMS, f"{method}: {fault}")
        self.checks.hold(PARAMS, not wrong)
        if method in ("drive", "resume"):
            return self.drive(ident, params)
        results = {
            "serverInfo": {"name": "flowdrive", "version": "0", "protocolVersion": 1, "minProtocolVersion": 1,
                           "methods": sorted(self.schema["methods"])},
            "listRuns": {"runs": [], "total": 0},
            "listFeedback": {"feedback": []},
            "listWorkflows": {"workflows": []},
            "listAgents": {"agents": []},
            "pruneRuns": {"dryRun": True, "removed": [], "kept": 0, "cachedResults": 0, "leftovers": 0, "bytes": 0},
            "preview": {"schemaVersion": 1, "workflowId": "w", "plannedWorkers": 1, "pendingWorkers": 1,
                        "completedWorkers": 0, "parkedWorkers": 0, "nextAction": "dispatch", "nextTaskId": "map:a",
                        "nextPhase": "map", "agentConfigured": True, "plan": [], "addedLater": 1},
            "doctor": {"version": "0", "ok": True, "checks": []},
            "stop": {"runId": params.get("runId", "r"), "driving": True, "mode": "graceful"},
            "verifyRun": {"runId": params.get("runId", "r"), "ok": True, "events": 9, "head": "", "problems": []},
        }
        if method == "serverInfo":
            self.checks.hold(VERSION, "protocolVersion" in params, "`protocolVersion` is absent")
        if method == "showRun":
            if "sinceSeq" in params:
                self.checks.passed(MISSED)
            return self.answer(ident, self.view(params.get("runId", "r"), params.get("sinceSeq")))
        if method in results:
            return self.answer(ident, results[method])
        error = {"code": -32010, "message": "run not found: r", "data": {"kind": "run-not-found", "hint": "List them."}}
        return self.write({"jsonrpc": "2.0", "id": ident, "error": error})

    def answer(self, ident, result):
        self.write({"jsonrpc": "2.0", "id": ident, "result": result})

    def event(self, run, seq, kind, **fields):
        params = {"runId": run, "seq": seq, "at": "2026-01-02T03:04:05.678Z", "type": kind, **fields}
        return {"jsonrpc": "2.0", "method": "flowdrive/progress", "params": params}

    def events(self, run):
        task = {"taskId": "map:a", "workerId": "worker-a-0001", "phase": "map"}
        return [
            self.event(run, 1, "runStarted", workflowId="w", title="Größe \U0001f980", plannedWorkers=1,
                       completedWorkers=0, resumed=False, addedLater={"a": 1}),
            self.event(run, 2, "phaseStarted", phase="map", title="Map", tasks=1, width=1),
            self.event(run, 3, "taskDispatched", agent="a", attempt=1, **task),
            self.event(run, 4, "addedLater", anything=[1, 2, 3]),
            self.event(run, 5, "taskAccepted", source="agent", summary="\U0001f980" * 100_000, findings=0, **task),
            self.event(run, 6, "phaseFinished", phase="map", completed=1),
            self.event(run, 7, "runFinished", status="complete", completedWorkers=1, parkedWorkers=0, reportPath="/r"),
        ]

    def view(self, run, since):
        at = "2026-01-02T03:04:05.678Z"
        events = [] if since is None else [one["params"] for one in self.events(run) if one["params"]["seq"] > since]
        summary = {"runId": run, "workflowId": "w", "title": "W", "status": "complete", "createdAt": at, "updatedAt": at,
                   "plannedWorkers": 1, "completedWorkers": 1, "parkedWorkers": 0, "openFeedback": 0, "driving": False}
        return {"schemaVersion": 1, "summary": summary, "inputs": {}, "phases": [], "tasks": [], "totalTasks": 1,
                "lastSeq": 7, "events": events, "moreEvents": False, "reportPath": "/r", "statePath": "/s"}

    def drive(self, ident, params):
        self.drove = True
        self.open_ids.add(ident)
        run = params.get("runId", "conformance-1")
        if self.scenario == "refused":
            data = {"kind": "run-locked", "hint": "Wait.", "pid": 1, "host": "h", "addedLater": 1}
            error = {"code": -32011, "message": "another process drives the run", "data": data}
            return self.write({"jsonrpc": "2.0", "id": ident, "error": error})
        first, *rest = self.events(run)
        self.write(first, {"jsonrpc": "2.0", "method": "added/later", "params": {"a": 1}}, rest[0])
        if self.scenario == "dies":
            return None
        if self.framing == "lsp":
            # One it can know, and one that no client can.
            for method, sent in [("window/workDoneProgress/create", {"token": "t"}), ("added/later/request", {})]:
                self.next_id += 1
                self.asked.add(f"server-{self.next_id}")
                self.write({"jsonrpc": "2.0", "id": f"server-{self.next_id}", "method": method, "params": sent})
        token = params.get("workDoneToken")
        if token is not None:
            value = {"kind": "begin", "title": "W", "percentage": 0, "addedLater": 1}
            self.write({"jsonrpc": "2.0", "method": "$/progress", "params": {"token": token, "value": value}})
        self.write(rest[1], torn=True)
        live = self.event(run, 3, "agentActivity", taskId="map:a", workerId="worker-a-0001", text="reading", coalesced=7)
        # Event 5 is left out: what was missed can be asked for.
        self.write(live, rest[2], rest[4], rest[5])
        if token is not None:
            value = {"kind": "end", "message": "complete"}
            self.write({"jsonrpc": "2.0", "method": "$/progress", "params": {"token": token, "value": value}})
        self.open_ids.discard(ident)
        self.answer(ident, {"schemaVersion": 1, "runId": run, "workflowId": "w", "status": "complete", "steps": [],
                            "plannedWorkers": 1, "completedWorkers": 1, "parkedWorkers": 0, "commitId": "state-0001",
                            "reportPath": "/r", "statePath": "/s", "agentConfigured": True, "addedLater": {"a": 1}})


def serve(scenario, report, transcript, schema):
    with open(report + STARTED, "w", encoding="utf-8"):
        pass
    with open(transcript, "a", encoding="utf-8") as log:
        log.write(f"== {scenario}\n")
        server = Server(scenario, log, schema)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            server.serve()
        except SystemExit:
            server.checks.failed(END, "it was killed")
        finally:
            with open(report, "w", encoding="utf-8") as file:
                json.dump(server.checks.results, file)
    return 3 if scenario == "dies" else 0


# --- the client under test -------------------------------------------------------------------------------------------


def write_shim(path, words):
    """A program that runs these words, whatever arguments it is given."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.name == "nt":
        path += ".cmd"
        text = "@" + subprocess.list2cmdline(words) + "\r\n"
    else:
        text = "#!/bin/sh\nexec " + " ".join(map(shlex.quote, words)) + "\n"
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def try_client(client, scenario, folder, transcript, schema):
    report = os.path.join(folder, f"{scenario}.json")
    words = [sys.executable, os.path.abspath(__file__), "--serve", scenario, report, transcript, schema]
    shim = write_shim(os.path.join(folder, f"server-{scenario}"), words)
    # A client that was not told which server to start takes what is installed, and would drive a real run with it.
    installed = write_shim(os.path.join(folder, scenario, "flowdrive"), words)
    path = os.pathsep.join([os.path.dirname(installed), os.environ.get("PATH", "")])
    arguments = [shim if argument == "{server}" else argument for argument in client]
    checks = Checks()
    said = b""
    started = time.monotonic()
    process = subprocess.Popen(arguments, env={**os.environ, "PATH": path, "FLOWDRIVE_SERVER": shim}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, said = process.communicate(timeout=PATIENCE)
        checks.passed(ENDS)
        wanted = process.returncode == 0 if scenario == "complete" else process.returncode != 0
        checks.hold(CODE, wanted, f"exit code {process.returncode}: {said.decode(errors='replace').strip()[-200:]}")
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
        checks.failed(ENDS, f"still running after {PATIENCE:g} s")
    # One that is still on its way up when the client has gone has as long as it needs to say that it is there.
    ended = time.monotonic()
    while not os.path.exists(report) and time.monotonic() - started < PATIENCE:
        if not os.path.exists(report + STARTED) and time.monotonic() - ended > STARTING:
            break
        time.sleep(0.02)
    try:
        with open(report, encoding="utf-8") as file:
            results = json.load(file)
    except (OSError, ValueError):
        checks.failed(DROVE, "the program in the place of the server was never started, or killed: is `{server}` among the "
                             "client's arguments, or does it read FLOWDRIVE_SERVER?")
        if said.strip():
            checks.failed(DROVE, f"the client said: {said.decode(errors='replace').strip()[-400:]}")
        results = {}
    if scenario != "complete":
        results.pop(MISSED, None)
    elif MISSED not in results:
        # A client may do without the events it missed; it is told so, and no more.
        results[MISSED] = None
    return {**results, **checks.results}


def main(arguments):
    if arguments[:1] == ["--serve"]:
        return serve(*arguments[1:])
    given = {"--transcript": os.devnull, "--schema": SCHEMA}
    while len(arguments) > 1 and arguments[0] in given:
        given[arguments[0]], arguments = os.path.abspath(arguments[1]), arguments[2:]
    transcript, schema = given["--transcript"], given["--schema"]
    if arguments in (["--help"], ["-h"]):
        print(__doc__.strip())
        return 0
    if arguments[:1] != ["--"] or len(arguments) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    problem = None
    if shutil.which(arguments[1]) is None:
        problem = f"{arguments[1]} is no program that can be run; what stands after `--` is the client, program first"
    elif not os.path.isfile(schema):
        problem = f"{schema} is missing; name the protocol's schema (schema/protocol.schema.json) with --schema FILE"
    if problem is not None:
        print(f"check.py: {problem}", file=sys.stderr)
        return 2
    if transcript != os.devnull:
        # Not after what an earlier call left.
        open(transcript, "w", encoding="utf-8").close()
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="flowdrive-conformance-") as folder:
        for scenario, about in SCENARIOS.items():
            print(f"{scenario}: {about}")
            for name, why in try_client(arguments[1:], scenario, folder, transcript, schema).items():
                verdict = "note" if why is None else "FAIL" if why else "ok  "
                print(f"  {verdict} {name}" + (" - it was not" if why is None else ""))
                for reason in (why or [])[:3]:
                    print(f"       {reason}")
                passed, failed = passed + (why == []), failed + bool(why)
    print(f"{passed} passed, {failed} failed")
    if failed and transcript == os.devnull:
        print("What was said is written down with: --transcript FILE")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
