/**
 * What is asked before a drive: the workflow, its inputs, the agent. Each step has a way back, and what was answered
 * before is still there.
 * Must not: talk to the server, or start anything.
 */
import { stat } from "node:fs/promises";
import * as path from "node:path";
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import * as format from "../model/format";
import { inOrder, insideWorkspace, missing, parseValue, problemOf, promptOf, textOf } from "../model/inputs";
import { ask, BACK, type Position, type Question } from "../model/steps";
import type { AgentSummary, InputSpec, WorkflowSummary } from "flowdrive-client/protocol";
import { list, pick, text, type Choice } from "./ask";

/** What is to be driven. What is there already is not asked for. */
export interface Selection {
  workspace: string;
  workflow?: WorkflowSummary;
  inputs: Record<string, unknown>;
  /** An agent's name; `""` for the default one. */
  agent?: string;
}

export interface Offered {
  workflows: readonly WorkflowSummary[];
  /** Asked for when it is needed. */
  agents: () => Promise<readonly AgentSummary[]>;
  /** What was driven last, offered first. */
  last?: { workflow: string; inputs: Readonly<Record<string, unknown>>; agent?: string };
  /** Whether the agent is asked for. */
  askAgent: boolean;
}

const BUNDLED = "bundled";

/** Asks for what is missing. Answers whether anything was asked. */
export async function complete(selection: Selection, offered: Offered): Promise<boolean> {
  const title = l10n.t("Drive Workflow");
  const askInputs = (workflow: WorkflowSummary): Question[] =>
    inOrder(workflow.inputs)
      .filter(([name]) => !(name in given))
      .map(([name, spec]) => (position: Position) => askInput(selection, workflow, name, spec, offered, position));
  const given = { ...selection.inputs };
  const askAgent: Question = (position) => chooseAgent(selection, offered, title, position);
  const later = offered.askAgent && selection.agent === undefined ? [askAgent] : [];
  if (selection.workflow !== undefined) {
    const required = missing(selection.workflow.inputs, selection.inputs);
    // With everything that is required at hand there is nothing to ask: for keys and other extensions.
    if (required.length === 0) {
      return false;
    }
    await ask([...askInputs(selection.workflow), ...later]);
    return true;
  }
  const askWorkflow: Question = async (position) => {
    const chosen = await chooseWorkflow(offered, title, position, selection.workflow?.id);
    if (chosen === BACK) {
      return BACK;
    }
    if (selection.workflow?.id !== chosen.id) {
      selection.inputs = { ...given };
    }
    selection.workflow = chosen;
    return askInputs(chosen);
  };
  // Most workflows ask one question; the count is put right once the workflow is known.
  await ask([askWorkflow, ...later], () => (selection.workflow === undefined ? 1 : 0));
  return true;
}

async function chooseWorkflow(offered: Offered, title: string, position: Position, before: string | undefined): Promise<WorkflowSummary | typeof BACK> {
  if (offered.workflows.length === 0) {
    throw new Error(l10n.t("There is no workflow here. Put one into .cw/workflows/."));
  }
  const open = { iconPath: new vscode.ThemeIcon("go-to-file"), tooltip: l10n.t("Open the File") };
  const choices = (of: (workflow: WorkflowSummary) => boolean): Choice<WorkflowSummary>[] =>
    offered.workflows.filter(of).map((value) => ({
      label: value.title,
      description: format.joined(value.id, format.tasks(value.tasks), value.id === offered.last?.workflow ? l10n.t("driven last") : undefined),
      detail: value.summary,
      value,
      ...(value.source === BUNDLED ? {} : { buttons: [open] }),
    }));
  const separated = (label: string, of: (workflow: WorkflowSummary) => boolean) => {
    const its = choices(of);
    return its.length === 0 ? [] : [{ label, kind: vscode.QuickPickItemKind.Separator }, ...its];
  };
  // The workflow whose file is open is most likely the one that is meant.
  const file = vscode.window.activeTextEditor?.document.uri.fsPath;
  const active =
    offered.workflows.find((one) => one.id === before) ??
    offered.workflows.find((one) => one.source === file) ??
    offered.workflows.find((one) => one.id === offered.last?.workflow);
  return pick<WorkflowSummary>({
    title,
    position,
    placeholder: l10n.t("Which workflow?"),
    choices: [
      ...separated(l10n.t("in this workspace"), (one) => one.source !== BUNDLED),
      ...separated(l10n.t("bundled"), (one) => one.source === BUNDLED),
    ],
    ...(active === undefined ? {} : { active }),
    onButton: ({ value }) => value && void vscode.window.showTextDocument(vscode.Uri.file(value.source)),
  });
}

async function askInput(
  selection: Selection,
  workflow: WorkflowSummary,
  name: string,
  spec: InputSpec,
  offered: Offered,
  position: Position,
): Promise<typeof BACK | undefined> {
  const optional = !(spec.required ?? false);
  const title = `${workflow.title}: ${name}`;
  const last = offered.last?.workflow === workflow.id ? offered.last.inputs[name] : undefined;
  const known = selection.inputs[name] ?? last ?? spec.default;
  const answer = spec.repeated === true
    ? await askList(name, spec, optional, title, known, position)
    : spec.type === "boolean"
      ? await askBoolean(spec, optional, title, known, position)
      : await askText(selection.workspace, name, spec, optional, title, known, position);
  if (answer === BACK) {
    return BACK;
  }
  const others = Object.entries(selection.inputs).filter(([known]) => known !== name);
  selection.inputs = Object.fromEntries(answer === undefined ? others : [...others, [name, answer]]);
  return undefined;
}

function valueOf(typed: string, spec: InputSpec): unknown {
  const parsed = parseValue(typed, spec.type);
  return "value" in parsed ? parsed.value : undefined;
}

async function askList(name: string, spec: InputSpec, optional: boolean, title: string, known: unknown, position: Position): Promise<unknown> {
  const values = Array.isArray(known) ? known.map((value) => textOf(value, spec.type)) : [];
  const answer = await list({
    title,
    position,
    placeholder: `${promptOf(spec, optional)} ${l10n.t("Enter adds, Enter on an empty box is done.")}`,
    values,
    required: !optional,
    problem: (typed) => problemOf(name, spec, typed, false),
  });
  return answer === BACK ? BACK : answer.length === 0 ? undefined : answer.map((typed) => valueOf(typed, spec));
}

async function askBoolean(spec: InputSpec, optional: boolean, title: string, known: unknown, position: Position): Promise<unknown> {
  const choices: Choice<"true" | "false" | "none">[] = [
    { label: l10n.t("Yes"), value: "true" },
    { label: l10n.t("No"), value: "false" },
    ...(optional ? [{ label: l10n.t("Leave it open"), value: "none" } as const] : []),
  ];
  const active = typeof known === "boolean" ? (known ? "true" : "false") : optional ? "none" : "true";
  const answer = await pick({ title, position, placeholder: promptOf(spec, false), choices, active });
  return answer === BACK ? BACK : answer === "none" ? undefined : answer === "true";
}

async function askText(
  workspace: string,
  name: string,
  spec: InputSpec,
  optional: boolean,
  title: string,
  known: unknown,
  position: Position,
): Promise<unknown> {
  const isPath = spec.type === "path";
  const problem = async (typed: string) => {
    const found = problemOf(name, spec, typed, optional);
    return found ?? (isPath && typed !== "" ? missingPath(workspace, typed) : undefined);
  };
  const answer = await text({
    title,
    position,
    prompt: promptOf(spec, optional),
    value: textOf(known, spec.type),
    problem,
    ...(isPath ? { button: { icon: "folder-opened", tooltip: l10n.t("Browse…"), press: () => browse(workspace) } } : {}),
  });
  return answer === BACK ? BACK : answer === "" ? undefined : valueOf(answer, spec);
}

async function missingPath(workspace: string, typed: string): Promise<string | undefined> {
  try {
    await stat(path.resolve(workspace, typed));
    return undefined;
  } catch {
    return l10n.t("{0} is not there", typed);
  }
}

async function browse(workspace: string): Promise<string | undefined> {
  const [chosen] =
    (await vscode.window.showOpenDialog({
      defaultUri: vscode.Uri.file(workspace),
      canSelectFiles: true,
      canSelectFolders: true,
      openLabel: l10n.t("Choose"),
    })) ?? [];
  return chosen === undefined ? undefined : insideWorkspace(workspace, chosen.fsPath);
}

async function chooseAgent(selection: Selection, offered: Offered, title: string, position: Position): Promise<typeof BACK | undefined> {
  const agents = await offered.agents();
  const standard = agents.find((agent) => agent.default);
  const others = agents.filter((agent) => !agent.default).sort((a, b) => Number(b.usable) - Number(a.usable));
  const separator = { label: l10n.t("cannot be used now"), kind: vscode.QuickPickItemKind.Separator };
  const rowOf = (agent: AgentSummary): Choice<string> => ({
    label: `$(${agent.usable ? "robot" : "warning"}) ${agent.name}`,
    detail: format.oneLine(agent.reason ?? agent.invocation),
    value: agent.name,
  });
  const unusable = others.filter((agent) => !agent.usable);
  const answer = await pick<string>({
    title,
    position,
    placeholder: l10n.t("Which agent, for tasks that name none?"),
    choices: [
      {
        label: `$(star-full) ${standard?.name ?? l10n.t("The server's default")}`,
        description: l10n.t("default"),
        ...(standard === undefined ? {} : { detail: format.oneLine(standard.reason ?? standard.invocation) }),
        value: "",
      },
      ...others.filter((agent) => agent.usable).map(rowOf),
      ...(unusable.length === 0 ? [] : [separator, ...unusable.map(rowOf)]),
    ],
    active: selection.agent ?? offered.last?.agent ?? "",
  });
  if (answer === BACK) {
    return BACK;
  }
  selection.agent = answer;
  return undefined;
}
