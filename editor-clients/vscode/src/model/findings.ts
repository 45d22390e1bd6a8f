/**
 * Findings as rows: of one run, the same claim of several tasks once, worst first.
 * Must not: know the editor, or keep state.
 */
import * as path from "node:path";
import * as l10n from "@vscode/l10n";
import type { Evidence, Finding, Severity } from "flowdrive-client/protocol";
import * as format from "./format";
import { code, plain } from "./markdown";
import type { Icon, Row } from "./row";
import type { Run } from "./run";

/** A place in a file of the workspace; lines from 1. */
export interface Place {
  file: string;
  line: number;
  endLine: number;
}

/** A finding, and the tasks that claim it. */
export interface Claim {
  /** Stable while the run's findings are. */
  key: string;
  finding: Finding;
  taskIds: string[];
}

const ORDER: readonly Severity[] = ["P0", "P1", "P2", "P3", "none"];

/** The findings of a run. What an agent holds to be none is left out, as in the Problems panel. */
export function claims(run: Run): Claim[] {
  const byText = new Map<string, Claim>();
  for (const task of run.detail?.tasks.values() ?? []) {
    for (const finding of task.findings ?? []) {
      if (finding.classification === "non-issue") {
        continue;
      }
      const places = finding.evidence.map((one) => one.locator).join(" ");
      const text = [finding.severity, finding.summary ?? finding.id, places].join("\n");
      const known = byText.get(text);
      if (known === undefined) {
        byText.set(text, { key: `${run.summary.runId} ${task.id} ${finding.id}`, finding, taskIds: [task.id] });
      } else if (!known.taskIds.includes(task.id)) {
        known.taskIds.push(task.id);
      }
    }
  }
  const rank = (claim: Claim) => ORDER.indexOf(claim.finding.severity);
  return [...byText.values()].sort((a, b) => rank(a) - rank(b));
}

/** How many findings a person should look at: those that are rated. */
export function rated(all: readonly Claim[]): number {
  return all.filter((claim) => claim.finding.severity !== "none").length;
}

/** Where evidence is; undefined for a URL or a token. */
export function placeOf(workspace: string, evidence: Evidence): Place | undefined {
  if (evidence.path === undefined) {
    return undefined;
  }
  const line = Math.max(1, evidence.line ?? 1);
  return { file: path.resolve(workspace, evidence.path), line, endLine: Math.max(line, evidence.endLine ?? line) };
}

export function severityIcon(severity: Severity): Icon {
  switch (severity) {
    case "P0":
      return { id: "error", color: "problemsErrorIcon.foreground" };
    case "P1":
      return { id: "warning", color: "problemsWarningIcon.foreground" };
    case "P2":
    case "P3":
      return { id: "info", color: "problemsInfoIcon.foreground" };
    case "none":
      return { id: "note" };
  }
}

export function severityName(severity: Severity): string {
  return severity === "none" ? l10n.t("Notes") : severity;
}

/** A finding's row; a click goes to its first place. */
export function findingRow(
  workspace: string,
  finding: Finding,
  id: string,
  open: (place: Place) => Row["command"],
  taskIds: readonly string[] = [],
): Row {
  const places = finding.evidence.flatMap((one) => placeOf(workspace, one) ?? []);
  const first = places[0];
  const label = format.oneLine(finding.summary ?? finding.id, 160);
  const where = finding.evidence[0]?.locator;
  const lines = [
    plain(finding.summary ?? finding.id),
    format.joined(
      finding.severity === "none" ? undefined : `**${finding.severity}**`,
      finding.classification,
      taskIds.length === 0 ? undefined : taskIds.map((taskId) => code(taskId)).join(" "),
    ),
    ...finding.evidence.map((one) => format.joined(code(one.locator), one.text === undefined ? undefined : code(format.oneLine(one.text)))),
  ];
  const command = first === undefined ? undefined : open(first);
  return {
    id,
    label,
    ...(where === undefined ? {} : { description: where }),
    tooltip: lines.join("\n\n"),
    icon: severityIcon(finding.severity),
    context: first === undefined ? "finding" : "finding place",
    spoken: format.joined(finding.severity === "none" ? undefined : finding.severity, label, where),
    children: finding.evidence.length > 1 ? "folded" : "none",
    ...(command === undefined ? {} : { command }),
  };
}

/** The row of one piece of evidence. */
export function evidenceRow(workspace: string, evidence: Evidence, id: string, open: (place: Place) => Row["command"]): Row {
  const place = placeOf(workspace, evidence);
  const command = place === undefined ? undefined : open(place);
  return {
    id,
    label: evidence.locator,
    ...(evidence.text === undefined ? {} : { description: format.oneLine(evidence.text) }),
    icon: { id: place === undefined ? "link" : "go-to-file" },
    context: place === undefined ? "evidence" : "evidence place",
    children: "none",
    ...(command === undefined ? {} : { command }),
  };
}
