/**
 * Questions one after the other, with a way back. Must not: know what is asked, or the editor.
 */

/** What a question answers with when its user wants the one before. */
export const BACK = Symbol("back");

/** Where a question stands among all. */
export interface Position {
  step: number;
  total: number;
  /** Whether there is a question to go back to. */
  canGoBack: boolean;
}

/**
 * One question. It puts its answer into the state itself. It answers `BACK`, or the questions that come right after it
 * because of its answer.
 */
export type Question = (position: Position) => Promise<typeof BACK | readonly Question[] | undefined>;

/** Asks all questions. `expected` says how many come beyond those that are known, for the count that is shown. */
export async function ask(first: readonly Question[], expected: () => number = () => 0): Promise<void> {
  const queue = [...first];
  // What each question that was answered had added behind itself.
  const added: number[] = [];
  let index = 0;
  for (let question = queue[0]; question !== undefined; question = queue[index]) {
    const answer = await question({ step: index + 1, total: Math.max(queue.length + expected(), index + 1), canGoBack: index > 0 });
    if (answer === BACK) {
      if (index > 0) {
        index -= 1;
        queue.splice(index + 1, added[index] ?? 0);
        added[index] = 0;
      }
      continue;
    }
    const more = answer ?? [];
    queue.splice(index + 1, 0, ...more);
    added[index] = more.length;
    index += 1;
  }
}
