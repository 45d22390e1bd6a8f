--- What the user sees and is asked: messages, choices, inputs, the report, the quickfix list.
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

--- Whether something may be put in the place of what this window shows.
---@param window integer
---@return boolean
local function may_take(window)
  if not vim.api.nvim_win_is_valid(window) or vim.api.nvim_win_get_config(window).relative ~= "" then
    return false
  end
  local buffer = vim.api.nvim_win_get_buf(window)
  return vim.bo[buffer].filetype ~= "flowdrive-run"
    and not vim.wo[window].winfixbuf
    and (vim.bo[buffer].buftype == "" or vim.startswith(vim.api.nvim_buf_get_name(buffer), "flowdrive://"))
end

--- Makes a window current that what follows may fill: a new one where command modifiers ask for it; the current one; or,
--- from a run's view, the one used before, else a new one above.
---@param context? { mods?: string, beside?: boolean }
function M.make_room(context)
  context = context or {}
  if context.mods and context.mods ~= "" then
    vim.cmd(context.mods .. " split")
    return
  end
  local current = vim.api.nvim_get_current_win()
  if may_take(current) and not context.beside then
    return
  end
  local before = vim.fn.win_getid(vim.fn.winnr("#"))
  if before ~= 0 and before ~= current and may_take(before) then
    vim.api.nvim_set_current_win(before)
    return
  end
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if window ~= current and may_take(window) then
      vim.api.nvim_set_current_win(window)
      return
    end
  end
  vim.cmd("aboveleft split")
end

--- A read-only scratch buffer with this name and these lines.
---@param name string
---@param lines string[]
---@param filetype string
---@return integer
local function fill(name, lines, filetype)
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
  return buffer
end

--- Shows a read-only scratch buffer in a window that may be filled.
---@param name string
---@param lines string[]
---@param filetype string
---@param context? { mods?: string, beside?: boolean }
---@return integer buffer
function M.scratch(name, lines, filetype, context)
  M.make_room(context)
  local buffer = fill(name, lines, filetype)
  vim.api.nvim_win_set_buf(0, buffer)
  local window = vim.wo[0][0]
  window.conceallevel = 2
  window.number = false
  window.relativenumber = false
  window.linebreak = true
  window.breakindent = true
  return buffer
end

--- Shows a read-only scratch buffer in a window of its own, and leaves the cursor where it is.
---@param name string
---@param lines string[]
---@param filetype string
---@return fun() close
function M.show_beside(name, lines, filetype)
  local buffer = fill(name, lines, filetype)
  local window = vim.api.nvim_open_win(buffer, false, {
    split = "below",
    win = -1,
    height = math.max(5, math.min(#lines + 1, math.floor(vim.o.lines * 0.6))),
  })
  vim.wo[window].number = false
  vim.wo[window].relativenumber = false
  vim.wo[window].signcolumn = "no"
  vim.wo[window].conceallevel = 2
  vim.cmd.redraw()
  return function()
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
  end
end

--- Goes to the place that the current line names, such as `src/main.rs:12`: that under the cursor, else the first.
local function go_to_place()
  local line, column = vim.api.nvim_get_current_line(), vim.api.nvim_win_get_cursor(0)[2]
  local place, number
  local from = 1
  while true do
    local first, last, path, at = line:find("([%w%._/+-]+%.?[%w_]*):(%d+)", from)
    if not first then
      break
    end
    if not place or first - 1 <= column then
      place, number = path, tonumber(at)
    end
    from = last + 1
  end
  local root = vim.b.flowdrive_root
  if not place or not root then
    return M.notify("no place such as src/main.rs:12 on this line")
  end
  local path = vim.fs.joinpath(root, place)
  if not vim.uv.fs_stat(path) then
    return M.notify(path .. " does not exist", vim.log.levels.WARN)
  end
  vim.cmd.edit(vim.fn.fnameescape(path))
  vim.api.nvim_win_set_cursor(0, { math.min(number, vim.api.nvim_buf_line_count(0)), 0 })
  vim.cmd.normal({ "zv", bang = true })
end

--- Shows a file of a run as Markdown. `<CR>`, and |gF|, on a place such as `src/main.rs:12` go there.
---@param name string of the buffer
---@param path string
---@param root string
---@param context? { mods?: string, beside?: boolean }
---@return integer buffer
function M.open_file(name, path, root, context)
  local ok, lines = pcall(vim.fn.readfile, path)
  if not ok then
    error(("%s cannot be read"):format(path), 0)
  end
  local buffer = M.scratch(name, lines, "markdown", context)
  vim.bo[buffer].path = vim.fn.escape(root, " ,;\\") .. ",,"
  vim.b[buffer].flowdrive_root = root
  vim.keymap.set("n", "<CR>", go_to_place, { buffer = buffer, desc = "flowdrive: go to the place on this line" })
  return buffer
end

--- Shows a run's report.
---@param run_id string
---@param path string
---@param root string
---@param context? { mods?: string, beside?: boolean }
---@return integer buffer
function M.open_report(run_id, path, root, context)
  if not vim.uv.fs_stat(path) then
    error(("the report %s cannot be read. `:Flowdrive resume %s` writes it again."):format(path, run_id), 0)
  end
  return M.open_file("flowdrive://report/" .. run_id, path, root, context)
end

local severities = { P0 = "E", P1 = "E", P2 = "W", P3 = "I", none = "N" }

--- A run's findings as quickfix items: one per place cited, or one without a place. What several tasks say alike is there
--- once, as in the report. Pure.
---@param tasks flowdrive.protocol.TaskView[]
---@param root string
---@return table[]
function M.quickfix_items(tasks, root)
  local items, said_by, known = {}, {}, {}
  ---@param task_id string
  ---@param severity string
  ---@param claim string
  ---@param place? flowdrive.protocol.Evidence
  local function add(task_id, severity, claim, place)
    local key = table.concat({ severity, claim, place and place.path or "", place and place.line or "" }, "\n")
    local number = known[key]
    if number then
      if not vim.tbl_contains(said_by[number], task_id) then
        table.insert(said_by[number], task_id)
      end
      return
    end
    local item = { text = claim, type = severities[severity] or "N" }
    if place then
      item.filename, item.lnum = vim.fs.joinpath(root, place.path), place.line or 1
      item.end_lnum = place.endLine
    else
      item.valid = 0
    end
    items[#items + 1] = item
    said_by[#items], known[key] = { task_id }, #items
  end
  for _, seen in ipairs(tasks) do
    for _, finding in ipairs(seen.findings or {}) do
      local label = finding.severity ~= "none" and ("[%s] "):format(finding.severity) or ""
      local claim = label .. (finding.summary or finding.id):gsub("[\r\n]+", " ")
      local placed = false
      for _, evidence in ipairs(finding.evidence or {}) do
        if evidence.path then
          placed = true
          add(seen.id, finding.severity, claim, evidence)
        end
      end
      if not placed then
        add(seen.id, finding.severity, claim)
      end
    end
  end
  for number, item in ipairs(items) do
    local others = #said_by[number] - 1
    local more = others > 0 and (", %d more"):format(others) or ""
    item.text = ("%s (%s%s)"):format(item.text, said_by[number][1], more)
  end
  return items
end

--- Puts findings into a new quickfix list. The lists before it stay (`:colder`).
---@param name string of the run, or of a task of it
---@param items table[]
function M.set_quickfix(name, items)
  vim.fn.setqflist({}, " ", { title = "Flowdrive " .. name, items = items, context = { flowdrive = name } })
end

return M
