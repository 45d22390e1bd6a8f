--- `drive`, `preview` and `resume`: choosing a workflow and its inputs, the look before the start, and how it ended.
--- Must not: keep state; that is in `flowdrive.runs`.
local arguments = require("flowdrive.arguments")
local choose = require("flowdrive.choose")
local client_of = require("flowdrive.client")
local format = require("flowdrive.format")
local preview_of = require("flowdrive.preview")
local runs = require("flowdrive.runs")
local task = require("flowdrive.task")
local ui = require("flowdrive.ui")

local M = {}

local next_token = 0

--- The workflow, its inputs and the options, asked for where they were not given.
---@param context flowdrive.Context
---@param method "drive"|"preview"
---@return table params
local function selection(context, method)
  local words, params = arguments.take_options(context.words, method)
  local workflow
  workflow, words = choose.workflow(context, words)
  params.workflow = workflow.ref
  local given = arguments.inputs(words, workflow.inputs)
  params.inputs = workflow.inputs and choose.inputs(workflow.inputs, given) or given
  if next(params.inputs) == nil then
    params.inputs = nil -- an empty Lua table would be sent as a list
  end
  return params
end

--- Shows what a drive would do and asks whether it is to start.
---@param context flowdrive.Context
---@param params table
---@param name string of the workflow, or the run
local function confirm(context, params, name)
  local ask = { workflow = params.workflow, runId = params.runId, inputs = params.inputs }
  ask.agent, ask.concurrency, ask.incremental = params.agent, params.concurrency, params.incremental
  local preview = choose.request(context, "preview", ask)
  local question = preview_of.question(preview, name)
  local close = ui.show_beside("flowdrive://preview/" .. name, preview_of.lines(preview), "markdown")
  -- However the question ends, what was shown for it goes.
  local ok, choice = pcall(ui.select, { "Start", "Cancel" }, question, tostring)
  close()
  if not ok then
    error(choice, 0)
  elseif choice ~= "Start" then
    error(task.cancelled)
  end
end

--- How a drive ended, in one line: a longer message would have to be confirmed with a key. What comes next is left out
--- where there is no room for it.
---@param result flowdrive.protocol.DriveResult
---@return string text
---@return integer level
local function outcome(result)
  local how = result.stopped and "stopped" or result.status
  local text = ("%s %s, %d of %d"):format(result.workflowId, how, result.completedWorkers, result.plannedWorkers)
  local next_step = ""
  if result.stopped then
    next_step = ". :Flowdrive resume"
  elseif result.status == "parked" then
    next_step = ". :Flowdrive resolve"
  elseif result.status == "complete" then
    next_step = ". :Flowdrive report"
  elseif result.reason then
    next_step = ". " .. format.one_line(result.reason)
  end
  if #"flowdrive: " + #text + #next_step <= vim.v.echospace or result.status == "blocked" then
    text = text .. next_step
  end
  return text, result.status == "complete" and vim.log.levels.INFO or vim.log.levels.WARN
end

--- Sends `drive` or `resume`, shows the run live, and says how it ended.
---@param context flowdrive.Context
---@param method "drive"|"resume"
---@param params table
---@param expected { workflow?: string, run_id?: string }
local function drive(context, method, params, expected)
  local options = require("flowdrive").options()
  next_token = next_token + 1
  params.workDoneToken = ("flowdrive-%d-%d"):format(vim.uv.os_getpid(), next_token)
  local started
  local forget = runs.expect(expected, function(run)
    started = run
    if options.run_buffer.open then
      require("flowdrive.run_buffer").open(run, options.run_buffer.command, options.run_buffer.focus)
    end
  end)
  params.workspace = context.root
  local problem, result = client_of.try_request(context.client, method, params)
  forget()
  if problem then
    if started and started.status == "interrupted" then
      error(task.cancelled) -- the server died; `flowdrive.reattach` says so, and what follows
    end
    error(problem, 0)
  end
  local view = runs.fetch(context.client, context.root, result.runId)
  if options.quickfix then
    local items = ui.quickfix_items(view.tasks, context.root)
    if #items > 0 then
      ui.set_quickfix(result.runId, items)
    end
  end
  ui.notify(outcome(result))
end

M.drive = {
  about = "run a workflow; ! without the preview first",
  bang = true,
  complete = { "workflow", "input" },
  run = function(context)
    local params = selection(context, "drive")
    local id = params.workflow.id
    if require("flowdrive").options().confirm and not context.bang then
      confirm(context, params, id or vim.fs.basename(params.workflow.path))
    end
    drive(context, "drive", params, { workflow = id })
  end,
}

M.preview = {
  about = "show what a drive would do; starts nothing",
  complete = { "workflow-or-run", "input" },
  run = function(context)
    local words, params = arguments.take_options(context.words, "preview")
    if words[1] and choose.is_run(context, words[1]) then
      params.runId = words[1]
    else
      params = selection(context, "preview")
    end
    local preview = choose.request(context, "preview", params)
    local name = preview.runId or preview.workflowId
    ui.scratch("flowdrive://preview/" .. name, preview_of.lines(preview), "markdown", context)
  end,
}

M.resume = {
  about = "carry a run on",
  complete = { "resumable", "option" },
  run = function(context)
    local words, params = arguments.take_options(context.words, "resume")
    params.runId = choose.run(context, words[1], {
      prompt = "Resume which run?",
      fits = choose.fits.resumable,
      none = "no run can be carried on here; `:Flowdrive runs` lists them",
    })
    drive(context, "resume", params, { run_id = params.runId })
  end,
}

return M
