// Drives a workflow over newline JSON, with nothing but what Node.js brings.
// Usage: node drive.mjs WORKSPACE QUESTION [SERVER COMMAND...]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const [workspace, question, ...given] = process.argv.slice(2);
if (question === undefined) {
  console.error("usage: node drive.mjs WORKSPACE QUESTION [SERVER COMMAND...]");
  process.exit(2);
}
const [program, ...args] = given.length > 0 ? given : ["flowdrive", "serve", "--stdio"];
const server = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const ended = once(server, "close");
const params = { workspace: resolve(workspace), workflow: { id: "quick-survey" }, inputs: { question } };
server.stdin.on("error", () => {}); // its end is told of below
server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "drive", params })}\n`);

let answer = { error: { message: "the server ended before it answered" } };
for await (const line of createInterface({ input: server.stdout })) {
  const message = JSON.parse(line);
  if (message.method === "flowdrive/progress") {
    const event = message.params;
    console.error(event.seq, event.type, event.taskId ?? "");
  } else if (message.id === 1) {
    answer = message;
    break;
  }
}
server.stdin.end();
console.log(JSON.stringify(answer.result ?? answer.error, null, 2));
await ended;
process.exitCode = answer.result?.status === "complete" ? 0 : 1;
