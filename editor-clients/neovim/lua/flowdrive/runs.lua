--- The runs this editor knows of: feeds the server's events into `flowdrive.state`, fetches what was missed, and tells the
--- run buffer and the status line. Must not: decide what a run's state is, or draw it.
local client_of = require("flowdrive.client")
local state = require("flowdrive.state")

local M = {}

---@type table<string, flowdrive.Run> by id
local runs = {}
---@type table<string, integer> run id to the client that reports it
local reporters = {}
---@type table<string, boolean> runs whose missed events are being fetched
local catching_up = {}
---@type { workflow?: string, run_id?: string, started: fun(run: flowdrive.Run) }[]
local expected = {}

---@param run flowdrive.Run
local function changed(run)
  local buffer = package.loaded["flowdrive.run_buffer"]
  if buffer then
    buffer.refresh(run)
  end
  vim.cmd.redrawstatus({ bang = true })
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

--- Takes over the answer to `showRun`.
---@param view table
---@param root string
---@return flowdrive.Run
function M.seed(view, root)
  local run = M.ensure(view.summary.runId, root)
  state.seed(run, view)
  changed(run)
  return run
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

--- Fetches the events that were missed, oldest first, until none is left.
---@param run flowdrive.Run
---@param client vim.lsp.Client
local function catch_up(run, client)
  if catching_up[run.id] then
    return
  end
  catching_up[run.id] = true
  local params = { workspace = run.root, runId = run.id, sinceSeq = run.last_seq }
  client_of.send(client, "showRun", params, function(problem, view)
    catching_up[run.id] = nil
    if problem or not view then
      return
    end
    local before = run.last_seq
    for _, event in ipairs(view.events or {}) do
      state.apply(run, event)
    end
    changed(run)
    if view.moreEvents and run.last_seq > before then
      catch_up(run, client)
    end
  end)
end

--- Takes in one `flowdrive/progress` notification.
---@param event table
---@param client_id integer
function M.on_event(event, client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  if not client or type(event.runId) ~= "string" or type(event.seq) ~= "number" then
    return
  end
  local run = M.ensure(event.runId, client.root_dir or client.config.root_dir or vim.fn.getcwd())
  reporters[run.id] = client_id
  if state.apply(run, event) == "gap" then
    catch_up(run, client)
    return
  end
  if event.type == "runStarted" then
    client_of.send(client, "showRun", { workspace = run.root, runId = run.id }, function(problem, view)
      if not problem and view then
        M.seed(view, run.root)
      end
    end)
    meet_expectation(run, event)
  end
  changed(run)
end

--- What was driven by a server that ended is interrupted: said once, with the way to carry on.
---@param client_id integer
---@param how string
function M.on_server_exit(client_id, how)
  for id, reporter in pairs(reporters) do
    if reporter == client_id then
      reporters[id] = nil
      local run = runs[id]
      if run.driven_here then
        run.status, run.driven_here = "interrupted", false
        changed(run)
        if vim.v.exiting == vim.NIL then
          vim.notify(
            ("flowdrive: the server ended (%s) while it drove %s. `:Flowdrive resume %s` carries it on."):format(
              how,
              id,
              id
            ),
            vim.log.levels.ERROR
          )
        end
      end
    end
  end
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
