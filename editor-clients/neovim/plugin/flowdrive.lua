-- Defines the `:Flowdrive` command, and nothing else: the plugin's code is loaded when the command is first used.
-- Must not: start the server, or use anything that an old Neovim lacks before the version is checked.
if vim.g.loaded_flowdrive then
  return
end
vim.g.loaded_flowdrive = 1

if vim.fn.has("nvim-0.10") == 0 then
  local refuse = [[echohl ErrorMsg | echomsg "flowdrive: needs Neovim 0.10 or newer" | echohl None]]
  vim.cmd("command! -nargs=* -bang Flowdrive " .. refuse)
  return
end

vim.api.nvim_create_user_command("Flowdrive", function(args)
  require("flowdrive.commands").run(args)
end, {
  nargs = "*",
  bang = true,
  desc = "Drive, preview, resume and stop agent workflows",
  complete = function(lead, line, position)
    return require("flowdrive.complete").complete(lead, line, position)
  end,
})
