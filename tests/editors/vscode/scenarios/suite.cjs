// Runs inside VS Code's extension host, loaded through `extensionTestsPath`: the extension's commands against the real
// server. Writes one JSON line per test to FLOWDRIVE_TEST_RESULTS, and a last one that says it is done.
// Must not: reach into the extension; it uses commands, settings and tabs, as any other extension could.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");

const PATIENCE_MS = 30_000; // a bound on what never happens, not a measurement
const question = "where is the retry limit decided";
const results = process.env.FLOWDRIVE_TEST_RESULTS;
const record = (entry) => fs.appendFileSync(results, `${JSON.stringify(entry)}\n`);
const run = (command, argument) => vscode.commands.executeCommand(`flowdrive.${command}`, argument);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function eventually(what, fits) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await fits();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await pause(25);
  }
}

async function test(name, body) {
  try {
    await body();
    record({ name, ok: true });
  } catch (problem) {
    record({ name, ok: false, problem: String(problem?.stack ?? problem) });
  }
}

/** Changes settings, and has the next command start a server with them. */
async function configure(settings) {
  const configuration = vscode.workspace.getConfiguration("flowdrive");
  for (const [name, value] of Object.entries(settings)) {
    await configuration.update(name, value, vscode.ConfigurationTarget.Global);
  }
  await run("restartServer");
}

const workspace = () => vscode.workspace.workspaceFolders[0].uri.fsPath;
const runFolders = () => fs.readdirSync(path.join(workspace(), ".cw", "runs")).sort();
const previewTab = (part) =>
  vscode.window.tabGroups.all
    .flatMap((group) => group.tabs)
    .find((tab) => tab.input instanceof vscode.TabInputWebview && tab.input.viewType.includes("markdown.preview") && tab.label.includes(part));

/** Process ids of the servers under this extension host. */
function servers() {
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
        const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        return Number(parent) === process.pid && state !== "Z" && /\bserve\b/.test(fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " "));
      } catch {
        return false; // ended meanwhile
      }
    })
    .map(Number);
}

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A tab with a webview of ours. */
const panelTab = (part) =>
  vscode.window.tabGroups.all
    .flatMap((group) => group.tabs)
    .find((tab) => tab.input instanceof vscode.TabInputWebview && tab.input.viewType.includes("flowdrive.") && tab.label.includes(part));

/** An agent that writes its process id into this folder and then sleeps. */
const sleeper = (folder) => ({ command: ["sh", "-c", 'echo $$ > "$0/$$.pid"; exec sleep 60', folder] });
const sleepers = (folder) => fs.readdirSync(folder).map((name) => Number.parseInt(name, 10));

async function sleepingDrive(name) {
  // These scenarios run twice in one go: from the sources, and from the installed package.
  const folder = fs.mkdtempSync(path.join(path.dirname(results), `${name}-`));
  await configure({ agents: { slow: sleeper(folder) }, defaultAgent: "slow" });
  const before = runFolders();
  const outcome = run("drive", { workflow: "quick-survey", inputs: { question } });
  await eventually("an agent that sleeps", () => sleepers(folder).length > 0);
  const runId = runFolders().find((id) => !before.includes(id));
  assert.ok(runId, "a new run");
  return { folder, outcome, runId };
}

exports.run = async function () {
  let complete;
  await test("the extension is there, and idle until a command is used", () => {
    const extension = vscode.extensions.getExtension("flowdrive.flowdrive");
    assert.ok(extension);
    assert.equal(extension.isActive, false);
    assert.deepEqual(servers(), []);
  });

  await test("every command of the manifest is registered once the extension is active", async () => {
    const extension = vscode.extensions.getExtension("flowdrive.flowdrive");
    await extension.activate();
    const known = new Set(await vscode.commands.getCommands(true));
    for (const { command } of extension.packageJSON.contributes.commands) assert.ok(known.has(command), command);
    assert.deepEqual(servers(), [], "activation starts no server");
  });

  await test("a drive completes", async () => {
    const result = await run("drive", { workflow: "quick-survey", inputs: { question } });
    assert.equal(result?.status, "complete");
    assert.equal(result.completedWorkers, result.plannedWorkers);
    assert.ok(fs.existsSync(result.reportPath));
    complete = result.runId;
    assert.equal(servers().length, 1);
  });

  await test("its findings are diagnostics at the lines they cite, with a code action that opens the report", async () => {
    const [uri, found] = await eventually("diagnostics", () =>
      vscode.languages.getDiagnostics().find(([at, all]) => at.path.endsWith("/README.md") && all.some((one) => one.source === "flowdrive")),
    );
    await vscode.window.showTextDocument(uri);
    const { range, severity } = found.find((one) => one.source === "flowdrive");
    assert.ok(severity < vscode.DiagnosticSeverity.Hint, "the Problems panel lists no hints");
    assert.deepEqual([range.start.line, range.end.line], [1, 1], "line 2 of README.md, to its end");
    // The server's actions come once the document that was just opened is known to the client.
    const open = await eventually("the action that opens the report", async () => {
      // The editor cancels a question that its own changes overtake.
      const actions = await vscode.commands.executeCommand("vscode.executeCodeActionProvider", uri, range).then((all) => all, () => []);
      return actions.find((action) => action.title.includes("open the report"));
    });
    await vscode.commands.executeCommand(open.command.command, ...open.command.arguments);
    const tab = await eventually("the preview's tab", () => previewTab("report.md"));
    await vscode.window.tabGroups.close(tab);
  });

  await test("its report opens in the Markdown preview", async () => {
    const report = await run("openReport", { runId: complete });
    assert.match(fs.readFileSync(report, "utf8"), new RegExp(question));
    await eventually("the preview's tab", () => previewTab("report.md"));
  });

  await test("a preview starts nothing and opens as a document", async () => {
    const before = runFolders();
    const preview = await run("preview", { workflow: "quick-survey", inputs: { question } });
    assert.equal(preview?.nextAction, "dispatch");
    const tab = await eventually("the preview's tab", () => panelTab("Preview: Quick survey"));
    assert.deepEqual(runFolders(), before);
    await vscode.window.tabGroups.close(tab);
  });

  await test("the preview's command starts what is previewed, and only while there is one", async () => {
    const before = runFolders();
    await run("startPreviewed");
    await run("preview", { workflow: "quick-survey", inputs: { question } });
    await eventually("the preview's tab", () => panelTab("Preview: Quick survey"));
    await run("startPreviewed");
    const runId = await eventually("a new run", () => runFolders().find((id) => !before.includes(id)));
    const report = path.join(workspace(), ".cw", "runs", runId, "report.html");
    await eventually("its report", () => fs.existsSync(report));
    assert.equal(runFolders().length, before.length + 1);
    assert.equal(panelTab("Preview: Quick survey"), undefined);
  });

  await test("the report opens with its timeline", async () => {
    const html = await run("openTimeline", { runId: complete });
    assert.equal(path.basename(html), "report.html");
    await eventually("the timeline's tab", () => panelTab(`Timeline: ${question}`));
  });

  await test("the same is driven again without a question", async () => {
    const again = await run("driveAgain");
    assert.equal(again?.status, "complete");
    assert.notEqual(again.runId, complete);
  });

  await test("a workflow file of the workspace is known by its id and by its path", async () => {
    const file = path.join(workspace(), ".cw", "workflows", "typed.toml");
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(
      file,
      `schemaVersion = 1
id = "typed"
title = "Typed"
[inputs]
often = { type = "number", required = true }
deep = { type = "boolean" }
words = { type = "string", repeated = true }
[[phases]]
id = "only"
[[phases.tasks]]
id = "only:one"
prompt = "Look {{often}} times for {{words}}."
`,
    );
    const inputs = { often: 2, deep: true, words: ["retry", "limit"] };
    assert.equal((await run("drive", { workflow: "typed", inputs }))?.status, "complete");
    assert.equal((await run("drive", { workflow: file, inputs }))?.status, "complete");
    assert.equal(await run("drive", { workflow: "typed", inputs: { ...inputs, often: "twice" } }), undefined, "a wrong type is refused");
  });

  await test("a JSON workflow is checked against the schema as it is written", async () => {
    const file = path.join(workspace(), ".cw", "workflows", "draft.json");
    fs.writeFileSync(file, '{ "schemaVersion": 1, "id": "draft", "title": "Draft", "phases": "none" }\n');
    const uri = vscode.Uri.file(file);
    await vscode.window.showTextDocument(uri);
    const [fault] = await eventually("a fault at the phases", () => {
      const found = vscode.languages.getDiagnostics(uri);
      return found.length > 0 && found;
    });
    assert.match(fault.message, /array/);
    fs.rmSync(file);
  });

  await test("a workspace cannot say which programs are run", async () => {
    const configuration = vscode.workspace.getConfiguration("flowdrive");
    for (const [name, value] of [["path", "/bin/false"], ["agents", { evil: { command: ["false"] } }], ["defaultAgent", "evil"]]) {
      await assert.rejects(configuration.update(name, value, vscode.ConfigurationTarget.Workspace), name);
    }
    const settings = path.join(workspace(), ".vscode", "settings.json");
    fs.mkdirSync(path.dirname(settings), { recursive: true });
    const before = configuration.inspect("defaultAgent");
    fs.writeFileSync(settings, JSON.stringify({ "flowdrive.defaultAgent": "evil", "flowdrive.path": "/bin/false", "editor.tabSize": 7 }));
    await eventually("the workspace's settings", () => vscode.workspace.getConfiguration("editor").get("tabSize") === 7);
    const after = vscode.workspace.getConfiguration("flowdrive");
    assert.equal(after.get("defaultAgent"), before.globalValue ?? before.defaultValue);
    assert.notEqual(after.get("path"), "/bin/false");
    fs.rmSync(settings);
  });

  await test("the installation is checked, as a document", async () => {
    assert.equal(await run("doctor"), true);
    await eventually("the document's tab", () => previewTab("Flowdrive installation"));
  });

  await test("preview and resume of a finished run say complete", async () => {
    assert.equal((await run("preview", { runId: complete }))?.nextAction, "complete");
    assert.equal((await run("resume", { runId: complete }))?.status, "complete");
  });

  await test("what cannot be done answers nothing, and the server goes on", async () => {
    const [before] = servers();
    assert.equal(await run("openReport", { runId: "no-such-run" }), undefined);
    assert.equal(await run("drive", { workflow: "no-such-workflow" }), undefined);
    assert.deepEqual(servers(), [before]);
  });

  let parked;
  await test("an agent that fails parks the run", async () => {
    await configure({ agents: { broken: { command: ["false"] } }, defaultAgent: "broken" });
    parked = await run("drive", { workflow: "quick-survey", inputs: { question } });
    assert.equal(parked?.status, "parked");
    assert.ok(parked.parkedWorkers > 0);
  });

  await test("its feedback is resolved by retry, chosen from the list", async () => {
    for (let left = parked.parkedWorkers; left > 0; left -= 1) {
      let record;
      const asked = run("resolveFeedback", { runId: parked.runId, resolution: "retry", guidance: "look in src" }).then((answer) => {
        record = answer ?? null;
      });
      await eventually("an answer to the choice", async () => {
        await vscode.commands.executeCommand("workbench.action.acceptSelectedQuickOpenItem");
        return record !== undefined;
      });
      await asked;
      assert.equal(record?.runId, parked.runId);
      assert.notEqual(record.status, "open");
    }
  });

  await test("with an agent that works, the parked run is resumed to its end", async () => {
    await configure({ agents: {}, defaultAgent: "builtin:survey" });
    assert.equal((await run("resume", { runId: parked.runId }))?.status, "complete");
  });

  await test("a drive is stopped at once, and its agents are gone", async () => {
    const { folder, outcome, runId } = await sleepingDrive("stop");
    const answer = await run("stop", { runId, mode: "now" });
    assert.equal(answer?.driving, true);
    const result = await outcome;
    assert.equal(result?.stopped, "now");
    assert.deepEqual(sleepers(folder).filter(alive), []);
  });

  await test("a server that dies mid-drive ends the command, is started again by itself, and carries the run on", async () => {
    const { folder, outcome, runId } = await sleepingDrive("crash");
    const [before] = servers();
    process.kill(before, "SIGKILL");
    assert.deepEqual(await outcome, { runId, ended: "lost" });
    const [after] = await eventually("another server", () => servers().length === 1 && servers());
    assert.notEqual(after, before);
    await eventually("the end of its agents", () => sleepers(folder).filter(alive).length === 0);
    await configure({ agents: {}, defaultAgent: "builtin:survey" });
    assert.equal((await run("resume", { runId }))?.status, "complete");
  });

  await test("a server that dies over and over is given up on, and a command starts it again", async () => {
    const dead = new Set();
    for (let times = 0; times < 6; times += 1) {
      const [pid] = await eventually("a server", () => servers().filter((one) => !dead.has(one)).length > 0 && servers());
      // Known to the extension once it answers.
      if (times === 0) await run("preview", { runId: complete });
      await pause(300);
      dead.add(pid);
      process.kill(pid, "SIGKILL");
    }
    await pause(1_000);
    assert.deepEqual(servers(), []);
    assert.equal((await run("preview", { runId: complete }))?.nextAction, "complete");
    assert.equal(servers().length, 1);
  });

  await test("restarting leaves one server", async () => {
    const [before] = servers();
    await run("restartServer");
    assert.equal(alive(before), false);
    assert.equal((await run("preview", { runId: complete }))?.nextAction, "complete");
    assert.equal(servers().length, 1);
  });

  record({ done: true });
};
