/**
 * Finds the server program and asks for its version before anything is spoken to it.
 * Must not: read a setting that a workspace can change, or start the server.
 */
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { homedir } from "node:os";
import * as path from "node:path";
import { ServerUnusable } from "./errors";

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

async function firstProgram(stems: string[]): Promise<string | undefined> {
  for (const stem of stems) {
    for (const suffix of suffixes) {
      if (await isProgram(stem + suffix)) {
        return stem + suffix;
      }
    }
  }
  return undefined;
}

/** The program that the setting names; without one the bundled program, else the first on PATH. */
export async function locate(setting: string, extensionPath: string, env: NodeJS.ProcessEnv): Promise<string> {
  const wanted = setting.trim();
  if (wanted !== "") {
    const full = path.resolve(wanted.replace(/^~(?=$|[/\\])/, homedir()));
    if (await isProgram(full)) {
      return full;
    }
    throw new ServerUnusable("The program that flowdrive.serverPath names is missing or cannot be run.", full);
  }
  const folders = (env["PATH"] ?? env["Path"] ?? "").split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  const found = await firstProgram([
    path.join(extensionPath, "server", "flowdrive"),
    ...folders.map((folder) => path.join(folder, "flowdrive")),
  ]);
  if (found === undefined) {
    throw new ServerUnusable("No flowdrive program is on PATH. Install it, or set flowdrive.serverPath.", "flowdrive");
  }
  return found;
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
        const how = problem.killed ? `did not answer within ${VERSION_TIMEOUT_MS / 1000} s` : said || problem.message;
        reject(new ServerUnusable(`The server program cannot tell its version: ${how}`, file));
      } else {
        resolve(stdout);
      }
    });
  });
  const version = parseVersion(output);
  if (version === undefined) {
    throw new ServerUnusable(`This is not the flowdrive program: it answers ${JSON.stringify(output.slice(0, 80))} to --version.`, file);
  }
  if (!isAtLeast(version, OLDEST_SERVER)) {
    throw new ServerUnusable(
      `The server is version ${version.join(".")}, and this extension needs ${OLDEST_SERVER.join(".")} or newer. Update the server.`,
      file,
    );
  }
  return { path: file, version: version.join(".") };
}
