// Finding the program and its version.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { load } from "./load.mjs";

const binary = load("binary");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "flowdrive-unit-bin."));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const nowhere = path.join(folder, "nowhere");
const put = (where, text) => {
  fs.mkdirSync(path.dirname(where), { recursive: true });
  fs.writeFileSync(where, text, { mode: 0o755 });
  return where;
};
const says = (version) => `#!/bin/sh\necho flowdrive ${version}\n`;

test("versions are read and compared", () => {
  assert.deepEqual(binary.parseVersion("flowdrive 1.20.3\n"), [1, 20, 3]);
  assert.deepEqual(binary.parseVersion("flowdrive 0.1.0-beta.1 (abc)"), [0, 1, 0]);
  assert.equal(binary.parseVersion("other 1.2.3"), undefined);
  assert.equal(binary.isAtLeast([0, 10, 0], [0, 9, 9]), true);
  assert.equal(binary.isAtLeast([0, 9, 10], [0, 10, 0]), false);
  assert.equal(binary.isAtLeast([1, 0, 0], [1, 0, 0]), true);
});

test("the setting comes first, then the bundled program, then PATH; relative folders are no place to look", async () => {
  const onPath = put(path.join(folder, "bin/flowdrive"), says("0.1.0"));
  const bundled = put(path.join(folder, "ext/server/flowdrive"), says("0.1.0"));
  const PATH = `relative:${path.dirname(onPath)}`;
  assert.equal(await binary.locate("", nowhere, { PATH }), onPath);
  assert.equal(await binary.locate("", path.join(folder, "ext"), { PATH }), bundled);
  assert.equal(await binary.locate(` ${onPath} `, path.join(folder, "ext"), { PATH }), onPath);
});

test("what was not found is said with every place that was looked at", async () => {
  const a = path.join(folder, "a");
  const b = path.join(folder, "b");
  await assert.rejects(binary.locate("", nowhere, { PATH: `${a}:${b}` }), (problem) => {
    assert.deepEqual(problem.tried, [path.join(nowhere, "server/flowdrive"), path.join(a, "flowdrive"), path.join(b, "flowdrive")]);
    return problem.tried.every((place) => problem.message.includes(place)) && problem.message.includes("flowdrive.path");
  });
  await assert.rejects(binary.locate(path.join(nowhere, "x"), nowhere, { PATH: path.join(folder, "bin") }), (problem) => problem.message.includes(path.join(nowhere, "x")));
});

test("a program that is too old, another, or broken is refused, and says which", async () => {
  const program = path.join(folder, "some/flowdrive");
  const refused = async (text, why) => {
    put(program, text);
    await assert.rejects(binary.check(program, nowhere, {}), (problem) => why.test(problem.message) && problem.message.includes(program));
  };
  await refused(says("0.0.9"), /version 0\.0\.9.*needs 0\.1\.0/);
  await refused("#!/bin/sh\necho something else\n", /not the flowdrive program/);
  await refused("#!/bin/sh\necho broken >&2\nexit 3\n", /cannot tell its version: broken/);
  put(program, says("1.2.3"));
  assert.deepEqual(await binary.check(program, nowhere, {}), { path: program, version: "1.2.3" });
});
