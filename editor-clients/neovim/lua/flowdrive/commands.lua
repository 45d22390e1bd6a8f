--- `:Flowdrive` itself: which subcommand is meant, and running it as a task. Must not: know what a subcommand does.
local arguments = require("flowdrive.arguments")
local client_of = require("flowdrive.client")
local subcommands = require("flowdrive.subcommands")
local task = require("flowdrive.task")
local ui = require("flowdrive.ui")

local M = {}

--- The names of the subcommands, sorted.
---@return string[]
function M.names()
  local sorted = vim.tbl_keys(subcommands)
  table.sort(sorted)
  return sorted
end

---@param problem any
local function failed(problem)
  ui.notify(type(problem) == "string" and problem or tostring(problem), vim.log.levels.ERROR)
end

---@class flowdrive.Call
---@field words string[] arguments after the subcommand
---@field bang boolean
---@field mods? string command modifiers, such as `vertical`
---@field root? string the workspace; default: that of the current file
---@field beside? boolean whether what is opened must leave the current window alone

--- Runs a subcommand.
---@param name string
---@param call flowdrive.Call
function M.start(name, call)
  task.start(function()
    local subcommand = subcommands[name]
    if not subcommand then
      error(("no subcommand %q. There are: %s"):format(name, table.concat(M.names(), ", ")), 0)
    end
    if call.bang and not subcommand.bang then
      error(("%s takes no !"):format(name), 0)
    end
    ---@type flowdrive.Context
    local context = {
      words = call.words,
      bang = call.bang,
      mods = call.mods or "",
      beside = call.beside or false,
      root = call.root or client_of.root(),
    }
    if not subcommand.offline then
      context.client = client_of.get(context.root)
    end
    subcommand.run(context)
  end, failed)
end

--- Runs `:Flowdrive`.
---@param args table what |nvim_create_user_command()| hands over
function M.run(args)
  local words = arguments.split(args.args)
  local name = table.remove(words, 1)
  local call = { words = words, bang = args.bang, mods = args.mods }
  if name then
    return M.start(name, call)
  end
  task.start(function()
    local choice = ui.select(M.names(), "Flowdrive", function(candidate)
      return ("%-9s %s"):format(candidate, subcommands[candidate].about)
    end)
    M.start(choice, call)
  end, failed)
end

--- Carries a run on.
---@param run_id string
---@param root string
function M.resume(run_id, root)
  M.start("resume", { words = { run_id }, bang = false, root = root })
end

--- Closes a feedback record as a code action says; asks for the guidance or the note.
---@param about { workspace: string, runId: string, feedbackId: string, resolution: string }
function M.resolve(about)
  M.start(
    "resolve",
    { words = { about.runId, about.feedbackId, about.resolution }, bang = false, root = about.workspace }
  )
end

--- Shows the report that a code action names.
---@param path string `<workspace>/.cw/runs/<run>/report.md`
function M.open_report_file(path)
  task.start(function()
    local folder = vim.fs.dirname(path)
    ui.open_report(vim.fs.basename(folder), path, vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(folder))), {})
  end, failed)
end

return M
