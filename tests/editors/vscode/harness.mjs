// What all the tests in this folder stand on: counting, waiting, a scratch folder, workspaces, VS Code's server, a
// browser. Must not: know the extension.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const here = path.dirname(fileURLToPath(import.meta.url));
export const root = path.resolve(here, "../../..");
export const extension = path.join(root, "editor-clients/vscode");
export const cache = path.resolve(process.env.FLOWDRIVE_CACHE ?? path.join(root, ".cache"));
export const PATIENCE_MS = 60_000; // a bound on what never happens, not a measurement
export const question = "where is the retry limit decided";

export const count = { passed: 0, failed: 0 };
export function pass(name) {
  count.passed += 1;
  console.log(`ok - ${name}`);
}
export function fail(name, problem) {
  count.failed += 1;
  console.log(`not ok - ${name}`);
  for (const line of String(problem).split("\n")) console.log(`    ${line}`);
}
export async function test(name, body) {
  try {
    await body();
    pass(name);
    return true;
  } catch (problem) {
    fail(name, problem?.stdout || (problem?.stack ?? problem));
    return false;
  }
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export async function eventually(what, fits) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await fits();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await pause(50);
  }
}
export function alive(pid) {
  try {
    return !/^State:\s*Z/m.test(fs.readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Installs what the tests need, unless it is there. */
export function setUp() {
  const setup = spawnSync(path.join(here, "../setup.sh"), ["vscode"], { stdio: "inherit", env: { ...process.env, FLOWDRIVE_CACHE: cache } });
  if (setup.status !== 0) process.exit(1);
}

/** The server program under test. */
export function findServer() {
  const candidates = process.env.FLOWDRIVE_BIN
    ? [path.resolve(process.env.FLOWDRIVE_BIN)]
    : ["release", "debug"].map((profile) => path.join(root, "target", profile, "flowdrive"));
  const there = candidates.filter((file) => fs.existsSync(file)).sort((a, b) => fs.statSync(b).mtimeMs - fs.statSync(a).mtimeMs);
  if (there.length === 0) {
    console.error(`no server program at ${candidates.join(" or ")}. Run \`cargo build\`, or set FLOWDRIVE_BIN.`);
    process.exit(1);
  }
  return there[0];
}

export const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "flowdrive-vscode."));
export const screenshots = path.resolve(process.env.FLOWDRIVE_SCREENSHOTS ?? path.join(cache, "screenshots"));
fs.mkdirSync(screenshots, { recursive: true });
export const results = path.join(scratch, "results.jsonl");

/** The environment of everything that is started: nothing of the user's own plays a part. */
export const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(CW_|VSCODE_|FLOWDRIVE_)/.test(name)),
);
// XDG_RUNTIME_DIR, or else VS Code leaves its sockets in the system's temporary folder.
for (const name of ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]) {
  environment[name] = path.join(scratch, name.toLowerCase());
  fs.mkdirSync(environment[name]);
}
environment.FLOWDRIVE_TEST_RESULTS = results;

/** A small git repository that has something to say about the question; `null` for a file leaves it out. */
export function makeWorkspace(name, files = {}) {
  const folder = path.join(scratch, name);
  const all = {
    "README.md": "# Sample\nThe retry limit is decided in `src/retry.py`.\n",
    "src/retry.py": '"""Where the retry limit is decided."""\n\nDEFAULT_RETRY_LIMIT = 3\n',
    "src/main.py": "from retry import DEFAULT_RETRY_LIMIT\n\nprint(DEFAULT_RETRY_LIMIT)\n",
    ...files,
  };
  for (const [file, text] of Object.entries(all)) {
    if (text === null) continue;
    fs.mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    fs.writeFileSync(path.join(folder, file), text);
  }
  const git = (...args) => execFileSync("git", ["-C", folder, "-c", "user.name=Test", "-c", "user.email=test@example.invalid", ...args], { env: environment });
  git("init", "-q");
  git("add", ".");
  git("commit", "-qm", "Add the sample");
  return folder;
}

/** Runs of a workspace, newest last. */
export const runFolders = (workspace) => {
  const folder = path.join(workspace, ".cw/runs");
  return fs.existsSync(folder) ? fs.readdirSync(folder).sort((a, b) => fs.statSync(path.join(folder, a)).birthtimeMs - fs.statSync(path.join(folder, b)).birthtimeMs) : [];
};

/** Processes of the server program that were started for these tests. */
export function serversOf(program) {
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const isServer = fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[1] === "serve";
        return isServer && fs.readlinkSync(`/proc/${pid}/exe`) === fs.realpathSync(program) && fs.readFileSync(`/proc/${pid}/environ`, "utf8").includes(results);
      } catch {
        return false; // ended meanwhile
      }
    })
    .map(Number);
}

/** A real VS Code, as a server; one data folder each. */
export class Editor {
  constructor(name, { extensions } = {}) {
    this.data = path.join(scratch, `data-${name}`);
    this.extensions = extensions ?? path.join(scratch, `extensions-${name}`);
    this.settings = {};
    fs.mkdirSync(this.extensions, { recursive: true });
  }

  /** Writes the machine's settings. */
  write(settings) {
    this.settings = settings;
    const all = {
      "security.workspace.trust.enabled": false,
      "workbench.startupEditor": "none",
      "workbench.tips.enabled": false,
      "extensions.ignoreRecommendations": true,
      "telemetry.telemetryLevel": "off",
      "window.commandCenter": false,
      "workbench.layoutControl.enabled": false,
      "chat.commandCenter.enabled": false,
      "git.openRepositoryInParentFolders": "never",
      "github.gitAuthentication": false,
      ...settings,
    };
    for (const file of [path.join(this.data, "data/Machine/settings.json"), path.join(this.data, "data/User/settings.json")]) {
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, JSON.stringify(all));
    }
  }

  static program = path.join(cache, "vscode/out/server-main.js");

  async start() {
    this.process = spawn(
      process.execPath,
      [
        Editor.program,
        ...["--host", "127.0.0.1", "--port", "0", "--without-connection-token", "--accept-server-license-terms"],
        ...["--server-data-dir", this.data, "--extensions-dir", this.extensions, "--telemetry-level", "off"],
      ],
      { env: environment, stdio: ["ignore", "pipe", "pipe"], detached: true },
    );
    let said = "";
    const hear = (chunk) => (said += chunk);
    this.process.stdout.on("data", hear);
    this.process.stderr.on("data", hear);
    const port = await eventually("VS Code's address", () => {
      if (this.process.exitCode !== null) throw new Error(`VS Code ended: ${said.slice(-2000)}`);
      return /(?:bound to|available at)[^\n]*?:(\d+)/.exec(said)?.[1];
    });
    this.address = `127.0.0.1:${port}`;
    return this;
  }

  async stop(signal = "SIGTERM") {
    const child = this.process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await Promise.race([ended, pause(10_000)]);
    try {
      process.kill(-child.pid, "SIGKILL"); // whatever of its group is left
    } catch {
      // nothing is
    }
  }

  /** Installs a package, as `code --install-extension` does. */
  install(vsix) {
    return execFileSync(
      process.execPath,
      [
        Editor.program,
        ...["--accept-server-license-terms", "--server-data-dir", this.data, "--extensions-dir", this.extensions],
        ...["--install-extension", vsix],
      ],
      { env: environment, encoding: "utf8", stdio: "pipe" },
    );
  }

  /** A browser window on a folder. */
  async open(folder, { development, tests, size = { width: 1280, height: 800 } } = {}) {
    const context = await (await browser()).newContext({ viewport: size });
    const page = await context.newPage();
    const remote = (file) => `vscode-remote://${this.address}${file}`;
    const payload = [
      ...(development === undefined ? [] : [["extensionDevelopmentPath", remote(development)]]),
      ...(tests === undefined ? [] : [["extensionTestsPath", remote(tests)]]),
    ];
    const query = new URLSearchParams({ folder, ...(payload.length === 0 ? {} : { payload: JSON.stringify(payload) }) });
    await page.goto(`http://${this.address}/?${query}`);
    await page.waitForSelector(".monaco-workbench", { timeout: PATIENCE_MS });
    return page;
  }
}

let launched;
export async function browser() {
  const { chromium } = createRequire(pathToFileURL(path.join(fs.realpathSync(path.join(cache, "driver")), "package.json")))("playwright-core");
  launched ??= await chromium.launch({
    executablePath: process.env.FLOWDRIVE_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  return launched;
}

export async function cleanUp() {
  await launched?.close();
  fs.rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
}
