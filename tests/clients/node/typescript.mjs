// The TypeScript client against a real server, as a program of a user's would use it.
// Usage: node typescript.mjs SERVER WORKSPACE CONFIG CASE. Prints one JSON object.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { FlowdriveClient, FlowdriveError, ServerGoneError } from "../../../clients/typescript/dist/index.js";

const [command, workspace, config, name] = process.argv.slice(2);
const options = { command, args: ["serve", "--stdio", "--config", config], workspaceFolders: [workspace] };
const survey = { workflow: { id: "quick-survey" }, inputs: { question: "Where is a run stored?" }, agent: "builtin:survey" };
const alive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Reads events until one that fits, and returns all of them. */
async function until(events, fits) {
  const read = [];
  for await (const event of events) {
    read.push(event);
    if (fits(event)) break;
  }
  return read;
}

/** The same events, left open when a loop over them is left. */
const open = (events) => ({ [Symbol.asyncIterator]: () => ({ next: () => events.next() }) });

const cases = {
  /** Typed methods, events, progress, errors, and a clean end. */
  async drive() {
    const client = await FlowdriveClient.start(options);
    const { pid } = client;
    const events = until(client.events(), (event) => event.type === "runFinished");
    const progress = [];
    const result = await client.drive(survey, { onProgress: (value) => progress.push(value) });
    const live = await events;
    const replayed = await until(client.events({ runId: result.runId, sinceSeq: 0 }), (event) => event.type === "runFinished");
    const lifecycle = live.filter((event) => event.type !== "agentActivity");
    assert.deepEqual(replayed, lifecycle, "a replay is what was told live");
    const refusal = await client.resume({ runId: "no-such-run" }).catch((error) => error);
    assert.ok(refusal instanceof FlowdriveError, String(refusal));
    await client.close();
    await client.close();
    assert.equal(alive(pid), false, "closing left the server running");
    const late = await client.listRuns({}).catch((error) => error);
    assert.ok(late instanceof ServerGoneError, String(late));
    const { kind, hint, code, method } = refusal;
    return { result, seqs: lifecycle.map((event) => event.seq), progress: progress.map((value) => value.kind), refusal: { kind, hint, code, method } };
  },

  /** A server that is killed amid a drive is started again, and the stream goes on without a gap. */
  async restart() {
    let restarted = 0;
    const client = await FlowdriveClient.start({ ...options, restarts: 1, onRestart: () => (restarted += 1) });
    const { pid } = client;
    const runId = "typescript-restart";
    const stream = client.events({ runId, sinceSeq: 0 });
    // The run is not there yet: the stream ends with the server's refusal, as any request would.
    await assert.rejects(stream.next(), (error) => error.kind === "run-not-found");
    const driving = client.drive({ ...survey, agent: "held", runId }).catch((error) => error);
    const opening = await until(client.events(), (event) => event.type === "taskDispatched");
    const events = client.events({ runId, sinceSeq: 0 });
    const before = await until(open(events), (event) => event.type === "taskDispatched");
    process.kill(pid, "SIGKILL");
    const gone = await driving;
    assert.ok(gone instanceof ServerGoneError, String(gone));
    const resumed = await client.resume({ runId, agent: "builtin:survey" });
    const after = await until(events, (event) => event.type === "runFinished");
    await client.close();
    assert.equal(alive(client.pid), false);
    const seqs = [...before, ...after].filter((event) => event.type !== "agentActivity").map((event) => event.seq);
    return { status: resumed.status, restarted, opened: opening.length > 0, seqs };
  },

  /** Without restarts, streams and requests fail with the server, and say how it ended. */
  async death() {
    const client = await FlowdriveClient.start(options);
    const stream = client.events();
    const waiting = stream.next();
    process.kill(client.pid, "SIGKILL");
    const error = await waiting.catch((error) => error);
    assert.ok(error instanceof ServerGoneError, String(error));
    assert.equal((await stream.next()).done, true);
    const request = await client.listRuns({}).catch((error) => error);
    await client.close();
    return { message: error.message, request: request.name };
  },

  /** A signal cancels the request; the drive is settled. */
  async cancel() {
    const client = await FlowdriveClient.start(options);
    const stop = new AbortController();
    const events = client.events();
    const driving = client.drive({ ...survey, agent: "held", runId: "typescript-cancel" }, { signal: stop.signal }).catch((error) => error);
    await until(open(events), (event) => event.type === "taskDispatched");
    stop.abort();
    const error = await driving;
    assert.ok(error instanceof FlowdriveError && error.cancelled, String(error));
    await client.close();
    return { code: error.code };
  },

  /** What cannot be started says so; what speaks another version is refused by name. */
  async refused() {
    const missing = await FlowdriveClient.start({ command: `${workspace}/no-such-program` }).catch((error) => error);
    assert.ok(missing instanceof ServerGoneError, String(missing));
    const invalid = await FlowdriveClient.start({ ...options, config: { agents: { a: { preset: "nobody" } } } }).catch((error) => error);
    assert.ok(invalid instanceof FlowdriveError, String(invalid));
    return { missing: missing.message, hint: missing.hint, invalid: invalid.kind };
  },
};

const watchdog = pause(120_000, undefined, { ref: false }).then(() => {
  throw new Error(`${name} hangs`);
});
process.stdout.write(`${JSON.stringify(await Promise.race([cases[name](), watchdog]))}\n`);
