// Inputs, questions with a way back, pauses, work that is done once, words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const inputs = load("model/inputs");
const { ask, BACK } = load("model/steps");
const { Backoff, MOST, WINDOW_MS } = load("model/backoff");
const format = load("model/format");
const { Once } = load("once");
const markdown = load("model/markdown");

test("typed values", () => {
  assert.deepEqual(inputs.parseValue("1.5", "number"), { value: 1.5 });
  assert.deepEqual(inputs.parseValue("false", "boolean"), { value: false });
  assert.deepEqual(inputs.parseValue('{"a":[1]}', "json"), { value: { a: [1] } });
  assert.deepEqual(inputs.parseValue(" a ", "string"), { value: " a " });
  for (const [text, type] of [["one", "number"], ["", "number"], ["Infinity", "number"], ["yes", "boolean"], ["{", "json"], ["a\0b", "path"]]) {
    assert.ok("problem" in inputs.parseValue(text, type), `${text} as ${type}`);
  }
});

test("what is required cannot be left empty, what is optional can", () => {
  for (const type of ["string", "path", "number", "json"]) {
    assert.match(inputs.problemOf("n", { type, required: true }, "", false), /n is required/);
    assert.equal(inputs.problemOf("n", { type }, "", true), undefined);
  }
  assert.match(inputs.problemOf("n", { type: "string", required: true }, "  ", false), /required/);
  assert.match(inputs.problemOf("n", { type: "number" }, "x", true), /not a number/);
});

test("inputs are asked in order, shown as text, and missing ones are named", () => {
  const specs = { b: { type: "string" }, z: { type: "path", required: true }, a: { type: "number", required: true } };
  assert.deepEqual(inputs.inOrder(specs).map(([name]) => name), ["a", "z", "b"]);
  assert.deepEqual(inputs.missing(specs, { z: "." }), ["a"]);
  assert.equal(inputs.textOf(2, "number"), "2");
  assert.equal(inputs.textOf(undefined, "string"), "");
  assert.equal(inputs.textOf({ a: 1 }, "json"), '{"a":1}');
});

test("a path inside the workspace is told relative to it", () => {
  assert.equal(inputs.insideWorkspace("/ws", "/ws/docs/a"), "docs/a");
  assert.equal(inputs.insideWorkspace("/ws", "/ws"), ".");
  assert.equal(inputs.insideWorkspace("/ws", "/other"), "/other");
});

test("questions come in order, each can bring more, and back undoes what it brought", async () => {
  const asked = [];
  let back = true;
  const question = (name, more) => async ({ step, total, canGoBack }) => {
    asked.push(`${name} ${step}/${total}${canGoBack ? " back" : ""}`);
    if (name === "b1" && back) {
      back = false;
      return BACK;
    }
    return more;
  };
  await ask([question("a", [question("b1"), question("b2")]), question("z")], () => 0);
  assert.deepEqual(asked, ["a 1/2", "b1 2/4 back", "a 1/2", "b1 2/4 back", "b2 3/4 back", "z 4/4 back"]);
});

test("back on the first question asks it again", async () => {
  let times = 0;
  await ask([async () => ((times += 1) < 3 ? BACK : undefined)]);
  assert.equal(times, 3);
});

test("pauses grow, end after too many, and are forgotten after a while or on demand", () => {
  const backoff = new Backoff();
  const pauses = Array.from({ length: MOST }, () => backoff.next(0));
  assert.deepEqual(pauses, [250, 500, 1000, 2000, 4000]);
  assert.equal(backoff.next(1), undefined);
  assert.equal(backoff.next(WINDOW_MS + 2), 250, "old ends are forgotten");
  for (let i = 0; i < MOST; i += 1) backoff.next(WINDOW_MS + 3);
  backoff.reset();
  assert.equal(backoff.next(WINDOW_MS + 4), 250);
});

test("work that many ask for at once is done once now and once more after", async () => {
  const once = new Once();
  let runs = 0;
  let release;
  const gate = new Promise((resolve) => (release = resolve));
  const body = async () => {
    runs += 1;
    await gate;
  };
  const all = [once.run("k", body), once.run("k", body), once.run("k", body), once.run("other", body)];
  release();
  await Promise.all(all);
  assert.equal(runs, 3);
  await once.run("k", body);
  assert.equal(runs, 4);
  await assert.rejects(once.run("bad", async () => Promise.reject(new Error("no"))), /no/);
  await once.run("bad", body);
  assert.equal(runs, 5, "a fault does not block what comes after");
});

test("times and counts as people read them", () => {
  assert.deepEqual([0, 450, 9_990, 12_300, 185_000, 7_800_000].map(format.duration), ["0.0 s", "0.4 s", "9.9 s", "12 s", "3 min 5 s", "2 h 10 min"]);
  assert.deepEqual([812, 1_250, 45_600, 3_400_000].map(format.compact), ["812", "1.2k", "45k", "3.4M"]);
  const at = (ms) => format.ago(new Date(1e12 - ms).toISOString(), 1e12);
  assert.deepEqual([5_000, 300_000, 7_200_000, 90_000_000, 300_000_000].map(at), ["just now", "5 min ago", "2 h ago", "yesterday", "3 days ago"]);
  assert.equal(format.tokens({ inputTokens: 3, outputTokens: 4 }), 7);
  assert.equal(format.tokens({ totalTokens: 5, inputTokens: 3 }), 5);
  assert.equal(format.tokens({ cacheReadTokens: 3 }), undefined);
  assert.equal(format.oneLine("a\n b 😀😀😀", 6), "a b 😀…");
});

test("code stays code, whatever is in it", () => {
  assert.equal(markdown.code("a `b` ``c``"), "``` a `b` ``c`` ```");
  assert.equal(markdown.plain("<b> [x](y)\n# z"), "\\<b\\> \\[x\\]\\(y\\) \\# z");
});
