--- The plugin's pure parts: words, values, events, views, findings. No server.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
package.path = here .. "/?.lua;" .. package.path
vim.opt.runtimepath:prepend(vim.fs.normalize(here .. "/../../../editor-clients/neovim"))
vim.cmd.runtime("plugin/flowdrive.lua")
local t = require("check")
local arguments = require("flowdrive.arguments")
local rows = require("flowdrive.render").render
local state = require("flowdrive.state")
local task = require("flowdrive.task")
local ui = require("flowdrive.ui")

local function event(seq, kind, fields)
  return vim.tbl_extend("error", { runId = "r1", seq = seq, at = "2026-01-02T03:04:05Z", type = kind }, fields or {})
end

--- The view's lines, as of the time of the events.
local function render(run)
  return vim.tbl_map(function(row)
    return row.text
  end, rows(run, assert(require("flowdrive.format").milliseconds("2026-01-02T03:04:05Z"))))
end

local function started(resumed)
  return event(
    1,
    "runStarted",
    { workflowId = "w", title = "W", plannedWorkers = 2, completedWorkers = 0, resumed = resumed or false }
  )
end

t.test("loading the plugin defines the command and loads no code", function()
  t.same(vim.fn.exists(":Flowdrive"), 2)
  local out = vim
    .system({
      vim.v.progpath,
      "--clean",
      "--headless",
      "--cmd",
      "set runtimepath^=" .. vim.fn.fnameescape(vim.fs.normalize(here .. "/../../../editor-clients/neovim")),
      "-c",
      "lua io.stdout:write(vim.fn.exists(':Flowdrive') .. ' '"
        .. " .. tostring(vim.iter(pairs(package.loaded)):any(function(name)"
        .. " return vim.startswith(name, 'flowdrive') end)))",
      "-c",
      "qa!",
    }, { text = true })
    :wait()
  t.same(out.stdout, "2 false", "command defined, code loaded")
end)

t.test("a Neovim that is too old is told in one line, by the command and by setup()", function()
  local out = vim
    .system({
      vim.v.progpath,
      "--clean",
      "--headless",
      "--cmd",
      "lua local has = vim.fn.has; vim.fn.has = function(what) return what == 'nvim-0.10' and 0 or has(what) end",
      "--cmd",
      "set runtimepath^=" .. vim.fn.fnameescape(vim.fs.normalize(here .. "/../../../editor-clients/neovim")),
      "-c",
      "Flowdrive drive",
      "-c",
      "lua require('flowdrive').setup()",
      "-c",
      "qa!",
    }, { text = true })
    :wait()
  local said = vim.tbl_filter(function(line)
    return line ~= ""
  end, vim.split(out.stderr, "\r?\n"))
  t.same(said, {
    "flowdrive: needs Neovim 0.10 or newer",
    "flowdrive: needs Neovim 0.10 or newer",
  })
end)

t.test("words are split at blanks, quotes hold them together", function()
  t.same(
    arguments.split([[drive x question="where is it" a='b "c' d""e]]),
    { "drive", "x", "question=where is it", 'a=b "c', "de" }
  )
  t.same(arguments.split(""), {})
  t.same(arguments.split('""'), { "" })
end)

t.test("subcommands complete without a server, and no server is started for it", function()
  t.same(vim.fn.getcompletion("Flowdrive re", "cmdline"), { "report", "resolve", "result", "resume" })
  t.same(vim.fn.getcompletion("Flowdrive! st", "cmdline"), { "stop" })
  t.same(vim.fn.getcompletion("Flowdrive stop ", "cmdline"), {})
  t.same(vim.lsp.get_clients({ name = "flowdrive" }), {})
end)

t.test("typed values", function()
  t.same({ arguments.parse_value("1.5", "number") }, { 1.5 })
  t.same({ arguments.parse_value("true", "boolean") }, { true })
  t.same({ arguments.parse_value('{"a":[1]}', "json") }, { { a = { 1 } } })
  t.same({ arguments.parse_value("a b", "string") }, { "a b" })
  for text, kind in pairs({
    ["0x10"] = "number",
    ["inf"] = "number",
    ["nan"] = "number",
    ["one"] = "number",
    ["yes"] = "boolean",
    ["{"] = "json",
  }) do
    local value, problem = arguments.parse_value(text, kind)
    t.same(value, nil, text)
    t.same(type(problem), "string", text)
  end
end)

t.test("setup refuses what it does not know", function()
  local flowdrive = require("flowdrive")
  for _, wrong in ipairs({ { colour = "red" }, { cmd = "flowdrive" }, { quickfix = 1 } }) do
    local ok, problem = pcall(flowdrive.setup, wrong)
    t.same(ok, false)
    t.contains(problem, "flowdrive: setup")
  end
  flowdrive.setup({ run_buffer = { open = false } })
  t.same(flowdrive.options().run_buffer.command, "botright 15split", "what is not given keeps its default")
  flowdrive.setup()
end)

t.test("a run follows its events", function()
  local run = state.new("r1", "/w")
  t.same(state.apply(run, started()), "applied")
  t.same(state.is_active(run), true)
  state.apply(run, event(2, "phaseStarted", { phase = "map", title = "Map", tasks = 2, width = 2 }))
  state.apply(
    run,
    event(3, "taskDispatched", { taskId = "a", workerId = "a.1", phase = "map", agent = "x", attempt = 1 })
  )
  state.apply(run, event(3, "agentActivity", { taskId = "a", workerId = "a.1", text = "reading\nsrc/main.rs" }))
  t.same(run.tasks.a.text, "reading src/main.rs", "activity is one line")
  t.same(run.last_seq, 3, "activity has no number of its own")
  state.apply(
    run,
    event(
      4,
      "taskAccepted",
      { taskId = "a", workerId = "a.1", phase = "map", source = "agent", summary = "s", findings = 2 }
    )
  )
  state.apply(
    run,
    event(5, "taskDispatched", { taskId = "b", workerId = "b.1", phase = "map", agent = "x", attempt = 1 })
  )
  state.apply(
    run,
    event(
      6,
      "taskRetrying",
      { taskId = "b", workerId = "b.1", attempt = 1, maxAttempts = 3, code = "c", reason = "no evidence" }
    )
  )
  t.contains(run.tasks.b.text, "attempt 1 of 3: no evidence")
  state.apply(
    run,
    event(
      7,
      "taskParked",
      { taskId = "b", workerId = "b.3", phase = "map", attempts = 3, code = "c", reason = "no evidence" }
    )
  )
  state.apply(
    run,
    event(8, "feedbackOpened", {
      feedbackId = "f1",
      taskId = "b",
      classification = "missing-evidence",
      severity = "high",
      message = "no\nevidence",
    })
  )
  local text = table.concat(render(run), "\n")
  for _, part in ipairs({
    "W  ● running",
    "1 of 2 tasks accepted, 1 parked",
    "✓ a  x    0:00  2 findings  s",
    "✗ b  x    0:00  attempt 3  parked: no evidence",
    "Map  1/2  2 at once",
    "Waiting for you  1 record, a: decide",
    "! b  no evidence",
  }) do
    t.contains(text, part)
  end
  state.apply(
    run,
    event(9, "runFinished", { status = "parked", completedWorkers = 1, parkedWorkers = 1, reportPath = "/w/r.md" })
  )
  t.same({ run.status, run.report_path, state.is_active(run) }, { "parked", "/w/r.md", false })
end)

t.test("an event that is known is passed over, a gap is seen, an unknown type is not an error", function()
  local run = state.new("r1", "/w")
  state.apply(run, started())
  t.same(state.apply(run, started()), "ignored")
  t.same(state.apply(run, event(3, "checkpoint", { commitId = "c" })), "gap")
  t.same(run.last_seq, 1)
  t.same(state.apply(run, event(2, "somethingNewer")), "applied")
  t.same(state.apply(run, event(3, "checkpoint", { commitId = "c" })), "applied")
end)

t.test("a view taken late does not undo newer events", function()
  local run = state.new("r1", "/w")
  state.apply(run, started())
  state.apply(
    run,
    event(2, "taskDispatched", { taskId = "b", workerId = "b.1", phase = "map", agent = "x", attempt = 1 })
  )
  state.seed(run, {
    summary = {
      workflowId = "w",
      title = "W",
      status = "in-progress",
      plannedWorkers = 2,
      completedWorkers = 0,
      parkedWorkers = 0,
      driving = true,
    },
    phases = { { id = "map", title = "Map", tasks = 2, completed = 0 } },
    tasks = {
      { id = "a", phase = "map", status = "pending", attempts = 0 },
      { id = "b", phase = "map", status = "pending", attempts = 0 },
    },
    lastSeq = 1,
    reportPath = "/w/r.md",
  })
  t.same(run.phases[1].tasks, { "a", "b" }, "the view's order")
  t.same({ run.tasks.a.status, run.tasks.b.status, run.last_seq }, { "pending", "running", 2 })
end)

t.test("findings become quickfix items at the places they cite", function()
  local items = ui.quickfix_items({
    {
      id = "verdict",
      findings = {
        {
          id = "f1",
          summary = "two\nlines",
          severity = "P1",
          evidence = { { path = "src/a.rs", line = 3, endLine = 4 }, { locator = "https://example.invalid" } },
        },
        { id = "f2", summary = "nowhere", severity = "none", evidence = {} },
      },
    },
    { id = "map" },
    {
      id = "other",
      findings = {
        { id = "f7", summary = "two lines", severity = "P1", evidence = { { path = "src/a.rs", line = 3 } } },
        { id = "f8", summary = "two lines", severity = "P1", evidence = { { path = "src/a.rs", line = 9 } } },
      },
    },
  }, "/w")
  t.same(items, {
    { filename = "/w/src/a.rs", lnum = 3, end_lnum = 4, text = "[P1] two lines (verdict, 1 more)", type = "E" },
    { text = "nowhere (verdict)", type = "N", valid = 0 },
    { filename = "/w/src/a.rs", lnum = 9, text = "[P1] two lines (other)", type = "E" },
  })
end)

t.test("a task waits for answers that come at once and for late ones, and leaves quietly when dismissed", function()
  local seen, failure = {}, nil
  task.start(function()
    seen[1] = task.await(function(answer)
      answer("now")
    end)
    seen[2] = task.await(function(answer)
      vim.defer_fn(function()
        answer("later")
        answer("twice")
      end, 5)
    end)
    error("broken", 0)
  end, function(problem)
    failure = problem
  end)
  t.eventually("the task's end", function()
    return failure
  end)
  t.same({ seen, failure }, { { "now", "later" }, "broken" })
  task.start(function()
    error(task.cancelled)
  end, function()
    error("a dismissal is no failure")
  end)
end)

t.finish()
