--- The view of a run as rows of text with highlights. Pure. Must not: know of buffers or windows, or ask for the time.
local format = require("flowdrive.format")
local state = require("flowdrive.state")

local M = {}

---@class flowdrive.Span
---@field [1] integer first byte, from 0
---@field [2] integer byte after the last
---@field [3] string highlight group

---@class flowdrive.Row
---@field key string what the row is about, the same in every drawing
---@field text string
---@field spans flowdrive.Span[]
---@field kind "header"|"blank"|"phase"|"task"|"feedback"
---@field id? string of the phase, task or feedback record

---@class flowdrive.Layout
---@field id integer width of the column of ids
---@field agent integer width of the column of agents
---@field tokens boolean whether any tokens are to be shown
---@field key string all of these as one text

--- A task's mark and its highlight group, by status.
M.marks = {
  pending = { "○", "FlowdrivePending" },
  running = { "●", "FlowdriveRunning" },
  retrying = { "↻", "FlowdriveRetrying" },
  completed = { "✓", "FlowdriveAccepted" },
  failed = { "✗", "FlowdriveParked" },
}

--- A run's mark and its highlight group, by status.
local run_marks = {
  running = M.marks.running,
  stopping = M.marks.retrying,
  complete = M.marks.completed,
  parked = M.marks.failed,
  blocked = M.marks.failed,
  interrupted = M.marks.failed,
  ["in-progress"] = M.marks.pending,
}

--- Ids longer than this are not aligned.
local WIDEST_ID, WIDEST_AGENT = 36, 20
local BAR_CELLS = 20

--- Builds a row piece by piece.
---@param key string
---@param kind string
---@param id? string
local function row(key, kind, id)
  local self = { key = key, kind = kind, id = id, text = "", spans = {} }
  local pieces, bytes = {}, 0
  ---@param text string
  ---@param group? string
  function self.add(text, group)
    if group and text ~= "" then
      self.spans[#self.spans + 1] = { bytes, bytes + #text, group }
    end
    pieces[#pieces + 1] = text
    bytes = bytes + #text
  end
  ---@return flowdrive.Row
  function self.done()
    local text = (table.concat(pieces):gsub("[%s]+$", ""))
    local spans = {}
    for _, span in ipairs(self.spans) do
      if span[1] < #text then
        spans[#spans + 1] = { span[1], math.min(span[2], #text), span[3] }
      end
    end
    return { key = key, kind = kind, id = id, text = text, spans = spans }
  end
  return self
end

---@param text string
---@param width integer
---@return string
local function pad(text, width)
  return text .. (" "):rep(width - vim.api.nvim_strwidth(text))
end

---@param run flowdrive.Run
---@return flowdrive.Layout
local function layout_of(run)
  local id, agent = 0, 0
  for _, task in pairs(run.tasks) do
    local width = #task.id
    if width <= WIDEST_ID and width > id then
      id = width
    end
    local agent_width = task.agent and #task.agent or 0
    if agent_width <= WIDEST_AGENT and agent_width > agent then
      agent = agent_width
    end
  end
  local tokens = run.tokens > 0
  return { id = id, agent = agent, tokens = tokens, key = ("%d %d %s"):format(id, agent, tostring(tokens)) }
end

---@param task flowdrive.Task
---@param now integer
---@return integer? milliseconds
local function lasted(task, now)
  if task.status == "running" and task.started then
    return now - task.started
  elseif task.started and task.ended then
    return task.ended - task.started
  end
end

---@param task flowdrive.Task
---@param layout flowdrive.Layout
---@param now integer
---@return flowdrive.Row
local function task_row(task, layout, now)
  local mark = M.marks[task.status] or M.marks.pending
  local line = row("task " .. task.id, "task", task.id)
  line.add("  ")
  line.add(mark[1], mark[2])
  line.add(" ")
  line.add(pad(task.id, layout.id), task.status == "pending" and "FlowdriveNote" or nil)
  if layout.agent > 0 then
    line.add("  ")
    line.add(pad(task.agent or "", layout.agent), "FlowdriveAgent")
  end
  local time = lasted(task, now)
  line.add(("  %6s"):format(time and format.duration(time) or ""), "FlowdriveTime")
  if layout.tokens then
    line.add(("  %6s"):format(task.tokens and format.count(task.tokens) or ""), "FlowdriveTokens")
  end
  line.add("  ")
  if task.attempt > 1 then
    line.add(("attempt %d  "):format(task.attempt), "FlowdriveRetrying")
  end
  if task.status == "completed" and task.source and task.source ~= "agent" then
    line.add(task.source == "cache" and "reused  " or "sub-workflow  ", "FlowdriveTokens")
  end
  if task.status == "completed" and task.findings then
    line.add(
      format.plural(task.findings, "finding") .. "  ",
      task.findings > 0 and "FlowdriveFindings" or "FlowdriveNote"
    )
  elseif task.status == "failed" then
    line.add("parked: ", "FlowdriveParked")
  end
  line.add(task.text or "", task.status == "failed" and "FlowdriveParked" or "FlowdriveNote")
  return line.done()
end

--- Task rows cost the most, and few change at a time: a row is made again only when it would differ.
---@type table<flowdrive.Task, { version: integer, layout: string, second: integer, row: flowdrive.Row }>
local memo = setmetatable({}, { __mode = "k" })

---@param task flowdrive.Task
---@param layout flowdrive.Layout
---@param now integer
---@return flowdrive.Row
local function cached_task_row(task, layout, now)
  local time = task.status == "running" and lasted(task, now) or 0
  local second = math.floor(time / 1000)
  local known = memo[task]
  if known and known.version == task.version and known.layout == layout.key and known.second == second then
    return known.row
  end
  local made = task_row(task, layout, now)
  memo[task] = { version = task.version, layout = layout.key, second = second, row = made }
  return made
end

---@param run flowdrive.Run
---@return integer
local function running(run)
  local count = 0
  for _, task in pairs(run.tasks) do
    if task.status == "running" then
      count = count + 1
    end
  end
  return count
end

---@param run flowdrive.Run
---@param now integer
---@return flowdrive.Row[]
local function header(run, now)
  local title = row("title", "header")
  local mark = run_marks[run.status] or M.marks.pending
  title.add(run.title, "FlowdriveTitle")
  title.add("  ")
  title.add(("%s %s"):format(mark[1], run.status), mark[2])

  local counts = row("counts", "header")
  local share = run.planned > 0 and run.completed / run.planned or 0
  local full = math.floor(share * BAR_CELLS + 0.5)
  counts.add(("━"):rep(full), "FlowdriveAccepted")
  counts.add(("─"):rep(BAR_CELLS - full), "FlowdriveBar")
  counts.add(("  %d of %d tasks accepted"):format(run.completed, run.planned))
  if run.parked > 0 then
    counts.add((", %d parked"):format(run.parked), "FlowdriveParked")
  end
  local busy = running(run)
  if busy > 0 then
    counts.add((", %d running"):format(busy), "FlowdriveRunning")
  end
  if run.started then
    local last = run.ended or (state.is_active(run) and now) or nil
    if last then
      counts.add("  " .. format.duration(last - run.started), "FlowdriveTime")
    end
  end
  if run.tokens > 0 then
    counts.add(("  %s tokens"):format(format.count(run.tokens)), "FlowdriveTokens")
  end

  local place = row("place", "header")
  place.add(run.id .. "   g? keys", "FlowdriveNote")
  local rows = { title.done(), counts.done(), place.done() }
  if run.reason then
    local reason = row("reason", "header")
    reason.add(format.one_line(run.reason), "FlowdriveReason")
    rows[#rows + 1] = reason.done()
  end
  return rows
end

--- The view of a run. `now`: milliseconds since 1970.
---@param run flowdrive.Run
---@param now integer
---@return flowdrive.Row[]
function M.render(run, now)
  local rows = header(run, now)
  local layout = layout_of(run)
  for _, phase in ipairs(run.phases) do
    rows[#rows + 1] = { key = "before " .. phase.id, kind = "blank", text = "", spans = {} }
    local line = row("phase " .. phase.id, "phase", phase.id)
    line.add(format.one_line(phase.title), "FlowdrivePhase")
    local all = phase.completed >= phase.total and phase.total > 0
    line.add(("  %d/%d"):format(phase.completed, phase.total), all and "FlowdriveAccepted" or "FlowdriveNote")
    if phase.width and phase.width > 1 then
      line.add(("  %d at once"):format(phase.width), "FlowdriveNote")
    end
    rows[#rows + 1] = line.done()
    for _, id in ipairs(phase.tasks) do
      rows[#rows + 1] = cached_task_row(run.tasks[id], layout, now)
    end
  end
  local open = vim.tbl_keys(run.feedback)
  if #open > 0 then
    table.sort(open)
    rows[#rows + 1] = { key = "before feedback", kind = "blank", text = "", spans = {} }
    local line = row("phase feedback", "phase", "feedback")
    line.add("Waiting for you", "FlowdriveParked")
    line.add(("  %s, a: decide"):format(format.plural(#open, "record")), "FlowdriveNote")
    rows[#rows + 1] = line.done()
    for _, id in ipairs(open) do
      local record = run.feedback[id]
      local item = row("feedback " .. id, "feedback", id)
      item.add("  ")
      item.add("!", "FlowdriveParked")
      item.add(" " .. pad(record.task or record.id, layout.id))
      item.add("  " .. record.message, "FlowdriveNote")
      rows[#rows + 1] = item.done()
    end
  end
  return rows
end

return M
