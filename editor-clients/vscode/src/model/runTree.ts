/**
 * The tree of runs: runs, their phases, the phases' tasks, the tasks' findings. Nodes name things; rows say how they look.
 * Must not: know the editor, or keep state.
 */
import * as l10n from "@vscode/l10n";
import type { PhaseView } from "flowdrive-client/protocol";
import type { Catalog } from "./catalog";
import { findingRow, type Place } from "./findings";
import * as format from "./format";
import { code, plain } from "./markdown";
import type { Icon, Row } from "./row";
import type { Run, Task } from "./run";

/** A phase with more tasks than this shows them on demand only. */
const FEW = 20;

/** What a row is of. The fields are also what a command that is called from a menu is given. */
export type RunNode =
  | { kind: "run"; workspace: string; runId: string }
  | { kind: "phase"; workspace: string; runId: string; phaseId: string }
  | { kind: "task"; workspace: string; runId: string; taskId: string }
  | { kind: "finding"; workspace: string; runId: string; taskId: string; index: number }
  | { kind: "unreadable"; name: string }
  | { kind: "more"; count: number };

export function key(node: RunNode): string {
  switch (node.kind) {
    case "run":
      return node.runId;
    case "phase":
      return `${node.runId} phase ${node.phaseId}`;
    case "task":
      return `${node.runId} task ${node.taskId}`;
    case "finding":
      return `${node.runId} task ${node.taskId} finding ${node.index}`;
    case "unreadable":
      return `unreadable ${node.name}`;
    case "more":
      return "more";
  }
}

const tasksOf = (run: Run, phaseId: string): Task[] => [...(run.detail?.tasks.values() ?? [])].filter((task) => task.phase === phaseId);

export function children(catalog: Catalog, node: RunNode | undefined): RunNode[] {
  if (node === undefined) {
    const { more } = catalog;
    return [
      ...catalog.list().map(({ workspace, summary }): RunNode => ({ kind: "run", workspace, runId: summary.runId })),
      ...catalog.unreadable().map(({ name }): RunNode => ({ kind: "unreadable", name })),
      ...(more > 0 ? [{ kind: "more", count: more } satisfies RunNode] : []),
    ];
  }
  if (node.kind === "unreadable" || node.kind === "more") {
    return [];
  }
  const run = catalog.get(node.runId);
  const { workspace, runId } = node;
  if (run === undefined) {
    return [];
  }
  switch (node.kind) {
    case "run":
      return (run.detail?.phases ?? []).map(({ id }) => ({ kind: "phase", workspace, runId, phaseId: id }));
    case "phase":
      return tasksOf(run, node.phaseId).map(({ id }) => ({ kind: "task", workspace, runId, taskId: id }));
    case "task":
      return (run.detail?.tasks.get(node.taskId)?.findings ?? []).map((_, index) => ({
        kind: "finding",
        workspace,
        runId,
        taskId: node.taskId,
        index,
      }));
    case "finding":
      return [];
  }
}

export function parent(catalog: Catalog, node: RunNode): RunNode | undefined {
  switch (node.kind) {
    case "run":
    case "unreadable":
    case "more":
      return undefined;
    case "phase":
      return { kind: "run", workspace: node.workspace, runId: node.runId };
    case "task": {
      const phaseId = catalog.get(node.runId)?.detail?.tasks.get(node.taskId)?.phase;
      return phaseId === undefined ? undefined : { kind: "phase", workspace: node.workspace, runId: node.runId, phaseId };
    }
    case "finding":
      return { kind: "task", workspace: node.workspace, runId: node.runId, taskId: node.taskId };
  }
}

/** The row of a node; undefined where what it names is gone. */
export function row(catalog: Catalog, node: RunNode, now: number, open: (place: Place) => Row["command"]): Row | undefined {
  if (node.kind === "more") {
    return {
      id: key(node),
      label: l10n.t("{0} older runs", node.count),
      description: l10n.t("the command line lists them all"),
      icon: { id: "ellipsis" },
      context: "more",
      children: "none",
    };
  }
  if (node.kind === "unreadable") {
    const fault = catalog.unreadable().find((one) => one.name === node.name);
    return (
      fault && {
        id: key(node),
        label: fault.name,
        description: l10n.t("cannot be read"),
        tooltip: plain(fault.message),
        icon: { id: "error", color: "problemsErrorIcon.foreground" },
        context: "unreadable",
        children: "none",
      }
    );
  }
  const run = catalog.get(node.runId);
  if (run === undefined) {
    return undefined;
  }
  switch (node.kind) {
    case "run":
      return runRow(run, node, now, run === catalog.focus);
    case "phase": {
      const phase = run.detail?.phases.find((one) => one.id === node.phaseId);
      return phase && phaseRow(run, phase, node);
    }
    case "task": {
      const task = run.detail?.tasks.get(node.taskId);
      return task && taskRow(run, task, node, now);
    }
    case "finding": {
      const finding = run.detail?.tasks.get(node.taskId)?.findings?.[node.index];
      return finding && findingRow(run.workspace, finding, key(node), open);
    }
  }
}

/** What the run was asked, on one line: the first text among its inputs. */
export function question(run: Run): string | undefined {
  const inputs: Readonly<Record<string, unknown>> = run.summary.inputs ?? run.detail?.inputs ?? {};
  const asked = inputs.question ?? Object.values(inputs).find((value) => typeof value === "string");
  return typeof asked === "string" && asked !== "" ? format.oneLine(asked, 80) : undefined;
}

export function runIcon(run: Run): Icon {
  const { summary } = run;
  if (summary.driving) {
    return { id: "sync~spin", color: "charts.blue" };
  }
  switch (summary.status) {
    case "complete":
      return { id: "pass-filled", color: "testing.iconPassed" };
    case "parked":
      return { id: "warning", color: "list.warningForeground" };
    case "blocked":
      return { id: "error", color: "testing.iconFailed" };
    case "in-progress":
      return { id: "debug-pause", color: "testing.iconQueued" };
  }
}

export function runState(run: Run): string {
  if (run.summary.driving) {
    return run.stopping === undefined ? l10n.t("running") : l10n.t("stopping");
  }
  return format.status(run.summary.status);
}

function runRow(run: Run, node: RunNode, now: number, isFocus: boolean): Row {
  const { summary } = run;
  const counts = `${summary.completedWorkers}/${summary.plannedWorkers}`;
  const open = summary.openFeedback > 0 ? format.waiting(summary.openFeedback) : undefined;
  const asked = question(run);
  const state = runState(run);
  const when = summary.driving
    ? format.duration(now - Date.parse(firstStart(run) ?? summary.updatedAt))
    : format.ago(summary.updatedAt, now);
  const lines = [
    `**${plain(summary.title)}** · ${state}`,
    ...Object.entries(run.detail?.inputs ?? {}).map(([name, value]) => `${plain(name)}: ${plain(inputText(value))}`),
    l10n.t("{0} of {1} tasks accepted, {2} parked", summary.completedWorkers, summary.plannedWorkers, summary.parkedWorkers),
    code(summary.runId),
  ];
  // A menu offers what can be done: each word stands for one thing.
  const can = [
    "run",
    summary.driving ? "stoppable" : summary.status === "complete" ? undefined : "resumable",
    summary.openFeedback > 0 ? "waiting" : undefined,
  ];
  return {
    id: key(node),
    label: asked ?? summary.title,
    description: format.joined(counts, summary.driving && run.stopping === undefined ? undefined : state, open, when, asked === undefined ? undefined : summary.title),
    tooltip: lines.join("\n\n"),
    icon: runIcon(run),
    context: can.filter((word) => word !== undefined).join(" "),
    spoken: l10n.t("{0}, {1}, {2} of {3} tasks accepted", asked ?? summary.title, state, summary.completedWorkers, summary.plannedWorkers),
    // What is driven, and what a person came for, is seen without a click.
    children: summary.driving || isFocus ? "unfolded" : "folded",
  };
}

function inputText(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return format.oneLine(text, 400);
}

function firstStart(run: Run): string | undefined {
  const running = [...(run.detail?.tasks.values() ?? [])].filter((task) => task.status === "running");
  return running.flatMap((task) => task.startedAt ?? []).sort()[0];
}

function phaseRow(run: Run, phase: PhaseView, node: RunNode): Row {
  const tasks = tasksOf(run, phase.id);
  const parked = tasks.filter((task) => task.status === "failed").length;
  const running = tasks.filter((task) => task.status === "running").length;
  const icon: Icon =
    phase.status === "completed"
      ? { id: "pass", color: "testing.iconPassed" }
      : running > 0
        ? { id: "sync~spin", color: "charts.blue" }
        : parked > 0
          ? { id: "warning", color: "list.warningForeground" }
          : { id: "circle-large-outline", color: "descriptionForeground" };
  return {
    id: key(node),
    label: phase.title,
    description: format.joined(
      `${phase.completed}/${phase.tasks}`,
      running > 0 ? l10n.t("{0} running", running) : undefined,
      parked > 0 ? l10n.t("{0} parked", parked) : undefined,
    ),
    icon,
    context: "phase",
    spoken: l10n.t("phase {0}, {1} of {2} tasks accepted", phase.title, phase.completed, phase.tasks),
    children: tasks.length <= FEW || phase.status === "running" || parked > 0 ? "unfolded" : "folded",
  };
}

export function taskState(task: Task, now: number): string {
  switch (task.status) {
    case "completed":
      return task.source === "cache" ? l10n.t("from the cache") : l10n.t("accepted");
    case "running":
      return l10n.t("running");
    case "failed":
      return l10n.t("parked");
    case "pending":
      if (task.notBefore !== undefined && Date.parse(task.notBefore) > now) {
        return l10n.t("waits {0}", format.duration(Date.parse(task.notBefore) - now));
      }
      return task.attempts > 0 ? l10n.t("to be tried again") : l10n.t("to do");
  }
}

function taskIcon(task: Task): Icon {
  switch (task.status) {
    case "completed":
      return task.source === "cache" ? { id: "history", color: "testing.iconPassed" } : { id: "pass", color: "testing.iconPassed" };
    case "running":
      return { id: "loading~spin", color: "charts.blue" };
    case "failed":
      return { id: "error", color: "testing.iconFailed" };
    case "pending":
      return task.attempts > 0 ? { id: "debug-restart", color: "testing.iconQueued" } : { id: "circle-outline", color: "descriptionForeground" };
  }
}

/** How long the newest attempt took, or has been going on. */
export function elapsed(task: Task, now: number): string | undefined {
  if (task.startedAt === undefined) {
    return undefined;
  }
  const end = task.status === "running" ? now : task.endedAt === undefined ? undefined : Date.parse(task.endedAt);
  return end === undefined ? undefined : format.duration(end - Date.parse(task.startedAt));
}

function taskRow(run: Run, task: Task, node: RunNode, now: number): Row {
  const spent = format.tokens(task.usage);
  const state = taskState(task, now);
  const attempt = task.attempts > 1 ? l10n.t("attempt {0}", task.attempts) : undefined;
  const found = task.findings === undefined || task.findings.length === 0 ? undefined : format.findings(task.findings.length);
  const time = elapsed(task, now);
  const lines = [
    `**${plain(task.id)}** · ${state}`,
    ...(task.agent === undefined ? [] : [l10n.t("agent: {0}", code(task.agent))]),
    ...(task.reportedModel === undefined || task.reportedModel === "unreported" ? [] : [l10n.t("model: {0}", code(task.reportedModel))]),
    ...(task.attempts > 0 ? [l10n.t("attempts: {0}", task.attempts)] : []),
    ...(time === undefined ? [] : [l10n.t("time: {0}", time)]),
    ...(spent === undefined ? [] : [l10n.t("tokens: {0}", spent.toLocaleString())]),
    ...(task.failure === undefined ? [] : [plain(format.oneLine(task.failure, 600))]),
    ...(task.summary === undefined ? [] : [plain(format.oneLine(task.summary, 600))]),
  ];
  const description =
    task.status === "running"
      ? format.joined(time, attempt, task.activity === undefined ? undefined : format.oneLine(task.activity, 80), task.agent)
      : task.status === "failed"
        ? format.joined(state, l10n.t("{0} attempts", task.attempts), task.failure === undefined ? undefined : format.oneLine(task.failure, 80))
        : task.status === "completed"
          ? format.joined(time, attempt, spent === undefined ? undefined : l10n.t("{0} tokens", format.compact(spent)), found, task.agent)
          : format.joined(task.attempts > 0 || task.notBefore !== undefined ? state : undefined, attempt);
  const can = [
    "task",
    task.status === "failed" && run.summary.openFeedback > 0 ? "waiting" : undefined,
    task.resultPath === undefined ? undefined : "result",
    task.workerId === undefined ? undefined : "log",
  ];
  return {
    id: key(node),
    label: task.id,
    description,
    tooltip: lines.join("\n\n"),
    icon: taskIcon(task),
    context: can.filter((word) => word !== undefined).join(" "),
    spoken: l10n.t("task {0}, {1}, {2}", task.id, state, description),
    children: found === undefined ? "none" : "folded",
  };
}
