// Copies the generated types into this package, so that it can be built and published on its own.
// `node scripts/types.mjs [--check]`: with --check nothing is written, and a copy that differs is an error.
import { readFile, writeFile } from "node:fs/promises";

const source = new URL("../../../schema/flowdrive.ts", import.meta.url);
const target = new URL("../src/protocol.ts", import.meta.url);

const wanted = await readFile(source, "utf8");
if (!process.argv.includes("--check")) {
  await writeFile(target, wanted);
} else if ((await readFile(target, "utf8").catch(() => "")) !== wanted) {
  console.error("src/protocol.ts is not schema/flowdrive.ts. Run `npm run types` in clients/typescript.");
  process.exitCode = 1;
}
