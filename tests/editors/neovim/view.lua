--- The view of a run in a real window: what is drawn, what is left alone, folds, the cursor, keys. No server.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
package.path = here .. "/?.lua;" .. package.path
local plugin = vim.fs.normalize(here .. "/../../../editor-clients/neovim")
vim.opt.runtimepath:prepend(plugin)
vim.cmd.runtime("plugin/flowdrive.lua")
local t = require("check")
local buffers = require("flowdrive.run_buffer")
local state = require("flowdrive.state")

local AT = "2026-01-02T03:04:05.000Z"
local sequence = {}

--- Applies the run's next event, as the server would send it.
local function apply(run, kind, fields)
  sequence[run.id] = (sequence[run.id] or 0) + 1
  local event = { runId = run.id, seq = sequence[run.id], at = AT, type = kind }
  t.same(state.apply(run, vim.tbl_extend("error", event, fields or {}), true), "applied", kind)
end

---@param id string
---@param phases integer
---@param tasks integer in each phase
local function new_run(id, phases, tasks)
  local run = state.new(id, "/w")
  apply(run, "runStarted", {
    workflowId = "w",
    title = "A run",
    plannedWorkers = phases * tasks,
    completedWorkers = 0,
    resumed = false,
  })
  local view = {
    summary = {
      workflowId = "w",
      title = "A run",
      status = "in-progress",
      plannedWorkers = phases * tasks,
      completedWorkers = 0,
      parkedWorkers = 0,
      openFeedback = 0,
      driving = true,
    },
    phases = {},
    tasks = {},
    lastSeq = sequence[id],
    reportPath = "/w/report.md",
  }
  for phase = 1, phases do
    view.phases[phase] = { id = "p" .. phase, title = "Phase " .. phase, tasks = tasks, completed = 0 }
    for task = 1, tasks do
      local name = ("p%d:task-%04d"):format(phase, task)
      table.insert(view.tasks, { id = name, phase = "p" .. phase, status = "pending", attempts = 0 })
    end
  end
  state.seed(run, view)
  return run
end

local function dispatch(run, task)
  apply(run, "taskDispatched", {
    taskId = task,
    workerId = task .. ".1",
    phase = task:match("^(p%d+):"),
    agent = "tester",
    attempt = 1,
  })
end

local function accept(run, task, more)
  apply(
    run,
    "taskAccepted",
    vim.tbl_extend("force", {
      taskId = task,
      workerId = task .. ".1",
      phase = task:match("^(p%d+):"),
      source = "agent",
      summary = "found it",
      findings = 2,
      usage = { totalTokens = 12345 },
    }, more or {})
  )
end

---@return string[]
local function lines(buffer)
  return vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
end

--- Waits until the redraw that `refresh` asked for is done.
local function redraw(run, buffer)
  local wanted = vim.tbl_map(function(row)
    return row.text
  end, require("flowdrive.render").render(run, 0))
  buffers.refresh(run)
  t.eventually("the redraw", function()
    local shown = lines(buffer)
    -- Times aside: they go on.
    for number, line in ipairs(wanted) do
      local function bare(text)
        return ((text or ""):gsub("%d*:?%d+:%d%d", ""):gsub("%s+", " "))
      end
      if bare(shown[number]) ~= bare(line) then
        return false
      end
    end
    return #shown == #wanted
  end)
end

--- The line ranges that change while `body` runs.
local function changes(buffer, body)
  local found = {}
  local on = true
  vim.api.nvim_buf_attach(buffer, false, {
    on_lines = function(_, _, _, first, last, new_last)
      if not on then
        return true
      end
      found[#found + 1] = { first = first + 1, old = last - first, new = new_last - first }
    end,
  })
  body()
  on = false
  return found
end

t.test("of a run of 2,000 tasks, one event rewrites only the lines it is about", function()
  local run = new_run("big", 4, 500)
  buffers.open(run, "botright split", true)
  local buffer = vim.api.nvim_get_current_buf()
  t.same(#lines(buffer), 3 + 4 * 502)
  dispatch(run, "p3:task-0200")
  redraw(run, buffer) -- the column of agents appears, which is in every line
  local seen = changes(buffer, function()
    dispatch(run, "p3:task-0251")
    redraw(run, buffer)
  end)
  local line = assert(buffers.line_of("big", "p3:task-0251"))
  t.contains(lines(buffer)[line], "● p3:task-0251  tester")
  local touched = {}
  for _, change in ipairs(seen) do
    t.same({ change.old, change.new }, { 1, 1 }, "one line in the place of one")
    touched[change.first] = true
  end
  touched[2] = nil -- the counts
  touched[buffers.line_of("big", "p3:task-0200")] = nil -- it runs too, and its time goes on
  t.same(vim.tbl_keys(touched), { line }, "changed lines")
end)

t.test("ten thousand events of a run of 2,000 tasks are drawn a few times, not ten thousand", function()
  local run = new_run("busy", 4, 500)
  buffers.open(run, "botright split", true)
  local buffer = vim.api.nvim_get_current_buf()
  local drawings = 0
  local render = require("flowdrive.render")
  local before = render.render
  render.render = function(...)
    drawings = drawings + 1
    return before(...)
  end
  for number = 1, 500 do
    local task = ("p1:task-%04d"):format(number)
    dispatch(run, task)
    for _ = 1, 18 do
      state.apply(run, { runId = "busy", seq = 1, type = "agentActivity", taskId = task, text = "reading" }, true)
      buffers.refresh(run)
    end
    accept(run, task)
    buffers.refresh(run)
  end
  t.same(drawings, 0, "nothing is drawn before the editor is idle")
  t.eventually("the last state", function()
    return lines(buffer)[2]:find("500 of 2000 tasks accepted", 1, true)
  end)
  render.render = before
  t.same(drawings <= 3, true, "drawings: " .. drawings)
  t.contains(lines(buffer)[2], "6.2M tokens")
  vim.cmd("silent! only")
end)

t.test("the cursor stays on its task while lines appear above it, in every window", function()
  local run = new_run("cursor", 2, 30)
  buffers.open(run, "enew", true)
  local buffer = vim.api.nvim_get_current_buf()
  local line = buffers.line_of("cursor", "p2:task-0020")
  vim.api.nvim_win_set_cursor(0, { line, 4 })
  vim.cmd.split()
  local other = buffers.line_of("cursor", "p1:task-0003")
  vim.api.nvim_win_set_cursor(0, { other, 2 })
  for number = 31, 34 do -- a loop adds tasks to the first phase
    dispatch(run, ("p1:task-%04d"):format(number))
  end
  redraw(run, buffer)
  local function under(window)
    return lines(buffer)[vim.api.nvim_win_get_cursor(window)[1]]
  end
  t.contains(under(0), "p1:task-0003")
  t.contains(under(vim.fn.win_getid(vim.fn.winnr("#"))), "p2:task-0020")
  t.same(buffers.line_of("cursor", "p2:task-0020"), line + 4)
  vim.cmd("silent! only")
end)

t.test("phases are folds, and one that was closed stays closed while the run goes on", function()
  local run = new_run("folds", 2, 5)
  buffers.open(run, "enew", true)
  local buffer = vim.api.nvim_get_current_buf()
  local first = buffers.line_of("folds", "p1:task-0001")
  t.same(vim.fn.foldlevel(first), 1)
  t.same(vim.fn.foldlevel(first - 2), 0, "between phases")
  t.same(vim.fn.foldclosed(first), -1, "open at first")
  vim.api.nvim_win_set_cursor(0, { first - 1, 0 })
  vim.api.nvim_feedkeys(vim.keycode("<Tab>"), "xt", false)
  t.same({ vim.fn.foldclosed(first), vim.fn.foldclosedend(first) }, { first - 1, first + 4 })
  dispatch(run, "p1:task-0002")
  accept(run, "p1:task-0002")
  dispatch(run, "p2:task-0001")
  redraw(run, buffer)
  t.same(vim.fn.foldclosed(first), first - 1, "still closed")
  t.contains(vim.fn.foldtextresult(first) .. lines(buffer)[first - 1], "Phase 1  1/5")
  vim.api.nvim_feedkeys("]]", "xt", false)
  t.contains(vim.api.nvim_get_current_line(), "Phase 2")
end)

t.test("a phase that is done folds once, where nobody is and not all has room", function()
  local run = new_run("done", 2, 8)
  vim.cmd("silent! only")
  buffers.open(run, "botright 10split")
  local buffer = vim.fn.bufnr("flowdrive://run/done")
  local window = vim.fn.bufwinid(buffer)
  local function closed(task)
    return vim.api.nvim_win_call(window, function()
      return vim.fn.foldclosed(buffers.line_of("done", task)) ~= -1
    end)
  end
  for number = 1, 8 do
    local task = ("p1:task-%04d"):format(number)
    dispatch(run, task)
    accept(run, task)
  end
  redraw(run, buffer)
  t.same({ closed("p1:task-0001"), closed("p2:task-0001") }, { true, false })
  vim.api.nvim_win_call(window, function()
    vim.cmd("normal! zR")
  end)
  dispatch(run, "p2:task-0001")
  redraw(run, buffer)
  t.same(closed("p1:task-0001"), false, "not against the user's will")
  vim.cmd("silent! only")
end)

t.test("a retried task, a reused one, tokens and a model are told; K tells the rest", function()
  local run = new_run("told", 1, 3)
  dispatch(run, "p1:task-0001")
  apply(run, "taskRetrying", {
    taskId = "p1:task-0001",
    workerId = "w",
    attempt = 1,
    maxAttempts = 3,
    code = "c",
    reason = "no evidence",
  })
  accept(run, "p1:task-0002", { source = "cache", findings = 1 })
  dispatch(run, "p1:task-0003")
  for number = 1, 40 do
    state.apply(
      run,
      { runId = "told", seq = 1, type = "agentActivity", taskId = "p1:task-0003", text = "reading " .. number },
      true
    )
  end
  buffers.open(run, "enew", true)
  local buffer = vim.api.nvim_get_current_buf()
  local text = table.concat(lines(buffer), "\n")
  for _, part in ipairs({
    "↻ p1:task-0001",
    "attempt 1 of 3: no evidence",
    "12.3k  reused  1 finding  found it",
    "1 of 3 tasks accepted, 1 running",
    "reading 40",
  }) do
    t.contains(text, part)
  end
  vim.api.nvim_win_set_cursor(0, { buffers.line_of("told", "p1:task-0003"), 0 })
  vim.api.nvim_feedkeys("K", "xt", false)
  t.same(vim.api.nvim_win_get_config(0).relative, "editor")
  local shown = table.concat(lines(0), "\n")
  t.contains(shown, "What its agent is doing:\n   reading 11\n")
  t.contains(shown, "reading 40")
  vim.api.nvim_feedkeys("q", "xt", false)
  apply(run, "taskDispatched", {
    taskId = "p1:task-0001",
    workerId = "w",
    phase = "p1",
    agent = "tester",
    attempt = 2,
  })
  redraw(run, buffer)
  t.contains(table.concat(lines(buffer), "\n"), "attempt 2  after: no evidence")
  t.same(vim.api.nvim_get_current_buf(), buffer)
end)

t.test("a server that dies puts what ran back; what an agent writes cannot break a line", function()
  local run = new_run("odd", 1, 2)
  dispatch(run, "p1:task-0001")
  state.apply(run, {
    runId = "odd",
    seq = 1,
    type = "agentActivity",
    taskId = "p1:task-0001",
    text = "a\0b\r\nc\tü 漢字 \27[31mred",
  }, true)
  buffers.open(run, "enew", true)
  local buffer = vim.api.nvim_get_current_buf()
  t.contains(lines(buffer)[6], "a b c ü 漢字 [31mred")
  state.interrupt(run, 0)
  redraw(run, buffer)
  t.contains(lines(buffer)[1], "✗ interrupted")
  t.contains(lines(buffer)[7], "○ p1:task-0001")
  t.same(state.is_active(run), false)
end)

t.test("every highlight group of the view is linked, and a colour scheme does not clear it", function()
  local run = new_run("colours", 1, 1)
  accept(run, "p1:task-0001")
  buffers.open(run, "enew", true)
  vim.cmd.colorscheme("habamax")
  local groups = {}
  for _, mark in
    ipairs(vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_create_namespace("flowdrive.run"), 0, -1, { details = true }))
  do
    groups[mark[4].hl_group] = true
  end
  t.same(vim.tbl_count(groups) >= 8, true, vim.inspect(groups))
  local help = table.concat(vim.fn.readfile(plugin .. "/doc/flowdrive.txt"), "\n")
  for group in pairs(groups) do
    t.same(vim.api.nvim_get_hl(0, { name = group }).link ~= nil, true, group)
    t.contains(help, "`" .. group .. "`", "the help")
  end
end)

t.test("g? shows every key, and the help names every key", function()
  local run = new_run("keys", 1, 1)
  buffers.open(run, "enew", true)
  local buffer = vim.api.nvim_get_current_buf()
  vim.api.nvim_feedkeys("g?", "xt", false)
  local shown = table.concat(lines(0), "\n")
  local help = table.concat(vim.fn.readfile(plugin .. "/doc/flowdrive.txt"), "\n")
  local maps = {}
  for _, map in ipairs(vim.api.nvim_buf_get_keymap(buffer, "n")) do
    maps[#maps + 1] = map.lhs
    t.contains(shown, " " .. map.lhs .. " ", "g?")
    t.contains(help, "\n    " .. map.lhs .. " ", "the help")
  end
  t.same(#maps, #require("flowdrive.run_keys").list() + 1)
  vim.api.nvim_feedkeys("g?", "xt", false)
  t.same(vim.api.nvim_get_current_buf(), buffer, "closed again")
end)

t.test("a view that was wiped is made anew", function()
  local run = new_run("wiped", 1, 1)
  local buffer = buffers.buffer(run)
  vim.cmd.bwipeout(buffer)
  buffers.refresh(run)
  t.same(vim.api.nvim_buf_is_valid(buffers.buffer(run)), true)
end)

t.finish()
