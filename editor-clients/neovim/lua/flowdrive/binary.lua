--- Finds the server's program, and says where it was looked for. Must not: start it.
local M = {}

--- The command line used when nothing is configured.
M.DEFAULT = { "flowdrive", "serve", "--stdio" }

--- Where builds of this repository and of `cargo install` put it, for editors that were started without the shell's PATH.
---@return string[]
local function usual_places()
  local here = vim.fs.normalize(debug.getinfo(1, "S").source:sub(2))
  local repository = here
  for _ = 1, 5 do -- lua/flowdrive/binary.lua in editor-clients/neovim
    repository = vim.fs.dirname(repository)
  end
  local places = { vim.fs.normalize("~/.cargo/bin/flowdrive") }
  -- Only where the plugin stands in its own repository: its owner has chosen both.
  if vim.uv.fs_stat(repository .. "/editor-clients/neovim/plugin/flowdrive.lua") then
    places[#places + 1] = repository .. "/target/release/flowdrive"
    places[#places + 1] = repository .. "/target/debug/flowdrive"
  end
  return places
end

--- The folders of `$PATH`.
---@return string[]
local function search_path()
  local separator = vim.fn.has("win32") == 1 and ";" or ":"
  return vim.split(vim.env.PATH or "", separator, { trimempty = true, plain = true })
end

--- The program's path; or nil, and every path that was tried.
---@param cmd string[]
---@return string? path
---@return string[] tried
function M.find(cmd)
  local name = cmd[1]
  local found = vim.fn.exepath(name)
  if found ~= "" then
    return found, {}
  end
  if name:find("[/\\]") then
    return nil, { vim.fs.normalize(name) }
  end
  local tried = {}
  for _, folder in ipairs(search_path()) do
    tried[#tried + 1] = vim.fs.joinpath(folder, name)
  end
  if vim.deep_equal(cmd, M.DEFAULT) then
    for _, place in ipairs(usual_places()) do
      if vim.fn.executable(place) == 1 then
        return place, tried
      end
      tried[#tried + 1] = place
    end
  end
  local seen = {}
  return nil,
    vim.tbl_filter(function(path)
      local again = seen[path]
      seen[path] = true
      return not again
    end, tried)
end

--- The message for a program that was not found.
---@param cmd string[]
---@param tried string[]
---@return string
function M.explain(cmd, tried)
  local lines = { ("server program %q not found. Tried:"):format(cmd[1]) }
  for _, path in ipairs(tried) do
    lines[#lines + 1] = "  " .. path
  end
  lines[#lines + 1] =
    "Install it, or name it: require('flowdrive').setup({ cmd = { '/path/to/flowdrive', 'serve', '--stdio' } })"
  return table.concat(lines, "\n")
end

return M
