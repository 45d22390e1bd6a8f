--- The live view of a run: one scratch buffer per run, `flowdrive://run/<id>`, redrawn at most ten times a second, and
--- only in the lines that changed. Must not: keep state of a run, or send requests; its keys are in `flowdrive.run_keys`.
local look = require("flowdrive.look")
local render = require("flowdrive.render")
local state = require("flowdrive.state")

local M = {}

local REDRAW_MS = 100
local TICK_MS = 1000
local namespace = vim.api.nvim_create_namespace("flowdrive.run")

---@class flowdrive.View
---@field run flowdrive.Run
---@field rows flowdrive.Row[] what the buffer shows
---@field due boolean whether a redraw is under way
---@field folded table<string, true> phases that were folded when they were done

---@type table<integer, flowdrive.View> by buffer
local views = {}
---@type table<string, integer> run id to buffer
local buffers = {}
---@type uv.uv_timer_t?
local clock

---@return integer milliseconds since 1970
local function now()
  local seconds, microseconds = vim.uv.gettimeofday()
  return seconds * 1000 + math.floor(microseconds / 1000)
end

---@param buffer integer
---@param first integer from 1
---@param rows flowdrive.Row[]
---@param last integer
local function highlight(buffer, rows, first, last)
  for number = first, last do
    for _, span in ipairs(rows[number].spans) do
      vim.api.nvim_buf_set_extmark(buffer, namespace, number - 1, span[1], {
        end_col = span[2],
        hl_group = span[3],
      })
    end
  end
end

--- Replaces lines `first` to `old_last` by rows `first` to `new_last`.
---@param buffer integer
---@param rows flowdrive.Row[]
---@param first integer
---@param old_last integer
---@param new_last integer
local function replace(buffer, rows, first, old_last, new_last)
  local lines = {}
  for number = first, new_last do
    lines[#lines + 1] = rows[number].text
  end
  vim.api.nvim_buf_clear_namespace(buffer, namespace, first - 1, old_last)
  vim.api.nvim_buf_set_lines(buffer, first - 1, old_last, false, lines)
  highlight(buffer, rows, first, new_last)
end

---@param a flowdrive.Row
---@param b flowdrive.Row
---@return boolean
local function alike(a, b)
  return a == b or (a.text == b.text and vim.deep_equal(a.spans, b.spans))
end

--- Redraws the rows `first` to `last`, which are about the same things as before at `first + shift`.
local function update(buffer, old, rows, first, last, shift)
  local number = first
  while number <= last do
    if alike(old[number - shift], rows[number]) then
      number = number + 1
    else
      local stop = number
      while stop < last and not alike(old[stop + 1 - shift], rows[stop + 1]) do
        stop = stop + 1
      end
      replace(buffer, rows, number, stop, stop)
      number = stop + 1
    end
  end
end

--- Where the cursor of each window of the buffer is: on which row, and how far down the window.
---@param buffer integer
---@param old flowdrive.Row[]
local function positions(buffer, old)
  local found = {}
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    local place = vim.api.nvim_win_get_cursor(window)
    found[window] = { line = place[1], column = place[2], key = old[place[1]] and old[place[1]].key }
  end
  return found
end

---@param places table
---@param rows flowdrive.Row[]
local function restore(places, rows)
  if next(places) == nil then
    return
  end
  local line_of = {}
  for number, row in ipairs(rows) do
    line_of[row.key] = number
  end
  for window, place in pairs(places) do
    local line = line_of[place.key]
    if line and vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_call(window, function()
        local view = vim.fn.winsaveview()
        -- What was on the same screen line stays there.
        view.topline = math.max(view.topline + line - place.line, 1)
        view.lnum, view.col = line, place.column
        vim.fn.winrestview(view)
      end)
    end
  end
end

--- Brings the buffer from the rows it shows to these. Lines that are the same are not touched.
---@param buffer integer
---@param rows flowdrive.Row[]
local function draw_rows(buffer, rows)
  local view = views[buffer]
  local old = view.rows
  view.rows = rows -- before the text changes: the fold expression reads it
  local head = 0
  while head < #old and head < #rows and old[head + 1].key == rows[head + 1].key do
    head = head + 1
  end
  local tail = 0
  while tail < #old - head and tail < #rows - head and old[#old - tail].key == rows[#rows - tail].key do
    tail = tail + 1
  end
  local moved = head < math.max(#old, #rows)
  local places = moved and positions(buffer, old) or {}
  vim.bo[buffer].modifiable = true
  if moved and head + tail < math.max(#old, #rows) then
    -- An empty buffer has one line, which is nobody's.
    local old_last = #old == 0 and -1 or #old - tail
    if old_last == -1 then
      vim.api.nvim_buf_set_lines(
        buffer,
        0,
        -1,
        false,
        vim.tbl_map(function(row)
          return row.text
        end, rows)
      )
      highlight(buffer, rows, 1, #rows)
    else
      replace(buffer, rows, head + 1, old_last, #rows - tail)
    end
  end
  update(buffer, old, rows, 1, head, 0)
  update(buffer, old, rows, #rows - tail + 1, #rows, #rows - #old)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
  restore(places, rows)
end

--- Folds a phase that is done, once, in windows that are too low for all and where nobody is: what runs stays in view.
---@param buffer integer
local function fold_done(buffer)
  local view = views[buffer]
  for _, phase in ipairs(view.run.phases) do
    if not view.folded[phase.id] and phase.total > 0 and phase.completed >= phase.total then
      view.folded[phase.id] = true
      for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
        if window ~= vim.api.nvim_get_current_win() and vim.api.nvim_win_get_height(window) < #view.rows then
          vim.api.nvim_win_call(window, function()
            for number, row in ipairs(view.rows) do
              if row.kind == "phase" and row.id == phase.id then
                vim.cmd(("silent! %dfoldclose"):format(number))
              end
            end
          end)
        end
      end
    end
  end
end

---@param buffer integer
local function draw(buffer)
  draw_rows(buffer, render.render(views[buffer].run, now()))
  fold_done(buffer)
end

--- Redraws the elapsed times while something runs and is seen.
local function tick()
  local needed = false
  for buffer, view in pairs(views) do
    if state.is_active(view.run) and #vim.fn.win_findbuf(buffer) > 0 then
      needed = true
      M.refresh(view.run)
    end
  end
  if not needed and clock then
    clock:stop()
    clock:close()
    clock = nil
  end
end

local function start_clock()
  if not clock then
    clock = assert(vim.uv.new_timer())
    clock:start(TICK_MS, TICK_MS, vim.schedule_wrap(tick))
  end
end

--- Redraws a run's buffer soon, if it has one. Calls that come close together share one redraw.
---@param run flowdrive.Run
function M.refresh(run)
  local buffer = buffers[run.id]
  local view = buffer and views[buffer]
  if not view or view.due then
    return
  end
  view.due = true
  vim.defer_fn(function()
    view.due = false
    if vim.api.nvim_buf_is_valid(buffer) and views[buffer] then
      draw(buffer)
      if state.is_active(run) then
        start_clock()
      end
    end
  end, REDRAW_MS)
end

--- The fold level of a line, for 'foldexpr': one fold per phase.
---@return string
function M.foldexpr()
  local view = views[vim.api.nvim_get_current_buf()]
  local row = view and view.rows[vim.v.lnum]
  if not row or row.kind == "header" or row.kind == "blank" then
    return "0"
  end
  return row.kind == "phase" and ">1" or "1"
end

--- What the cursor is on in the current window.
---@return flowdrive.Run? run
---@return flowdrive.Row? row
function M.under_cursor()
  local view = views[vim.api.nvim_get_current_buf()]
  if view then
    return view.run, view.rows[vim.api.nvim_win_get_cursor(0)[1]]
  end
end

--- The line of a task, or nil when it is not shown.
---@param run_id string
---@param task_id string
---@return integer?
function M.line_of(run_id, task_id)
  local view = views[buffers[run_id] or -1]
  for number, row in ipairs(view and view.rows or {}) do
    if row.kind == "task" and row.id == task_id then
      return number
    end
  end
end

--- The next line in this direction whose row fits.
---@param from integer
---@param direction 1|-1
---@param fits fun(row: flowdrive.Row): boolean
---@return integer?
function M.find_row(from, direction, fits)
  local rows = (views[vim.api.nvim_get_current_buf()] or { rows = {} }).rows
  local number = from + direction
  while rows[number] do
    if fits(rows[number]) then
      return number
    end
    number = number + direction
  end
end

---@param run flowdrive.Run
---@return integer
local function create(run)
  local buffer = vim.api.nvim_create_buf(false, true)
  buffers[run.id] = buffer
  views[buffer] = { run = run, rows = {}, due = false, folded = {} }
  vim.api.nvim_buf_set_name(buffer, "flowdrive://run/" .. run.id)
  vim.bo[buffer].buftype = "nofile"
  vim.bo[buffer].bufhidden = "hide"
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].undolevels = -1
  require("flowdrive.run_keys").map(buffer)
  local group = vim.api.nvim_create_augroup("flowdrive.run." .. buffer, { clear = true })
  vim.api.nvim_create_autocmd("BufWinEnter", {
    group = group,
    buffer = buffer,
    desc = "flowdrive: the look of a run's window",
    callback = look.dress_window,
  })
  vim.api.nvim_create_autocmd({ "BufWinEnter", "WinEnter" }, {
    group = group,
    buffer = buffer,
    desc = "flowdrive: bring the view up to date",
    callback = function()
      M.refresh(views[buffer].run)
      require("flowdrive.follow").start(views[buffer].run)
    end,
  })
  vim.api.nvim_create_autocmd("BufWipeout", {
    group = group,
    buffer = buffer,
    callback = function()
      buffers[run.id] = nil
      views[buffer] = nil
      vim.api.nvim_del_augroup_by_id(group)
    end,
  })
  vim.bo[buffer].filetype = "flowdrive-run"
  return buffer
end

--- The run's buffer, made and drawn if need be.
---@param run flowdrive.Run
---@return integer
function M.buffer(run)
  look.define_highlights()
  local buffer = buffers[run.id]
  if not buffer or not vim.api.nvim_buf_is_valid(buffer) then
    buffer = create(run)
  end
  draw(buffer)
  return buffer
end

--- Whether a run's buffer is in a window.
---@param run_id string
---@return boolean
function M.is_visible(run_id)
  local buffer = buffers[run_id]
  return buffer ~= nil and #vim.fn.win_findbuf(buffer) > 0
end

--- Shows the run's buffer in a window.
---@param run flowdrive.Run
---@param command string the command that makes a window for it
---@param focus? boolean whether the cursor goes there
function M.open(run, command, focus)
  local buffer = M.buffer(run)
  local before = vim.api.nvim_get_current_win()
  local window = vim.fn.bufwinid(buffer)
  if window == -1 then
    vim.cmd(command)
    vim.api.nvim_win_set_buf(0, buffer)
    window = vim.api.nvim_get_current_win()
  end
  vim.api.nvim_set_current_win(focus and window or before)
end

return M
