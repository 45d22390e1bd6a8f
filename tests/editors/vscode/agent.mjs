// An agent for the tests: does what a plan says for each task. `node agent.mjs PLAN MANIFEST`; PLAN is a JSON file:
// task id (or "*") -> { delayMs, activity: [..], findings: [{ id, severity, summary, evidence }], usage, fail: "why",
// until: FILE (waits until it is there) }. Without findings it cites README.md:1.
import fs from "node:fs";

const [planFile, manifestFile] = process.argv.slice(2);
const manifest = JSON.parse(fs.readFileSync(manifestFile, "utf8"));
const plan = JSON.parse(fs.readFileSync(planFile, "utf8"));
const own = plan[manifest.taskId] ?? plan["*"] ?? {};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

if (plan.pids !== undefined) fs.writeFileSync(`${plan.pids}/${process.pid}.pid`, manifest.taskId);
for (const line of own.activity ?? []) {
  process.stderr.write(`${line}\n`);
  await pause(20);
}
await pause(own.delayMs ?? 0);
while (own.until !== undefined && !fs.existsSync(own.until)) await pause(25);
if (own.fail !== undefined) {
  process.stderr.write(`${own.fail}\n`);
  process.exit(1);
}
const findings = (own.findings ?? []).map((finding) => ({ classification: "real", ...finding }));
const evidence = findings.length === 0 ? ["README.md:1"] : findings.flatMap((finding) => finding.evidence);
const block = JSON.stringify({ summary: own.summary ?? "Looked at it.", findings, evidence }, null, 2);
fs.writeFileSync(manifest.resultPath, `${own.summary ?? "Looked at it."}\n\n\`\`\`cw:result\n${block}\n\`\`\`\n`);
if (own.usage !== undefined) process.stdout.write(`${JSON.stringify({ model: own.model ?? "made-up-1", usage: own.usage })}\n`);
