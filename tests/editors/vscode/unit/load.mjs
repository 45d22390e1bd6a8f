// Bundles one source file of the extension and loads it. Pure parts need no editor: for them `vscode` is an error.
import { createRequire } from "node:module";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const extension = fileURLToPath(new URL("../../../../editor-clients/vscode/", import.meta.url));
const { buildSync } = createRequire(path.join(extension, "package.json"))("esbuild");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "flowdrive-unit."));
process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));

export function load(name) {
  const outfile = path.join(folder, `${name.replaceAll("/", "-")}.cjs`);
  buildSync({
    absWorkingDir: extension,
    entryPoints: [`src/${name}.ts`],
    outfile,
    bundle: true,
    platform: "node",
    format: "cjs",
    logLevel: "error",
  });
  return createRequire(import.meta.url)(outfile);
}

let seq = 0;
/** A run as `showRun` answers: two phases, three tasks, none begun. */
export function view(overrides = {}) {
  const task = (id, phase) => ({ id, phase, status: "pending", attempts: 0 });
  return {
    schemaVersion: 1,
    inputs: { question: "where?" },
    lastSeq: 0,
    phases: [
      { id: "map", title: "Map", mode: "parallel", status: "pending", tasks: 2, completed: 0 },
      { id: "verdict", title: "Verdict", mode: "sequential", status: "pending", tasks: 1, completed: 0 },
    ],
    reportPath: "/ws/.cw/runs/r/report.md",
    statePath: "/ws/.cw/runs/r/state.json",
    summary: summary(),
    tasks: [task("map:a", "map"), task("map:b", "map"), task("verdict:c", "verdict")],
    totalTasks: 3,
    ...overrides,
  };
}

export function summary(overrides = {}) {
  return {
    runId: "r",
    workflowId: "quick-survey",
    title: "Quick survey",
    status: "in-progress",
    driving: false,
    createdAt: "2026-01-01T00:00:00.000Z",
    updatedAt: "2026-01-01T00:00:00.000Z",
    plannedWorkers: 3,
    completedWorkers: 0,
    parkedWorkers: 0,
    openFeedback: 0,
    ...overrides,
  };
}

/** Events numbered from 1 on. */
export function events(...list) {
  seq = 0;
  return list.map((event) => ({ runId: "r", at: `2026-01-01T00:00:0${seq % 10}.000Z`, seq: (seq += 1), ...event }));
}
