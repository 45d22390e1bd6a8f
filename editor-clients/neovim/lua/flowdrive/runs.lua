--- The runs this editor knows of: feeds the server's events into `flowdrive.state`, fetches what was missed, and tells the
--- run buffer, the status line and `User` autocommands. Must not: decide what a run's state is, or draw it.
local client_of = require("flowdrive.client")
local compat = require("flowdrive.compat")
local events = require("flowdrive.events")
local state = require("flowdrive.state")
local task = require("flowdrive.task")

local M = {}

local STATUS_MS = 100
--- Tasks asked for at a time.
local PAGE = 1000

---@type table<string, flowdrive.Run> by id
local runs = {}
---@type table<string, integer> run id to the client that reports it
local reporters = {}
---@type table<string, boolean> runs whose missed events are being fetched
local catching_up = {}
---@type { workflow?: string, run_id?: string, started: fun(run: flowdrive.Run) }[]
local expected = {}
local status_due = false

--- Has the run drawn again, soon. Calls that come close together share one redraw.
---@param run flowdrive.Run
function M.changed(run)
  local buffer = package.loaded["flowdrive.run_buffer"]
  if buffer then
    buffer.refresh(run)
  end
  if not status_due then
    status_due = true
    vim.defer_fn(function()
      status_due = false
      vim.cmd.redrawstatus({ bang = true })
    end, STATUS_MS)
  end
end

---@param id string
---@param root string
---@return flowdrive.Run
function M.ensure(id, root)
  runs[id] = runs[id] or state.new(id, root)
  return runs[id]
end

---@param id string
---@return flowdrive.Run?
function M.get(id)
  return runs[id]
end

--- The runs that are driven now, by id.
---@param root? string
---@return flowdrive.Run[]
function M.active(root)
  local found = {}
  for _, run in pairs(runs) do
    if run.driven_here and (not root or run.root == root) then
      found[#found + 1] = run
    end
  end
  table.sort(found, function(a, b)
    return a.id < b.id
  end)
  return found
end

--- Asks the server for a run with all its tasks and its open feedback, and takes that over. Only inside a task.
---@param client vim.lsp.Client
---@param root string
---@param id string
---@return flowdrive.protocol.RunView view
---@return flowdrive.Run run
function M.fetch(client, root, id)
  local function ask(method, params)
    params.workspace, params.runId = root, id
    return client_of.request(client, method, params)
  end
  local view = ask("showRun", { taskLimit = PAGE })
  while #view.tasks < view.totalTasks do
    local more = ask("showRun", { taskLimit = PAGE, taskOffset = #view.tasks }).tasks
    if #more == 0 then
      break
    end
    vim.list_extend(view.tasks, more)
  end
  local open = {}
  if view.summary.openFeedback > 0 then
    open = ask("listFeedback", { status = "open" }).feedback
  end
  if client_of.is_stopped(client) then
    error("the server ended", 0) -- what it said before is no longer so
  end
  local run = M.ensure(id, root)
  -- Events may have overtaken the answer; then they know better.
  local newer = view.lastSeq >= run.last_seq
  state.seed(run, view)
  if newer then
    run.feedback = {}
    for _, record in ipairs(open) do
      run.feedback[record.id] = { id = record.id, task = record.taskId, message = state.one_line(record.message) }
    end
  end
  M.changed(run)
  return view, run
end

--- Has `started` called with the run that a `drive` just asked for, once its first event arrives. Returns a function that
--- gives the expectation up.
---@param what { workflow?: string, run_id?: string }
---@param started fun(run: flowdrive.Run)
---@return fun() forget
function M.expect(what, started)
  local entry = { workflow = what.workflow, run_id = what.run_id, started = started }
  expected[#expected + 1] = entry
  return function()
    for index, other in ipairs(expected) do
      if other == entry then
        table.remove(expected, index)
        return
      end
    end
  end
end

---@param run flowdrive.Run
---@param event table
local function meet_expectation(run, event)
  for index, entry in ipairs(expected) do
    local fits
    if entry.run_id then
      fits = entry.run_id == run.id
    else
      fits = not event.resumed and (not entry.workflow or entry.workflow == event.workflowId)
    end
    if fits then
      table.remove(expected, index)
      entry.started(run)
      return
    end
  end
end

--- Applies an event and tells of it.
---@param run flowdrive.Run
---@param event table
---@param live boolean
---@return "applied"|"ignored"|"gap"
local function take(run, event, live)
  local outcome = state.apply(run, event, live)
  if outcome == "applied" then
    events.emit(run, event)
  end
  return outcome
end

--- Fetches the events that were missed, oldest first, until none is left. Only inside a task.
---@param run flowdrive.Run
---@param client vim.lsp.Client
---@param live? boolean whether this client drives the run
---@return integer missed how many there were
function M.catch_up(run, client, live)
  local missed = 0
  if catching_up[run.id] then
    return missed
  end
  catching_up[run.id] = true
  while true do
    local before = run.last_seq
    local params = { workspace = run.root, runId = run.id, sinceSeq = before, taskLimit = 0 }
    local problem, view = client_of.try_request(client, "showRun", params)
    if problem then
      catching_up[run.id] = nil
      error(problem, 0)
    end
    for _, event in ipairs(view.events or {}) do
      if take(run, event, live or false) == "applied" then
        missed = missed + 1
      end
    end
    if not view.moreEvents or run.last_seq <= before then
      break
    end
  end
  catching_up[run.id] = nil
  M.changed(run)
  return missed
end

--- A failure to fetch something in the background: the next event tries again.
local function quietly() end

--- Takes in one `flowdrive/progress` notification.
---@param event table
---@param client_id integer
function M.on_event(event, client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  if not client or type(event.runId) ~= "string" or type(event.seq) ~= "number" then
    return
  end
  local run = M.ensure(event.runId, compat.root_of(client) or vim.fn.getcwd())
  reporters[run.id] = client_id
  local outcome = take(run, event, true)
  if outcome == "gap" then
    task.start(function()
      M.catch_up(run, client, true)
    end, quietly)
    return
  end
  if event.type == "runStarted" and outcome == "applied" then
    task.start(function()
      M.fetch(client, run.root, run.id)
    end, quietly)
    meet_expectation(run, event)
  end
  M.changed(run)
end

--- Forgets a server that ended. What it drove is interrupted.
---@param client_id integer
---@return flowdrive.Run[] interrupted
function M.forget_reporter(client_id)
  local interrupted = {}
  local seconds = vim.uv.gettimeofday()
  for id, reporter in pairs(reporters) do
    if reporter == client_id then
      reporters[id] = nil
      local run = runs[id]
      if run.driven_here then
        state.interrupt(run, seconds * 1000)
        M.changed(run)
        interrupted[#interrupted + 1] = run
      end
    end
  end
  table.sort(interrupted, function(a, b)
    return a.id < b.id
  end)
  return interrupted
end

--- The text for a status line.
---@return string
function M.status()
  local parts = {}
  for _, run in ipairs(M.active()) do
    local part = ("%d/%d"):format(run.completed, run.planned)
    if run.phase then
      part = part .. " " .. run.phase
    end
    if run.parked > 0 then
      part = part .. (" (%d parked)"):format(run.parked)
    end
    if run.status == "stopping" then
      part = part .. " stopping"
    end
    parts[#parts + 1] = part
  end
  return #parts > 0 and ("flowdrive " .. table.concat(parts, ", ")) or ""
end

return M
