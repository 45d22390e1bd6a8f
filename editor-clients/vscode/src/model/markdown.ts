/**
 * Text inside Markdown. What workflows and agents write is shown as it is and never read as Markdown or HTML.
 */

/** Text inside a code span, whatever it holds. */
export function code(text: string): string {
  const line = text.replace(/\s+/g, " ");
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map((match) => match[0].length));
  const fence = "`".repeat(longest + 1);
  return longest > 0 ? `${fence} ${line} ${fence}` : `${fence}${line}${fence}`;
}

/** Text outside code, on one line. */
export function plain(text: string): string {
  return text.replace(/\s+/g, " ").replace(/[\\`*_{}[\]()#+!<>&|~$-]/g, "\\$&");
}

/** A block of code, whatever it holds. */
export function block(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${text.replace(/\n+$/, "")}\n${fence}`;
}

/** A cell of a table. */
export function cell(text: string): string {
  return plain(text);
}
