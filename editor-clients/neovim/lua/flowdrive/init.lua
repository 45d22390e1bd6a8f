--- What other configuration may rely on: `setup()` (optional) and `status()`. Everything else is internal.
--- Must not: start the server, or load more than it needs to.
local M = {}

---@class flowdrive.RunBufferOptions
---@field open? boolean Open the live view when a drive starts. Default true.
---@field command? string The command that makes its window. Default `botright 15split`.

---@class flowdrive.Options
---@field cmd? string[] The server's command line. Default `{ "flowdrive", "serve", "--stdio" }`.
---@field init_options? table Agents and limits, as in the server's configuration file.
---@field quickfix? boolean Put findings into a new quickfix list when a drive ends. Default true.
---@field run_buffer? flowdrive.RunBufferOptions

---@type flowdrive.Options
local defaults = {
  quickfix = true,
  run_buffer = { open = true, command = "botright 15split" },
}

---@type flowdrive.Options
local options = vim.deepcopy(defaults)

--- The message for a Neovim that is too old, or nil.
---@return string?
function M.unsupported()
  if vim.fn.has("nvim-0.10") == 0 then
    return "flowdrive: needs Neovim 0.10 or newer"
  end
end

---@param name string
---@param value any
---@param kind string
local function check(name, value, kind)
  if value ~= nil and type(value) ~= kind then
    error(("flowdrive: setup option %s must be a %s, not a %s"):format(name, kind, type(value)), 0)
  end
end

--- Changes the defaults. Not needed where they suit.
---@param wanted? flowdrive.Options
function M.setup(wanted)
  local refusal = M.unsupported()
  if refusal then
    vim.api.nvim_echo({ { refusal, "ErrorMsg" } }, true, {})
    return
  end
  wanted = wanted or {}
  check("cmd", wanted.cmd, "table")
  check("init_options", wanted.init_options, "table")
  check("quickfix", wanted.quickfix, "boolean")
  check("run_buffer", wanted.run_buffer, "table")
  for name in pairs(wanted) do
    if not vim.tbl_contains({ "cmd", "init_options", "quickfix", "run_buffer" }, name) then
      error(("flowdrive: setup has no option %s; see :help flowdrive-setup"):format(name), 0)
    end
  end
  options = vim.tbl_deep_extend("force", vim.deepcopy(defaults), wanted)
end

--- The options in force.
---@return flowdrive.Options
function M.options()
  return options
end

--- One short text for a status line: what is being driven, or "" when nothing is.
---@return string
function M.status()
  local runs = package.loaded["flowdrive.runs"]
  return runs and runs.status() or ""
end

return M
