// Rows of the trees.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load, summary, view } from "./load.mjs";

const tree = load("model/runTree");
const { Catalog } = load("model/catalog");
const { detailOf } = load("model/run");
const findingTree = load("model/findingTree");
const { claims, rated } = load("model/findings");
const { feedbackRow, document } = load("model/feedback");

const open = (place) => ({ title: "Open", command: "open", arguments: [place] });
const node = { kind: "run", workspace: "/ws", runId: "r" };
const now = Date.parse("2026-01-01T00:01:00.000Z");
const evil = "<img src=x onerror=alert(1)> [a](command:evil) `b`\n# c";

function catalogOf(overrides, its = summary()) {
  const catalog = new Catalog();
  catalog.setRun("/ws", its, detailOf([view(overrides)]));
  return catalog;
}
const evidence = (path, line) => ({ kind: "file", locator: `${path}:${line}`, path, line, endLine: line + 1, text: "code" });
const finding = (id, severity, ...places) => ({ id, severity, classification: "real", summary: `claim ${id}`, evidence: places });

test("runs lead to phases, tasks and findings, and back", () => {
  const tasks = view().tasks;
  tasks[0] = { ...tasks[0], status: "completed", attempts: 1, findings: [finding("x", "P1", evidence("a.rs", 3))] };
  const catalog = catalogOf({ tasks });
  const [run] = tree.children(catalog, undefined);
  const [phase] = tree.children(catalog, run);
  const [task] = tree.children(catalog, phase);
  const [found] = tree.children(catalog, task);
  assert.deepEqual([run.kind, phase.kind, task.kind, found.kind], ["run", "phase", "task", "finding"]);
  assert.deepEqual(tree.children(catalog, found), []);
  assert.deepEqual(tree.parent(catalog, found), task);
  assert.deepEqual(tree.parent(catalog, task), phase);
  assert.deepEqual(tree.parent(catalog, phase), run);
  const row = tree.row(catalog, found, now, open);
  assert.deepEqual(row.command.arguments, [{ file: "/ws/a.rs", line: 3, endLine: 4 }]);
  assert.equal(row.icon.color, "problemsWarningIcon.foreground");
});

test("a run's row says what was asked, how far it is, and what can be done with it", () => {
  const row = (its) => tree.row(catalogOf({}, summary(its)), node, now, open);
  const idle = row({ completedWorkers: 2, updatedAt: "2026-01-01T00:00:00.000Z" });
  assert.equal(idle.label, "where?");
  assert.match(idle.description, /^2\/3 · interrupted · 1 min ago · Quick survey$/);
  assert.equal(idle.context, "run resumable");
  assert.equal(row({ driving: true }).context, "run stoppable");
  assert.equal(row({ driving: true }).icon.id, "sync~spin");
  assert.equal(row({ status: "complete" }).context, "run");
  const parked = row({ status: "parked", openFeedback: 2 });
  assert.equal(parked.context, "run resumable waiting");
  assert.match(parked.description, /2 wait for you/);
  assert.match(idle.spoken, /where\?, interrupted, 2 of 3 tasks accepted/);
});

test("a task's row has state, agent, attempt, time, tokens, and what its agent does", () => {
  const row = (task) => tree.row(catalogOf({ tasks: [{ id: "map:a", phase: "map", attempts: 1, agent: "mine", ...task }] }), { ...node, kind: "task", taskId: "map:a" }, now, open);
  const running = row({ status: "running", attempts: 2, startedAt: "2026-01-01T00:00:48.000Z" });
  assert.equal(running.description, "12 s · attempt 2 · mine");
  assert.equal(running.icon.id, "loading~spin");
  const done = row({ status: "completed", startedAt: "2026-01-01T00:00:00.000Z", endedAt: "2026-01-01T00:00:01.500Z", usage: { inputTokens: 1000, outputTokens: 250 }, resultPath: "/x" });
  assert.equal(done.description, "1.5 s · 1.2k tokens · mine");
  assert.equal(done.context, "task result");
  assert.match(row({ status: "failed", attempts: 3, failure: "exit 1" }).description, /parked · 3 attempts · exit 1/);
  assert.match(row({ status: "pending", attempts: 1 }).description, /to be tried again/);
  assert.equal(row({ status: "pending", attempts: 0 }).description, "");
});

test("what workflows and agents write is never read as Markdown", () => {
  const catalog = catalogOf({ inputs: { question: evil }, tasks: [{ id: "map:a", phase: "map", status: "failed", attempts: 1, failure: evil, summary: evil }] });
  for (const one of [node, { ...node, kind: "task", taskId: "map:a" }]) {
    const { tooltip } = tree.row(catalog, one, now, open);
    assert.ok(!/(?<!\\)<img/.test(tooltip), tooltip);
    assert.ok(!/(?<!\\)\]\(/.test(tooltip), tooltip);
    assert.ok(!/^# /m.test(tooltip), tooltip);
  }
});

test("the newest run, and what is driven, is unfolded", () => {
  const catalog = new Catalog();
  const old = (runId, more) => summary({ runId, createdAt: "2025-01-01T00:00:00.000Z", ...more });
  catalog.setRuns("/ws", { runs: [summary(), old("a"), old("b", { driving: true })], total: 3 });
  const rows = tree.children(catalog, undefined).map((one) => tree.row(catalog, one, now, open));
  assert.deepEqual(rows.map((row) => row.children), ["unfolded", "unfolded", "folded"]);
});

test("what cannot be read, and what is not listed, is said", () => {
  const catalog = new Catalog();
  catalog.setRuns("/ws", { runs: [summary()], total: 4, unreadable: [{ name: "broken", kind: "run-corrupt", message: "line 3" }] });
  const rows = tree.children(catalog, undefined).map((one) => tree.row(catalog, one, now, open));
  assert.deepEqual(rows.map((row) => row.label), ["Quick survey", "broken", "2 older runs"]);
});

test("the same claim of several tasks is one finding, worst first", () => {
  const same = finding("x", "P2", evidence("a.rs", 3));
  const tasks = [
    { id: "map:a", phase: "map", status: "completed", attempts: 1, findings: [same, finding("n", "none", evidence("b.rs", 1))] },
    { id: "map:b", phase: "map", status: "completed", attempts: 1, findings: [{ ...same, id: "other" }, finding("w", "P0", evidence("b.rs", 9), evidence("c.rs", 1))] },
    { id: "verdict:c", phase: "verdict", status: "completed", attempts: 1, findings: [{ ...finding("i", "P0"), classification: "non-issue" }] },
  ];
  const run = catalogOf({ tasks }).get("r");
  const all = claims(run);
  assert.deepEqual(all.map((claim) => [claim.finding.severity, claim.taskIds]), [["P0", ["map:b"]], ["P2", ["map:a", "map:b"]], ["none", ["map:a"]]]);
  assert.equal(rated(all), 2);
  const labels = (grouping) => findingTree.children(run, undefined, grouping).map((group) => findingTree.row(group, open).label);
  assert.deepEqual(labels("severity"), ["P0", "P2", "Notes"]);
  assert.deepEqual(labels("file"), ["a.rs", "b.rs"]);
  const [worst] = findingTree.children(run, undefined, "severity");
  const [claim] = findingTree.children(run, worst, "severity");
  assert.deepEqual(findingTree.children(run, claim, "severity").map((one) => findingTree.row(one, open).label), ["b.rs:9", "c.rs:1"]);
  const keys = new Set([worst, claim, ...findingTree.children(run, claim, "severity")].map(findingTree.key));
  assert.equal(keys.size, 4);
});

test("evidence that is no file leads nowhere", () => {
  const url = { kind: "url", locator: "https://example.invalid/a" };
  const run = catalogOf({ tasks: [{ id: "map:a", phase: "map", status: "completed", attempts: 1, findings: [finding("u", "P1", url)] }] }).get("r");
  const [group] = findingTree.children(run, undefined, "severity");
  const [claim] = findingTree.children(run, group, "severity");
  assert.equal(findingTree.row(claim, open).command, undefined);
});

test("feedback says what is at fault, and its document shows text as text", () => {
  const record = { schemaVersion: 1, id: "f", runId: "r", taskId: "map:a", message: evil, code: "agent-failed", classification: "runtime-error", severity: "high", source: "verifier", status: "open", retryable: true, createdAt: "2026-01-01T00:00:00.000Z", updatedAt: "2026-01-01T00:00:00.000Z" };
  const run = catalogOf({}).get("r");
  const row = feedbackRow(run, record, true, now);
  assert.equal(row.label, "map:a");
  assert.equal(row.context, "feedback task");
  const text = document(run, record, { ...run.detail.tasks.get("map:a"), failure: "```\n<script>" });
  assert.ok(!/(?<!\\)<img/.test(text), text);
  assert.ok(text.includes("````text\n```\n<script>\n````"), text);
});

