/**
 * The three views: runs, findings, open feedback. They draw what the catalog holds.
 * Must not: ask the server.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import type { Catalog, Change } from "../model/catalog";
import { document as feedbackDocument, feedbackRow } from "../model/feedback";
import { claims, rated, type Place } from "../model/findings";
import * as findingTree from "../model/findingTree";
import type { Row } from "../model/row";
import * as runTree from "../model/runTree";
import { throttled } from "../once";
import { Tree } from "./tree";

/** Runs that change faster than this are drawn no faster. */
const DRAW_MS = 150;
const TICK_MS = 1_000;

export interface FeedbackNode {
  kind: "feedback";
  workspace: string;
  runId: string;
  feedbackId: string;
  taskId?: string;
}

const openPlace = (place: Place): Row["command"] => ({ title: l10n.t("Open"), command: "flowdrive.openPlace", arguments: [place] });

export class Views implements vscode.Disposable {
  private readonly runs: Tree<runTree.RunNode>;
  private readonly findings: Tree<findingTree.FindingNode>;
  private readonly feedback: Tree<FeedbackNode>;
  private readonly runsView: vscode.TreeView<runTree.RunNode>;
  private readonly findingsView: vscode.TreeView<findingTree.FindingNode>;
  private readonly feedbackView: vscode.TreeView<FeedbackNode>;
  private readonly draw: ReturnType<typeof throttled>;
  private readonly tick: NodeJS.Timeout;
  private readonly disposables: { dispose(): void }[] = [];
  private readonly changed = new Set<string>();
  private everything = false;
  /** Whether more changed than what agents are doing. */
  private major = false;
  private readonly shown = { findings: "", feedback: "" };
  private grouping: findingTree.Grouping = "severity";

  constructor(
    private readonly catalog: Catalog,
    /** Called when a person first looks, and when a run is unfolded that was not read yet. */
    private readonly wanted: { list(): void; run(runId: string): void },
  ) {
    this.runs = new Tree({
      key: runTree.key,
      children: (node) => runTree.children(catalog, node),
      parent: (node) => runTree.parent(catalog, node),
      row: (node) => runTree.row(catalog, node, Date.now(), openPlace),
    });
    this.findings = new Tree({
      key: findingTree.key,
      children: (node) => findingTree.children(catalog.focus, node, this.grouping),
      parent: () => undefined,
      row: (node) => findingTree.row(node, openPlace),
    });
    this.feedback = new Tree<FeedbackNode>({
      key: (node) => `${node.runId} ${node.feedbackId}`,
      children: (node) => (node === undefined ? this.feedbackNodes() : []),
      parent: () => undefined,
      row: (node) => this.feedbackRow(node),
    });
    this.runsView = vscode.window.createTreeView("flowdrive.runs", { treeDataProvider: this.runs, showCollapseAll: true });
    this.findingsView = vscode.window.createTreeView("flowdrive.findings", { treeDataProvider: this.findings, showCollapseAll: true });
    this.feedbackView = vscode.window.createTreeView("flowdrive.feedback", { treeDataProvider: this.feedback });
    this.draw = throttled(DRAW_MS, () => this.drawChanged());
    this.tick = setInterval(() => this.drawTimes(), TICK_MS);
    this.disposables.push(
      catalog.onChange((change) => this.note(change)),
      this.runsView.onDidExpandElement(({ element }) => element.kind === "run" && this.readIfNeeded(element.runId)),
      this.runsView.onDidChangeSelection(({ selection: [node] }) => node !== undefined && "runId" in node && this.choose(node.runId)),
      ...[this.runsView, this.findingsView, this.feedbackView].map((view) =>
        view.onDidChangeVisibility(({ visible }) => visible && this.wanted.list()),
      ),
    );
    this.note({});
  }

  /** Whether a person can see one of the views. */
  get visible(): boolean {
    return this.runsView.visible || this.findingsView.visible || this.feedbackView.visible;
  }

  /** Shows a run in its view, unfolded. */
  async reveal(workspace: string, runId: string): Promise<void> {
    this.choose(runId);
    this.flush();
    await this.runsView.reveal(this.runs.same({ kind: "run", workspace, runId }), { select: true, focus: false, expand: 2 });
  }

  /** Groups findings in the other way. */
  group(grouping: findingTree.Grouping): void {
    this.grouping = grouping;
    this.findings.forget();
    this.findings.refresh();
    void vscode.commands.executeCommand("setContext", "flowdrive.findingsBy", grouping);
  }

  /** What is known of a record, as a document. */
  feedbackDocument(runId: string, feedbackId: string): string | undefined {
    const found = this.catalog.feedback().find(({ record }) => record.runId === runId && record.id === feedbackId);
    const taskId = found?.record.taskId;
    return found && feedbackDocument(found.run, found.record, taskId === undefined ? undefined : found.run.detail?.tasks.get(taskId));
  }

  private choose(runId: string): void {
    this.catalog.choose(runId);
    this.readIfNeeded(runId);
  }

  private readIfNeeded(runId: string): void {
    if (this.catalog.get(runId)?.detail === undefined) {
      this.wanted.run(runId);
    }
  }

  private note({ runId, minor }: Change): void {
    this.major ||= minor !== true;
    if (runId === undefined) {
      this.everything = true;
    } else {
      this.changed.add(runId);
    }
    this.draw();
  }

  private flush(): void {
    this.drawChanged();
  }

  private drawChanged(): void {
    const { catalog } = this;
    if (this.everything) {
      this.runs.refresh();
    } else {
      for (const runId of this.changed) {
        const workspace = catalog.get(runId)?.workspace;
        if (workspace !== undefined) {
          this.runs.refresh({ kind: "run", workspace, runId });
        }
      }
    }
    this.everything = false;
    this.changed.clear();
    if (this.major) {
      this.major = false;
      this.drawFindings();
      this.drawFeedback();
      setContext("driving", catalog.driving().length > 0);
      setContext("hasRuns", catalog.list().length > 0);
    }
  }

  private drawFindings(): void {
    const { focus } = this.catalog;
    const all = focus === undefined ? [] : claims(focus);
    const shown = JSON.stringify([focus?.summary.runId, this.grouping, all.map((claim) => [claim.key, claim.taskIds])]);
    if (this.shown.findings !== shown) {
      this.shown.findings = shown;
      this.findings.refresh();
      const count = rated(all);
      setBadge(this.findingsView, count, l10n.t("{0} rated findings", count));
    }
    const about = focus === undefined ? "" : (runTree.question(focus) ?? focus.summary.title);
    if (this.findingsView.description !== about) {
      this.findingsView.description = about;
    }
  }

  private drawFeedback(): void {
    const all = this.catalog.feedback();
    const shown = JSON.stringify(all.map(({ run, record }) => [record.runId, record.id, record.updatedAt, runTree.question(run)]));
    if (this.shown.feedback !== shown) {
      this.shown.feedback = shown;
      this.feedback.refresh();
      setBadge(this.feedbackView, all.length, l10n.t("{0} feedback waiting for you", all.length));
      setContext("hasFeedback", all.length > 0);
    }
  }

  /** Times go on while nothing else changes. */
  private drawTimes(): void {
    if (this.runsView.visible) {
      for (const { workspace, summary } of this.catalog.driving()) {
        this.runs.refresh({ kind: "run", workspace, runId: summary.runId });
      }
    }
  }

  private feedbackNodes(): FeedbackNode[] {
    return this.catalog.feedback().map(({ run, record }) => ({
      kind: "feedback",
      workspace: run.workspace,
      runId: record.runId,
      feedbackId: record.id,
      ...(record.taskId === undefined ? {} : { taskId: record.taskId }),
    }));
  }

  private feedbackRow(node: FeedbackNode): Row | undefined {
    const all = this.catalog.feedback();
    const found = all.find(({ record }) => record.runId === node.runId && record.id === node.feedbackId);
    if (found === undefined) {
      return undefined;
    }
    const several = new Set(all.map(({ record }) => record.runId)).size > 1;
    return {
      ...feedbackRow(found.run, found.record, several, Date.now()),
      command: { title: l10n.t("Open"), command: "flowdrive.showFeedback", arguments: [node] },
    };
  }

  dispose(): void {
    clearInterval(this.tick);
    this.draw.dispose();
    for (const one of [...this.disposables, this.runsView, this.findingsView, this.feedbackView, this.runs, this.findings, this.feedback]) {
      one.dispose();
    }
  }
}

const contexts = new Map<string, unknown>();

/** Sets a context key for `when` clauses, where it differs. */
export function setContext(name: string, value: unknown): void {
  if (contexts.get(name) !== value) {
    contexts.set(name, value);
    void vscode.commands.executeCommand("setContext", `flowdrive.${name}`, value);
  }
}

function setBadge(view: vscode.TreeView<unknown>, value: number, tooltip: string): void {
  if ((view.badge?.value ?? 0) !== value) {
    view.badge = value === 0 ? undefined : { value, tooltip };
  }
}
