// What a person does, by keyboard and mouse, from the first drive to the last: in one window, with its settings changed
// on the way. Each step stands on the one before.
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { alive, Editor, environment, eventually, extension, here, makeWorkspace, pause, question, runFolders, scratch, serversOf } from "../harness.mjs";
import { Person } from "../person.mjs";

/** Puts a plan for the tests' agent where it finds it. */
export function planned(name, plan) {
  const file = path.join(scratch, `${name}.json`);
  fs.writeFileSync(file, JSON.stringify(plan));
  return { command: [process.execPath, path.join(here, "agent.mjs"), file, "{{manifest}}"] };
}

/** A workflow with an input of each kind. */
const TYPED = `schemaVersion = 1
id = "typed"
title = "Typed"
[inputs]
often = { type = "number", required = true }
where = { type = "path", required = true }
deep = { type = "boolean" }
words = { type = "string", repeated = true }
[[phases]]
id = "only"
[[phases.tasks]]
id = "only:one"
prompt = "Look {{often}} times in {{where}} for {{words}}."
`;

export async function run(server) {
  const editor = new Editor("person");
  const folder = makeWorkspace("person", { ".cw/workflows/typed.toml": TYPED });
  const pids = path.join(scratch, "pids");
  const gate = path.join(scratch, "gate");
  fs.mkdirSync(pids);
  const agents = () => fs.readdirSync(pids).map((name) => Number.parseInt(name, 10));
  const forget = () => agents().forEach((pid) => fs.rmSync(path.join(pids, `${pid}.pid`)));
  const broken = planned("broken", { "*": {}, "map:tests": { fail: "no tests here" } });
  const slow = planned("slow", { pids, "*": { until: gate, activity: ["reading src/retry.py"] }, "map:entry-points": {} });
  const settings = (more) => editor.write({ "flowdrive.path": server, ...more });
  const missing = path.join(scratch, "missing", "flowdrive");

  editor.write({ "flowdrive.path": missing });
  await editor.start();
  try {
    const page = await editor.open(folder, { development: extension });
    const person = new Person(page);
    const { step } = person;
    const at = (name, body) => step.call(person, name, body);
    const restart = () => person.press("settings take effect", "Restart Server");
    /** Through the wizard up to the preview; answers its page. */
    const upToPreview = async (asked = question) => {
      await person.pick("Flowdrive: Drive Workflow", "Quick survey");
      await person.type("question", asked);
      await person.row("default").waitFor();
      await person.accept();
      return person.frame("Nothing has been started yet");
    };
    const drive = async () => (await upToPreview()).getByRole("button", { name: "Start" }).click();

    await at("a missing server is said with the path tried, and ways out", async () => {
      await person.command("Flowdrive: Drive Workflow");
      await person.toast(missing).waitFor();
      for (const button of ["Open Settings", "How to Install", "Show Log"]) await person.toast(missing).getByRole("button", { name: button }).waitFor();
      settings();
      await person.closeToasts();
    });

    await at("the view says what to do while there is nothing to show", async () => {
      await page.getByRole("tab", { name: "Flowdrive" }).first().click();
      await page.getByText("Nothing has been driven in this folder yet").waitFor();
      await page.getByRole("button", { name: "Drive Workflow..." }).first().waitFor();
      await page.getByText("Nothing waits for you").waitFor();
    });

    await at("the wizard refuses an empty question, goes back, and shows a preview before anything starts", async () => {
      await person.pick("Flowdrive: Drive Workflow", "Quick survey");
      await person.type("question", "");
      await page.getByText("question is required").waitFor();
      await page.locator(".quick-input-widget").getByRole("button", { name: "Back" }).click();
      await person.row("Architecture review").waitFor();
      await person.choose("Quick survey");
      await person.type("question", question);
      await person.row("builtin:survey").waitFor();
      await page.locator(".quick-input-widget").getByRole("button", { name: "Back" }).click();
      await eventually("what was typed before", async () => (await person.box.inputValue()) === question);
      await person.accept();
      await person.row("builtin:survey").waitFor();
      await person.accept();
      const preview = await person.frame("Nothing has been started yet");
      const text = await preview.locator("body").innerText();
      for (const part of ["5 tasks", question, "map:entry-points", "builtin:survey"]) if (!text.includes(part)) throw new Error(`no ${part} in ${text}`);
      if (runFolders(folder).length > 0) throw new Error("something was started");
      await preview.getByRole("button", { name: "Close" }).click();
      await pause(300);
      if (runFolders(folder).length > 0) throw new Error("closing started something");
    });

    await at("each input is asked for as what it is, and refused as what it is not", async () => {
      await person.command("Flowdrive: Preview Workflow");
      await person.choose("Typed");
      await person.type("Typed: often", "twice");
      await page.getByText('"twice" is not a number').waitFor();
      await person.type("Typed: often", "2");
      await person.type("Typed: where", "nowhere");
      await page.getByText("nowhere is not there").waitFor();
      await person.type("Typed: where", "src");
      await page.locator(".quick-input-widget", { hasText: "Typed: deep" }).waitFor();
      await person.choose("Yes");
      for (const word of ["retry", "limit"]) {
        await person.type("Typed: words", word);
        await person.row(word).waitFor();
      }
      await person.row("Done").waitFor();
      await person.accept();
      await person.row("default").waitFor();
      await person.accept();
      const preview = await person.frame("Nothing has been started yet");
      const inputs = await preview.locator("dl").innerText();
      if (!/often\s+2\s+where\s+src\s+deep\s+true\s+words\s+retry\s+limit/.test(inputs)) throw new Error(inputs);
      await preview.getByRole("button", { name: "Close" }).click();
    });

    await at("a drive is started from its preview with the keyboard, and its tree, findings and problems are seen", async () => {
      await person.acceptIn(await upToPreview(), "Start");
      await person.toast("is complete").waitFor();
      for (const row of ["Map", "map:entry-points", "verdict:synthesis"]) await person.tree("Runs", row).first().waitFor();
      // What a screen reader hears, as soon as the tree is drawn anew.
      await person.tree("Runs", question).and(page.locator('[aria-label*="complete, 5 of 5 tasks accepted"]')).first().waitFor();
      await person.closeToasts();
      await person.command("Problems: Focus on Problems View");
      await page.locator(".markers-panel .monaco-list-row", { hasText: "retry.py" }).first().waitFor();
      await person.command("View: Toggle Panel Visibility");
    });

    await at("a finding leads to its lines", async () => {
      await person.tree("Findings", "README.md").first().click();
      await page.locator(".tab.active", { hasText: "README.md" }).waitFor();
      await person.statusBar(/Ln 2, Col \d+/).waitFor();
    });

    await at("with an agent that fails, two keys drive the same again, and the task parks", async () => {
      settings({ "flowdrive.agents": { broken }, "flowdrive.defaultAgent": "broken" });
      await restart();
      await page.locator(".monaco-editor").first().click();
      await eventually("an editor that hears keys", () => page.evaluate(() => document.activeElement?.closest(".monaco-editor") != null));
      await page.keyboard.press("Control+k");
      await page.keyboard.press("Control+g");
      await person.toast("is parked").waitFor();
      await person.tree("Open Feedback", "map:tests").waitFor();
      await person.statusBar("1").filter({ has: page.locator(".codicon-comment-unresolved") }).waitFor();
      await person.closeToasts();
    });

    await at("its feedback is read, and resolved by retry from its row", async () => {
      const row = person.tree("Open Feedback", "map:tests");
      await row.click();
      await person.frame("no tests here");
      await row.hover();
      await row.getByRole("button", { name: "Retry with Guidance..." }).click();
      await person.type("map:tests", "look in src");
      await person.toast("will be tried again").waitFor();
      await page.getByText("Nothing waits for you").waitFor();
    });

    await at("the run is resumed with an agent that works, to its end, and its report is read", async () => {
      const [runId] = runFolders(folder).slice(-1);
      await person.closeToasts();
      settings();
      await restart();
      await person.command("Flowdrive: Resume Run");
      await person.toast("is complete").waitFor();
      const input = fs.readdirSync(path.join(folder, ".cw/runs", runId, "workers")).filter((name) => name.startsWith("worker-map_tests")).sort().at(-1);
      if (!fs.readFileSync(path.join(folder, ".cw/runs", runId, "workers", input, "input.md"), "utf8").includes("look in src")) throw new Error("the guidance did not arrive");
      await person.press("is complete", "Open Report");
      await person.frame("Findings");
      await person.closeToasts();
    });

    await at("the timeline is seen, and its links lead to lines; what a report holds cannot run", async () => {
      const [runId] = runFolders(folder).slice(-1);
      const html = path.join(folder, ".cw/runs", runId, "report.html");
      fs.writeFileSync(html, fs.readFileSync(html, "utf8").replace("</main>", '<p id="evil">harmless</p><script>document.getElementById("evil").textContent = "ran"</script><img src="x" onerror="document.getElementById(\'evil\').textContent = \'ran\'"></main>'));
      await person.tree("Runs", question).first().click({ button: "right" });
      await page.getByRole("menuitem", { name: "Open Report with Timeline" }).waitFor();
      await pause(600); // a menu that has just opened takes no click
      await page.getByRole("menuitem", { name: "Open Report with Timeline" }).click();
      const timeline = await person.frame("harmless");
      await pause(500);
      const said = await timeline.locator("#evil").textContent();
      if (said !== "harmless") throw new Error(`a script of the report ran: ${said}`);
      await timeline.getByRole("link", { name: "README.md:2" }).first().click();
      await person.statusBar(/Ln 2, Col \d+/).waitFor();
    });

    await at("a drive shows its progress, is cancelled from its notification, and can be stopped at once", async () => {
      settings({ "flowdrive.defaultAgent": "slow", "flowdrive.agents": { slow } });
      await restart();
      await drive();
      await person.statusBar("1/5").waitFor();
      await person.tree("Runs", "reading src/retry.py").first().waitFor();
      await page.locator(".notification-toast").getByRole("button", { name: "Cancel" }).hover(); // waits until it has come to rest
      await page.locator(".notification-toast").getByRole("button", { name: "Cancel" }).click();
      await person.press("stops after what is in flight", "Stop Now");
      await person.toast("is stopped").waitFor();
      const left = agents().filter(alive);
      if (left.length > 0) throw new Error(`agents ${left.join(", ")} live`);
      await person.closeToasts();
      forget();
    });

    await at("a server killed mid-drive is started again, and the run is shown as what it is and resumed", async () => {
      await drive();
      await person.statusBar("1/5").waitFor();
      await eventually("agents that wait", () => agents().length >= 4);
      const [pid] = serversOf(server);
      process.kill(pid, "SIGKILL");
      await person.toast("The server ended by itself and was started again").waitFor();
      const [after] = await eventually("another server", () => serversOf(server).length === 1 && serversOf(server));
      if (after === pid) throw new Error("the same server");
      await person.tree("Runs", "interrupted").first().waitFor();
      await eventually("the end of the agents", () => agents().filter(alive).length === 0);
      forget();
      fs.writeFileSync(gate, "");
      await person.press("The server ended by itself and was started again", "Resume");
      await person.toast("is complete").waitFor();
      fs.rmSync(gate);
      await person.closeToasts();
      forget();
    });

    await at("a run that another program drives in the folder is followed as it goes", async () => {
      const asked = "driven from a terminal";
      const config = path.join(scratch, "terminal.toml");
      fs.writeFileSync(config, `defaultAgent = "slow"\n[agents.slow]\ncommand = ${JSON.stringify(slow.command)}\n`);
      const args = ["drive", "quick-survey", "--workspace", folder, "--input", `question=${asked}`, "--config", config];
      const terminal = spawn(server, args, { env: environment, stdio: "ignore" });
      const ended = new Promise((resolve) => terminal.once("exit", resolve));
      await person.tree("Runs", asked).first().waitFor();
      await person.statusBar("1/5").waitFor();
      fs.writeFileSync(gate, "");
      await ended;
      await eventually("its end", async () => /complete, 5 of 5/.test(await person.tree("Runs", asked).first().getAttribute("aria-label")));
      fs.rmSync(gate);
      forget();
    });

    await at("a window that is reloaded mid-drive says what became of the run", async () => {
      await drive();
      await person.statusBar("1/5").waitFor();
      await eventually("agents that wait", () => agents().length >= 4);
      await page.reload();
      await page.waitForSelector(".monaco-workbench");
      await person.toast("was interrupted when its window closed").waitFor();
      await person.toast("1 of 5 tasks accepted").waitFor();
      await eventually("the end of the agents", () => agents().filter(alive).length === 0);
      forget();
    });

    await at("VS Code's end mid-drive leaves no server and no agent", async () => {
      await person.press("was interrupted when its window closed", "Resume");
      await eventually("agents that wait", () => agents().length > 0);
      const servers = serversOf(server);
      if (servers.length !== 1) throw new Error(`${servers.length} servers`);
      const all = [...servers, ...agents()];
      await editor.stop("SIGTERM");
      for (const pid of all) await eventually(`the end of process ${pid}`, () => !alive(pid));
    });
    await page.context().close();
  } finally {
    await editor.stop();
  }
}
