/**
 * The runs of this window's folders, their open feedback, and which run the findings are shown of. Tells its listeners
 * what changed. Must not: ask the server, or know the editor.
 */
import type { FeedbackRecord, ListRunsResult, ProgressEvent, RunSummary, TaskView, UnreadableRun } from "flowdrive-client/protocol";
import { apply, ended, type Detail, type Effect, type Run } from "./run";

/** A run whose detail, findings or feedback changed; without an id, the list itself did. */
export interface Change {
  runId?: string;
  /** Only what an agent is doing: findings and feedback are as they were. */
  minor?: boolean;
}

export class Catalog {
  private readonly byId = new Map<string, Run>();
  private readonly feedbackOf = new Map<string, readonly FeedbackRecord[]>();
  private readonly unreadableIn = new Map<string, readonly UnreadableRun[]>();
  private readonly totals = new Map<string, number>();
  private readonly listeners = new Set<(change: Change) => void>();
  private chosen: string | undefined;

  /** Calls `listener` after every change; answers what ends that. */
  onChange(listener: (change: Change) => void): { dispose(): void } {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  }

  get(runId: string): Run | undefined {
    return this.byId.get(runId);
  }

  /** The runs, newest first. */
  list(): readonly Run[] {
    return [...this.byId.values()].sort(
      (a, b) =>
        b.summary.createdAt.localeCompare(a.summary.createdAt) || (b.summary.runId < a.summary.runId ? -1 : 1),
    );
  }

  driving(): readonly Run[] {
    return this.list().filter((run) => run.summary.driving);
  }

  unreadable(): readonly UnreadableRun[] {
    return [...this.unreadableIn.values()].flat();
  }

  /** How many runs there are that are not listed here. */
  get more(): number {
    const all = [...this.totals.values()].reduce((sum, total) => sum + total, 0);
    return Math.max(0, all - this.byId.size - this.unreadable().length);
  }

  /** Open feedback, of the newest run first. */
  feedback(): readonly { run: Run; record: FeedbackRecord }[] {
    return this.list().flatMap((run) => (this.feedbackOf.get(run.summary.runId) ?? []).map((record) => ({ run, record })));
  }

  /** The run whose findings are shown: the one chosen, else the newest. */
  get focus(): Run | undefined {
    return (this.chosen === undefined ? undefined : this.byId.get(this.chosen)) ?? this.list()[0];
  }

  choose(runId: string | undefined): void {
    if (this.chosen !== runId) {
      this.chosen = runId;
      this.tell({});
    }
  }

  /** Takes over the list of one folder's runs. Runs keep their detail. */
  setRuns(workspace: string, answer: ListRunsResult): void {
    const listed = new Set(answer.runs.map((summary) => summary.runId));
    for (const [runId, run] of this.byId) {
      if (run.workspace === workspace && !listed.has(runId)) {
        this.byId.delete(runId);
        this.feedbackOf.delete(runId);
      }
    }
    for (const summary of answer.runs) {
      this.merge(workspace, summary);
    }
    this.totals.set(workspace, answer.total);
    this.unreadableIn.set(workspace, answer.unreadable ?? []);
    this.tell({});
  }

  /** Takes over what is known of one run. */
  setRun(workspace: string, summary: RunSummary, detail?: Detail): Run {
    const isNew = !this.byId.has(summary.runId);
    const run = this.merge(workspace, summary);
    if (detail !== undefined) {
      // What agents are doing is told live only: it is not in the answer.
      for (const task of detail.tasks.values()) {
        const activity = run.detail?.tasks.get(task.id)?.activity;
        if (task.status === "running" && activity !== undefined) {
          task.activity = activity;
        }
      }
      run.detail = detail;
    }
    this.tell(isNew ? {} : { runId: summary.runId });
    return run;
  }

  setTask(runId: string, view: TaskView): void {
    const run = this.byId.get(runId);
    const task = run?.detail?.tasks.get(view.id);
    // An answer that was overtaken by a newer attempt's events is old news.
    if (task?.status === view.status && task.attempts === view.attempts) {
      run?.detail?.tasks.set(view.id, { ...view });
      this.tell({ runId });
    }
  }

  setFeedback(runId: string, records: readonly FeedbackRecord[]): void {
    const run = this.byId.get(runId);
    if (run !== undefined) {
      this.feedbackOf.set(runId, records);
      run.summary = { ...run.summary, openFeedback: records.length };
      this.tell({ runId });
    }
  }

  /** Takes in one event; undefined where its run is not known yet. */
  apply(event: ProgressEvent): Effect | undefined {
    const run = this.byId.get(event.runId);
    if (run === undefined) {
      return undefined;
    }
    const effect = apply(run, event);
    if (effect.kind === "applied") {
      this.tell({ runId: event.runId, minor: event.type === "agentActivity" });
    }
    return effect;
  }

  /** Nobody drives these runs any more. */
  interrupt(runIds: Iterable<string>): void {
    for (const runId of runIds) {
      const run = this.byId.get(runId);
      if (run !== undefined) {
        ended(run);
        this.tell({ runId });
      }
    }
  }

  private merge(workspace: string, summary: RunSummary): Run {
    const known = this.byId.get(summary.runId);
    if (known !== undefined) {
      known.summary = summary;
      return known;
    }
    const run: Run = { workspace, summary };
    this.byId.set(summary.runId, run);
    return run;
  }

  private tell(change: Change): void {
    for (const listener of this.listeners) {
      listener(change);
    }
  }
}
