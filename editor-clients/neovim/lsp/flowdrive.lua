-- How the server is started, for |vim.lsp.config()| and |vim.lsp.enable()| (Neovim 0.11). The plugin reads it too, so what
-- `vim.lsp.config("flowdrive", {...})` changes also holds for `:Flowdrive`.
return require("flowdrive.client").defaults()
