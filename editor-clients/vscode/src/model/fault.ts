/**
 * Faults that the extension itself finds. Must not: show them.
 */

/** Thrown to leave a command quietly, when the user dismissed a prompt. */
export class Dismissed extends Error {}

/** The server cannot be used. Names the programs that were tried. */
export class ServerUnusable extends Error {
  constructor(
    message: string,
    /** Paths, in the order in which they were tried. */
    readonly tried: readonly string[],
  ) {
    super(tried.length === 0 ? message : `${message} (${tried.join(", ")})`);
  }
}
