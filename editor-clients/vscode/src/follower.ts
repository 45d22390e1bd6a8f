/**
 * Keeps the catalog of runs in step with the server: reads the lists, takes in events, asks for what was missed, and
 * watches runs that other processes drive in the same folder. Remembers which runs this window drove, so that after a
 * reload or the server's end it can say what became of them.
 * Must not: show anything, or start a drive.
 */
import * as path from "node:path";
import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { explain } from "./errors";
import * as methods from "./methods";
import type { Catalog } from "./model/catalog";
import { describe, detailOf, type Run, type Wanted } from "./model/run";
import { Once, throttled } from "./once";
import type { ProgressEvent, RunView } from "flowdrive-client/protocol";
import type { Server } from "./server";

/** Runs listed, and of those how many are read whole without being asked for. */
const LISTED = 100;
const READ = 20;
const PAGE = 1_000;
/** How often a run that another process drives is looked at when its files say nothing. */
const POLL_MS = 3_000;
const MEMORY = "flowdrive.driven";

type Finished = ProgressEvent & { type: "runFinished" };

/** A run that this window drove, and what happened to it unseen. */
export interface Reattached {
  run: Run;
  missed: readonly ProgressEvent[];
  /** Whether the window was reloaded, or the server ended. */
  cause: "reload" | "server";
}

interface Remembered {
  workspace: string;
  seq: number;
}

const folders = () => (vscode.workspace.workspaceFolders ?? []).filter((one) => one.uri.scheme === "file").map((one) => one.uri.fsPath);

export class Follower implements vscode.Disposable {
  private readonly once = new Once();
  private readonly finished = new vscode.EventEmitter<Finished>();
  private readonly reattached = new vscode.EventEmitter<readonly Reattached[]>();
  private readonly own = new Set<string>();
  private readonly disposables: vscode.Disposable[] = [];
  private readonly memory: Map<string, Remembered>;
  private readonly saved: ReturnType<typeof throttled>;
  private readonly poll: NodeJS.Timeout;
  private lost = new Map<string, Remembered>();
  private closing = false;

  /** A drive of this window ended. */
  readonly onFinished = this.finished.event;
  readonly onReattached = this.reattached.event;

  constructor(
    private readonly catalog: Catalog,
    private readonly server: Server,
    private readonly log: vscode.LogOutputChannel,
    state: vscode.Memento,
  ) {
    this.memory = new Map(Object.entries(state.get<Record<string, Remembered>>(MEMORY, {})));
    this.saved = throttled(500, () => void state.update(MEMORY, Object.fromEntries(this.memory)));
    this.poll = setInterval(() => this.lookAtOthers(), POLL_MS);
    const watcher = vscode.workspace.createFileSystemWatcher("**/.cw/runs/*/journal.jsonl");
    const touched = (uri: vscode.Uri) => void this.touched(uri);
    this.disposables.push(
      watcher,
      watcher.onDidCreate(touched),
      watcher.onDidChange(touched),
      watcher.onDidDelete(() => void this.refresh()),
      server.onProgress((event) => this.take(event)),
      server.onLost(() => this.onLost()),
      server.onReady(({ again }) => void this.onReady(again)),
      vscode.workspace.onDidChangeWorkspaceFolders(() => void this.refresh()),
    );
  }

  /** Whether runs that were driven before the window was reloaded wait to be looked at. */
  get hasUnfinished(): boolean {
    return this.memory.size > 0;
  }

  /** Whether this window's server drives the run. */
  drives(runId: string): boolean {
    return this.own.has(runId);
  }

  /** From now on the server is ended on purpose: what it still says about its runs is no news. */
  close(): void {
    this.closing = true;
  }

  /** Reads the lists anew. Does nothing without a server. */
  async refresh(): Promise<void> {
    await this.once.run("list", async () => {
      const client = await this.server.quietly();
      if (client === undefined) {
        return;
      }
      for (const workspace of folders()) {
        await this.attempt(async () => {
          const answer = await client.sendRequest(methods.listRuns, { workspace, limit: LISTED });
          const before = new Map(this.catalog.list().map((run) => [run.summary.runId, run.summary.updatedAt]));
          this.catalog.setRuns(workspace, answer);
          for (const [index, { runId, updatedAt, openFeedback }] of answer.runs.entries()) {
            const stale = this.catalog.get(runId)?.detail === undefined || before.get(runId) !== updatedAt;
            if (index < READ && stale) {
              await this.load(runId);
            }
            if (openFeedback > 0) {
              await this.loadFeedback(client, runId);
            }
          }
        });
      }
    });
  }

  /** Sees to it that a run has been read, where it is there. */
  async know(runId: string): Promise<void> {
    if (this.catalog.get(runId)?.detail === undefined) {
      await this.refresh();
    }
    if (this.catalog.get(runId)?.detail === undefined) {
      await this.load(runId);
    }
  }

  /** Reads one run whole. */
  async load(runId: string): Promise<void> {
    await this.once.run(`run ${runId}`, async () => {
      const client = await this.server.quietly();
      const workspace = this.catalog.get(runId)?.workspace;
      if (client === undefined || workspace === undefined) {
        return;
      }
      await this.attempt(async () => {
        const pages: RunView[] = [];
        let taskOffset = 0;
        do {
          const page = await client.sendRequest(methods.showRun, { workspace, runId, taskOffset, taskLimit: PAGE });
          pages.push(page);
          taskOffset += PAGE;
        } while (taskOffset < (pages[0]?.totalTasks ?? 0));
        const [first] = pages;
        if (first !== undefined) {
          this.catalog.setRun(workspace, first.summary, detailOf(pages));
        }
      });
    });
  }

  /** Asks for the events after the newest known one, and takes them in. Answers them. */
  async catchUp(runId: string, since?: number): Promise<ProgressEvent[]> {
    const events: ProgressEvent[] = [];
    await this.once.run(`events ${runId}`, async () => {
      const client = await this.server.quietly();
      const run = this.catalog.get(runId);
      if (client === undefined || run === undefined) {
        return;
      }
      await this.attempt(async () => {
        let sinceSeq = since ?? run.detail?.lastSeq ?? 0;
        let view: RunView;
        do {
          view = await client.sendRequest(methods.showRun, { workspace: run.workspace, runId, sinceSeq, taskLimit: 1 });
          for (const event of view.events ?? []) {
            events.push(event);
            this.want(runId, this.catalog.apply(event));
            sinceSeq = event.seq;
          }
        } while (view.moreEvents === true && (view.events ?? []).length > 0);
        this.catalog.setRun(run.workspace, view.summary);
        if (!view.summary.driving) {
          this.catalog.interrupt([runId]);
        }
      });
    });
    return events;
  }

  private take(event: ProgressEvent): void {
    if (this.closing) {
      return;
    }
    const { runId } = event;
    const line = describe(event);
    if (line !== undefined) {
      this.log.info(`${runId} ${line}`);
    }
    if (event.type === "runStarted") {
      this.own.add(runId);
    }
    const effect = this.catalog.apply(event);
    if (effect === undefined) {
      void this.refresh().then(() => this.remember(event));
    } else {
      this.want(runId, effect);
      this.remember(event);
    }
    if (event.type === "runFinished") {
      this.own.delete(runId);
      this.memory.delete(runId);
      this.saved();
      this.finished.fire(event);
    }
  }

  private remember(event: ProgressEvent): void {
    const workspace = this.catalog.get(event.runId)?.workspace;
    if (workspace !== undefined && this.own.has(event.runId) && event.type !== "agentActivity") {
      this.memory.set(event.runId, { workspace, seq: event.seq });
      this.saved();
    }
  }

  /** Asks for what an event left open. */
  private want(runId: string, effect: ReturnType<Catalog["apply"]>): void {
    if (effect?.kind === "missed") {
      void this.catchUp(runId);
    } else if (effect?.kind === "applied" && effect.wanted !== undefined) {
      void this.fetch(runId, effect.wanted);
    }
  }

  private async fetch(runId: string, wanted: Wanted): Promise<void> {
    if (wanted.kind === "run") {
      return this.load(runId);
    }
    const client = await this.server.quietly();
    const run = this.catalog.get(runId);
    if (client === undefined || run === undefined) {
      return;
    }
    if (wanted.kind === "feedback") {
      return this.loadFeedback(client, runId);
    }
    // One task's findings and usage, however large the run is.
    const { taskId } = wanted;
    if (run.detail?.tasks.has(taskId) !== true) {
      return this.load(runId);
    }
    await this.attempt(async () => {
      const { tasks } = await client.sendRequest(methods.showRun, { workspace: run.workspace, runId, taskIds: [taskId] });
      for (const task of tasks) {
        this.catalog.setTask(runId, task);
      }
    });
  }

  private async loadFeedback(client: LanguageClient, runId: string): Promise<void> {
    const workspace = this.catalog.get(runId)?.workspace;
    if (workspace !== undefined) {
      await this.once.run(`feedback ${runId}`, () =>
        this.attempt(async () => {
          const { feedback } = await client.sendRequest(methods.listFeedback, { workspace, runId, status: "open" });
          this.catalog.setFeedback(runId, feedback);
        }),
      );
    }
  }

  /** A run's journal grew. Runs of this window's own server tell of themselves. */
  private async touched(journal: vscode.Uri): Promise<void> {
    const runId = path.basename(path.dirname(journal.fsPath));
    if (this.own.has(runId) || this.closing || this.server.condition !== "running") {
      return;
    }
    if (this.catalog.get(runId)?.detail === undefined) {
      await this.refresh();
    } else {
      await this.catchUp(runId);
    }
  }

  /** A process that drove a run may have ended without another word. */
  private lookAtOthers(): void {
    if (this.server.condition === "running" && !this.closing) {
      for (const run of this.catalog.driving()) {
        if (!this.own.has(run.summary.runId)) {
          void this.catchUp(run.summary.runId);
        }
      }
    }
  }

  private onLost(): void {
    for (const runId of this.own) {
      const remembered = this.memory.get(runId);
      if (remembered !== undefined) {
        this.lost.set(runId, remembered);
      }
    }
    this.catalog.interrupt(this.own);
    this.own.clear();
  }

  private async onReady(again: boolean): Promise<void> {
    await this.refresh();
    const looked = again ? this.lost : new Map(this.memory);
    this.lost = new Map();
    const found: Reattached[] = [];
    for (const [runId, { seq }] of looked) {
      this.memory.delete(runId);
      const run = this.catalog.get(runId);
      if (run !== undefined && !this.own.has(runId)) {
        found.push({ run, missed: await this.catchUp(runId, seq), cause: again ? "server" : "reload" });
      }
    }
    this.saved();
    if (found.length > 0) {
      this.reattached.fire(found);
    }
  }

  /** What goes wrong in keeping the views up to date is for the log: the user asked for nothing. */
  private async attempt(body: () => Promise<void>): Promise<void> {
    try {
      await body();
    } catch (problem) {
      if (!this.closing) {
        this.log.warn(explain(problem));
      }
    }
  }

  dispose(): void {
    clearInterval(this.poll);
    this.saved.dispose();
    for (const one of [...this.disposables, this.finished, this.reattached]) {
      one.dispose();
    }
  }
}
