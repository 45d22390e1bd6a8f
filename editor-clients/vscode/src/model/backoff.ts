/**
 * When a server that ended is started again: at once the first time, then after longer and longer pauses, and no more
 * after too many ends in a short time. Must not: wait, or start anything.
 */

const FIRST_MS = 250;
const LONGEST_MS = 8_000;
/** So many ends within the window are too many. */
export const MOST = 5;
export const WINDOW_MS = 3 * 60_000;

export class Backoff {
  private ends: number[] = [];

  /** The server ended at `now`: how long to wait before it is started again; undefined for not at all. */
  next(now: number): number | undefined {
    this.ends = [...this.ends.filter((end) => now - end < WINDOW_MS), now];
    return this.ends.length > MOST ? undefined : Math.min(LONGEST_MS, FIRST_MS * 2 ** (this.ends.length - 1));
  }

  /** Forgets what was: the user asked for a start. */
  reset(): void {
    this.ends = [];
  }
}
