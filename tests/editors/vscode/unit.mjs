// The extension's pure parts, bundled with a `vscode` that has nothing in it. No editor, no server.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

/** Bundles one source file of the extension and loads it. */
function load(extension, scratch, name) {
  const { buildSync } = createRequire(path.join(extension, "package.json"))("esbuild");
  const stub = path.join(scratch, "vscode-stub.cjs");
  fs.writeFileSync(stub, "exports.workspace = {}; exports.EventEmitter = class {};\n");
  const outfile = path.join(scratch, `${name}.cjs`);
  buildSync({
    absWorkingDir: extension,
    entryPoints: [`src/${name}.ts`],
    outfile,
    bundle: true,
    platform: "node",
    format: "cjs",
    alias: { vscode: stub, "vscode-languageclient/node": stub },
    logLevel: "error",
  });
  return createRequire(import.meta.url)(outfile);
}

/** Runs every test with `test(name, body)`. */
export async function run(test, extension, scratch) {
  const binary = load(extension, scratch, "binary");
  const { parseValue } = load(extension, scratch, "prompts");
  const { render } = load(extension, scratch, "preview");

  await test("versions are read and compared", () => {
    assert.deepEqual(binary.parseVersion("flowdrive 1.20.3\n"), [1, 20, 3]);
    assert.deepEqual(binary.parseVersion("flowdrive 0.1.0-beta.1 (abc)"), [0, 1, 0]);
    assert.equal(binary.parseVersion("other 1.2.3"), undefined);
    assert.equal(binary.isAtLeast([0, 10, 0], [0, 9, 9]), true);
    assert.equal(binary.isAtLeast([0, 9, 10], [0, 10, 0]), false);
    assert.equal(binary.isAtLeast([1, 0, 0], [1, 0, 0]), true);
  });

  await test("the server is looked for where it should be, and a fault names the place", async () => {
    const bin = path.join(scratch, "unit-bin");
    fs.mkdirSync(bin);
    const program = path.join(bin, "flowdrive");
    fs.writeFileSync(program, "#!/bin/sh\necho flowdrive 0.0.9\n", { mode: 0o755 });
    const none = path.join(scratch, "nowhere");
    assert.equal(await binary.locate("", none, { PATH: `relative:${bin}` }), program);
    assert.equal(await binary.locate(` ${program} `, none, {}), program);
    await assert.rejects(binary.locate("", none, { PATH: none }), /on PATH/);
    await assert.rejects(binary.locate(path.join(none, "x"), none, { PATH: bin }), (problem) => problem.message.includes(path.join(none, "x")));
    fs.chmodSync(program, 0o644);
    await assert.rejects(binary.locate(program, none, {}), /cannot be run/);
    fs.chmodSync(program, 0o755);
    await assert.rejects(binary.check(program, none, {}), /version 0\.0\.9, and this extension needs/);
    fs.writeFileSync(program, "#!/bin/sh\necho something else\n");
    await assert.rejects(binary.check(program, none, {}), /not the flowdrive program/);
    fs.writeFileSync(program, "#!/bin/sh\necho broken >&2\nexit 3\n");
    await assert.rejects(binary.check(program, none, {}), /cannot tell its version: broken/);
  });

  await test("typed values", () => {
    assert.deepEqual(parseValue("1.5", "number"), { value: 1.5 });
    assert.deepEqual(parseValue("false", "boolean"), { value: false });
    assert.deepEqual(parseValue('{"a":[1]}', "json"), { value: { a: [1] } });
    assert.deepEqual(parseValue(" a ", "string"), { value: " a " });
    for (const [text, type] of [["one", "number"], ["", "number"], ["Infinity", "number"], ["yes", "boolean"], ["{", "json"]]) {
      assert.ok("problem" in parseValue(text, type), `${text} as ${type}`);
    }
  });

  await test("a preview is text, whatever a workflow is called", () => {
    const text = render({
      schemaVersion: 1,
      workflowId: "w",
      plannedWorkers: 1,
      pendingWorkers: 1,
      completedWorkers: 0,
      parkedWorkers: 0,
      nextAction: "blocked",
      agentConfigured: false,
      blockers: ["no [agent](command:evil)"],
      plan: [
        {
          id: "p",
          title: "<img src=x onerror=alert(1)>\n# A",
          mode: "parallel",
          width: 2,
          status: "pending",
          tasks: [{ id: "t", status: "pending", invocation: "a `b` ``c``", cache: { state: "miss" } }],
        },
      ],
    });
    assert.ok(!/(?<!\\)<img/.test(text), text);
    assert.ok(!/(?<!\\)\]\(/.test(text), text);
    assert.ok(!/^# A/m.test(text), text);
    assert.ok(text.includes("``` a `b` ``c`` ```"), text);
    assert.ok(text.includes("Check installation"), text);
  });
}
