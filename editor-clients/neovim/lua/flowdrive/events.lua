--- `User` autocommands for what happens to a run, so that other configuration can react. Must not: draw or ask.
local M = {}

--- Runs `User Flowdrive<Type>` for one event of a run. What an agent is doing comes too often, and is left out.
---@param run flowdrive.Run
---@param event table
function M.emit(run, event)
  if type(event.type) ~= "string" or event.type == "agentActivity" then
    return
  end
  vim.api.nvim_exec_autocmds("User", {
    pattern = "Flowdrive" .. event.type:sub(1, 1):upper() .. event.type:sub(2),
    modeline = false,
    data = { run_id = run.id, workspace = run.root, status = run.status, event = event },
  })
end

return M
