--- What happens when the server dies while it drives: it is started again, later and later when it keeps dying, and what
--- was missed of its runs is fetched and shown. Must not: start agents again; that is the user's to say, once for each run
--- or once for all with the option `after_crash`.
local client_of = require("flowdrive.client")
local runs = require("flowdrive.runs")
local task = require("flowdrive.task")

local M = {}

local FIRST_DELAY_MS = 500
--- After so many deaths within so long, the server is left alone.
local MOST_DEATHS, WITHIN_MS = 5, 180000

--- When servers died, in milliseconds of the event loop, by folder.
---@type table<string, integer[]>
local deaths = {}

---@param text string
---@param level integer
local function tell(text, level)
  vim.notify("flowdrive: " .. text, level)
end

--- Notes a death, and says how long to wait before the server is started again; nil when that is not worth it.
---@param root string
---@param now integer
---@return integer? delay
function M.note_death(root, now)
  local recent = vim.tbl_filter(function(at)
    return now - at < WITHIN_MS
  end, deaths[root] or {})
  recent[#recent + 1] = now
  deaths[root] = recent
  if #recent > MOST_DEATHS then
    return nil
  end
  return FIRST_DELAY_MS * 2 ^ (#recent - 1)
end

---@param run flowdrive.Run
---@param missed integer
---@return string
local function standing(run, missed)
  local text = ("%s stands at %d of %d tasks"):format(run.id, run.completed, run.planned)
  if missed > 0 then
    text = text .. (", %s caught up on"):format(require("flowdrive.format").plural(missed, "event"))
  end
  return text
end

--- Starts the server again and brings these runs up to date.
---@param root string
---@param interrupted flowdrive.Run[]
local function attach_again(root, interrupted)
  task.start(function()
    local client = client_of.get(root)
    local lines = {}
    for _, run in ipairs(interrupted) do
      local missed = runs.catch_up(run, client)
      local view = runs.fetch(client, root, run.id)
      local text = standing(run, missed)
      if run.driven_here then
        text = text .. ", and is driven again"
      elseif view.summary.driving then
        text = text .. ", and another process drives it"
      elseif view.summary.status == "in-progress" then
        text = text .. (". `:Flowdrive resume %s` carries it on."):format(run.id)
      else
        text = text .. (", %s."):format(view.summary.status)
      end
      lines[#lines + 1] = text
    end
    tell("the server runs again. " .. table.concat(lines, "\n"), vim.log.levels.WARN)
    vim.api.nvim_exec_autocmds("User", {
      pattern = "FlowdriveReattached",
      modeline = false,
      data = {
        workspace = root,
        runs = vim.tbl_map(function(run)
          return run.id
        end, interrupted),
      },
    })
    if require("flowdrive").options().after_crash == "resume" then
      for _, run in ipairs(interrupted) do
        if run.status == "interrupted" then
          require("flowdrive.commands").resume(run.id, root)
        end
      end
    end
  end, function(problem)
    tell(tostring(problem), vim.log.levels.ERROR)
  end)
end

--- A server ended. Says so when it drove something and nobody had asked it to end, and has it started again.
---@param client_id integer
---@param how string
---@param intended boolean
function M.on_server_exit(client_id, how, intended)
  local interrupted = runs.forget_reporter(client_id)
  if #interrupted == 0 or intended then
    return
  end
  local root = interrupted[1].root
  local ids = table.concat(
    vim.tbl_map(function(run)
      return run.id
    end, interrupted),
    ", "
  )
  local said = ("the server ended (%s) while it drove %s."):format(how, ids)
  vim.api.nvim_exec_autocmds("User", {
    pattern = "FlowdriveServerDied",
    modeline = false,
    data = { workspace = root, how = how },
  })
  local resume = (" `:Flowdrive resume %s` carries it on."):format(interrupted[1].id)
  if require("flowdrive").options().after_crash == "nothing" then
    return tell(said .. resume, vim.log.levels.ERROR)
  end
  local delay = M.note_death(root, vim.uv.now())
  if not delay then
    local log = vim.lsp.get_log_path()
    return tell(
      said .. " It keeps ending, and is left alone; its log is in " .. log .. "." .. resume,
      vim.log.levels.ERROR
    )
  end
  tell(said .. (" Starting it again in %.1f s."):format(delay / 1000), vim.log.levels.ERROR)
  vim.defer_fn(function()
    attach_again(root, interrupted)
  end, delay)
end

return M
