// Runs, as events change them, and the catalog that holds them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { events, load, summary, view } from "./load.mjs";

const { apply, detailOf, ended } = load("model/run");
const { Catalog } = load("model/catalog");

const started = { type: "runStarted", workflowId: "quick-survey", title: "Quick survey", plannedWorkers: 3, completedWorkers: 0, resumed: false };
const phase = { type: "phaseStarted", phase: "map", title: "Map", tasks: 2, width: 2 };
const dispatched = (taskId, attempt = 1) => ({ type: "taskDispatched", taskId, workerId: `w-${taskId}-${attempt}`, phase: "map", agent: "mine", attempt });
const accepted = (taskId) => ({ type: "taskAccepted", taskId, workerId: "w", phase: "map", source: "agent", summary: "Found it.", findings: 1 });
const parked = (taskId) => ({ type: "taskParked", taskId, workerId: "w", phase: "map", attempts: 3, code: "agent-failed", reason: "exit 1" });
const fresh = () => ({ workspace: "/ws", summary: summary(), detail: detailOf([view()]) });
const applyAll = (run, list) => list.map((event) => apply(run, event));

test("a drive's events lead a run from its start to its end", () => {
  const run = fresh();
  const list = events(started, phase, dispatched("map:a"), dispatched("map:b"), accepted("map:a"), parked("map:b"), {
    type: "runFinished",
    status: "parked",
    completedWorkers: 1,
    parkedWorkers: 1,
    reportPath: "/ws/r.md",
  });
  applyAll(run, list.slice(0, 4));
  assert.equal(run.summary.driving, true);
  assert.equal(run.detail.phases[0].status, "running");
  assert.deepEqual([...run.detail.tasks.values()].map((task) => task.status), ["running", "running", "pending"]);
  assert.deepEqual(apply(run, list[4]), { kind: "applied", wanted: { kind: "task", taskId: "map:a" } });
  apply(run, list[5]);
  assert.equal(run.detail.phases[0].completed, 1);
  assert.equal(run.detail.tasks.get("map:b").failure, "exit 1");
  assert.deepEqual(apply(run, list[6]), { kind: "applied", wanted: { kind: "run" } });
  assert.deepEqual([run.summary.driving, run.summary.status, run.summary.completedWorkers, run.summary.parkedWorkers], [false, "parked", 1, 1]);
});

test("an event that is known already changes nothing, and one after a gap says that some were missed", () => {
  const run = fresh();
  const list = events(started, phase, dispatched("map:a"), accepted("map:a"));
  apply(run, list[0]);
  assert.equal(apply(run, list[0]).kind, "known");
  assert.equal(apply(run, list[3]).kind, "missed");
  assert.equal(run.summary.completedWorkers, 0);
  applyAll(run, list.slice(1, 4));
  assert.equal(run.summary.completedWorkers, 1);
  applyAll(run, list);
  assert.equal(run.summary.completedWorkers, 1, "a replay of everything counts nothing twice");
});

test("what an agent is doing is shown while it works, and no longer", () => {
  const run = fresh();
  applyAll(run, events(started, dispatched("map:a")));
  const activity = { runId: "r", at: "", seq: 2, type: "agentActivity", taskId: "map:a", workerId: "w", text: "reading" };
  assert.equal(apply(run, activity).kind, "applied");
  assert.equal(run.detail.tasks.get("map:a").activity, "reading");
  apply(run, { ...accepted("map:a"), runId: "r", at: "", seq: 3 });
  assert.equal(run.detail.tasks.get("map:a").activity, undefined);
  assert.equal(apply(run, activity).kind, "known");
});

test("a task that is not there yet has the run read again", () => {
  const run = fresh();
  const effects = applyAll(run, events(started, dispatched("map:a@r2")));
  assert.deepEqual(effects.at(-1), { kind: "applied", wanted: { kind: "run" } });
});

test("an interrupted run has nothing running", () => {
  const run = fresh();
  applyAll(run, events(started, dispatched("map:a")));
  ended(run);
  assert.equal(run.summary.driving, false);
  assert.equal(run.detail.tasks.get("map:a").status, "pending");
});

test("the catalog keeps details over a new list, drops runs that are gone, and tells what changed", () => {
  const catalog = new Catalog();
  const told = [];
  const listener = catalog.onChange((change) => told.push(change.runId));
  const older = summary({ runId: "old", createdAt: "2025-01-01T00:00:00.000Z" });
  catalog.setRuns("/ws", { runs: [summary(), older], total: 5 });
  assert.deepEqual(catalog.list().map((run) => run.summary.runId), ["r", "old"]);
  assert.equal(catalog.more, 3);
  catalog.setRun("/ws", summary(), detailOf([view()]));
  catalog.setRuns("/ws", { runs: [summary({ completedWorkers: 2 })], total: 1 });
  assert.equal(catalog.get("old"), undefined);
  assert.equal(catalog.get("r").summary.completedWorkers, 2);
  assert.ok(catalog.get("r").detail);
  assert.deepEqual(told, [undefined, "r", undefined]);
  listener.dispose();
  catalog.interrupt(["r"]);
  assert.equal(told.length, 3);
});

test("lists of several folders do not drop each other's runs", () => {
  const catalog = new Catalog();
  catalog.setRuns("/a", { runs: [summary({ runId: "a" })], total: 1 });
  catalog.setRuns("/b", { runs: [summary({ runId: "b" })], total: 1, unreadable: [{ name: "broken", kind: "run-corrupt", message: "line 3" }] });
  assert.deepEqual(catalog.list().map((run) => run.summary.runId).sort(), ["a", "b"]);
  assert.deepEqual(catalog.unreadable().map((one) => one.name), ["broken"]);
});

test("an answer about a task that was overtaken by events is dropped", () => {
  const catalog = new Catalog();
  catalog.setRun("/ws", summary(), detailOf([view()]));
  for (const event of events(started, dispatched("map:a", 2))) catalog.apply(event);
  catalog.setTask("r", { id: "map:a", phase: "map", status: "completed", attempts: 1, summary: "late" });
  assert.equal(catalog.get("r").detail.tasks.get("map:a").status, "running");
  catalog.setTask("r", { id: "map:a", phase: "map", status: "running", attempts: 2, agent: "mine" });
  assert.equal(catalog.get("r").detail.tasks.get("map:a").agent, "mine");
});

test("findings are shown of the run chosen, else of the newest; feedback is counted", () => {
  const catalog = new Catalog();
  catalog.setRuns("/ws", { runs: [summary(), summary({ runId: "old", createdAt: "2025-01-01T00:00:00.000Z" })], total: 2 });
  assert.equal(catalog.focus.summary.runId, "r");
  catalog.choose("old");
  assert.equal(catalog.focus.summary.runId, "old");
  catalog.choose("gone");
  assert.equal(catalog.focus.summary.runId, "r");
  catalog.setFeedback("r", [{ id: "f", runId: "r" }]);
  assert.equal(catalog.get("r").summary.openFeedback, 1);
  assert.deepEqual(catalog.feedback().map(({ record }) => record.id), ["f"]);
});
