--- Straight-line code over callbacks: a task is a coroutine that waits for requests and for the user.
--- Must not: know what it is used for.
local M = {}

--- Raise this to leave a task quietly, for instance when the user dismisses a prompt.
M.cancelled = setmetatable({}, {
  __tostring = function()
    return "cancelled"
  end,
})

--- Who is told when a task fails.
---@type table<thread, fun(problem: any)>
local on_error = setmetatable({}, { __mode = "k" })

---@param thread thread
local function step(thread)
  local ok, problem = coroutine.resume(thread)
  if not ok and problem ~= M.cancelled then
    on_error[thread](problem)
  end
end

--- Runs `body` until it first waits; the rest follows as answers arrive. What it raises goes to `failed`.
---@param body fun()
---@param failed fun(problem: any)
function M.start(body, failed)
  local thread = coroutine.create(body)
  on_error[thread] = failed
  step(thread)
end

--- Calls `begin` with a callback, and waits until that is called. Only inside a task.
---@param begin fun(answer: fun(...))
---@return any ...
function M.await(begin)
  local thread = assert(coroutine.running(), "await outside a task")
  local waiting, answers = false, nil
  begin(function(...)
    if answers then
      return -- only the first answer to a question counts
    end
    answers = vim.F.pack_len(...)
    if waiting then
      vim.schedule(function()
        step(thread)
      end)
    end
  end)
  if not answers then
    waiting = true
    coroutine.yield()
  end
  return vim.F.unpack_len(answers)
end

return M
