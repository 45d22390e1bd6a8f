// An independent client: drives a run through Content-Length frames with the JSON-RPC implementation that VS Code uses.
// Usage: node drive.mjs SERVER WORKSPACE QUESTION [SERVER ARGUMENTS...]
// Prints one JSON object: the result, the events and the progress values it was told.
import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";
import { createMessageConnection, ErrorCodes, StreamMessageReader, StreamMessageWriter } from "vscode-jsonrpc/node";

const [program, workspace, question, ...extra] = process.argv.slice(2);
const server = spawn(program, ["serve", "--stdio", ...extra], { stdio: ["pipe", "pipe", "inherit"] });
const connection = createMessageConnection(
  new StreamMessageReader(server.stdout),
  new StreamMessageWriter(server.stdin),
);
const events = [];
const progress = [];
connection.onNotification("flowdrive/progress", (event) => events.push(event));
connection.onNotification("$/progress", (value) => progress.push(value));
connection.onRequest("window/workDoneProgress/create", () => null);
connection.onError(([error]) => fail(error));
connection.onUnhandledNotification(() => {});
connection.listen();

try {
  const { capabilities } = await connection.sendRequest("initialize", {
    processId: process.pid,
    capabilities: { window: { workDoneProgress: true } },
    initializationOptions: { protocolVersion: 1 },
    workspaceFolders: [{ uri: pathToFileURL(workspace).href, name: "workspace" }],
  });
  await connection.sendNotification("initialized", {});
  const result = await connection.sendRequest("drive", {
    workspace,
    workflow: { id: "quick-survey" },
    inputs: { question },
    agent: "builtin:survey",
    workDoneToken: "node",
  });
  const told = { events: events.length, progress: progress.length };
  let refusal;
  try {
    await connection.sendRequest("resume", { workspace, runId: "no-such-run" });
  } catch (error) {
    refusal = { code: error.code, kind: error.data?.kind };
  }
  await connection.sendRequest("shutdown");
  await connection.sendNotification("exit");
  const code = await new Promise((resolve) => server.on("exit", resolve));
  const late = events.length - told.events;
  process.stdout.write(`${JSON.stringify({ capabilities, result, events, progress, refusal, late, code })}\n`);
  connection.dispose();
} catch (error) {
  fail(error);
}

function fail(error) {
  const kind = error.code === ErrorCodes.MethodNotFound ? "the server lacks a method" : "the drive failed";
  process.stderr.write(`${kind}: ${error.message}\n`);
  // The end of its input ends the server.
  server.stdin.end();
  process.exitCode = 1;
}
