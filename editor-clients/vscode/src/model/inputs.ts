/**
 * A workflow's typed inputs: reading what was typed, and what is wrong with it.
 * Must not: know the editor, or look at the disk.
 */
import * as path from "node:path";
import * as l10n from "@vscode/l10n";
import type { InputSpec, InputType } from "flowdrive-client/protocol";

export type Parsed = { value: unknown } | { problem: string };

/** Reads what was typed as a value of an input's type; a fault is a sentence. */
export function parseValue(text: string, type: InputType): Parsed {
  switch (type) {
    case "number": {
      const value = Number(text);
      return text.trim() !== "" && Number.isFinite(value) ? { value } : { problem: l10n.t("{0} is not a number", JSON.stringify(text)) };
    }
    case "boolean":
      return text === "true" || text === "false" ? { value: text === "true" } : { problem: l10n.t("true or false") };
    case "json":
      try {
        return { value: JSON.parse(text) as unknown };
      } catch (problem) {
        return { problem: l10n.t("Not JSON: {0}", problem instanceof Error ? problem.message : String(problem)) };
      }
    case "path":
      return text.includes("\0") ? { problem: l10n.t("Not a path") } : { value: text };
    case "string":
      return { value: text };
  }
}

/** What is wrong with a text for an input; undefined where nothing is. */
export function problemOf(name: string, spec: InputSpec, text: string, optional: boolean): string | undefined {
  if (text.trim() === "" && (text === "" || spec.type !== "string")) {
    return optional ? undefined : l10n.t("{0} is required", name);
  }
  if (text.trim() === "" && !optional) {
    return l10n.t("{0} is required", name);
  }
  const parsed = parseValue(text, spec.type);
  return "problem" in parsed ? parsed.problem : undefined;
}

/** A path as it is passed on: relative to the workspace where it lies inside it. */
export function insideWorkspace(workspace: string, file: string): string {
  const relative = path.relative(workspace, path.resolve(workspace, file));
  return relative === "" ? "." : relative.startsWith("..") || path.isAbsolute(relative) ? file : relative.split(path.sep).join("/");
}

/** Inputs in the order in which they are asked: required ones first, then by name. */
export function inOrder(specs: Readonly<Record<string, InputSpec>>): [string, InputSpec][] {
  return Object.entries(specs).sort(
    ([a, x], [b, y]) => Number(y.required ?? false) - Number(x.required ?? false) || a.localeCompare(b),
  );
}

/** A value as text in an input box. */
export function textOf(value: unknown, type: InputType): string {
  if (value === undefined || value === null) {
    return "";
  }
  return type === "json" ? JSON.stringify(value) : typeof value === "string" ? value : JSON.stringify(value);
}

/** What an input is for, and what may be left out, as one line. */
export function promptOf(spec: InputSpec, optional: boolean): string {
  const parts = [spec.description ?? "", optional ? l10n.t("(may be left empty)") : ""];
  return parts.filter((part) => part !== "").join(" ");
}

/** Which required inputs have no value. */
export function missing(specs: Readonly<Record<string, InputSpec>>, values: Readonly<Record<string, unknown>>): string[] {
  return inOrder(specs)
    .filter(([name, spec]) => (spec.required ?? false) && values[name] === undefined)
    .map(([name]) => name);
}
