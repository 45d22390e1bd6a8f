--- `:Flowdrive` itself: which subcommand is meant, and completion. Must not: know what a subcommand does.
local client_of = require("flowdrive.client")
local implementation = require("flowdrive.subcommands")
local task = require("flowdrive.task")
local ui = require("flowdrive.ui")

local M = {}

local subcommands = implementation.commands

--- Splits `a b="c d" 'e f'` into words; quotes may stand anywhere in a word.
---@param text string
---@return string[]
function M.split(text)
  local words, word, quote = {}, nil, nil
  for char in text:gmatch(".") do
    if quote then
      if char == quote then
        quote = nil
      else
        word = word .. char
      end
    elseif char == '"' or char == "'" then
      quote, word = char, word or ""
    elseif char:find("%s") then
      words[#words + 1] = word
      word = nil
    else
      word = (word or "") .. char
    end
  end
  words[#words + 1] = word
  return words
end

---@return string[]
local function names()
  local sorted = vim.tbl_keys(subcommands)
  table.sort(sorted)
  return sorted
end

---@param problem any
local function failed(problem)
  ui.notify(type(problem) == "string" and problem or tostring(problem), vim.log.levels.ERROR)
end

--- Runs `:Flowdrive`.
---@param args table what |nvim_create_user_command()| hands over
function M.run(args)
  local words = M.split(args.args)
  local name = table.remove(words, 1)
  local function begin(chosen)
    task.start(function()
      local context = { words = words, bang = args.bang, root = client_of.root() }
      if not subcommands[chosen].offline then
        context.client = client_of.get(context.root)
      end
      subcommands[chosen].run(context)
    end, failed)
  end
  if not name then
    task.start(function()
      begin(ui.select(names(), "Flowdrive", function(choice)
        return ("%s - %s"):format(choice, subcommands[choice].about)
      end))
    end, failed)
  elseif subcommands[name] then
    begin(name)
  else
    failed(("no subcommand %q. There are: %s"):format(name, table.concat(names(), ", ")))
  end
end

--- Closes a feedback record as a code action says; asks for the guidance or the note.
---@param about { workspace: string, runId: string, feedbackId: string, resolution: string }
function M.resolve(about)
  task.start(function()
    local context = { words = {}, bang = false, root = about.workspace, client = client_of.get(about.workspace) }
    implementation.resolve(context, about.runId, about.feedbackId, about.resolution)
  end, failed)
end

--- Shows the report that a code action names.
---@param path string `<workspace>/.cw/runs/<run>/report.md`
function M.open_report_file(path)
  task.start(function()
    local folder = vim.fs.dirname(path)
    ui.open_report(vim.fs.basename(folder), path, vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(folder))))
  end, failed)
end

--- Asks a running server, for completion. Starts none: a key press must not.
---@param method string
---@return table?
local function ask_now(method)
  local root = client_of.root()
  local client = client_of.running(root)
  if not client or not client.initialized then
    return nil
  end
  local found
  client_of.send(client, method, { workspace = root }, function(_, answer)
    found = answer
  end)
  vim.wait(500, function()
    return found ~= nil
  end, 5)
  return found
end

--- Completes `:Flowdrive`.
---@param lead string
---@param line string
---@param position integer
---@return string[]
function M.complete(lead, line, position)
  local before = line:sub(1, position):gsub("^.-Flowdrive!?%s+", "")
  local words = M.split(before:sub(1, #before - #lead))
  local found = {}
  if #words == 0 then
    found = names()
  elseif subcommands[words[1]] then
    local kind = subcommands[words[1]].complete or ""
    local wants_workflow = kind:find("workflow") ~= nil
    if #words == 1 then
      if wants_workflow then
        for _, workflow in ipairs((ask_now("listWorkflows") or { workflows = {} }).workflows) do
          found[#found + 1] = workflow.id
        end
        vim.list_extend(found, vim.fn.getcompletion(lead, "file"))
      end
      if kind:find("run") then
        for _, summary in ipairs((ask_now("listRuns") or { runs = {} }).runs) do
          found[#found + 1] = summary.runId
        end
      end
    elseif wants_workflow then
      for _, workflow in ipairs((ask_now("listWorkflows") or { workflows = {} }).workflows) do
        if workflow.id == words[2] then
          for name in vim.spairs(workflow.inputs) do
            found[#found + 1] = name .. "="
          end
        end
      end
    end
  end
  return vim.tbl_filter(function(item)
    return vim.startswith(item, lead)
  end, found)
end

return M
