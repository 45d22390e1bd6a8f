#!/usr/bin/env node
// Runs the extension in a real VS Code, as docs/editors.md describes.
// Usage: run.mjs [unit|host|person|trust|vsix|pictures]...   (all but the pictures when none is named)
// FLOWDRIVE_BIN names the server (default: target/release/flowdrive or target/debug/flowdrive, the newer one);
// FLOWDRIVE_SCREENSHOTS the folder for pictures (default: <cache>/screenshots).
// Ends with `N passed, N failed`; leaves no process and no file behind but the pictures.
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { cleanUp, count, environment, extension, fail, findServer, here, setUp, test } from "./harness.mjs";
import { inExtensionHost } from "./scenarios/host.mjs";

const parts = {
  unit: async () => {
    const node = (what, ...args) => test(what, () => execFileSync(process.execPath, args, { cwd: extension, stdio: "pipe", encoding: "utf8" }));
    await node("the types it takes from the TypeScript client follow the schema", "../../clients/typescript/scripts/types.mjs", "--check");
    await node("its texts are in the bundle for translators", "scripts/l10n.mjs", "--check");
    await node("it compiles", "node_modules/typescript/bin/tsc", "--noEmit");
    await node("it is lint-free", "node_modules/eslint/bin/eslint.js", "--max-warnings", "0", "src", "scripts");
    const files = fs.readdirSync(path.join(here, "unit")).filter((name) => name.endsWith(".test.mjs"));
    const unit = spawnSync(process.execPath, ["--test", "--test-reporter=tap", ...files.map((name) => path.join(here, "unit", name))], { encoding: "utf8" });
    const number = (word) => Number(new RegExp(`^# ${word} (\\d+)`, "m").exec(unit.stdout)?.[1] ?? 0);
    count.passed += number("pass");
    console.log(`${number("pass")} unit tests passed`);
    if (unit.status !== 0) fail("unit tests", unit.stdout + unit.stderr);
  },
  host: (server) => inExtensionHost("host", { settings: { "flowdrive.path": server } }),
  person: async (server) => (await import("./scenarios/person.mjs")).run(server),
  trust: async (server) => (await import("./scenarios/trust.mjs")).run(server),
  vsix: async (server) => (await import("./scenarios/vsix.mjs")).run(server),
  pictures: async (server) => (await import("./scenarios/pictures.mjs")).run(server),
};

const named = process.argv.slice(2);
for (const name of named) {
  if (!(name in parts)) {
    console.error(`unknown part '${name}': ${Object.keys(parts).join(", ")}`);
    process.exit(2);
  }
}
setUp();
const server = findServer();
try {
  execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: extension, stdio: "inherit", env: environment });
  for (const name of named.length > 0 ? named : ["unit", "host", "person", "trust", "vsix"]) {
    try {
      await parts[name](server);
    } catch (problem) {
      fail(`the part '${name}' itself`, problem?.stack ?? problem);
    }
  }
} finally {
  await cleanUp();
}
console.log(`${count.passed} passed, ${count.failed} failed`);
process.exitCode = count.failed === 0 && count.passed > 0 ? 0 : 1;
