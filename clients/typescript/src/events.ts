/**
 * Events of runs, handed on to whoever reads them at whatever pace. Must not: ask the server for anything.
 */
import type { ProgressEvent } from "./protocol.js";

/** Activity lines that wait before older ones of the same worker are replaced. */
const ACTIVITY_KEPT = 1024;

/** Whether an event is kept with its run and numbered; only live lines of agents are not. */
export function isLifecycle(event: ProgressEvent): boolean {
  return event.type !== "agentActivity";
}

/**
 * A queue with one reader. Lifecycle events are always kept; of live lines only the newest of each worker once many wait,
 * so that a slow reader costs little and misses nothing that matters.
 */
export class EventQueue implements AsyncIterableIterator<ProgressEvent> {
  #events: ProgressEvent[] = [];
  #activity = 0;
  #end: { error: Error | undefined } | undefined;
  #waiting: { resolve: (result: IteratorResult<ProgressEvent>) => void; reject: (error: Error) => void }[] = [];

  /** `closed` is called once, when nobody reads any more. */
  constructor(private readonly closed: () => void) {}

  push(event: ProgressEvent): void {
    if (this.#end !== undefined) return;
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) {
      waiting.resolve({ done: false, value: event });
      return;
    }
    if (event.type === "agentActivity") {
      if (this.#activity >= ACTIVITY_KEPT && this.#replace(event)) return;
      this.#activity += 1;
    }
    this.#events.push(event);
  }

  /** No more will come; what waits is still read. With an error, the reader gets that after it. */
  finish(error?: Error): void {
    if (this.#end !== undefined) return;
    const waiting = this.#waiting.splice(0);
    // One reader gets the error, once.
    this.#end = { error: waiting.length === 0 ? error : undefined };
    for (const { resolve, reject } of waiting) {
      if (error === undefined) resolve({ done: true, value: undefined });
      else reject(error);
    }
  }

  next(): Promise<IteratorResult<ProgressEvent>> {
    const event = this.#events.shift();
    if (event !== undefined) {
      if (!isLifecycle(event)) this.#activity -= 1;
      return Promise.resolve({ done: false, value: event });
    }
    if (this.#end?.error !== undefined) {
      const { error } = this.#end;
      this.#end = { error: undefined };
      return Promise.reject(error);
    }
    if (this.#end !== undefined) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** Called by `break`, and by a loop that throws. */
  return(): Promise<IteratorResult<ProgressEvent>> {
    this.#events = [];
    this.finish();
    this.closed();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #replace(event: ProgressEvent & { type: "agentActivity" }): boolean {
    const at = this.#events.findLastIndex((one) => one.type === "agentActivity" && one.workerId === event.workerId);
    const older = this.#events[at];
    if (older?.type !== "agentActivity") return false;
    this.#events[at] = { ...event, coalesced: (older.coalesced ?? 0) + (event.coalesced ?? 0) + 1 };
    return true;
  }
}
