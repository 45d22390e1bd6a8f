// The webviews' pages and the documents: what is in them, and that nothing in them can run or load.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { previewPage, canStart } = load("model/preview");
const { reportPage, target } = load("model/report");
const { policy } = load("model/page");
const doctor = load("model/doctor");

const evil = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
const preview = (overrides = {}) => ({
  schemaVersion: 1,
  workflowId: "w",
  plannedWorkers: 2,
  pendingWorkers: 2,
  completedWorkers: 0,
  parkedWorkers: 0,
  nextAction: "dispatch",
  agentConfigured: true,
  plan: [
    {
      id: "p",
      title: evil,
      mode: "parallel",
      width: 2,
      status: "pending",
      tasks: [
        { id: "t", status: "pending", agent: evil, invocation: evil, blockers: [evil], cache: { state: "miss", reason: evil } },
        { id: "u", status: "completed", agent: "mine", invocation: evil, cache: { state: "hit" } },
      ],
    },
  ],
  ...overrides,
});
const asked = (overrides = {}) => ({ title: evil, inputs: { question: evil, list: [evil, "b"] }, startable: true, ...overrides });

test("a policy admits nothing but what carries the nonce", () => {
  const text = policy("N");
  assert.match(text, /^default-src 'none';/);
  assert.match(text, /script-src 'nonce-N'/);
  for (const word of ["unsafe-eval", "http", "*", "img-src", "connect-src", "frame-src"]) assert.ok(!text.includes(word), word);
  assert.ok(!/script-src[^;]*unsafe-inline/.test(text));
  assert.ok(!/style-src-elem[^;]*unsafe-inline/.test(text));
});

test("a preview shows texts as texts, and has a button only where it can start something", () => {
  const page = previewPage(preview(), asked(), "N", "en");
  assert.ok(!page.includes("<img"), page);
  assert.equal(page.match(/<script/g).length, 1);
  assert.match(page, /<button data-do="start">Start<\/button>/);
  assert.match(page, /2 tasks are to be handed to agents/);
  assert.match(page, /earlier result is used/);
  assert.equal(page.match(/<details>[\s\S]*<\/details>/)[0].match(/<code>/g).length, 1, "the same command once");
  assert.ok(!previewPage(preview(), asked({ startable: false }), "N", "en").includes("data-do=\"start\""));
  for (const nextAction of ["complete", "blocked"]) {
    assert.equal(canStart(preview({ nextAction })), false);
    assert.ok(!previewPage(preview({ nextAction }), asked(), "N", "en").includes('data-do="start"'));
  }
  assert.match(previewPage(preview({ runId: "r", completedWorkers: 1, pendingWorkers: 1 }), asked(), "N", "en"), />Resume<[\s\S]*2 tasks: 1 accepted, 1 to do, 0 parked/);
});

test("what stands in the way is said", () => {
  const page = previewPage(preview({ agentConfigured: false, blockers: ["the disk is full"] }), asked(), "N", "en");
  assert.match(page, /Not every task has an agent/);
  assert.match(page, /the disk is full/);
});

test("a report's own scripts, policy and styles count for nothing", () => {
  const html = `<!doctype html><html><head><meta http-equiv="Content-Security-Policy" content="default-src *"><title>A &amp; B</title><style>h1{color:red}</style><script>steal()</script></head><body onload="x()"><h1>R</h1><script>steal()</script><span style="left:5%"></span></body></html>`;
  const page = reportPage(html, "N", "en");
  assert.ok(!page.includes("default-src *"));
  assert.match(page, /<title>A &#38; B<\/title>/);
  assert.match(page, /<style nonce="N">h1\{color:red\}<\/style>/);
  assert.ok(!page.includes("onload"));
  assert.equal(page.match(/<script nonce="N">/g).length, 1);
  assert.ok(page.includes("<script>steal()"), "it stays, and does not run for want of the nonce");
});

test("links of a report lead into the workspace or to the web, and nowhere else", () => {
  const lead = (href) => target(href, "/ws/.cw/runs/r", "/ws");
  assert.deepEqual(lead("../../../src/a.rs#L3-L5"), { kind: "file", file: "/ws/src/a.rs", line: 3, endLine: 5 });
  assert.deepEqual(lead("../../../a%20b.md#L2"), { kind: "file", file: "/ws/a b.md", line: 2, endLine: 2 });
  assert.deepEqual(lead("report.md"), { kind: "file", file: "/ws/.cw/runs/r/report.md", line: 1, endLine: 1 });
  assert.deepEqual(lead("https://example.invalid/x"), { kind: "web", address: "https://example.invalid/x" });
  for (const href of ["../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "command:evil", "javascript:alert(1)", "//host/x", "%00", "%", ""]) {
    assert.equal(lead(href), undefined, href);
  }
});

test("the installation as a document", () => {
  const checks = [
    { name: "agent builtin:survey (default)", status: "ok", message: "found" },
    { name: "agent claude", status: "warn", message: "claude is not on PATH", hint: "install claude" },
    { name: "workspace", status: "fail", message: `${evil} | x` },
  ];
  const text = doctor.document({ version: "0.1.0", ok: false, checks }, { path: "/bin/flowdrive", version: "0.1.0" });
  assert.match(text, /One thing has to be put right/);
  assert.match(text, /`\/bin\/flowdrive`, version 0\.1\.0/);
  assert.match(text, /\| ⚠ \| agent claude \|.*install claude \|/);
  assert.ok(!/(?<!\\)<img/.test(text), text);
  assert.ok(text.includes("\\| x"), "a bar does not end its cell");
});
