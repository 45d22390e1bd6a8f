--- A preview as text. Pure.
local format = require("flowdrive.format")

local M = {}

--- The agents that a plan would use, in the order of their first task.
---@param preview flowdrive.protocol.DrivePreview
---@return string[]
local function agents(preview)
  local found, seen = {}, {}
  for _, phase in ipairs(preview.plan) do
    for _, planned in ipairs(phase.tasks) do
      if planned.agent and planned.status ~= "completed" and not seen[planned.agent] then
        seen[planned.agent] = true
        found[#found + 1] = planned.agent
      end
    end
  end
  return found
end

--- The question before a start.
---@param preview flowdrive.protocol.DrivePreview
---@param name string
---@return string
function M.question(preview, name)
  local parts = { format.plural(preview.pendingWorkers, "task") }
  local used = agents(preview)
  parts[#parts + 1] = #used > 0 and ("by " .. table.concat(used, ", ")) or "with no agent"
  if preview.blockers and #preview.blockers > 0 then
    parts[#parts + 1] = "in the way: " .. format.one_line(preview.blockers[1])
  end
  return ("Drive %s: %s?"):format(name, table.concat(parts, " "))
end

--- What would be run: each command line once, with how many tasks it is for.
---@param preview flowdrive.protocol.DrivePreview
---@return string[]
local function invocations(preview)
  local order, seen = {}, {}
  for _, phase in ipairs(preview.plan) do
    for _, planned in ipairs(phase.tasks) do
      if planned.invocation and planned.status ~= "completed" then
        local key = (planned.agent or "") .. "\n" .. planned.invocation
        if not seen[key] then
          seen[key] = { agent = planned.agent or "?", line = planned.invocation, tasks = 0 }
          order[#order + 1] = seen[key]
        end
        seen[key].tasks = seen[key].tasks + 1
      end
    end
  end
  local lines = {}
  for _, one in ipairs(order) do
    lines[#lines + 1] = ("- **%s**, %s: `%s`"):format(one.agent, format.plural(one.tasks, "task"), one.line)
  end
  return lines
end

---@param lines string[]
---@param planned flowdrive.protocol.PlannedTask
local function add_task(lines, planned)
  local agent = planned.agent and (" by " .. planned.agent) or ""
  local cache = planned.cache.state ~= "off" and (", cache " .. planned.cache.state) or ""
  local status = planned.status ~= "pending" and (", " .. planned.status) or ""
  lines[#lines + 1] = ("- `%s`%s%s%s"):format(planned.id, agent, status, cache)
  if planned.cache.reason then
    lines[#lines + 1] = "  " .. planned.cache.reason
  end
  if planned.subWorkflow then
    local inner = planned.subWorkflow
    lines[#lines + 1] = ("  %s inside: %s, by %s"):format(
      inner.title,
      format.plural(inner.tasks, "task"),
      table.concat(inner.agents, ", ")
    )
  end
  for _, blocker in ipairs(planned.blockers or {}) do
    lines[#lines + 1] = "  In the way: " .. blocker
  end
end

--- A preview as Markdown.
---@param preview flowdrive.protocol.DrivePreview
---@return string[]
function M.lines(preview)
  local lines = {
    "# Preview of " .. (preview.runId or preview.workflowId),
    "",
    ("Next: **%s**%s"):format(preview.nextAction, preview.nextTaskId and (" `" .. preview.nextTaskId .. "`") or ""),
    "",
    ("%s: %d accepted, %d to do, %d parked."):format(
      format.plural(preview.plannedWorkers, "task"),
      preview.completedWorkers,
      preview.pendingWorkers,
      preview.parkedWorkers
    ),
  }
  if not preview.agentConfigured then
    vim.list_extend(lines, { "", "Not every task has an agent. `:checkhealth flowdrive` says more." })
  end
  local told = { { "In the way:", preview.blockers }, { "Likely slips:", preview.warnings } }
  for _, part in ipairs(told) do
    local title, sentences = part[1], part[2]
    if sentences and #sentences > 0 then
      vim.list_extend(lines, { "", title })
      for _, sentence in ipairs(sentences) do
        lines[#lines + 1] = "- " .. sentence
      end
    end
  end
  local commands = invocations(preview)
  if #commands > 0 then
    vim.list_extend(lines, { "", "## Agents", "" })
    vim.list_extend(lines, commands)
  end
  for _, phase in ipairs(preview.plan) do
    local width = phase.width > 1 and (", %d at once"):format(phase.width) or ""
    vim.list_extend(lines, { "", ("## %s (%s%s)"):format(phase.title, phase.mode, width), "" })
    if phase.loop then
      lines[#lines + 1] = ("Round %d of at most %d; it ends before that when %s."):format(
        phase.loop.round,
        phase.loop.maxRounds,
        phase.loop["until"]
      )
      lines[#lines + 1] = ""
    end
    for _, planned in ipairs(phase.tasks) do
      add_task(lines, planned)
    end
  end
  for index, line in ipairs(lines) do
    lines[index] = (line:gsub("[\r\n]+", " "))
  end
  return lines
end

return M
