--- Completion of `:Flowdrive`, at every position. Must not: start a server, or wait for long: it runs at a key press.
local arguments = require("flowdrive.arguments")
local choose = require("flowdrive.choose")
local client_of = require("flowdrive.client")
local subcommands = require("flowdrive.subcommands")

local M = {}

--- How long a key press may wait.
local PATIENCE_MS = 500
--- How long the workflows that a short-lived program listed are good for.
local GOOD_FOR_MS = 10000

---@type table<string, { at: integer, workflows: table[] }> by workspace
local listed = {}

--- Asks a running server.
---@param method string
---@param params? table
---@return table?
local function ask_now(method, params)
  local root = client_of.root()
  local client = client_of.running(root)
  if not client or not client.initialized then
    return nil
  end
  local found
  local cancel = client_of.send(
    client,
    method,
    vim.tbl_extend("force", { workspace = root }, params or {}),
    function(_, answer)
      found = answer or {}
    end
  )
  if not vim.wait(PATIENCE_MS, function()
    return found ~= nil
  end, 5) then
    cancel()
  end
  return found
end

--- Where no server runs, the program itself lists the workflows, and ends.
---@return table[]
local function list_workflows()
  local root = client_of.root()
  local known = listed[root]
  if known and vim.uv.now() - known.at < GOOD_FOR_MS then
    return known.workflows
  end
  local path = client_of.executable()
  local cmd = client_of.command()
  local workflows = {}
  if path and cmd[2] == "serve" then
    local ok, outcome = pcall(function()
      return vim.system({ path, "workflows", "--workspace", root, "--json" }, { text = true, timeout = 2000 }):wait()
    end)
    local read, answer = pcall(vim.json.decode, ok and outcome.code == 0 and outcome.stdout or "")
    if read and type(answer) == "table" then
      workflows = answer.workflows or {}
    end
  end
  listed[root] = { at = vim.uv.now(), workflows = workflows }
  return workflows
end

---@return flowdrive.protocol.WorkflowSummary[]
local function workflows()
  local answer = ask_now("listWorkflows")
  return answer and answer.workflows or list_workflows()
end

--- The runs that fit; where no server runs, the names of the runs' folders.
---@param fits fun(summary: flowdrive.protocol.RunSummary): boolean
---@return string[]
local function run_ids(fits)
  local answer = ask_now("listRuns")
  if answer and answer.runs then
    return vim.tbl_map(function(summary)
      return summary.runId
    end, vim.tbl_filter(fits, answer.runs))
  end
  local found = {}
  local folder = vim.fs.joinpath(client_of.root(), ".cw", "runs")
  if vim.uv.fs_stat(folder) then
    for name, kind in vim.fs.dir(folder) do
      if kind == "directory" then
        found[#found + 1] = name
      end
    end
  end
  table.sort(found, function(a, b)
    return a > b
  end)
  return found
end

--- The agents: those that a running server knows, else those that the editor's configuration names and the one that is
--- built in.
---@return string[]
local function agents()
  local answer = ask_now("listAgents")
  if answer and answer.agents then
    return vim.tbl_map(function(agent)
      return agent.name
    end, answer.agents)
  end
  local options = require("flowdrive").options().init_options or {}
  local found = vim.tbl_keys(options.agents or {})
  table.sort(found)
  found[#found + 1] = "builtin:survey"
  return found
end

---@param subcommand string
---@param lead string
---@return string[]
local function options(subcommand, lead)
  local name = lead:match("^(%-%-[%a-]+)=")
  if name == "--agent" then
    return vim.tbl_map(function(agent)
      return "--agent=" .. agent
    end, agents())
  end
  return vim.tbl_map(function(option)
    return arguments.options[option].kind == "flag" and option or (option .. "=")
  end, arguments.option_names(subcommand))
end

---@param words string[] those before the one that is completed, without the subcommand
---@param lead string
---@return string[]
local function inputs(words, lead)
  local found = {}
  for _, workflow in ipairs(workflows()) do
    if workflow.id == words[1] then
      local name = lead:match("^([%w_-]+)=")
      local spec = name and workflow.inputs[name]
      if spec and spec.type == "boolean" then
        return { name .. "=true", name .. "=false" }
      elseif spec and spec.type == "path" then
        return vim.tbl_map(function(path)
          return name .. "=" .. path
        end, vim.fn.getcompletion(lead:sub(#name + 2), "file"))
      end
      for input, about in vim.spairs(workflow.inputs) do
        local given = vim.iter(words):any(function(word)
          return vim.startswith(word, input .. "=")
        end)
        if about.repeated or not given then
          found[#found + 1] = input .. "="
        end
      end
    end
  end
  return found
end

--- What may stand in a place, by what the subcommand says it names.
---@type table<string, fun(words: string[], lead: string, subcommand: string): string[]>
local kinds = {}

kinds["workflow"] = function(_, lead)
  local found = vim.tbl_map(function(workflow)
    return workflow.id
  end, workflows())
  local files = vim.tbl_filter(function(path)
    return path:find("/$") or path:find("%.toml$") or path:find("%.json$")
  end, vim.fn.getcompletion(lead, "file"))
  return vim.list_extend(found, files)
end
kinds["workflow-or-run"] = function(words, lead, subcommand)
  return vim.list_extend(kinds.workflow(words, lead, subcommand), run_ids(choose.fits.any))
end
kinds["run"] = function()
  return run_ids(choose.fits.any)
end
for _, name in ipairs({ "resumable", "driving", "waiting" }) do
  kinds[name] = function()
    return run_ids(choose.fits[name])
  end
end
kinds["option"] = function(_, lead, subcommand)
  return options(subcommand, lead)
end
kinds["input"] = function(words, lead, subcommand)
  if lead:sub(1, 1) == "-" then
    return options(subcommand, lead)
  end
  return vim.list_extend(inputs(words, lead), lead == "" and options(subcommand, lead) or {})
end
kinds["task"] = function(words)
  local view = ask_now("showRun", { runId = words[1] })
  return vim.tbl_map(function(seen)
    return seen.id
  end, view and view.tasks or {})
end
kinds["feedback"] = function(words)
  local answer = ask_now("listFeedback", { runId = words[1], status = "open" })
  return vim.tbl_map(function(record)
    return record.taskId or record.id
  end, answer and answer.feedback or {})
end
kinds["resolution"] = function(words)
  return #words == 2 and { "retry", "rejected", "resolved" } or {}
end

--- Completes `:Flowdrive`.
---@param lead string
---@param line string
---@param position integer
---@return string[]
function M.complete(lead, line, position)
  local before = line:sub(1, position):gsub("^.-Flowdrive!?%s+", "")
  local bang = line:sub(1, position):find("Flowdrive!") ~= nil
  local words = arguments.split(before:sub(1, #before - #lead))
  local found = {}
  if #words == 0 then
    found = vim.tbl_filter(function(name)
      return not bang or subcommands[name].bang or false
    end, vim.tbl_keys(subcommands))
    table.sort(found)
  elseif subcommands[words[1]] then
    local name = table.remove(words, 1)
    local places = subcommands[name].complete or {}
    local kind = places[math.min(#words + 1, math.max(#places, 1))]
    found = kind and kinds[kind](words, lead, name) or {}
    local takes_one = #places > 0 and places[#places] ~= "input" and places[#places] ~= "option"
    if takes_one and #words >= #places then
      found = {}
    end
  end
  return vim.tbl_filter(function(item)
    return vim.startswith(item, lead)
  end, found)
end

return M
