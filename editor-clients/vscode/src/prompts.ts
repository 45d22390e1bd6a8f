/**
 * What the user is asked: folder, workflow, typed inputs, run, feedback, resolution. Each throws `Dismissed` when the
 * user leaves. Must not: talk to the server.
 */
import * as vscode from "vscode";
import { Dismissed } from "./errors";
import type { FeedbackRecord, InputSpec, InputType, Resolution, RunSummary, WorkflowSummary } from "./protocol";

interface Choice<T> extends vscode.QuickPickItem {
  value: T;
}

async function pick<T>(choices: Choice<T>[], title: string, placeHolder: string): Promise<T> {
  const chosen = await vscode.window.showQuickPick(choices, { title, placeHolder, matchOnDescription: true, matchOnDetail: true });
  if (chosen === undefined) {
    throw new Dismissed();
  }
  return chosen.value;
}

/** The folder that the run is about: the only one, else that of the open file, else the one chosen. */
export async function folder(): Promise<vscode.WorkspaceFolder> {
  const folders = (vscode.workspace.workspaceFolders ?? []).filter((one) => one.uri.scheme === "file");
  const only = folders[0];
  if (only === undefined) {
    throw new Error("Open a folder first: runs are kept in it, and agents read its files.");
  }
  if (folders.length === 1) {
    return only;
  }
  const file = vscode.window.activeTextEditor?.document.uri;
  const current = file && vscode.workspace.getWorkspaceFolder(file);
  if (current !== undefined && folders.includes(current)) {
    return current;
  }
  return pick(folders.map((value) => ({ label: value.name, description: value.uri.fsPath, value })), "Flowdrive", "Which folder?");
}

export async function workflow(workflows: WorkflowSummary[]): Promise<WorkflowSummary> {
  if (workflows.length === 0) {
    throw new Error("There is no workflow here. Put one into .cw/workflows/.");
  }
  return pick(
    workflows.map((value) => ({
      label: value.title,
      description: `${value.id}, ${value.tasks} tasks`,
      detail: value.summary,
      value,
    })),
    "Flowdrive: workflow",
    "Which workflow?",
  );
}

/** Reads what was typed as a value of an input's type; a fault is a sentence. */
export function parseValue(text: string, type: InputType): { value: unknown } | { problem: string } {
  switch (type) {
    case "number": {
      const value = Number(text);
      return text.trim() !== "" && Number.isFinite(value) ? { value } : { problem: `${JSON.stringify(text)} is not a number` };
    }
    case "boolean":
      return text === "true" || text === "false" ? { value: text === "true" } : { problem: "true or false" };
    case "json":
      try {
        return { value: JSON.parse(text) as unknown };
      } catch (problem) {
        return { problem: `Not JSON: ${problem instanceof Error ? problem.message : String(problem)}` };
      }
    default:
      return { value: text };
  }
}

/** Asks for one value. `undefined` where an optional one was left empty. */
async function value(name: string, spec: InputSpec, optional: boolean): Promise<unknown> {
  const title = `Flowdrive: ${name}`;
  const prompt = `${spec.description ?? ""}${optional ? " (empty for none)" : ""}`.trim();
  if (spec.type === "boolean") {
    const choices: Choice<boolean | undefined>[] = [
      { label: "true", value: true },
      { label: "false", value: false },
    ];
    return pick(optional ? [...choices, { label: "none", value: undefined }] : choices, title, prompt);
  }
  const preset = typeof spec.default === "string" || typeof spec.default === "number" ? String(spec.default) : undefined;
  const text = await vscode.window.showInputBox({
    title,
    prompt,
    ignoreFocusOut: true,
    ...(preset === undefined ? {} : { value: preset }),
    validateInput: (typed) => {
      if (typed === "") {
        return optional ? undefined : `${name} is required`;
      }
      const parsed = parseValue(typed, spec.type);
      return "problem" in parsed ? parsed.problem : undefined;
    },
  });
  if (text === undefined) {
    throw new Dismissed();
  }
  if (text === "") {
    return undefined;
  }
  const parsed = parseValue(text, spec.type);
  return "value" in parsed ? parsed.value : undefined;
}

/** Asks for those inputs that were not given, required ones first. */
export async function inputs(
  specs: Readonly<Record<string, InputSpec>>,
  given: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const answers: Record<string, unknown> = { ...given };
  const missing = Object.entries(specs)
    .filter(([name]) => !(name in given))
    .sort(([a, x], [b, y]) => Number(y.required ?? false) - Number(x.required ?? false) || a.localeCompare(b));
  for (const [name, spec] of missing) {
    const required = spec.required ?? false;
    if (spec.repeated ?? false) {
      const list: unknown[] = [];
      for (;;) {
        const next = await value(name, spec, list.length > 0 || !required);
        if (next === undefined) break;
        list.push(next);
      }
      if (list.length > 0) answers[name] = list;
    } else {
      const answer = await value(name, spec, !required);
      if (answer !== undefined) answers[name] = answer;
    }
  }
  return answers;
}

export async function run(runs: RunSummary[], placeHolder: string, none: string): Promise<RunSummary> {
  if (runs.length === 0) {
    throw new Error(none);
  }
  return pick(
    runs.map((value) => {
      const open = value.openFeedback > 0 ? `, ${value.openFeedback} waiting for you` : "";
      const now = value.driving ? ", driven now" : "";
      return {
        label: value.title,
        description: `${value.status} ${value.completedWorkers}/${value.plannedWorkers}${open}${now}`,
        detail: value.runId,
        value,
      };
    }),
    "Flowdrive: run",
    placeHolder,
  );
}

export async function feedback(records: FeedbackRecord[]): Promise<FeedbackRecord> {
  return pick(
    records.map((value) => ({ label: value.taskId ?? value.id, description: `${value.severity}, ${value.code}`, detail: value.message, value })),
    "Flowdrive: feedback",
    "Which one?",
  );
}

export interface Decision {
  resolution: Resolution;
  nodeId?: string;
  guidance?: string;
  message?: string;
}

/** How feedback is closed: what was given, and answers for what was not. An empty text that was given stays empty. */
export async function decision(given: Partial<Decision>): Promise<Decision> {
  const resolution =
    given.resolution ??
    (await pick<Resolution>(
      [
        { label: "Retry", detail: "Open the task again, with guidance", value: "retry" },
        { label: "Reject", detail: "Close without a correction; the task stays parked", value: "rejected" },
        { label: "Resolved", detail: "Settled by a verified node", value: "resolved" },
      ],
      "Flowdrive: resolution",
      "How is it closed?",
    ));
  const made: Decision = { resolution };
  if (resolution === "resolved") {
    const named = (typed: string) => (typed.trim() === "" ? "Name the node" : undefined);
    made.nodeId = given.nodeId ?? (await text("Verified node that settles it", named));
  }
  const field = resolution === "retry" ? "guidance" : "message";
  const note = given[field] ?? (await text(resolution === "retry" ? "Guidance for the next attempt (empty for none)" : "Note (empty for none)"));
  if (note !== "") {
    made[field] = note;
  }
  return made;
}

async function text(prompt: string, validateInput?: (typed: string) => string | undefined): Promise<string> {
  const typed = await vscode.window.showInputBox({
    title: "Flowdrive: resolution",
    prompt,
    ignoreFocusOut: true,
    ...(validateInput === undefined ? {} : { validateInput }),
  });
  if (typed === undefined) {
    throw new Dismissed();
  }
  return typed;
}
