--- What comes before a drive: finding the server, asking for what was not given, refusing what is wrong, the preview.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
package.path = here .. "/?.lua;" .. package.path
local t = require("check")
local session = require("session")
local flowdrive, restart = session.flowdrive, session.restart

t.capture_messages()
t.script_prompts()
vim.fn.mkdir(session.workspace .. "/.cw/runs", "p")

t.test("a missing server program is one message that names every path that was tried", function()
  require("flowdrive").setup({ cmd = { "/nowhere/flowdrive", "serve" } })
  flowdrive("runs")
  local message = t.message("not found. Tried:\n  /nowhere/flowdrive\n")
  t.same(message.level, vim.log.levels.ERROR)
  t.contains(message.text, "setup(")
  t.clear()
  local path = vim.env.PATH
  vim.env.PATH = "/nowhere/bin:/nowhere/sbin"
  require("flowdrive").setup({ cmd = { "flowdrive-not-here", "serve", "--stdio" } })
  flowdrive("runs")
  vim.env.PATH = path
  t.message("Tried:\n  /nowhere/bin/flowdrive-not-here\n  /nowhere/sbin/flowdrive-not-here\n")
  t.same(#t.messages, 1, "one message")
  restart()
end)

t.test("an agent configuration that the server refuses is said, and leaves no server", function()
  restart({ agents = { bad = { command = "not a list" } } })
  flowdrive("runs")
  local message = t.message("refused the handshake")
  t.contains(message.text, "agents.bad.command", "the field at fault")
  t.eventually("no server", function()
    return #session.servers() == 0
  end)
  vim.wait(50)
  t.same(#t.messages, 1, "one message: " .. vim.inspect(t.messages))
  restart()
end)

t.test("a drive shows its preview first; Cancel starts nothing, Start starts it, ! does not ask", function()
  restart(nil, { confirm = true })
  local before = #vim.fn.readdir(session.workspace .. "/.cw/runs")
  local windows = #vim.api.nvim_list_wins()
  local shown
  local select = vim.ui.select
  vim.ui.select = function(items, options, done)
    local buffer = vim.fn.bufnr("flowdrive://preview/quick-survey")
    shown = vim.fn.bufwinid(buffer) ~= -1 and table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
    select(items, options, done)
  end
  t.answers = { "Cancel" }
  flowdrive(('drive quick-survey question="%s" --concurrency=2'):format(session.question))
  t.eventually("the question", function()
    return t.prompts[1]
  end)
  t.same(t.prompts, { "Drive quick-survey: 5 tasks by builtin:survey?" })
  t.contains(shown, "## Map (parallel, 2 at once)", "the preview, with the option given")
  vim.wait(50)
  t.same(#vim.fn.readdir(session.workspace .. "/.cw/runs"), before, "nothing was started")
  t.same(#vim.api.nvim_list_wins(), windows, "the preview's window is gone")
  t.clear()
  t.answers = { "Start" }
  flowdrive(('drive quick-survey question="%s"'):format(session.question))
  t.message("quick-survey complete, 5 of 5")
  t.clear()
  vim.cmd(('Flowdrive! drive quick-survey question="%s"'):format(session.question))
  t.message("quick-survey complete, 5 of 5")
  t.same(t.prompts, {})
  vim.ui.select = select
end)

t.test("typed inputs are asked for until they fit; what is optional may be left out", function()
  restart()
  vim.fn.mkdir(session.workspace .. "/.cw/workflows", "p")
  vim.fn.writefile({
    "schemaVersion = 1",
    'id = "typed"',
    'title = "Typed"',
    'summary = "Has inputs of every type."',
    "[inputs.count]",
    'type = "number"',
    "required = true",
    "[inputs.folder]",
    'type = "path"',
    "repeated = true",
    "[inputs.strict]",
    'type = "boolean"',
    "[inputs.extra]",
    'type = "json"',
    "[[phases]]",
    'id = "only"',
    'title = "Only"',
    'mode = "sequential"',
    "[[phases.tasks]]",
    'id = "only:one"',
    'prompt = "Count to {{count}} in {{folder}}."',
  }, session.workspace .. "/.cw/workflows/typed.toml")
  t.answers = { "typed", "", "three", "3", "{", '{"a": 1}', "src", "", "true" }
  flowdrive("preview")
  t.eventually("the preview", function()
    return vim.api.nvim_buf_get_name(0) == "flowdrive://preview/typed"
  end)
  t.message("count is required")
  t.message('"three" is not a number')
  t.message("that is not JSON")
  t.same(t.answers, {}, "answers left")
  t.same(
    vim.tbl_map(function(prompt)
      return prompt:match("^%w+")
    end, t.prompts),
    { "Workflow", "count", "count", "count", "extra", "extra", "folder", "folder", "strict" }
  )
  t.same(vim.fn.getcompletion("Flowdrive drive typed strict=", "cmdline"), { "strict=true", "strict=false" })
  t.same(vim.fn.getcompletion("Flowdrive drive typed count=1 c", "cmdline"), {}, "given once is enough")
  t.clear()
  flowdrive("preview typed count=x")
  t.message('input count: "x" is not a number')
  vim.fn.delete(session.workspace .. "/.cw/workflows/typed.toml")
end)

t.test("options and inputs that are wrong are refused before anything starts", function()
  for words, part in pairs({
    ["drive quick-survey question=x --concurrency=0"] = "is not a whole number from 1",
    ["drive quick-survey question=x --agent"] = "needs a value",
    ["drive quick-survey question=x --fast"] = "drive has no option --fast. There are: --agent, --concurrency,",
    ["drive quick-survey questoin=x"] = 'no input "questoin". There are: question',
    ["preview quick-survey question=x --once"] = "preview has no option --once",
    ["drive no-such-workflow"] = "There are: architecture-review, quick-survey",
  }) do
    t.clear()
    flowdrive(words)
    t.message(part)
  end
  t.clear()
  vim.cmd("Flowdrive! report")
  t.message("report takes no !")
end)

-- Not on 0.10, which has no `vim.lsp.enable()`.
if vim.lsp.enable then
  t.test("with vim.lsp.enable() the server starts with the first file, and :Flowdrive uses that one", function()
    restart()
    require("flowdrive").setup({ confirm = false })
    vim.lsp.config("flowdrive", { cmd = { session.server, "serve", "--stdio" } })
    vim.lsp.enable("flowdrive")
    vim.cmd.edit("src/main.py")
    vim.cmd("doautocmd FileType")
    local client = t.eventually("the client", function()
      local found = session.client()
      return found and found.initialized and found
    end)
    t.same(vim.lsp.buf_is_attached(0, client.id), true)
    flowdrive(('drive quick-survey question="%s"'):format(session.question))
    t.message("quick-survey complete, 5 of 5")
    t.same(#session.servers(), 1, "servers")
    vim.lsp.enable("flowdrive", false)
  end)
end

t.finish()
