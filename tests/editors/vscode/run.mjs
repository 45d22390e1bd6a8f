#!/usr/bin/env node
// Runs the extension in a real VS Code: its commands in the real extension host (suite.cjs), then the same as a person
// would, by keyboard and mouse in a headless browser, with screenshots.
// FLOWDRIVE_BIN names the server (default: target/release/flowdrive or target/debug/flowdrive, the newer one);
// FLOWDRIVE_SCREENSHOTS the folder for pictures (default: <cache>/screenshots).
// Ends with `N passed, N failed`; leaves no process and no file behind but the pictures.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { run as runUnitTests } from "./unit.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../../..");
const extension = path.join(root, "editor-clients/vscode");
const cache = path.resolve(process.env.FLOWDRIVE_CACHE ?? path.join(root, ".cache"));
const question = "where is the retry limit decided";
const PATIENCE_MS = 60_000; // a bound on what never happens, not a measurement

let passed = 0;
let failed = 0;
function pass(name) {
  passed += 1;
  console.log(`ok - ${name}`);
}
function fail(name, problem) {
  failed += 1;
  console.log(`not ok - ${name}`);
  for (const line of String(problem).split("\n")) console.log(`    ${line}`);
}
async function test(name, body) {
  try {
    await body();
    pass(name);
    return true;
  } catch (problem) {
    fail(name, problem?.stdout || (problem?.stack ?? problem));
    return false;
  }
}
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function eventually(what, fits) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await fits();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await pause(50);
  }
}
function alive(pid) {
  try {
    return !/^State:\s*Z/m.test(fs.readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

const setup = spawnSync(path.join(here, "../setup.sh"), ["vscode"], { stdio: "inherit", env: { ...process.env, FLOWDRIVE_CACHE: cache } });
if (setup.status !== 0) process.exit(1);

function findServer() {
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
const server = findServer();
await test("the extension's types follow the schema, and it compiles", () => {
  execFileSync(process.execPath, ["scripts/types.mjs", "--check"], { cwd: extension, stdio: "pipe", encoding: "utf8" });
  execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "--noEmit"], { cwd: extension, stdio: "pipe", encoding: "utf8" });
});
execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: extension, stdio: "inherit" });

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "flowdrive-vscode."));
const screenshots = path.resolve(process.env.FLOWDRIVE_SCREENSHOTS ?? path.join(cache, "screenshots"));
fs.mkdirSync(screenshots, { recursive: true });
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CW_") && !name.startsWith("VSCODE_")));
// XDG_RUNTIME_DIR, or else VS Code leaves its sockets in the system's temporary folder.
for (const name of ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]) {
  environment[name] = path.join(scratch, name.toLowerCase());
  fs.mkdirSync(environment[name]);
}
const results = path.join(scratch, "results.jsonl");
environment.FLOWDRIVE_TEST_RESULTS = results;

/** A small git repository that has something to say about the question. */
function makeWorkspace(name) {
  const folder = path.join(scratch, name);
  fs.mkdirSync(path.join(folder, "src"), { recursive: true });
  fs.writeFileSync(path.join(folder, "README.md"), "# Sample\nThe retry limit is decided in `src/retry.py`.\n");
  fs.writeFileSync(path.join(folder, "src/retry.py"), '"""Where the retry limit is decided."""\n\nDEFAULT_RETRY_LIMIT = 3\n');
  fs.writeFileSync(path.join(folder, "src/main.py"), "from retry import DEFAULT_RETRY_LIMIT\n\nprint(DEFAULT_RETRY_LIMIT)\n");
  const git = (...args) => execFileSync("git", ["-C", folder, "-c", "user.name=Test", "-c", "user.email=test@example.invalid", ...args], { env: environment });
  git("init", "-q");
  git("add", ".");
  git("commit", "-qm", "Add the sample");
  return folder;
}

const data = path.join(scratch, "data");
const machineSettings = path.join(data, "data/Machine/settings.json");
function writeSettings(flowdrive) {
  const settings = {
    "security.workspace.trust.enabled": false,
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": false,
    "extensions.ignoreRecommendations": true,
    ...Object.fromEntries(Object.entries(flowdrive).map(([name, value]) => [`flowdrive.${name}`, value])),
  };
  for (const file of [machineSettings, path.join(data, "data/User/settings.json")]) {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, JSON.stringify(settings));
  }
}

let editor;
let browser;

/** Starts VS Code's server in a process group of its own; answers its address. */
async function startEditor() {
  const extensions = path.join(scratch, "extensions");
  fs.mkdirSync(extensions, { recursive: true });
  editor = spawn(
    process.execPath,
    [
      path.join(cache, "vscode/out/server-main.js"),
      ...["--host", "127.0.0.1", "--port", "0", "--without-connection-token", "--accept-server-license-terms"],
      ...["--server-data-dir", data, "--extensions-dir", extensions, "--telemetry-level", "off"],
    ],
    { env: environment, stdio: ["ignore", "pipe", "pipe"], detached: true },
  );
  let said = "";
  const hear = (chunk) => (said += chunk);
  editor.stdout.on("data", hear);
  editor.stderr.on("data", hear);
  const port = await eventually("VS Code's address", () => {
    if (editor.exitCode !== null) throw new Error(`VS Code ended: ${said.slice(-2000)}`);
    return /(?:bound to|available at)[^\n]*?:(\d+)/.exec(said)?.[1];
  });
  return `127.0.0.1:${port}`;
}

async function stopEditor(signal) {
  if (editor === undefined || editor.exitCode !== null || editor.signalCode !== null) return;
  const ended = new Promise((resolve) => editor.once("exit", resolve));
  editor.kill(signal);
  await Promise.race([ended, pause(10_000)]);
  try {
    process.kill(-editor.pid, "SIGKILL"); // whatever of its group is left
  } catch {
    // nothing is
  }
}

async function openPage(address, folder, payload) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const query = new URLSearchParams({ folder, ...(payload === undefined ? {} : { payload: JSON.stringify(payload) }) });
  await page.goto(`http://${address}/?${query}`);
  await page.waitForSelector(".monaco-workbench", { timeout: PATIENCE_MS });
  return page;
}

/** The commands, in the extension host. */
async function inExtensionHost(address) {
  writeSettings({ serverPath: server });
  const remote = (file) => `vscode-remote://${address}${file}`;
  const page = await openPage(address, makeWorkspace("host"), [
    ["extensionDevelopmentPath", remote(extension)],
    ["extensionTestsPath", remote(path.join(here, "suite.cjs"))],
  ]);
  let read = 0;
  let done = false;
  const lines = () => (fs.existsSync(results) ? fs.readFileSync(results, "utf8").split("\n").slice(0, -1) : []);
  const end = Date.now() + 5 * PATIENCE_MS;
  while (!done && Date.now() < end) {
    for (const line of lines().slice(read)) {
      read += 1;
      const entry = JSON.parse(line);
      if (entry.done) done = true;
      else if (entry.ok) pass(entry.name);
      else fail(entry.name, entry.problem);
    }
    await pause(50);
  }
  if (!done) {
    await page.screenshot({ path: path.join(screenshots, "stuck.png") });
    fail("the suite in the extension host ends", "it did not; see stuck.png");
  }
  await page.context().close();
}

/** The same by keyboard and mouse. */
async function inBrowser(address) {
  const folder = makeWorkspace("person");
  const pids = path.join(scratch, "sleepers");
  fs.mkdirSync(pids);
  const missing = path.join(scratch, "missing", "flowdrive");
  writeSettings({ serverPath: missing });
  const page = await openPage(address, folder, [["extensionDevelopmentPath", `vscode-remote://${address}${extension}`]]);
  const shot = (name) => page.screenshot({ path: path.join(screenshots, `${name}.png`) });
  const toast = (text) => page.locator(".notification-toast", { hasText: text }).first();
  const command = async (title) => {
    await page.keyboard.press("F1");
    const box = page.locator(".quick-input-widget input.input");
    await box.waitFor({ state: "visible" });
    await box.fill(`>${title}`);
    await page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first().waitFor();
    await page.keyboard.press("Enter");
  };
  const choose = async (label) => page.locator(".quick-input-list .monaco-list-row", { hasText: label }).first().click();
  const type = async (title, text) => {
    await page.locator(".quick-input-widget", { hasText: title }).waitFor();
    await page.locator(".quick-input-widget input.input").fill(text);
    await page.keyboard.press("Enter");
  };
  const closeToasts = async () => {
    await command("Notifications: Clear All Notifications");
    await eventually("no toast", async () => (await page.locator(".notification-toast").count()) === 0);
  };
  const step = async (name, body) => {
    if (!(await test(name, body))) await shot(`failed-${name.replace(/[^a-z]+/gi, "-")}`);
  };

  await step("a missing server is said with the path tried, and two ways out", async () => {
    await eventually("the commands", async () => {
      await page.keyboard.press("Escape");
      await page.keyboard.press("F1");
      await page.locator(".quick-input-widget input.input").fill(">Flowdrive: Drive workflow");
      await pause(300);
      return (await page.locator(".quick-input-list .monaco-list-row", { hasText: "Flowdrive: Drive workflow" }).count()) > 0;
    });
    await page.keyboard.press("Enter");
    await toast(missing).waitFor();
    for (const button of ["Open settings", "Show log"]) await toast(missing).getByRole("button", { name: button }).hover();
    await shot("missing-server");
    writeSettings({ serverPath: server });
    await closeToasts();
  });

  await step("a workflow is chosen, asked for its question, driven to its end, and its report read", async () => {
    await command("Flowdrive: Drive workflow");
    await eventually("the workflows", async () => (await page.locator(".quick-input-list .monaco-list-row", { hasText: "quick-survey" }).count()) > 0);
    await shot("choose-workflow");
    await choose("quick-survey");
    await type("question", question);
    await toast("is complete").waitFor({ timeout: PATIENCE_MS });
    await toast("is complete").getByRole("button", { name: "Open report" }).click();
    const report = await eventually("the report", async () => {
      for (const frame of page.frames()) {
        if ((await frame.locator("body").textContent().catch(() => ""))?.includes(question)) return frame;
      }
      return undefined;
    });
    if (report === undefined) throw new Error("no report");
    await shot("report");
    await closeToasts();
  });

  await step("a drive shows its progress, is cancelled from its notification, and can be stopped at once", async () => {
    writeSettings({
      serverPath: server,
      defaultAgent: "slow",
      agents: { slow: { command: ["sh", "-c", 'echo $$ > "$0/$$.pid"; exec sleep 60', pids] } },
    });
    await toast("Restart server").or(toast("settings take effect")).first().waitFor();
    await toast("settings take effect").getByRole("button", { name: "Restart server" }).click();
    await command("Flowdrive: Drive workflow");
    await eventually("the workflows", async () => (await page.locator(".quick-input-list .monaco-list-row", { hasText: "quick-survey" }).count()) > 0);
    await choose("quick-survey");
    await type("question", question);
    await eventually("an agent that sleeps", () => fs.readdirSync(pids).length > 0);
    await page.locator(".statusbar-item", { hasText: /Flowdrive 0\/\d+/ }).waitFor();
    const cancel = page.locator(".notification-toast").getByRole("button", { name: "Cancel" });
    await cancel.hover(); // waits until the notification has come to rest
    await shot("driving");
    await cancel.click();
    const stopping = toast("stops after what is in flight");
    await stopping.waitFor();
    await stopping.getByRole("button", { name: "Stop at once" }).click();
    await toast("is stopped").waitFor();
    const left = fs.readdirSync(pids).map((name) => Number.parseInt(name, 10)).filter(alive);
    if (left.length > 0) throw new Error(`agents ${left.join(", ")} live`);
    await toast("is stopped").getByRole("button", { name: "Resume" }).hover();
    await shot("stopped");
    await closeToasts();
  });

  await step("VS Code's end mid-drive leaves no server and no agent", async () => {
    for (const name of fs.readdirSync(pids)) fs.rmSync(path.join(pids, name));
    await command("Flowdrive: Resume run");
    await eventually("an agent that sleeps", () => fs.readdirSync(pids).length > 0);
    const agents = fs.readdirSync(pids).map((name) => Number.parseInt(name, 10));
    const servers = fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).filter((pid) => {
      try {
        return fs.readlinkSync(`/proc/${pid}/exe`) === fs.realpathSync(server) && fs.readFileSync(`/proc/${pid}/environ`, "utf8").includes(results);
      } catch {
        return false;
      }
    });
    if (servers.length === 0) throw new Error("no server to be seen");
    await stopEditor("SIGTERM");
    for (const pid of [...servers.map(Number), ...agents]) await eventually(`the end of process ${pid}`, () => !alive(pid));
  });
  await page.context().close();
}

try {
  await runUnitTests(test, extension, scratch);
  const { chromium } = createRequire(pathToFileURL(path.join(fs.realpathSync(path.join(cache, "driver")), "package.json")))("playwright-core");
  browser = await chromium.launch({
    executablePath: process.env.FLOWDRIVE_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  const address = await startEditor();
  await inExtensionHost(address);
  await inBrowser(address);
} catch (problem) {
  fail("the run itself", problem?.stack ?? problem);
} finally {
  await browser?.close();
  await stopEditor("SIGTERM");
  fs.rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
