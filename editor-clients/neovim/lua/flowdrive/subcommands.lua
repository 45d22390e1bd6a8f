--- The subcommands of `:Flowdrive`. Each is a task: it asks for what was not given, sends a request and shows the answer.
--- Must not: keep state; that is in `flowdrive.runs`.
local client_of = require("flowdrive.client")
local runs = require("flowdrive.runs")
local state = require("flowdrive.state")
local task = require("flowdrive.task")
local ui = require("flowdrive.ui")

---@class flowdrive.Context
---@field root string
---@field client vim.lsp.Client
---@field words string[] arguments after the subcommand
---@field bang boolean

---@class flowdrive.Subcommand
---@field about string
---@field complete? "workflow"|"run"|"workflow-or-run" what its first argument names
---@field offline? boolean whether it runs without a server
---@field run fun(context: flowdrive.Context)

---@type table<string, flowdrive.Subcommand>
local M = {}

local next_token = 0

---@param context flowdrive.Context
---@param method string
---@param params table
---@return any
local function request(context, method, params)
  params.workspace = context.root
  return client_of.request(context.client, method, params)
end

---@param context flowdrive.Context
---@return table
local function choose_workflow(context)
  local known = request(context, "listWorkflows", {}).workflows
  local wanted = context.words[1]
  if wanted and not wanted:find("=") then
    table.remove(context.words, 1)
    for _, workflow in ipairs(known) do
      if workflow.id == wanted then
        return { ref = { id = wanted }, id = wanted, inputs = workflow.inputs }
      end
    end
    if wanted:find("%.toml$") or wanted:find("%.json$") then
      return { ref = { path = vim.fn.fnamemodify(wanted, ":p") }, inputs = {} }
    end
    local ids = vim.tbl_map(function(workflow)
      return workflow.id
    end, known)
    error(("no workflow %q. There are: %s; or name a .toml or .json file"):format(wanted, table.concat(ids, ", ")), 0)
  end
  if #known == 0 then
    error("there is no workflow here. Put one into .cw/workflows/, or name a .toml or .json file", 0)
  end
  local choice = ui.select(known, "Workflow", function(workflow)
    return ("%s - %s"):format(workflow.id, workflow.title)
  end)
  return { ref = { id = choice.id }, id = choice.id, inputs = choice.inputs }
end

--- Reads `name=value` words into values of their inputs' types.
---@param words string[]
---@param specs table<string, table>
---@return table<string, any>
local function given_inputs(words, specs)
  local inputs = {}
  for _, word in ipairs(words) do
    local name, text = word:match("^([%a][%w_-]*)=(.*)$")
    if not name then
      error(('%q is not name=value. Quote a value that has spaces: question="where is it?"'):format(word), 0)
    end
    local spec = specs[name] or { type = "string" }
    local value, problem = ui.parse_value(text, spec.type)
    if problem then
      error(("input %s: %s"):format(name, problem), 0)
    end
    if spec.repeated then
      inputs[name] = inputs[name] or {}
      table.insert(inputs[name], value)
    else
      inputs[name] = value
    end
  end
  return inputs
end

---@param summary table the protocol's RunSummary
---@return string
local function run_label(summary)
  local open = summary.openFeedback > 0 and (", %d waiting for you"):format(summary.openFeedback) or ""
  local now = summary.driving and ", driven now" or ""
  return ("%s  %s %d/%d%s%s  %s"):format(
    summary.runId,
    summary.status,
    summary.completedWorkers,
    summary.plannedWorkers,
    open,
    now,
    summary.title
  )
end

--- The run named on the command line, else the only one that fits, else one the user chooses.
---@param context flowdrive.Context
---@param prompt string
---@param fits? fun(summary: table): boolean
---@param none string what to say when none fits
---@return string
local function choose_run(context, prompt, fits, none)
  if context.words[1] then
    return context.words[1]
  end
  local found = {}
  for _, summary in ipairs(request(context, "listRuns", {}).runs) do
    if not fits or fits(summary) then
      found[#found + 1] = summary
    end
  end
  if #found == 0 then
    error(none, 0)
  elseif #found == 1 and fits then
    return found[1].runId
  end
  return ui.select(found, prompt, run_label).runId
end

---@param params table
---@return table
local function inputs_or_none(params)
  if next(params.inputs) == nil then
    params.inputs = nil -- an empty Lua table would be sent as a list
  end
  return params
end

---@param run_id string
---@param context flowdrive.Context
---@return table view
local function fetch_run(run_id, context)
  local view = request(context, "showRun", { runId = run_id })
  local run = runs.seed(view, context.root)
  run.feedback = {}
  if view.summary.openFeedback > 0 then
    local open = request(context, "listFeedback", { runId = run_id, status = "open" }).feedback
    for _, record in ipairs(open) do
      run.feedback[record.id] = { id = record.id, task = record.taskId, message = state.one_line(record.message) }
    end
  end
  return view
end

--- Fetches every task of a run, a page at a time.
---@param run_id string
---@param context flowdrive.Context
---@return table[] tasks
local function fetch_tasks(run_id, context)
  local tasks = {}
  while true do
    local view = request(context, "showRun", { runId = run_id, taskOffset = #tasks })
    vim.list_extend(tasks, view.tasks)
    if #view.tasks == 0 or #tasks >= view.totalTasks then
      return tasks
    end
  end
end

---@param result table the protocol's DriveResult
---@return string text
---@return integer level
local function outcome(result)
  local text = ("%s is %s: %d of %d tasks accepted"):format(
    result.runId,
    result.status,
    result.completedWorkers,
    result.plannedWorkers
  )
  if result.stopped then
    text = text .. ", stopped. `:Flowdrive resume` carries it on."
  elseif result.status == "parked" then
    text = text .. (", %d parked. `:Flowdrive resolve` decides on them."):format(result.parkedWorkers)
  elseif result.status == "blocked" then
    text = text .. "."
  elseif result.status == "complete" then
    text = text .. ". `:Flowdrive report` shows the report."
  end
  if result.reason then
    text = text .. "\n" .. result.reason
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
  local forget = runs.expect(expected, function(run)
    if options.run_buffer.open then
      require("flowdrive.run_buffer").open(run, options.run_buffer.command)
    end
  end)
  params.workspace = context.root
  local problem, result = client_of.try_request(context.client, method, params)
  forget()
  if problem then
    error(problem, 0)
  end
  fetch_run(result.runId, context)
  if options.quickfix then
    local items = ui.quickfix_items(fetch_tasks(result.runId, context), context.root)
    if #items > 0 then
      ui.set_quickfix(result.runId, items)
    end
  end
  ui.notify(outcome(result))
end

M.drive = {
  about = "run a workflow",
  complete = "workflow",
  run = function(context)
    local workflow = choose_workflow(context)
    local inputs = ui.ask_inputs(workflow.inputs, given_inputs(context.words, workflow.inputs))
    drive(context, "drive", inputs_or_none({ workflow = workflow.ref, inputs = inputs }), { workflow = workflow.id })
  end,
}

M.preview = {
  about = "show what a drive would do; starts nothing",
  complete = "workflow-or-run",
  run = function(context)
    local first, params = context.words[1], nil
    local named = first
      and not first:find("=")
      and vim.iter(request(context, "listRuns", {}).runs):any(function(summary)
        return summary.runId == first
      end)
    if named then
      params = { runId = first }
    else
      local workflow = choose_workflow(context)
      local inputs = ui.ask_inputs(workflow.inputs, given_inputs(context.words, workflow.inputs))
      params = inputs_or_none({ workflow = workflow.ref, inputs = inputs })
    end
    local preview = request(context, "preview", params)
    ui.scratch("flowdrive://preview/" .. (preview.runId or preview.workflowId), ui.preview_lines(preview), "markdown")
  end,
}

M.resume = {
  about = "carry a run on",
  complete = "run",
  run = function(context)
    local id = choose_run(context, "Resume which run?", function(summary)
      return summary.status ~= "complete" and not summary.driving
    end, "no run can be carried on here; `:Flowdrive runs` lists them")
    drive(context, "resume", { runId = id }, { run_id = id })
  end,
}

M.stop = {
  about = "stop a drive after what is in flight; with ! at once",
  complete = "run",
  run = function(context)
    local id = choose_run(context, "Stop which run?", function(summary)
      return summary.driving
    end, "nothing is being driven here")
    local mode = context.bang and "now" or "graceful"
    local answer = request(context, "stop", { runId = id, mode = mode })
    if not answer.driving then
      ui.notify(id .. " is not being driven")
    elseif mode == "now" then
      ui.notify(("stopping %s at once"):format(id))
    else
      ui.notify(("stopping %s after what is in flight. `:Flowdrive! stop %s` stops it at once."):format(id, id))
    end
  end,
}

local resolutions = {
  { id = "retry", label = "retry - open the task again, with guidance" },
  { id = "rejected", label = "rejected - close without a correction; the task stays parked" },
  { id = "resolved", label = "resolved - settled by a verified node" },
}

--- Asks for what is not given of a resolution, and closes the record.
---@param context flowdrive.Context
---@param run_id string
---@param feedback_id string
---@param resolution? string
local function resolve(context, run_id, feedback_id, resolution)
  resolution = resolution or ui.select(resolutions, "Resolution", function(choice)
    return choice.label
  end).id
  local params = { runId = run_id, feedbackId = feedback_id, resolution = resolution }
  if resolution == "resolved" then
    params.nodeId = ui.input("Verified node that settles it: ")
  end
  local note = ui.input(resolution == "retry" and "Guidance for the next attempt: " or "Note: ")
  if note ~= "" then
    params[resolution == "retry" and "guidance" or "message"] = note
  end
  local closed = request(context, "resolveFeedback", params)
  fetch_run(run_id, context)
  local more = resolution == "retry" and (" `:Flowdrive resume %s` tries the task again."):format(run_id) or ""
  ui.notify(("%s is %s.%s"):format(closed.id, closed.status, more))
end

M.resolve = {
  about = "decide on a task that was parked",
  complete = "run",
  run = function(context)
    local id = choose_run(context, "Resolve feedback of which run?", function(summary)
      return summary.openFeedback > 0
    end, "no feedback waits for you here")
    local open = request(context, "listFeedback", { runId = id, status = "open" }).feedback
    if #open == 0 then
      error(("no feedback of %s waits for you"):format(id), 0)
    end
    local record = ui.select(open, "Feedback", function(record)
      return ("[%s] %s: %s"):format(record.severity, record.taskId or record.id, state.one_line(record.message))
    end)
    resolve(context, id, record.id)
  end,
}

M.runs = {
  about = "list the runs, and open one",
  complete = "run",
  run = function(context)
    local id = choose_run(context, "Run", nil, "there is no run here; `:Flowdrive drive` starts one")
    fetch_run(id, context)
    local run = assert(runs.get(id), "seeded above")
    require("flowdrive.run_buffer").open(run, require("flowdrive").options().run_buffer.command)
  end,
}

M.report = {
  about = "open a run's report",
  complete = "run",
  run = function(context)
    local id = choose_run(context, "Report of which run?", nil, "there is no run here; `:Flowdrive drive` starts one")
    local view = fetch_run(id, context)
    ui.open_report(id, view.reportPath, context.root)
  end,
}

M.findings = {
  about = "put a run's findings into the quickfix list",
  complete = "run",
  run = function(context)
    local id = choose_run(context, "Findings of which run?", nil, "there is no run here; `:Flowdrive drive` starts one")
    local items = ui.quickfix_items(fetch_tasks(id, context), context.root)
    ui.set_quickfix(id, items)
    if #items > 0 then
      vim.cmd.copen()
    else
      ui.notify(id .. " has no findings")
    end
  end,
}

M.doctor = {
  about = "check the installation; the same as :checkhealth flowdrive",
  offline = true,
  run = function()
    vim.cmd.checkhealth("flowdrive")
  end,
}

return { commands = M, resolve = resolve }
