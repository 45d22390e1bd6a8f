--- Choosing a workflow, its inputs or a run: named on the command line, else the only one that fits, else asked for.
--- Must not: change anything on the server.
local arguments = require("flowdrive.arguments")
local client_of = require("flowdrive.client")
local format = require("flowdrive.format")
local ui = require("flowdrive.ui")

local M = {}

---@class flowdrive.Context
---@field root string
---@field client vim.lsp.Client
---@field words string[] arguments after the subcommand
---@field bang boolean
---@field mods string command modifiers, such as `vertical`
---@field beside boolean whether what is opened must leave the current window alone

--- Sends a request about the workspace. Only inside a task.
---@param context flowdrive.Context
---@param method string
---@param params table
---@return any
function M.request(context, method, params)
  params.workspace = context.root
  return client_of.request(context.client, method, params)
end

---@class flowdrive.Workflow
---@field ref flowdrive.protocol.WorkflowRef
---@field inputs? table<string, flowdrive.protocol.InputSpec> nil where they are not known

--- The workflow that the words begin with, else one that is chosen.
---@param context flowdrive.Context
---@param words string[]
---@return flowdrive.Workflow
---@return string[] rest
function M.workflow(context, words)
  local known = M.request(context, "listWorkflows", {}).workflows
  local wanted = words[1]
  if wanted and not wanted:find("=") then
    local rest = vim.list_slice(words, 2)
    for _, workflow in ipairs(known) do
      if workflow.id == wanted then
        return { ref = { id = wanted }, inputs = workflow.inputs }, rest
      end
    end
    if wanted:find("%.toml$") or wanted:find("%.json$") then
      local path = vim.fn.fnamemodify(wanted, ":p")
      for _, workflow in ipairs(known) do
        if workflow.source ~= "bundled" and vim.uv.fs_realpath(workflow.source) == vim.uv.fs_realpath(path) then
          return { ref = { path = path }, inputs = workflow.inputs }, rest
        end
      end
      return { ref = { path = path } }, rest
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
    return ("%s - %s (%d tasks)"):format(workflow.id, workflow.title, workflow.tasks)
  end)
  return { ref = { id = choice.id }, inputs = choice.inputs }, words
end

--- Asks for one value until it is of the right type. An empty answer to an optional input, or to a further value of a
--- repeated one, is nil.
---@param name string
---@param spec flowdrive.protocol.InputSpec
---@param optional boolean
---@return any
local function ask_value(name, spec, optional)
  local about = (spec.description and spec.description ~= "") and (" - " .. spec.description) or ""
  local label = ("%s (%s%s)%s: "):format(name, spec.type, optional and ", empty for none" or "", about)
  local default = spec.default
  if type(default) == "table" then
    default = nil
  end
  if spec.type == "boolean" then
    local choices = optional and { "true", "false", "none" } or { "true", "false" }
    local choice = ui.select(choices, label, tostring)
    if choice == "none" then
      return nil
    end
    return choice == "true"
  end
  while true do
    local text = ui.input(label, {
      default = default ~= nil and default ~= vim.NIL and tostring(default) or nil,
      completion = spec.type == "path" and "file" or nil,
    })
    if text == "" then
      if optional then
        return nil
      end
      ui.notify(name .. " is required; <Esc> gives up", vim.log.levels.WARN)
    else
      local value, problem = arguments.parse_value(text, spec.type)
      if not problem then
        return value
      end
      ui.notify(problem, vim.log.levels.WARN)
      default = text
    end
  end
end

--- Asks for those inputs that were not given: all that are required, and the others when nothing was given at all.
--- Only inside a task.
---@param specs table<string, flowdrive.protocol.InputSpec>
---@param given table<string, any>
---@return table<string, any>
function M.inputs(specs, given)
  local inputs = vim.deepcopy(given)
  local ask_all = next(given) == nil
  local names = vim.tbl_keys(specs)
  table.sort(names, function(a, b)
    if (specs[a].required or false) ~= (specs[b].required or false) then
      return specs[a].required or false
    end
    return a < b
  end)
  for _, name in ipairs(names) do
    local spec = specs[name]
    if inputs[name] == nil and (spec.required or ask_all) then
      if spec.repeated then
        local values = {}
        repeat
          local value = ask_value(name, spec, #values > 0 or not spec.required)
          values[#values + 1] = value
        until value == nil
        inputs[name] = #values > 0 and values or nil
      else
        inputs[name] = ask_value(name, spec, not spec.required)
      end
    end
  end
  return inputs
end

--- Which runs a subcommand is for.
---@type table<string, fun(summary: flowdrive.protocol.RunSummary): boolean>
M.fits = {
  any = function()
    return true
  end,
  resumable = function(summary)
    return summary.status ~= "complete" and not summary.driving
  end,
  driving = function(summary)
    return summary.driving
  end,
  waiting = function(summary)
    return summary.openFeedback > 0
  end,
}

---@param summary flowdrive.protocol.RunSummary
---@return string
function M.run_label(summary)
  local open = summary.openFeedback > 0 and (", %d waiting for you"):format(summary.openFeedback) or ""
  local now = summary.driving and ", driven now" or ""
  local asked = summary.inputs and summary.inputs.question
  return ("%s  %s %d/%d%s%s  %s"):format(
    summary.runId,
    summary.status,
    summary.completedWorkers,
    summary.plannedWorkers,
    open,
    now,
    type(asked) == "string" and asked ~= "" and format.shorten(format.one_line(asked), 80) or summary.title
  )
end

--- The run that is named, else the only one that fits, else one the user chooses.
---@param context flowdrive.Context
---@param named? string
---@param about { prompt: string, fits?: (fun(summary: flowdrive.protocol.RunSummary): boolean), none: string }
---@return string
function M.run(context, named, about)
  if named then
    return named
  end
  local fits = about.fits or M.fits.any
  local found = vim.tbl_filter(fits, M.request(context, "listRuns", {}).runs)
  if #found == 0 then
    error(about.none, 0)
  elseif #found == 1 then
    return found[1].runId
  end
  return ui.select(found, about.prompt, M.run_label).runId
end

--- Whether the workspace has a run of this name.
---@param context flowdrive.Context
---@param name string
---@return boolean
function M.is_run(context, name)
  return vim.iter(M.request(context, "listRuns", {}).runs):any(function(summary)
    return summary.runId == name
  end)
end

return M
