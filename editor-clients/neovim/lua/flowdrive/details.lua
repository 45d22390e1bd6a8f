--- Floating windows with more on one thing than a line of the view has room for. Must not: ask the server.
local format = require("flowdrive.format")

local M = {}

local WIDEST = 90

--- Breaks a text into lines of at most this many bytes, at blanks where there are any.
---@param text string
---@param width integer
---@return string[]
function M.wrap(text, width)
  local lines = {}
  for _, paragraph in ipairs(vim.split(text, "\n", { plain = true })) do
    local line = ""
    for word in paragraph:gmatch("%S+") do
      if line == "" then
        line = word
      elseif #line + 1 + #word <= width then
        line = line .. " " .. word
      else
        lines[#lines + 1] = line
        line = word
      end
    end
    lines[#lines + 1] = line
  end
  return lines
end

--- Shows lines in a floating window that `q`, `<Esc>` or leaving it closes.
---@param title string
---@param lines string[]
---@return integer buffer
function M.show_text(title, lines)
  local width = vim.api.nvim_strwidth(title) + 4
  for _, line in ipairs(lines) do
    width = math.max(width, vim.api.nvim_strwidth(line) + 1)
  end
  width = math.min(width, WIDEST, vim.o.columns - 4)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = "wipe"
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  local height = math.max(1, math.min(#lines, vim.o.lines - 6))
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = "editor",
    row = math.max(0, math.floor((vim.o.lines - height) / 2) - 1),
    col = math.max(0, math.floor((vim.o.columns - width) / 2)),
    width = width,
    height = height,
    style = "minimal",
    border = "rounded",
    title = (" %s "):format(title),
  })
  vim.wo[window].wrap = true
  vim.wo[window].linebreak = true
  local function close()
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
  end
  for _, key in ipairs({ "q", "<Esc>", "g?" }) do
    vim.keymap.set("n", key, close, { buffer = buffer, nowait = true, silent = true })
  end
  vim.api.nvim_create_autocmd("WinLeave", { buffer = buffer, once = true, callback = vim.schedule_wrap(close) })
  return buffer
end

--- What is known of a task, as lines. Pure.
---@param run flowdrive.Run
---@param task flowdrive.Task
---@return string[]
function M.task_lines(run, task)
  local lines = {}
  local function fact(name, value)
    if value and value ~= "" then
      lines[#lines + 1] = (" %-9s %s"):format(name, tostring(value))
    end
  end
  fact("status", task.status == "failed" and "parked" or task.status)
  fact("phase", task.phase)
  fact("agent", task.agent)
  fact("model", task.model)
  fact("attempt", task.attempt > 0 and task.attempt or nil)
  fact("took", task.started and task.ended and format.duration(task.ended - task.started))
  fact("tokens", task.tokens)
  fact("source", task.source)
  fact("findings", task.findings)
  fact("result", task.result_path)
  if task.log and #task.log > 0 then
    vim.list_extend(lines, { "", " What its agent is doing:" })
    for _, line in ipairs(task.log) do
      lines[#lines + 1] = "   " .. line
    end
  elseif task.text and task.text ~= "" then
    lines[#lines + 1] = ""
    for _, line in ipairs(M.wrap(task.text, WIDEST - 4)) do
      lines[#lines + 1] = " " .. line
    end
  end
  for _, record in pairs(run.feedback) do
    if record.task == task.id then
      vim.list_extend(lines, { "", " Waits for you (a: decide):" })
      for _, line in ipairs(M.wrap(record.message, WIDEST - 6)) do
        lines[#lines + 1] = "   " .. line
      end
    end
  end
  return lines
end

---@param run flowdrive.Run
---@param task_id string
function M.show_task(run, task_id)
  M.show_text(task_id, M.task_lines(run, run.tasks[task_id]))
end

return M
