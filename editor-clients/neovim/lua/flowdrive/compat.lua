--- The one place that knows how Neovim 0.10 and 0.11 differ. Must not: know of Flowdrive.
local M = {}

--- 0.11 has `vim.lsp.config()`, starts clients without a buffer, and calls a client's functions as methods.
M.has_0_11 = vim.fn.has("nvim-0.11") == 1

--- What the user configured with `vim.lsp.config()`, or nil where there is none.
---@param name string
---@return table?
function M.lsp_config(name)
  return M.has_0_11 and vim.lsp.config[name] or nil
end

--- Starts a client that no buffer is attached to.
---@param config table
---@return integer?
function M.start(config)
  if not M.has_0_11 then
    ---@diagnostic disable-next-line: deprecated
    return vim.lsp.start_client(config)
  end
  return vim.lsp.start(config, {
    attach = false,
    silent = true,
    reuse_client = function()
      return false
    end,
  })
end

---@param client vim.lsp.Client
---@param name "request"|"cancel_request"|"stop"
local function call(client, name, ...)
  if M.has_0_11 then
    return client[name](client, ...)
  end
  return client[name](...)
end

---@param client vim.lsp.Client
---@param method string
---@param params table
---@param done fun(problem: lsp.ResponseError?, answer: any)
---@return boolean sent
---@return integer? id
function M.request(client, method, params, done)
  return call(client, "request", method, params, done)
end

---@param client vim.lsp.Client
---@param id integer
function M.cancel(client, id)
  call(client, "cancel_request", id)
end

---@param client vim.lsp.Client
---@param force? boolean
function M.stop(client, force)
  call(client, "stop", force)
end

--- The folder a client was started for.
---@param client vim.lsp.Client
---@return string?
function M.root_of(client)
  return client.root_dir or client.config.root_dir
end

return M
