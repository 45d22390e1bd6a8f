/**
 * The tree of one run's findings: by severity or by file, then the findings, then their further evidence.
 * Must not: know the editor, or keep state.
 */
import * as l10n from "@vscode/l10n";
import type { Severity } from "flowdrive-client/protocol";
import { claims, evidenceRow, findingRow, severityIcon, severityName, type Claim, type Place } from "./findings";
import type { Row } from "./row";
import type { Run } from "./run";

export type Grouping = "severity" | "file";

export type FindingNode =
  | { kind: "group"; runId: string; group: string; claims: readonly Claim[]; grouping: Grouping }
  | { kind: "claim"; workspace: string; runId: string; taskId: string; group: string; claim: Claim }
  | { kind: "evidence"; workspace: string; runId: string; claim: Claim; index: number };

export function key(node: FindingNode): string {
  switch (node.kind) {
    case "group":
      return `${node.runId} ${node.grouping} ${node.group}`;
    case "claim":
      return `${node.group} ${node.claim.key}`;
    case "evidence":
      return `${node.claim.key} ${node.index}`;
  }
}

export function children(run: Run | undefined, node: FindingNode | undefined, grouping: Grouping): FindingNode[] {
  if (run === undefined) {
    return [];
  }
  const { workspace } = run;
  const { runId } = run.summary;
  if (node === undefined) {
    const groups = new Map<string, Claim[]>();
    for (const claim of claims(run)) {
      const group = grouping === "severity" ? claim.finding.severity : (claim.finding.evidence[0]?.path ?? "");
      groups.set(group, [...(groups.get(group) ?? []), claim]);
    }
    const entries = [...groups];
    if (grouping === "file") {
      entries.sort(([a], [b]) => a.localeCompare(b));
    }
    return entries.map(([group, its]) => ({ kind: "group", runId, group, claims: its, grouping }));
  }
  switch (node.kind) {
    case "group":
      return node.claims.map((claim) => ({ kind: "claim", workspace, runId, taskId: claim.taskIds[0] ?? "", group: node.group, claim }));
    case "claim":
      return node.claim.finding.evidence.length > 1
        ? node.claim.finding.evidence.map((_, index) => ({ kind: "evidence", workspace, runId, claim: node.claim, index }))
        : [];
    case "evidence":
      return [];
  }
}

export function row(node: FindingNode, open: (place: Place) => Row["command"]): Row | undefined {
  switch (node.kind) {
    case "group": {
      const label = node.grouping === "severity" ? severityName(node.group as Severity) : node.group === "" ? l10n.t("Without a file") : node.group;
      return {
        id: key(node),
        label,
        description: String(node.claims.length),
        icon: node.grouping === "severity" ? severityIcon(node.group as Severity) : { id: "file" },
        context: "group",
        spoken: l10n.t("{0}, {1} findings", label, node.claims.length),
        children: "unfolded",
      };
    }
    case "claim":
      return findingRow(node.workspace, node.claim.finding, key(node), open, node.claim.taskIds);
    case "evidence": {
      const evidence = node.claim.finding.evidence[node.index];
      return evidence && evidenceRow(node.workspace, evidence, key(node), open);
    }
  }
}
