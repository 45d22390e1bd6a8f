--- Follows a run that another process drives (a command line, another editor), as long as its view is seen: the server
--- tells of its own drives only. Must not: start a server that is not running.
local client_of = require("flowdrive.client")
local runs = require("flowdrive.runs")
local task = require("flowdrive.task")

local M = {}

local PAUSE_MS = 1000

---@type table<string, boolean> runs that are followed, by id
local followed = {}

---@param run flowdrive.Run
local function step(run)
  local client = client_of.running(run.root)
  local visible = require("flowdrive.run_buffer").is_visible(run.id)
  if not client or not visible or run.driven_here or run.status ~= "running" then
    followed[run.id] = nil
    return
  end
  task.start(function()
    runs.catch_up(run, client)
    runs.fetch(client, run.root, run.id)
    vim.defer_fn(function()
      step(run)
    end, PAUSE_MS)
  end, function()
    followed[run.id] = nil
  end)
end

--- Follows the run, if another process drives it and nobody follows it yet.
---@param run flowdrive.Run
function M.start(run)
  if followed[run.id] or run.driven_here or run.status ~= "running" then
    return
  end
  followed[run.id] = true
  step(run)
end

return M
