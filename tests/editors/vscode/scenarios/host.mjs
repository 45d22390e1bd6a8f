// The commands, in the extension host: suite.cjs runs there, and writes what it found to a file.
import fs from "node:fs";
import path from "node:path";
import { Editor, extension, fail, here, makeWorkspace, pass, PATIENCE_MS, pause, results, screenshots } from "../harness.mjs";

/** `development` is the folder of the extension; `settings` those of the machine. */
export async function inExtensionHost(name, { development = extension, extensions, settings }) {
  const editor = new Editor(name, { extensions });
  editor.write(settings);
  try {
    await editor.start();
    fs.rmSync(results, { force: true });
    const page = await editor.open(makeWorkspace(name), { development, tests: path.join(here, "scenarios/suite.cjs") });
    let read = 0;
    let done = false;
    const lines = () => (fs.existsSync(results) ? fs.readFileSync(results, "utf8").split("\n").slice(0, -1) : []);
    const end = Date.now() + 5 * PATIENCE_MS;
    while (!done && Date.now() < end) {
      for (const line of lines().slice(read)) {
        read += 1;
        const entry = JSON.parse(line);
        if (entry.done) done = true;
        else if (entry.ok) pass(`${name}: ${entry.name}`);
        else fail(`${name}: ${entry.name}`, entry.problem);
      }
      await pause(50);
    }
    if (!done) {
      await page.screenshot({ path: path.join(screenshots, `stuck-${name}.png`) });
      fail(`${name}: the suite in the extension host ends`, `it did not; see stuck-${name}.png`);
    }
    await page.context().close();
  } finally {
    await editor.stop();
  }
}
