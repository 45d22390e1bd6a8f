--- What makes diagnostics and code actions of the server work in ordinary buffers.
--- Must not: start or end a server.
local M = {}

--- Attaches the client to the files of its workspace, those open now and those opened later: findings are shown there
--- without it, but code actions need it. The server follows no text, so that this costs nothing.
---@param client vim.lsp.Client
local function attach_files(client)
  local root = require("flowdrive.compat").root_of(client)
  local function attach(buffer)
    local name = vim.api.nvim_buf_get_name(buffer)
    if root and name ~= "" and vim.bo[buffer].buftype == "" and vim.startswith(vim.fs.normalize(name), root .. "/") then
      vim.lsp.buf_attach_client(buffer, client.id)
    end
  end
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) then
      attach(buffer)
    end
  end
  vim.api.nvim_create_autocmd("BufReadPost", {
    group = vim.api.nvim_create_augroup("flowdrive.attach." .. client.id, { clear = true }),
    desc = "flowdrive: code actions in the files of the workspace",
    callback = function(args)
      if client.rpc.is_closing() then
        return true -- removes this autocommand
      end
      attach(args.buf)
    end,
  })
end

--- What the server's code actions run here, where more can be asked and shown than by the server itself.
local function define_lsp_commands()
  vim.lsp.commands["flowdrive.openReport"] = function(command)
    require("flowdrive.commands").open_report_file(command.arguments[1].path)
  end
  vim.lsp.commands["flowdrive.resolveFeedback"] = function(command)
    require("flowdrive.commands").resolve(command.arguments[1])
  end
end

--- Makes a server that was just started at home in this editor.
---@param client vim.lsp.Client
function M.attach(client)
  define_lsp_commands()
  attach_files(client)
end

return M
