--- The live view of a run: one scratch buffer per run, `flowdrive://run/<id>`, redrawn at most ten times a second.
--- Must not: keep state of its own, or send requests; its keys call the commands of `:Flowdrive`.
local M = {}

local REDRAW_MS = 100
local namespace = vim.api.nvim_create_namespace("flowdrive.run")

---@type table<string, integer> run id to buffer
local buffers = {}
---@type table<string, boolean> runs with a redraw under way
local pending = {}

local marks = {
  pending = { "·", "FlowdrivePending", "Comment" },
  running = { "▶", "FlowdriveRunning", "DiagnosticInfo" },
  retrying = { "↻", "FlowdriveRetrying", "DiagnosticWarn" },
  completed = { "✓", "FlowdriveAccepted", "DiagnosticOk" },
  failed = { "✗", "FlowdriveParked", "DiagnosticError" },
}
local keys_help = "o report  f feedback  r resume  s stop  S stop now  q close"

local function define_highlights()
  for _, mark in pairs(marks) do
    vim.api.nvim_set_hl(0, mark[2], { link = mark[3], default = true })
  end
  vim.api.nvim_set_hl(0, "FlowdriveTitle", { link = "Title", default = true })
  vim.api.nvim_set_hl(0, "FlowdrivePhase", { link = "Function", default = true })
  vim.api.nvim_set_hl(0, "FlowdriveNote", { link = "Comment", default = true })
end

---@param task flowdrive.Task
---@return string
local function task_line(task)
  local note = {}
  if task.status == "running" then
    note[1] = task.agent
    if task.attempt > 1 then
      note[#note + 1] = "attempt " .. task.attempt
    end
  elseif task.status == "completed" and task.findings then
    note[1] = task.findings == 1 and "1 finding" or (task.findings .. " findings")
  elseif task.status == "failed" then
    note[1] = "parked"
  elseif task.status == "retrying" then
    note[1] = "tried again"
  end
  note[#note + 1] = task.text
  local mark = marks[task.status] or marks.pending
  local line = ("  %s %s"):format(mark[1], task.id)
  return #note > 0 and (line .. "  " .. table.concat(note, ": ")) or line
end

--- The view of a run: its lines, and the highlight of each line that has one. Pure.
---@param run flowdrive.Run
---@return string[] lines
---@return table<integer, { [1]: integer, [2]: integer, [3]: string }> highlights by line: first byte, last byte (-1: end), group
function M.render(run)
  local lines, highlights = {}, {}
  local function add(text, group, from, to)
    lines[#lines + 1] = (text:gsub("[\r\n]", " "))
    if group then
      highlights[#lines] = { from or 0, to or -1, group }
    end
  end
  add(("%s  [%s]"):format(run.title, run.status), "FlowdriveTitle")
  local counts = ("%d of %d tasks accepted"):format(run.completed, run.planned)
  if run.parked > 0 then
    counts = counts .. (", %d parked"):format(run.parked)
  end
  add(("%s  %s"):format(run.id, counts))
  if run.reason then
    add(run.reason, "FlowdriveNote")
  end
  for _, phase in ipairs(run.phases) do
    add("")
    local width = phase.width and phase.width > 1 and ("  %d at once"):format(phase.width) or ""
    add(("%s  %d/%d%s"):format(phase.title, phase.completed, phase.total, width), "FlowdrivePhase", 0, #phase.title)
    for _, id in ipairs(phase.tasks) do
      local task = run.tasks[id]
      local mark = marks[task.status] or marks.pending
      add(task_line(task), mark[2], 2, 2 + #mark[1])
    end
  end
  local open = vim.tbl_values(run.feedback)
  if #open > 0 then
    table.sort(open, function(a, b)
      return a.id < b.id
    end)
    add("")
    add("Waiting for you (f)", "FlowdrivePhase")
    for _, record in ipairs(open) do
      add(("  %s  %s"):format(record.task or record.id, record.message))
    end
  end
  add("")
  add(keys_help, "FlowdriveNote")
  return lines, highlights
end

--- Replaces what differs and nothing else, so that cursor and scroll position stay.
---@param buffer integer
---@param lines string[]
local function replace(buffer, lines)
  local old = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local first, old_last, new_last = 1, #old, #lines
  while first <= old_last and first <= new_last and old[first] == lines[first] do
    first = first + 1
  end
  while old_last >= first and new_last >= first and old[old_last] == lines[new_last] do
    old_last, new_last = old_last - 1, new_last - 1
  end
  if first > old_last and first > new_last then
    return
  end
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, first - 1, old_last, false, vim.list_slice(lines, first, new_last))
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
end

---@param run flowdrive.Run
---@param buffer integer
local function draw(run, buffer)
  local lines, highlights = M.render(run)
  replace(buffer, lines)
  vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  for number, highlight in pairs(highlights) do
    local last = highlight[2] == -1 and #lines[number] or highlight[2]
    vim.api.nvim_buf_set_extmark(
      buffer,
      namespace,
      number - 1,
      highlight[1],
      { end_col = last, hl_group = highlight[3] }
    )
  end
end

--- Redraws a run's buffer soon, if it has one. Calls that come close together share one redraw.
---@param run flowdrive.Run
function M.refresh(run)
  local buffer = buffers[run.id]
  if not buffer or pending[run.id] then
    return
  end
  pending[run.id] = true
  vim.defer_fn(function()
    pending[run.id] = nil
    if vim.api.nvim_buf_is_valid(buffer) then
      draw(run, buffer)
    end
  end, REDRAW_MS)
end

---@param run flowdrive.Run
---@return integer
local function create(run)
  local buffer = vim.api.nvim_create_buf(false, true)
  buffers[run.id] = buffer
  vim.api.nvim_buf_set_name(buffer, "flowdrive://run/" .. run.id)
  vim.bo[buffer].buftype = "nofile"
  vim.bo[buffer].bufhidden = "hide"
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].filetype = "flowdrive-run"
  local function map(key, subcommand, bang, description)
    vim.keymap.set("n", key, function()
      vim.cmd.Flowdrive({ args = { subcommand, run.id }, bang = bang })
    end, { buffer = buffer, nowait = true, desc = "flowdrive: " .. description })
  end
  map("o", "report", false, "open the report")
  map("f", "resolve", false, "resolve feedback")
  map("r", "resume", false, "resume the run")
  map("s", "stop", false, "stop after what is in flight")
  map("S", "stop", true, "stop at once")
  vim.keymap.set("n", "q", "<Cmd>close<CR>", { buffer = buffer, nowait = true, desc = "flowdrive: close the view" })
  vim.api.nvim_create_autocmd("BufWipeout", {
    buffer = buffer,
    callback = function()
      buffers[run.id] = nil
    end,
  })
  return buffer
end

--- The run's buffer, made and drawn if need be.
---@param run flowdrive.Run
---@return integer
function M.buffer(run)
  define_highlights()
  local buffer = buffers[run.id]
  if not buffer or not vim.api.nvim_buf_is_valid(buffer) then
    buffer = create(run)
  end
  draw(run, buffer)
  return buffer
end

--- Shows the run's buffer in a window, without leaving the current one.
---@param run flowdrive.Run
---@param command string the command that makes a window for it
function M.open(run, command)
  local buffer = M.buffer(run)
  if vim.fn.bufwinid(buffer) ~= -1 then
    return
  end
  local before = vim.api.nvim_get_current_win()
  vim.cmd(command)
  vim.api.nvim_win_set_buf(0, buffer)
  vim.wo[0][0].number = false
  vim.wo[0][0].relativenumber = false
  vim.wo[0][0].wrap = false
  vim.wo[0][0].signcolumn = "no"
  vim.api.nvim_set_current_win(before)
end

return M
