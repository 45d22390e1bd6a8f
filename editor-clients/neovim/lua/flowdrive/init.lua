--- What other configuration may rely on: `setup()` (optional) and `status()`. Everything else is internal.
--- Must not: start the server, or load more than it needs to.
local M = {}

---@class flowdrive.RunBufferOptions
---@field open? boolean Open the live view when a drive starts. Default true.
---@field focus? boolean Move the cursor there. Default false.
---@field command? string The command that makes its window. Default `botright 15split`.

---@alias flowdrive.AfterCrash
---| "show" # start it again, and show where its runs stand
---| "resume" # and carry them on
---| "nothing" # only say so

---@class flowdrive.Options
---@field cmd? string[] The server's command line. Default `{ "flowdrive", "serve", "--stdio" }`.
---@field init_options? table Agents and limits, as in the server's configuration file.
---@field confirm? boolean Show the preview and ask before a drive starts. Default true.
---@field quickfix? boolean Put findings into a new quickfix list when a drive ends. Default true.
---@field after_crash? flowdrive.AfterCrash When the server dies while it drives. Default "show".
---@field run_buffer? flowdrive.RunBufferOptions

---@type flowdrive.Options
local defaults = {
  confirm = true,
  quickfix = true,
  after_crash = "show",
  run_buffer = { open = true, focus = false, command = "botright 15split" },
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

--- What each option has to be.
local kinds = {
  cmd = "table",
  init_options = "table",
  confirm = "boolean",
  quickfix = "boolean",
  after_crash = "string",
  run_buffer = "table",
}
local run_buffer_kinds = { open = "boolean", focus = "boolean", command = "string" }

---@param prefix string
---@param wanted table
---@param allowed table<string, string>
local function check(prefix, wanted, allowed)
  for name, value in pairs(wanted) do
    local kind = allowed[name]
    if not kind then
      error(("flowdrive: setup has no option %s%s; see :help flowdrive-setup"):format(prefix, name), 0)
    elseif type(value) ~= kind then
      error(("flowdrive: setup option %s%s must be a %s, not a %s"):format(prefix, name, kind, type(value)), 0)
    end
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
  check("", wanted, kinds)
  check("run_buffer.", wanted.run_buffer or {}, run_buffer_kinds)
  if wanted.cmd and #wanted.cmd == 0 then
    error("flowdrive: setup option cmd is empty; it is the server's program and its arguments", 0)
  end
  if wanted.after_crash and not vim.tbl_contains({ "show", "resume", "nothing" }, wanted.after_crash) then
    error(
      ('flowdrive: setup option after_crash must be "show", "resume" or "nothing", not %q'):format(wanted.after_crash),
      0
    )
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
