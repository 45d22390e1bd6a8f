--- The connection to the server: starting it once per workspace, sending requests, and ending it with the editor.
--- Must not: show anything but faults of the connection, or know how versions of Neovim differ (`flowdrive.compat`).
local binary = require("flowdrive.binary")
local compat = require("flowdrive.compat")
local task = require("flowdrive.task")

local M = {}

--- The protocol version this plugin was written for.
M.PROTOCOL_VERSION = 1
--- How long Neovim's own exit waits for the server, which promises to be gone within 1.5 s.
local EXIT_TIMEOUT_MS = 3000
--- How long a server may take to answer `initialize`.
local HANDSHAKE_MS = 10000

--- Servers that were asked to end. The end of any other is a fault.
---@type table<integer, true>
local asked_to_end = {}

--- Neovim's own exit asks its servers to stop and leaves at once. A server that ends dozens of agents needs a moment:
--- wait for it, no longer than it takes, and end it by force when it does not answer.
local function wait_at_exit()
  vim.api.nvim_create_autocmd("VimLeavePre", {
    group = vim.api.nvim_create_augroup("flowdrive.exit", { clear = true }),
    desc = "flowdrive: leave no server and no agent behind",
    callback = function()
      for _, client in ipairs(vim.lsp.get_clients({ name = "flowdrive" })) do
        M.stop(client, EXIT_TIMEOUT_MS)
      end
    end,
  })
end

--- Whom to tell when a server is ready, or gone, by client id. Each is called once, with a sentence when it is gone.
---@type table<integer, table<fun(problem?: string), true>>
local waiting = {}

---@param client_id integer
---@param problem? string
local function release(client_id, problem)
  local callbacks = waiting[client_id] or {}
  waiting[client_id] = nil
  for callback in pairs(callbacks) do
    callback(problem)
  end
end

---@param client_id integer
---@param callback fun(problem?: string)
---@return fun() forget
local function wait_for(client_id, callback)
  waiting[client_id] = waiting[client_id] or {}
  waiting[client_id][callback] = true
  return function()
    if waiting[client_id] then
      waiting[client_id][callback] = nil
    end
  end
end

--- Takes a server that speaks this plugin's protocol version into use, and refuses any other.
---@param client vim.lsp.Client
local function on_init(client)
  wait_at_exit()
  local spoken = vim.tbl_get(client.server_capabilities or {}, "experimental", "flowdrive") or {}
  local newest = tonumber(spoken.protocolVersion) or 0
  local oldest = tonumber(spoken.minProtocolVersion) or newest
  if oldest <= M.PROTOCOL_VERSION and M.PROTOCOL_VERSION <= newest then
    require("flowdrive.attach").attach(client)
    release(client.id)
    return
  end
  local problem = ("%s speaks protocol version %s, this plugin version %d. Update the older of the two."):format(
    M.describe(client),
    newest == 0 and "(none)" or ("%d to %d"):format(oldest, newest),
    M.PROTOCOL_VERSION
  )
  if waiting[client.id] then
    release(client.id, problem)
  else
    vim.notify("flowdrive: " .. problem, vim.log.levels.ERROR)
  end
  M.stop(client)
end

---@param code integer
---@param signal integer
---@param client_id integer
local function on_exit(code, signal, client_id)
  vim.schedule(function()
    local how = signal ~= 0 and ("signal " .. signal) or ("exit code " .. code)
    release(client_id, ("the server ended (%s); its log is in %s"):format(how, vim.lsp.get_log_path()))
    local intended = asked_to_end[client_id] or (code == 0 and signal == 0) or vim.v.exiting ~= vim.NIL
    asked_to_end[client_id] = nil
    require("flowdrive.reattach").on_server_exit(client_id, how, intended)
  end)
end

local function on_progress(problem, event, context)
  if not problem and type(event) == "table" then
    require("flowdrive.runs").on_event(event, context.client_id)
  end
end

--- How the server is started when nothing is configured.
---@return table
function M.defaults()
  return {
    name = "flowdrive",
    cmd = vim.deepcopy(binary.DEFAULT),
    root_markers = { ".cw", ".git" },
    -- Neovim detaches servers by default; this one has child processes and must not outlive its editor.
    detached = false,
    flags = { exit_timeout = EXIT_TIMEOUT_MS },
    init_options = { protocolVersion = M.PROTOCOL_VERSION },
    handlers = { ["flowdrive/progress"] = on_progress },
    on_init = on_init,
    on_exit = on_exit,
  }
end

--- The user's callback in addition to ours, not in its place.
---@param ours function
---@param theirs? function|function[]
---@return function|function[]
local function both(ours, theirs)
  if theirs == nil or theirs == ours then
    return ours
  end
  return type(theirs) == "table" and vim.list_extend({ ours }, theirs) or { ours, theirs }
end

--- Defaults, then `vim.lsp.config` (0.11), then `setup()`.
---@return table
local function configured()
  local options = require("flowdrive").options()
  local config = M.defaults()
  local theirs = compat.lsp_config("flowdrive")
  if theirs then
    config = vim.tbl_deep_extend("force", config, theirs)
    config.on_init = both(on_init, config.on_init)
    config.on_exit = both(on_exit, config.on_exit)
  end
  if options.cmd then
    config.cmd = options.cmd
  end
  config.init_options = vim.tbl_deep_extend("force", config.init_options or {}, options.init_options or {})
  if config.init_options.agents and vim.tbl_isempty(config.init_options.agents) then
    config.init_options.agents = vim.empty_dict() -- an empty Lua table would be sent as a list
  end
  return config
end

--- The folder that runs are about: the project of the current file, else the current directory.
---@return string
function M.root()
  local markers = configured().root_markers
  local name = vim.api.nvim_buf_get_name(0)
  local from = (vim.bo.buftype == "" and name ~= "") and 0 or vim.fn.getcwd()
  local root = vim.fs.root(from, markers) or vim.fn.getcwd()
  return vim.uv.fs_realpath(root) or vim.fs.normalize(root)
end

---@param root string
---@return vim.lsp.Client?
function M.running(root)
  for _, client in ipairs(vim.lsp.get_clients({ name = "flowdrive" })) do
    local own = compat.root_of(client)
    if own and (vim.uv.fs_realpath(own) or own) == root and not M.is_stopped(client) then
      return client
    end
  end
end

---@param client vim.lsp.Client
---@return boolean
function M.is_stopped(client)
  return client.rpc.is_closing()
end

--- The server's command line, for messages.
---@param client? vim.lsp.Client
---@return string
function M.describe(client)
  local cmd = client and (client.config.command_line or client.config.cmd) or configured().cmd
  return type(cmd) == "table" and table.concat(cmd, " ") or "the server"
end

--- The server's command line as it is configured; empty when it is not a program.
---@return string[]
function M.command()
  local cmd = configured().cmd
  return type(cmd) == "table" and cmd or {}
end

--- The program and where it was found; nil and a sentence when it was not.
---@return string? path
---@return string? problem
function M.executable()
  local cmd = configured().cmd
  if type(cmd) ~= "table" then
    return nil, "the server is not a program: cmd is a " .. type(cmd)
  end
  local path, tried = binary.find(cmd)
  if not path then
    return nil, binary.explain(cmd, tried)
  end
  return path
end

--- Starts the server's process. A refused `initialize` would be thrown by Neovim from its event loop, where nobody can
--- catch it; here it ends the process and is told to `refused`. How the process ended is kept for `config.on_exit`, and
--- kept from Neovim itself, whose own note on it would only repeat ours.
---@param config table
---@param dispatchers vim.lsp.rpc.Dispatchers
---@param refused fun(problem: string)
---@return vim.lsp.rpc.PublicClient
local function spawn(config, dispatchers, refused)
  local options = { cwd = config.cmd_cwd, env = config.cmd_env, detached = config.detached }
  local on_exit_of_process = dispatchers.on_exit
  dispatchers.on_exit = function(code, signal)
    config.ended.code, config.ended.signal = code, signal
    on_exit_of_process(0, 0)
  end
  local rpc = vim.lsp.rpc.start(config.command_line, dispatchers, options)
  local request = rpc.request
  rpc.request = function(method, params, callback, ...)
    if method ~= "initialize" then
      return request(method, params, callback, ...)
    end
    return request(method, params, function(problem, result)
      if problem then
        rpc.terminate()
        refused(M.explain(problem))
      else
        callback(nil, result)
      end
    end, ...)
  end
  return rpc
end

--- Starts a server for this folder.
---@param root string
---@return vim.lsp.Client
local function start(root)
  local config = configured()
  config.root_dir = root
  config.root_markers = nil
  config.command_line = config.cmd
  local id
  if type(config.cmd) == "table" then
    local path, problem = M.executable()
    if not path then
      error(problem, 0)
    end
    config.command_line = vim.list_extend({ path }, config.cmd, 2)
    config.ended = { code = 0, signal = 0 }
    config.on_exit = vim.tbl_map(function(callback)
      return function(_, _, client_id)
        callback(config.ended.code, config.ended.signal, client_id)
      end
    end, type(config.on_exit) == "table" and config.on_exit or { config.on_exit })
    config.cmd = function(dispatchers)
      return spawn(config, dispatchers, function(refusal)
        release(id, M.describe(vim.lsp.get_client_by_id(id)) .. " refused the handshake: " .. refusal)
      end)
    end
  end
  id = compat.start(config)
  local client = id and vim.lsp.get_client_by_id(id)
  if not client then
    error(("%s could not be started; see %s"):format(M.describe(), vim.lsp.get_log_path()), 0)
  end
  return client
end

--- The server for this folder, started when there is none. Waits for its handshake. Only inside a task.
---@param root string
---@return vim.lsp.Client
function M.get(root)
  local client = M.running(root) or start(root)
  if client.initialized then
    return client
  end
  local problem = task.await(function(answer)
    local forget = wait_for(client.id, answer)
    vim.defer_fn(function()
      forget()
      answer(("%s did not answer its handshake within %d s"):format(M.describe(client), HANDSHAKE_MS / 1000))
    end, HANDSHAKE_MS)
  end)
  if problem then
    M.stop(client)
    error(problem, 0)
  end
  return client
end

--- A fault in one or more lines: what happened, where, what to do next.
---@param problem lsp.ResponseError
---@return string
function M.explain(problem)
  local lines = { problem.message }
  local data = type(problem.data) == "table" and problem.data or {}
  local place = {}
  for _, name in ipairs({ "file", "line", "field" }) do
    local value = data[name]
    if value ~= nil and value ~= vim.NIL then
      place[#place + 1] = name == "file" and tostring(value) or (name .. " " .. tostring(value))
    end
  end
  if #place > 0 then
    lines[#lines + 1] = "at " .. table.concat(place, ", ")
  end
  if type(data.hint) == "string" and data.hint ~= "" then
    lines[#lines + 1] = data.hint
  end
  return table.concat(lines, "\n")
end

--- Sends a request; `done` gets the error or the answer. Returns a function that cancels it.
---@param client vim.lsp.Client
---@param method string
---@param params table
---@param done fun(problem: lsp.ResponseError?, answer: any)
---@return fun() cancel
function M.send(client, method, params, done)
  local payload = next(params) == nil and vim.empty_dict() or params
  local sent, id = compat.request(client, method, payload, done)
  if not sent then
    done({
      code = -32099,
      message = M.describe(client) .. " is not running",
      data = { hint = "Run the command again to start it." },
    })
  end
  return function()
    if sent and id and not M.is_stopped(client) then
      compat.cancel(client, id)
    end
  end
end

--- Sends a request and waits for its answer: a fault as text, or the answer. Only inside a task.
---@param client vim.lsp.Client
---@param method string
---@param params table
---@return string? problem
---@return any answer
function M.try_request(client, method, params)
  return task.await(function(answer)
    -- Neovim drops the callbacks of a server that dies; whoever waits must hear of it.
    local forget = wait_for(client.id, answer)
    M.send(client, method, params, function(problem, result)
      forget()
      answer(problem and M.explain(problem) or nil, result)
    end)
  end)
end

--- The same, with a fault raised as text.
---@param client vim.lsp.Client
---@param method string
---@param params table
---@return any
function M.request(client, method, params)
  local problem, answer = M.try_request(client, method, params)
  if problem then
    error(problem, 0)
  end
  return answer
end

--- Asks the server to end. With a time limit: waits for that, and ends it by force once the limit is over.
---@param client vim.lsp.Client
---@param wait_ms? integer
function M.stop(client, wait_ms)
  asked_to_end[client.id] = true
  compat.stop(client)
  if wait_ms and not vim.wait(wait_ms, function()
    return M.is_stopped(client)
  end, 10) then
    compat.stop(client, true)
    vim.wait(500, function()
      return M.is_stopped(client)
    end, 10)
  end
end

return M
