// Pictures for the documentation, in a light and a dark theme: what a person sees in the first five minutes. They go to
// the screenshots folder as vscode-*.png.
import fs from "node:fs";
import path from "node:path";
import { Editor, extension, makeWorkspace, pause, scratch } from "../harness.mjs";
import { Person } from "../person.mjs";
import { planned } from "./person.mjs";

const SOURCE = {
  "src/main.py": null,
  ".gitignore": ".cw/\n",
  "README.md": "# Courier\nSends webhooks, and tries again when a receiver is away.\n",
  "src/retry.py": `"""How often, and how long after one another, a webhook is tried."""

import random

DEFAULT_RETRY_LIMIT = 3


def retry_limit(configured):
    """The configured limit, else the default."""
    return configured if configured else DEFAULT_RETRY_LIMIT


def pause(attempt):
    return 2 ** attempt
`,
  "src/send.py": `from retry import pause, retry_limit


def send(client, hook, configured=None):
    for attempt in range(retry_limit(configured)):
        answer = client.post(hook.url, hook.body)
        if answer.status < 500:
            return answer
        client.sleep(pause(attempt))
    raise RuntimeError("gave up on " + hook.url)
`,
  "tests/test_retry.py": `from retry import retry_limit


def test_default():
    assert retry_limit(None) == 3
`,
};
const asked = "How are failed webhooks retried?";

const PLAN = (gate) => ({
  "map:entry-points": {
    summary: "Retries happen in send(), bounded by retry_limit().",
    findings: [
      { id: "loop", severity: "P1", summary: "A 429 answer is returned as a success and never retried", evidence: ["src/send.py:7-8"] },
      { id: "limit", severity: "P2", summary: "A configured limit of 0 is read as \"not configured\"", evidence: ["src/retry.py:10"] },
    ],
    usage: { inputTokens: 18200, outputTokens: 940 },
  },
  "map:data-flow": {
    summary: "The pause grows without a bound.",
    findings: [{ id: "jitter", severity: "P2", summary: "Pauses have no jitter: receivers that come back are hit by all at once", evidence: ["src/retry.py:13-14", "src/retry.py:3"] }],
    usage: { inputTokens: 12700, outputTokens: 610 },
  },
  "map:tests": { until: gate, activity: ["reading tests/test_retry.py"] },
  "map:configuration": { fail: "configuration: the model answered with no place in the code" },
  "verdict:synthesis": {
    summary: "Retries are bounded, but not every passing fault is retried.",
    findings: [{ id: "verdict", severity: "P1", summary: "A 429 answer is returned as a success and never retried", evidence: ["src/send.py:7-8"] }],
    usage: { inputTokens: 31400, outputTokens: 1280 },
  },
});

export async function run(server) {
  for (const [theme, name] of [
    ["Default Light Modern", "light"],
    ["Default Dark Modern", "dark"],
  ]) {
    await take(server, theme, name);
  }
}

async function take(server, theme, name) {
  const folder = makeWorkspace(`courier-${name}`, SOURCE);
  const gate = path.join(scratch, `pictures-${name}`);
  const mine = planned(`pictures-${name}`, PLAN(gate));
  const working = planned(`pictures-done-${name}`, { ...PLAN(gate), "map:configuration": { summary: "Only the limit can be set.", usage: { inputTokens: 8000, outputTokens: 300 } } });
  const settings = (agents) => editor.write({
    "flowdrive.path": server,
    "flowdrive.agents": { reviewer: agents },
    "flowdrive.defaultAgent": "reviewer",
    "workbench.colorTheme": theme,
    "workbench.activityBar.location": "default",
    "editor.minimap.enabled": false,
    "window.title": "courier",
  });
  const editor = new Editor(`pictures-${name}`);
  settings(mine);
  await editor.start();
  try {
    const page = await editor.open(folder, { development: extension, size: { width: 1200, height: 760 } });
    const person = new Person(page);
    const shot = (what) => person.shot(`vscode-${what}-${name}`);
    const mouseAway = () => page.mouse.move(800, 500);
    await person.step(`pictures in ${name}`, async () => {
      await page.getByRole("tab", { name: "Flowdrive" }).first().click();
      await page.getByText("Nothing has been driven in this folder yet").waitFor();
      await mouseAway();
      await pause(800);
      await shot("welcome");
      await person.command("Flowdrive: Drive Workflow");
      await person.row("Quick survey").waitFor();
      await shot("workflows");
      await person.choose("Quick survey");
      await person.type("question", asked);
      await person.row("reviewer").waitFor();
      await page.keyboard.press("Enter");
      const preview = await person.frame("Nothing has been started yet");
      await shot("preview");
      await preview.getByRole("button", { name: "Start" }).click();
      await person.tree("Runs", "reading tests").first().waitFor();
      await person.tree("Open Feedback", "map:configuration").first().waitFor();
      await person.statusBar("2/5").waitFor();
      // Room for the rows.
      const sash = page.locator(".monaco-sash.vertical").nth(1);
      const box = await sash.boundingBox();
      await page.mouse.move(box.x + 2, 300);
      await page.mouse.down();
      await page.mouse.move(box.x + 192, 300, { steps: 5 });
      await page.mouse.up();
      await person.tree("Findings", "429").first().click();
      await page.locator(".tab.active", { hasText: "send.py" }).waitFor();
      await mouseAway();
      await shot("running");
      fs.writeFileSync(gate, "");
      await person.toast("is parked").waitFor();
      await person.closeToasts();
      const row = person.tree("Open Feedback", "map:configuration").first();
      await row.click();
      await person.frame("no place in the code");
      await row.hover();
      await pause(1200);
      await shot("feedback");
      settings(working);
      await person.press("settings take effect", "Restart Server");
      await row.hover();
      await row.getByRole("button", { name: "Retry with Guidance..." }).click();
      await person.type("map:configuration", "The limit is read in src/retry.py.");
      await person.press("will be tried again", "Resume");
      await person.toast("is complete").waitFor();
      await person.press("is complete", "Open Timeline");
      const timeline = await person.frame("Who ran when");
      await person.closeToasts();
      await mouseAway();
      await shot("report");
      await timeline.locator("h2", { hasText: "Who ran when" }).scrollIntoViewIfNeeded();
      await timeline.evaluate(() => [...document.querySelectorAll("h2")].find((one) => one.textContent.startsWith("Who ran when")).scrollIntoView());
      await shot("timeline");
      await person.command("Problems: Focus on Problems View");
      await page.locator(".markers-panel .monaco-list-row", { hasText: "retry.py" }).first().waitFor();
      await person.tree("Findings", "429").first().click();
      await shot("problems");
    });
    await page.context().close();
  } finally {
    await editor.stop();
  }
}
