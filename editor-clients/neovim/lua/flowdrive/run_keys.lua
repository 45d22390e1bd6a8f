--- The keys of a run's buffer. Each calls a subcommand of `:Flowdrive` for what the cursor is on.
--- Must not: send requests, or know how the view is drawn.
local M = {}

--- The run and the row under the cursor.
---@return flowdrive.Run? run
---@return flowdrive.Row row
local function here()
  local run, row = require("flowdrive.run_buffer").under_cursor()
  return run, row or { kind = "blank", key = "", text = "", spans = {} }
end

---@param subcommand string
---@param words? string[]
---@param bang? boolean
local function run_command(subcommand, words, bang)
  local run = here()
  if run then
    require("flowdrive.commands").start(subcommand, {
      words = vim.list_extend({ run.id }, words or {}),
      bang = bang or false,
      root = run.root,
      beside = true,
    })
  end
end

---@param text string
local function say(text)
  require("flowdrive.ui").notify(text)
end

--- The open record of what the cursor is on: the record itself, or that of the task.
---@return string?
local function record_here()
  local run, row = here()
  if row.kind == "feedback" then
    return row.id
  end
  for id, record in pairs(run and run.feedback or {}) do
    if row.kind == "task" and record.task == row.id then
      return id
    end
  end
end

local function resolve()
  local id = record_here()
  run_command("resolve", id and { id } or nil)
end

--- Goes to the next or the one before of the rows that fit.
---@param direction 1|-1
---@param fits fun(row: flowdrive.Row): boolean
local function go(direction, fits)
  local line = require("flowdrive.run_buffer").find_row(vim.api.nvim_win_get_cursor(0)[1], direction, fits)
  if line then
    vim.api.nvim_win_set_cursor(0, { line, 0 })
  end
end

---@param kind string
local function is(kind)
  return function(row)
    return row.kind == kind
  end
end

---@param row flowdrive.Row
local function is_parked(row)
  local run = here()
  local task = run and row.kind == "task" and run.tasks[row.id]
  return task and task.status == "failed" or false
end

local function open_result()
  local run, row = here()
  if row.kind == "phase" then
    pcall(vim.cmd.normal, { "za", bang = true })
  elseif row.kind == "feedback" then
    resolve()
  elseif run and row.kind == "task" then
    run_command("result", { row.id })
  end
end

local function findings_here()
  local _, row = here()
  if row.kind == "task" then
    run_command("findings", { row.id })
  else
    run_command("findings")
  end
end

local function details()
  local run, row = here()
  if run and row.kind == "task" then
    require("flowdrive.details").show_task(run, row.id)
  elseif run and row.kind == "feedback" then
    require("flowdrive.details").show_text("Feedback", { run.feedback[row.id].message })
  else
    say("no task on this line")
  end
end

---@class flowdrive.Key
---@field [1] string key
---@field [2] string what it does
---@field [3] fun()

---@type flowdrive.Key[]
local keys = {
  { "<CR>", "task: open its result; phase: fold; record: decide", open_result },
  { "K", "task: all that is known, and what its agent is doing", details },
  { "f", "task: go to its findings; elsewhere: all into quickfix", findings_here },
  {
    "o",
    "open the report",
    function()
      run_command("report")
    end,
  },
  { "a", "decide on what waits for you: here, or choose", resolve },
  {
    "A",
    "decide on all that waits for you, alike",
    function()
      run_command("resolve", nil, true)
    end,
  },
  {
    "r",
    "resume the run",
    function()
      run_command("resume")
    end,
  },
  {
    "s",
    "stop after what is in flight",
    function()
      run_command("stop")
    end,
  },
  {
    "S",
    "stop at once",
    function()
      run_command("stop", nil, true)
    end,
  },
  {
    "R",
    "read the run again from the server",
    function()
      run_command("runs")
    end,
  },
  {
    "]]",
    "next phase",
    function()
      go(1, is("phase"))
    end,
  },
  {
    "[[",
    "phase before",
    function()
      go(-1, is("phase"))
    end,
  },
  {
    "]e",
    "next parked task",
    function()
      go(1, is_parked)
    end,
  },
  {
    "[e",
    "parked task before",
    function()
      go(-1, is_parked)
    end,
  },
  {
    "<Tab>",
    "fold or unfold the phase",
    function()
      pcall(vim.cmd.normal, { "za", bang = true })
    end,
  },
  {
    "q",
    "close the window",
    function()
      pcall(vim.cmd.close)
    end,
  },
}

local function help()
  local lines = {}
  for _, key in ipairs(keys) do
    lines[#lines + 1] = (" %-6s %s"):format(key[1], key[2])
  end
  lines[#lines + 1] = (" %-6s %s"):format("g?", "these keys; :help flowdrive-run-buffer")
  local buffer = require("flowdrive.details").show_text("Keys of a run", lines)
  for number, line in ipairs(lines) do
    vim.api.nvim_buf_set_extmark(buffer, vim.api.nvim_create_namespace("flowdrive.help"), number - 1, 1, {
      end_col = 1 + #line:match("^ (%S+)"),
      hl_group = "FlowdriveKey",
    })
  end
end

--- Sets the keys of a run's buffer.
---@param buffer integer
function M.map(buffer)
  for _, key in ipairs(keys) do
    vim.keymap.set(
      "n",
      key[1],
      key[3],
      { buffer = buffer, nowait = true, silent = true, desc = "flowdrive: " .. key[2] }
    )
  end
  vim.keymap.set("n", "g?", help, { buffer = buffer, nowait = true, silent = true, desc = "flowdrive: show the keys" })
end

--- The keys and what they do, for the help and its test.
---@return flowdrive.Key[]
function M.list()
  return keys
end

return M
