--- `:checkhealth flowdrive`: Neovim, the server program, and the server's own `doctor`.
--- Must not: leave a server running that was not running before.
local client_of = require("flowdrive.client")
local task = require("flowdrive.task")

local M = {}

--- How long the whole conversation with the server may take.
local PATIENCE_MS = 10000

---@param answer table the protocol's DoctorResult
local function show(answer)
  vim.health.start("flowdrive: server " .. answer.version)
  for _, check in ipairs(answer.checks) do
    local text = check.name .. ": " .. check.message
    if check.status == "ok" then
      vim.health.ok(text)
    elseif check.status == "warn" then
      vim.health.warn(text, check.hint and { check.hint } or nil)
    else
      vim.health.error(text, check.hint and { check.hint } or nil)
    end
  end
end

function M.check()
  vim.health.start("flowdrive: editor")
  local version = vim.version()
  local api = require("flowdrive.compat").has_0_11 and "0.11" or "0.10"
  vim.health.ok(("Neovim %d.%d.%d, used as %s"):format(version.major, version.minor, version.patch, api))
  local root = client_of.root()
  vim.health.info("workspace: " .. root)
  for _, option in ipairs({ "confirm", "quickfix", "after_crash" }) do
    vim.health.info(("option %s: %s"):format(option, tostring(require("flowdrive").options()[option])))
  end
  local path, problem = client_of.executable()
  if not path then
    vim.health.error(problem or "no server program", {
      "`cargo install --locked --path server/flowdrive` in the repository of Flowdrive installs it",
      "`:help flowdrive-setup` tells how to name it",
    })
    return
  end
  vim.health.ok("server program: " .. path)

  local before = client_of.running(root)
  local answer, fault
  task.start(function()
    local client = client_of.get(root)
    answer = client_of.request(client, "doctor", { workspace = root })
  end, function(text)
    fault = tostring(text)
  end)
  vim.wait(PATIENCE_MS, function()
    return answer ~= nil or fault ~= nil
  end, 10)
  if answer then
    show(answer)
  else
    vim.health.error(fault or "the server did not answer within 10 s", { "See " .. vim.lsp.get_log_path() })
  end
  local client = client_of.running(root)
  if client and not before then
    client_of.stop(client, 3000)
  end
end

return M
