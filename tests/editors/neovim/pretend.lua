--- Makes this Neovim look like 0.10 to the plugin, where no real one is to be had: what is new in 0.11 is gone, and
--- a client's functions cannot be called as methods. Must not: be taken for the real thing; the rest is still 0.11.
local M = {}

--- Named in 0.11's news as new, of what a plugin like this one could want.
local new_in_0_11 = {
  { vim.lsp, "config" },
  { vim.lsp, "enable" },
  { vim.lsp, "is_enabled" },
  { vim.lsp, "foldexpr" },
  { vim.lsp, "foldtext" },
  { vim.lsp, "foldclose" },
  { vim.fs, "abspath" },
  { vim.fs, "relpath" },
  { vim.fs, "rm" },
  { vim.text, "indent" },
  { vim.diagnostic, "jump" },
}

--- Functions of a client that 0.10 has with a dot only.
local dot_only = { "request", "request_sync", "notify", "cancel_request", "stop", "is_stopped", "supports_method" }

--- Whether the plugin, and not Neovim itself, called the function that asks.
local function called_by_plugin()
  local info = debug.getinfo(3, "S")
  return info ~= nil and info.source:find("editor-clients/neovim", 1, true) ~= nil
end

function M.neovim_0_10()
  for _, entry in ipairs(new_in_0_11) do
    entry[1][entry[2]] = nil
  end
  local has = vim.fn.has
  vim.fn.has = function(feature)
    return feature == "nvim-0.11" and 0 or has(feature)
  end
  vim.deprecate = function() end
  local Client = require("vim.lsp.client")
  local create = Client.create
  Client.create = function(...)
    local client, problem = create(...)
    for _, name in ipairs(client and dot_only or {}) do
      local call = client[name]
      client[name] = function(first, ...)
        if first == client and called_by_plugin() then
          error(("0.10 has client.%s(...), not client:%s(...)"):format(name, name), 2)
        end
        return call(first, ...)
      end
    end
    return client, problem
  end
end

return M
