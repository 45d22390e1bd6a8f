/**
 * Work that many causes ask for and that is to run once for all of them. Must not: know what the work is.
 */

/** Runs work by key: while one runs, further calls have it run once more afterwards, not once each. */
export class Once {
  private readonly running = new Map<string, Promise<void>>();
  private readonly again = new Set<string>();

  async run(key: string, body: () => Promise<void>): Promise<void> {
    const known = this.running.get(key);
    if (known !== undefined) {
      this.again.add(key);
      return known;
    }
    const work = this.repeat(key, body);
    this.running.set(key, work);
    return work.finally(() => this.running.delete(key));
  }

  private async repeat(key: string, body: () => Promise<void>): Promise<void> {
    do {
      this.again.delete(key);
      await body();
    } while (this.again.has(key));
  }
}

/** Calls `body` at most once every `ms`; the last call is never lost. */
export function throttled(ms: number, body: () => void): { (): void; dispose(): void } {
  let timer: NodeJS.Timeout | undefined;
  let due = false;
  const call = () => {
    if (timer !== undefined) {
      due = true;
      return;
    }
    body();
    timer = setTimeout(() => {
      timer = undefined;
      if (due) {
        due = false;
        call();
      }
    }, ms);
  };
  return Object.assign(call, { dispose: () => clearTimeout(timer) });
}
