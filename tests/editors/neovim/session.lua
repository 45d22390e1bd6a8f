--- What every scenario against the real server needs: the plugin, a server configuration, the runs' folder.
--- The environment names the server (FLOWDRIVE_BIN) and a workspace made by run.sh (FLOWDRIVE_WORKSPACE).
local M = {}

M.here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
M.workspace = assert(vim.env.FLOWDRIVE_WORKSPACE, "run.sh sets FLOWDRIVE_WORKSPACE")
M.server = assert(vim.env.FLOWDRIVE_BIN, "run.sh sets FLOWDRIVE_BIN")
M.question = "where is the retry limit decided"

vim.opt.runtimepath:prepend(vim.fs.normalize(M.here .. "/../../../editor-clients/neovim"))
vim.cmd.runtime("plugin/flowdrive.lua")
vim.cmd.cd(M.workspace)

--- Configures the server: `init_options` as in its configuration file. No question before a drive, unless asked for.
---@param init_options? table
---@param more? flowdrive.Options
function M.configure(init_options, more)
  local options = { cmd = { M.server, "serve", "--stdio" }, init_options = init_options, confirm = false }
  require("flowdrive").setup(vim.tbl_extend("force", options, more or {}))
end

---@return vim.lsp.Client?
function M.client()
  return vim.lsp.get_clients({ name = "flowdrive" })[1]
end

--- Process ids of the servers that this Neovim started; it starts no other programs.
---@return integer[]
function M.servers()
  return vim.api.nvim_get_proc_children(vim.fn.getpid())
end

---@param pid integer
---@return boolean
function M.alive(pid)
  return vim.uv.kill(pid, 0) == 0
end

--- An agent that writes its process id into a file of this folder and then sleeps.
---@param folder string
---@return table
function M.sleeper(folder)
  return { command = { "sh", "-c", 'echo $$ > "$0/$$.pid"; exec sleep 60', folder } }
end

--- The process ids that sleepers wrote.
---@param folder string
---@return integer[]
function M.sleepers(folder)
  local found = {}
  for name in vim.fs.dir(folder) do
    found[#found + 1] = tonumber(name:match("^(%d+)%.pid$"))
  end
  return found
end

--- `:Flowdrive`, as typed; a message that it shows as an error is a message, not a failure of the test.
---@param text string
function M.flowdrive(text)
  vim.cmd("Flowdrive " .. text)
end

--- Ends the running server; the next one is started with these options.
---@param init_options? table
---@param more? flowdrive.Options
function M.restart(init_options, more)
  local t = require("check")
  local client = M.client()
  if client then
    require("flowdrive.client").stop(client, 5000)
    t.eventually("the old server's end", function()
      return not M.client()
    end)
  end
  M.configure(init_options, more)
  t.clear()
end

--- Starts a drive whose agents sleep, and waits for them.
---@param more? flowdrive.Options
---@return string folder of the agents' process ids
---@return flowdrive.Run run
function M.sleeping_drive(more)
  local t = require("check")
  local folder = vim.fn.tempname()
  vim.fn.mkdir(folder, "p")
  M.restart({ agents = { slow = M.sleeper(folder) }, defaultAgent = "slow" }, more)
  M.flowdrive(('drive quick-survey question="%s"'):format(M.question))
  t.eventually("an agent that sleeps", function()
    return #M.sleepers(folder) > 0
  end)
  t.eventually("its run", function()
    return #require("flowdrive.runs").active() == 1
  end)
  return folder, require("flowdrive.runs").active()[1]
end

return M
