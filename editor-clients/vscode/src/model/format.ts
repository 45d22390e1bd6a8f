/**
 * Times, counts and names as people read them. Must not: know the editor, or keep state.
 */
import * as l10n from "@vscode/l10n";
import type { RunStatus, Usage } from "flowdrive-client/protocol";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long something took: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`. */
export function duration(ms: number): string {
  const whole = Math.max(0, ms);
  if (whole < 10 * SECOND) {
    return l10n.t("{0} s", (Math.floor(whole / 100) / 10).toFixed(1));
  }
  if (whole < MINUTE) {
    return l10n.t("{0} s", Math.floor(whole / SECOND));
  }
  if (whole < HOUR) {
    return l10n.t("{0} min {1} s", Math.floor(whole / MINUTE), Math.floor((whole % MINUTE) / SECOND));
  }
  return l10n.t("{0} h {1} min", Math.floor(whole / HOUR), Math.floor((whole % HOUR) / MINUTE));
}

/** How long ago something was: `just now`, `5 min ago`, `yesterday`. */
export function ago(then: string, now: number): string {
  const passed = now - Date.parse(then);
  if (!Number.isFinite(passed) || passed < MINUTE) {
    return l10n.t("just now");
  }
  if (passed < HOUR) {
    return l10n.t("{0} min ago", Math.floor(passed / MINUTE));
  }
  if (passed < DAY) {
    return l10n.t("{0} h ago", Math.floor(passed / HOUR));
  }
  const days = Math.floor(passed / DAY);
  return days === 1 ? l10n.t("yesterday") : l10n.t("{0} days ago", days);
}

/** A count of tokens: `812`, `1.2k`, `3.4M`. */
export function compact(count: number): string {
  if (count < 1_000) {
    return String(count);
  }
  const [unit, letter] = count < 1_000_000 ? [1_000, "k"] : [1_000_000, "M"];
  const scaled = count / unit;
  return `${scaled < 10 ? (Math.floor(scaled * 10) / 10).toFixed(1) : Math.floor(scaled)}${letter}`;
}

/** The tokens an agent reported; undefined where it reported none. Its own total counts for more than a sum. */
export function tokens(usage: Usage | undefined): number | undefined {
  if (usage === undefined) {
    return undefined;
  }
  if (usage.totalTokens !== undefined) {
    return usage.totalTokens;
  }
  const parts = [usage.inputTokens, usage.outputTokens].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.reduce((sum, part) => sum + part, 0);
}

export function findings(count: number): string {
  return count === 1 ? l10n.t("1 finding") : l10n.t("{0} findings", count);
}

export function tasks(count: number): string {
  return count === 1 ? l10n.t("1 task") : l10n.t("{0} tasks", count);
}

export function waiting(count: number): string {
  return count === 1 ? l10n.t("1 waits for you") : l10n.t("{0} wait for you", count);
}

export function status(value: RunStatus): string {
  switch (value) {
    case "complete":
      return l10n.t("complete");
    case "parked":
      return l10n.t("parked");
    case "blocked":
      return l10n.t("blocked");
    case "in-progress":
      return l10n.t("interrupted");
  }
}

/** What is left of a text on one line, cut to `most` characters. */
export function oneLine(text: string, most = 120): string {
  const line = text.replace(/\s+/g, " ").trim();
  const points = Array.from(line); // code points, so that no character is cut in half
  return points.length <= most ? line : `${points.slice(0, most - 1).join("")}…`;
}

/** The parts that are there, joined. */
export function joined(...parts: (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== "").join(" · ");
}
