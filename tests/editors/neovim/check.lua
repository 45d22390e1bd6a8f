--- A very small test runner for `nvim -l`: `ok - `/`not ok - ` lines on standard output, and helpers to wait and to answer
--- prompts. Must not: know what is tested.
if vim.env.FLOWDRIVE_PRETEND == "0.10" then
  require("pretend").neovim_0_10()
end

local M = { failed = 0 }

--- How long anything may take before it counts as not happening. A bound, not a measurement.
M.PATIENCE_MS = 30000

local function line(text)
  io.stdout:write(text, "\n")
  io.stdout:flush()
end

--- Runs one test. What it raises is its failure.
---@param name string
---@param body fun()
function M.test(name, body)
  local ok, problem = xpcall(body, debug.traceback)
  if ok then
    line("ok - " .. name)
  else
    M.failed = M.failed + 1
    line("not ok - " .. name)
    for part in tostring(problem):gmatch("[^\n]+") do
      line("    " .. part)
    end
  end
end

--- Fails unless both are equal.
function M.same(got, wanted, what)
  if not vim.deep_equal(got, wanted) then
    error(("%s: got %s, wanted %s"):format(what or "value", vim.inspect(got), vim.inspect(wanted)), 2)
  end
end

--- Fails unless `text` contains `part`, literally.
function M.contains(text, part, what)
  if type(text) ~= "string" or not text:find(part, 1, true) then
    error(("%s: %s does not contain %s"):format(what or "text", vim.inspect(text), vim.inspect(part)), 2)
  end
end

--- Waits until `fits` answers something true, and hands that on.
function M.eventually(what, fits)
  local found
  vim.wait(M.PATIENCE_MS, function()
    found = fits()
    return found
  end, 10)
  if not found then
    error("never happened: " .. what, 2)
  end
  return found
end

--- The messages shown since the last `clear`, newest last.
M.messages = {}

function M.capture_messages()
  vim.notify = function(text, level)
    M.messages[#M.messages + 1] = { text = text, level = level or vim.log.levels.INFO }
  end
end

--- Waits for a message that contains `part`.
function M.message(part)
  local seen = vim.wait(M.PATIENCE_MS, function()
    for _, message in ipairs(M.messages) do
      if message.text:find(part, 1, true) then
        return true
      end
    end
    return false
  end, 10)
  if not seen then
    error(("no message contains %s; there were %s"):format(vim.inspect(part), vim.inspect(M.messages)), 2)
  end
  for _, message in ipairs(M.messages) do
    if message.text:find(part, 1, true) then
      return message
    end
  end
end

--- Answers the next prompts in this order: for a choice a text that its label contains, for an input the text to type,
--- `false` for a dismissal. `prompts` collects what was asked.
M.answers = {}
M.prompts = {}

function M.script_prompts()
  local function answer(prompt)
    M.prompts[#M.prompts + 1] = prompt
    if #M.answers == 0 then
      error("an unexpected prompt: " .. prompt)
    end
    return table.remove(M.answers, 1)
  end
  vim.ui.select = function(items, options, done)
    local wanted = answer(options.prompt)
    for _, item in ipairs(items) do
      local label = (options.format_item or tostring)(item)
      if wanted and label:find(wanted, 1, true) then
        return done(item)
      end
    end
    if wanted then
      error(
        ("no choice of %q contains %q: %s"):format(
          options.prompt,
          wanted,
          vim.inspect(vim.tbl_map(options.format_item or tostring, items))
        )
      )
    end
    done(nil)
  end
  vim.ui.input = function(options, done)
    local text = answer(options.prompt)
    done(text or nil)
  end
end

--- Forgets messages, prompts and answers; run before each scenario.
function M.clear()
  M.messages, M.prompts, M.answers = {}, {}, {}
end

--- Ends Neovim with the suite's exit code.
function M.finish()
  line("# end of " .. vim.fn.fnamemodify(debug.getinfo(2, "S").source:sub(2), ":t"))
  vim.cmd("silent! qa!")
  os.exit(M.failed == 0 and 0 or 1)
end

return M
