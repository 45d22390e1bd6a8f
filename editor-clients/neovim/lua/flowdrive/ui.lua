--- What the user sees and is asked: messages, choices, typed inputs, the report, the quickfix list.
--- Must not: talk to the server.
local task = require("flowdrive.task")

local M = {}

---@param text string
---@param level? integer
function M.notify(text, level)
  vim.notify("flowdrive: " .. text, level or vim.log.levels.INFO)
end

--- Lets the user choose; leaves the task quietly when they do not. Only inside a task.
---@generic T
---@param items T[]
---@param prompt string
---@param format fun(item: T): string
---@return T
function M.select(items, prompt, format)
  local choice = task.await(function(answer)
    vim.ui.select(items, { prompt = prompt, format_item = format, kind = "flowdrive" }, answer)
  end)
  if choice == nil then
    error(task.cancelled)
  end
  return choice
end

--- Asks for a text; leaves the task quietly when the prompt is dismissed. Only inside a task.
---@param prompt string
---@param options? table for |vim.ui.input()|
---@return string
function M.input(prompt, options)
  local text = task.await(function(answer)
    vim.ui.input(vim.tbl_extend("force", { prompt = prompt }, options or {}), answer)
  end)
  if text == nil then
    error(task.cancelled)
  end
  return text
end

--- Turns what was typed into a value of an input's type.
---@param text string
---@param kind string the protocol's InputType
---@return any value nil when the text is not of that type
---@return string? problem
function M.parse_value(text, kind)
  if kind == "number" then
    local number = tonumber(text)
    -- Lua also reads hexadecimal, `inf` and `nan`, which JSON has not.
    if not number or number ~= number or number == math.huge or number == -math.huge or text:find("[xXpP]") then
      return nil, ("%q is not a number"):format(text)
    end
    return number
  elseif kind == "boolean" then
    local value = ({ ["true"] = true, ["false"] = false })[text]
    if value == nil then
      return nil, ("%q is neither true nor false"):format(text)
    end
    return value
  elseif kind == "json" then
    local ok, value = pcall(vim.json.decode, text)
    if not ok then
      return nil, "that is not JSON: " .. tostring(value)
    end
    return value
  end
  return text
end

--- Asks for one value until it is of the right type. An empty answer to an optional input, or to a further value of a
--- repeated one, is nil.
---@param name string
---@param spec table the protocol's InputSpec
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
    local choice = M.select(choices, label, tostring)
    if choice == "none" then
      return nil
    end
    return choice == "true"
  end
  while true do
    local text = M.input(label, {
      default = default ~= nil and default ~= vim.NIL and tostring(default) or nil,
      completion = spec.type == "path" and "file" or nil,
    })
    if text == "" then
      if optional then
        return nil
      end
      M.notify(name .. " is required; <Esc> gives up", vim.log.levels.WARN)
    else
      local value, problem = M.parse_value(text, spec.type)
      if not problem then
        return value
      end
      M.notify(problem, vim.log.levels.WARN)
    end
  end
end

--- Asks for those inputs that were not given. Only inside a task.
---@param specs table<string, table> the workflow's inputs
---@param given table<string, any>
---@return table<string, any>
function M.ask_inputs(specs, given)
  local inputs = vim.deepcopy(given)
  local names = vim.tbl_keys(specs)
  table.sort(names, function(a, b)
    if (specs[a].required or false) ~= (specs[b].required or false) then
      return specs[a].required or false
    end
    return a < b
  end)
  for _, name in ipairs(names) do
    local spec = specs[name]
    if inputs[name] == nil then
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

--- A read-only scratch buffer with this name and these lines, shown in the current window.
---@param name string
---@param lines string[]
---@param filetype string
---@return integer
function M.scratch(name, lines, filetype)
  local buffer = vim.fn.bufnr("^" .. vim.fn.escape(name, "[]*?{}\\^$.") .. "$")
  if buffer == -1 or not vim.api.nvim_buf_is_valid(buffer) then
    buffer = vim.api.nvim_create_buf(true, true)
    vim.api.nvim_buf_set_name(buffer, name)
  end
  vim.bo[buffer].buftype = "nofile"
  vim.bo[buffer].bufhidden = "hide"
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
  if vim.bo[buffer].filetype ~= filetype then
    vim.bo[buffer].filetype = filetype
  end
  vim.api.nvim_win_set_buf(0, buffer)
  return buffer
end

--- Shows a run's report. `gF` on a place such as `src/main.rs:12` goes there.
---@param run_id string
---@param path string
---@param root string
---@return integer buffer
function M.open_report(run_id, path, root)
  local ok, lines = pcall(vim.fn.readfile, path)
  if not ok then
    error(("the report %s cannot be read. `:Flowdrive resume %s` writes it again."):format(path, run_id), 0)
  end
  local buffer = M.scratch("flowdrive://report/" .. run_id, lines, "markdown")
  vim.bo[buffer].path = vim.fn.escape(root, " ,;\\") .. ",,"
  return buffer
end

local severities = { P0 = "E", P1 = "E", P2 = "W", P3 = "I", none = "N" }

--- A run's findings as quickfix items: one per place cited, or one without a place. Pure.
---@param tasks table[] the protocol's TaskViews
---@param root string
---@return table[]
function M.quickfix_items(tasks, root)
  local items = {}
  for _, seen in ipairs(tasks) do
    for _, finding in ipairs(seen.findings or {}) do
      local text = ("[%s] %s (%s)"):format(finding.severity, finding.summary, seen.id):gsub("[\r\n]+", " ")
      local placed = false
      for _, evidence in ipairs(finding.evidence or {}) do
        if evidence.path then
          placed = true
          items[#items + 1] = {
            filename = vim.fs.joinpath(root, evidence.path),
            lnum = evidence.line or 1,
            end_lnum = evidence.endLine,
            text = text,
            type = severities[finding.severity] or "N",
          }
        end
      end
      if not placed then
        items[#items + 1] = { text = text, type = severities[finding.severity] or "N", valid = 0 }
      end
    end
  end
  return items
end

--- Puts findings into a new quickfix list. The lists before it stay (`:colder`).
---@param run_id string
---@param items table[]
function M.set_quickfix(run_id, items)
  vim.fn.setqflist({}, " ", { title = "Flowdrive " .. run_id, items = items, context = { flowdrive = run_id } })
end

--- A preview as Markdown. Pure.
---@param preview table the protocol's DrivePreview
---@return string[]
function M.preview_lines(preview)
  local lines = {
    "# Preview of " .. (preview.runId or preview.workflowId),
    "",
    ("Next: **%s**%s"):format(preview.nextAction, preview.nextTaskId and (" `" .. preview.nextTaskId .. "`") or ""),
    "",
    ("%d tasks: %d accepted, %d to do, %d parked."):format(
      preview.plannedWorkers,
      preview.completedWorkers,
      preview.pendingWorkers,
      preview.parkedWorkers
    ),
  }
  if not preview.agentConfigured then
    vim.list_extend(lines, { "", "Not every task has an agent. `:checkhealth flowdrive` says more." })
  end
  if preview.blockers and #preview.blockers > 0 then
    vim.list_extend(lines, { "", "In the way:" })
    for _, blocker in ipairs(preview.blockers) do
      lines[#lines + 1] = "- " .. blocker
    end
  end
  for _, phase in ipairs(preview.plan) do
    vim.list_extend(lines, { "", ("## %s (%s, %d at once)"):format(phase.title, phase.mode, phase.width), "" })
    for _, planned in ipairs(phase.tasks) do
      local agent = planned.agent and (" by " .. planned.agent) or ""
      local cache = planned.cache.state ~= "off" and (", cache " .. planned.cache.state) or ""
      lines[#lines + 1] = ("- `%s` %s%s%s"):format(planned.id, planned.status, agent, cache)
      if planned.invocation then
        lines[#lines + 1] = "  `" .. planned.invocation .. "`"
      end
      for _, blocker in ipairs(planned.blockers or {}) do
        lines[#lines + 1] = "  In the way: " .. blocker
      end
    end
  end
  for index, line in ipairs(lines) do
    lines[index] = (line:gsub("[\r\n]+", " "))
  end
  return lines
end

return M
