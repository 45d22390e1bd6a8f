/**
 * One run's events without a gap: what was missed is asked for, whatever made it missing. Must not: own a connection.
 */
import { EventQueue, isLifecycle } from "./events.js";
import type { ProgressEvent, RunView } from "./protocol.js";

/** Asks the server for the events of a run after a number. */
export type Ask = (runId: string, sinceSeq: number) => Promise<Pick<RunView, "events" | "moreEvents">>;

/** Follows a run. Events come in by {@link take}, and leave by the queue in the order of their numbers. */
export class Follower {
  readonly queue: EventQueue;
  /** The newest lifecycle event that was handed on; absent before the first, when none is asked for. */
  #last: number | undefined;
  /** Live events that wait until those before them have been fetched. */
  #held: ProgressEvent[] | undefined;

  constructor(
    readonly runId: string | undefined,
    sinceSeq: number | undefined,
    private readonly ask: Ask,
    closed: (follower: Follower) => void,
  ) {
    this.#last = sinceSeq;
    this.queue = new EventQueue(() => closed(this));
  }

  /** A live event. */
  take(event: ProgressEvent): void {
    if (this.runId !== undefined && event.runId !== this.runId) return;
    if (this.#held !== undefined) {
      this.#held.push(event);
    } else if (this.runId !== undefined && this.#last !== undefined && isLifecycle(event) && event.seq > this.#last + 1) {
      this.#held = [event];
      void this.#fetch();
    } else {
      this.#hand(event);
    }
  }

  /** Fetches what came after the newest event that was handed on: at the start, and from a server that took over. */
  async catchUp(): Promise<void> {
    if (this.runId === undefined || this.#last === undefined || this.#held !== undefined) return;
    this.#held = [];
    await this.#fetch();
  }

  async #fetch(): Promise<void> {
    try {
      for (let more = true; more && this.runId !== undefined; ) {
        const view = await this.ask(this.runId, this.#last ?? 0);
        const events = view.events ?? [];
        events.forEach((event) => this.#hand(event));
        more = view.moreEvents === true && events.length > 0;
      }
    } catch (error) {
      this.queue.finish(error as Error);
    }
    const held = this.#held ?? [];
    this.#held = undefined;
    held.forEach((event) => this.#hand(event));
  }

  #hand(event: ProgressEvent): void {
    if (isLifecycle(event) && this.runId !== undefined) {
      // Told live and fetched as well.
      if (event.seq <= (this.#last ?? 0)) return;
      this.#last = event.seq;
    }
    this.queue.push(event);
  }
}
