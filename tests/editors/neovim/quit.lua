--- Starts a drive whose agents sleep, writes down its processes and leaves the editor with `:qa!`, or waits to be killed.
--- run.sh looks at what is left. FLOWDRIVE_PIDS names the file for the process ids, FLOWDRIVE_LEAVE is `quit` or `kill`.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
package.path = here .. "/?.lua;" .. package.path
local t = require("check")
local session = require("session")
local folder = assert(vim.env.FLOWDRIVE_PIDS) .. ".d"
vim.fn.mkdir(folder, "p")

t.capture_messages()
session.configure({ agents = { slow = session.sleeper(folder) }, defaultAgent = "slow" })
session.flowdrive(('drive quick-survey question="%s"'):format(session.question))
t.eventually("an agent that sleeps", function()
  return #session.sleepers(folder) > 0
end)
local servers = session.servers()
assert(#servers == 1, "one server: " .. vim.inspect(servers))
vim.fn.writefile({ ("server %d"):format(servers[1]) }, vim.env.FLOWDRIVE_PIDS .. ".part")
for _, pid in ipairs(session.sleepers(folder)) do
  vim.fn.writefile({ ("agent %d"):format(pid) }, vim.env.FLOWDRIVE_PIDS .. ".part", "a")
end
vim.uv.fs_rename(vim.env.FLOWDRIVE_PIDS .. ".part", vim.env.FLOWDRIVE_PIDS)
if vim.env.FLOWDRIVE_LEAVE == "kill" then
  vim.wait(t.PATIENCE_MS, function()
    return false
  end)
end
vim.cmd("qa!")
