/**
 * Finds the server program and asks for its version before anything is spoken to it.
 * Must not: read a setting that a workspace can change, or start the server.
 */
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { homedir } from "node:os";
import * as path from "node:path";
import * as l10n from "@vscode/l10n";
import { ServerUnusable } from "./model/fault";

/** The oldest server that speaks this extension's protocol. */
export const OLDEST_SERVER = [0, 1, 0] as const;

const VERSION_TIMEOUT_MS = 5_000;

export interface Binary {
  path: string;
  version: string;
}

const suffixes = process.platform === "win32" ? [".exe", ""] : [""];

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, process.platform === "win32" ? constants.F_OK : constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

/** The program that the setting names; without one the bundled program, else the first on PATH. */
export async function locate(setting: string, extensionPath: string, env: NodeJS.ProcessEnv): Promise<string> {
  const wanted = setting.trim();
  if (wanted !== "") {
    const full = path.resolve(wanted.replace(/^~(?=$|[/\\])/, homedir()));
    if (await isProgram(full)) {
      return full;
    }
    throw new ServerUnusable(l10n.t("The program that the setting flowdrive.path names is missing or cannot be run."), [full]);
  }
  // Relative folders on PATH would be read relative to whatever folder is open.
  const folders = (env.PATH ?? env.Path ?? "").split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  const stems = [path.join(extensionPath, "server", "flowdrive"), ...new Set(folders.map((folder) => path.join(folder, "flowdrive")))];
  const tried = stems.flatMap((stem) => suffixes.map((suffix) => stem + suffix));
  for (const file of tried) {
    if (await isProgram(file)) {
      return file;
    }
  }
  throw new ServerUnusable(
    l10n.t("No flowdrive program was found. Install it so that it is on PATH, or name it in the setting flowdrive.path. Tried:"),
    tried,
  );
}

/** Reads `flowdrive 0.1.0` into its numbers. */
export function parseVersion(output: string): [number, number, number] | undefined {
  const match = /^flowdrive\s+v?(\d+)\.(\d+)\.(\d+)/m.exec(output);
  return match ? [Number(match[1]), Number(match[2]), Number(match[3])] : undefined;
}

/** Whether `version` is `oldest` or newer. */
export function isAtLeast(version: readonly number[], oldest: readonly number[]): boolean {
  for (const [index, wanted] of oldest.entries()) {
    const have = version[index] ?? 0;
    if (have !== wanted) {
      return have > wanted;
    }
  }
  return true;
}

/** Locates the program and checks its version. */
export async function check(setting: string, extensionPath: string, env: NodeJS.ProcessEnv): Promise<Binary> {
  const file = await locate(setting, extensionPath, env);
  const output = await new Promise<string>((resolve, reject) => {
    execFile(file, ["--version"], { timeout: VERSION_TIMEOUT_MS, windowsHide: true }, (problem, stdout, stderr) => {
      if (problem) {
        const said = stderr.trim().split("\n")[0] ?? "";
        const how = problem.killed ? l10n.t("it did not answer within {0} s", VERSION_TIMEOUT_MS / 1000) : said || problem.message;
        reject(new ServerUnusable(l10n.t("The server program cannot tell its version: {0}", how), [file]));
      } else {
        resolve(stdout);
      }
    });
  });
  const version = parseVersion(output);
  if (version === undefined) {
    throw new ServerUnusable(
      l10n.t("This is not the flowdrive program: it answers {0} to --version.", JSON.stringify(output.slice(0, 80))),
      [file],
    );
  }
  if (!isAtLeast(version, OLDEST_SERVER)) {
    throw new ServerUnusable(
      l10n.t("The server is version {0}, and this extension needs {1} or newer. Update the server.", version.join("."), OLDEST_SERVER.join(".")),
      [file],
    );
  }
  return { path: file, version: version.join(".") };
}
