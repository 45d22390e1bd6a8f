--- The plugin in a real Neovim against the real server: drive, watch, report, preview, park, resolve, resume, stop, crash.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
package.path = here .. "/?.lua;" .. package.path
local t = require("check")
local session = require("session")
local flowdrive, restart = session.flowdrive, session.restart
local function state_of(id)
  return assert(require("flowdrive.runs").get(id), "no run " .. tostring(id))
end

t.capture_messages()
t.script_prompts()

--- `User` autocommands, in the order they came.
local announced = {}
vim.api.nvim_create_autocmd("User", {
  pattern = "Flowdrive*",
  callback = function(args)
    announced[#announced + 1] = { name = args.match, data = args.data }
  end,
})

local progress = {}
vim.api.nvim_create_autocmd("LspProgress", {
  callback = function(args)
    local params = args.data.params
    progress[#progress + 1] = {
      kind = params.value.kind,
      percentage = params.value.percentage,
      title = params.value.title,
      token = params.token,
    }
  end,
})

restart()
local complete
t.test("a drive asks for the workflow and its inputs, and completes", function()
  progress = {}
  t.answers = { "quick-survey", session.question }
  flowdrive("drive")
  local message = t.message("quick-survey complete, 5 of 5. :Flowdrive report")
  complete = announced[#announced].data.run_id
  t.same(#message.text <= vim.v.echospace, true, "the message fits a window of 80 columns")
  t.same(t.prompts[1], "Workflow")
  t.contains(t.prompts[2], "question (string)")
  t.same(message.level, vim.log.levels.INFO)
  t.same(state_of(complete).status, "complete")
  t.same(state_of(complete).completed, state_of(complete).planned)
end)

t.test("User autocommands tell of the run, from its start to its end", function()
  local counts = {}
  for _, seen in ipairs(announced) do
    t.same({ seen.data.run_id, seen.data.workspace }, { complete, session.workspace })
    counts[seen.name] = (counts[seen.name] or 0) + 1
  end
  t.same(announced[1].name, "FlowdriveRunStarted")
  t.same(announced[#announced].name, "FlowdriveRunFinished")
  t.same({ announced[#announced].data.status, announced[#announced].data.event.type }, { "complete", "runFinished" })
  t.same({ counts.FlowdriveTaskDispatched, counts.FlowdriveTaskAccepted, counts.FlowdriveAgentActivity }, { 5, 5, nil })
end)

t.test("Neovim's own progress sees the drive begin, advance and end", function()
  local kinds, last = {}, 0
  for _, seen in ipairs(progress) do
    kinds[seen.kind] = (kinds[seen.kind] or 0) + 1
    t.same(seen.token, progress[1].token, "one token")
    if seen.percentage then
      t.same(seen.percentage >= last, true, "percentage never falls")
      last = seen.percentage
    end
  end
  t.same(progress[1] and progress[1].kind, "begin")
  t.same(progress[#progress].kind, "end")
  t.same({ kinds.begin, kinds["end"], (kinds.report or 0) >= 1 }, { 1, 1, true }, vim.inspect(kinds))
end)

t.test("the run buffer shows every task accepted", function()
  local buffer = vim.fn.bufnr("flowdrive://run/" .. complete)
  t.same(vim.fn.bufwinid(buffer) ~= -1, true, "in a window")
  t.eventually("the final view", function()
    local text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
    return text:find("✓ complete", 1, true) and select(2, text:gsub("\n  ✓ ", "")) == state_of(complete).planned
  end)
  t.same({ vim.bo[buffer].buftype, vim.bo[buffer].modifiable, vim.bo[buffer].modified }, { "nofile", false, false })
end)

t.test("findings are in the quickfix list, at lines that exist", function()
  local list = vim.fn.getqflist({ title = 1, items = 1 })
  t.same(list.title, "Flowdrive " .. complete)
  local placed = 0
  for _, item in ipairs(list.items) do
    if item.valid == 1 then
      placed = placed + 1
      local path = vim.fn.bufname(item.bufnr)
      t.same(item.lnum <= #vim.fn.readfile(path), true, path .. ":" .. item.lnum)
    end
  end
  t.same(placed > 0, true, "findings with a place")
end)

t.test("findings are diagnostics with code actions, in a file opened before as in one opened after", function()
  local files = {}
  t.eventually("diagnostics", function()
    for _, diagnostic in ipairs(vim.diagnostic.get()) do
      if diagnostic.source == "flowdrive" then
        files[#files + 1] = { name = vim.api.nvim_buf_get_name(diagnostic.bufnr), line = diagnostic.lnum }
      end
    end
    return #files > 0
  end)
  vim.cmd.edit(vim.fn.fnameescape(files[1].name))
  vim.api.nvim_win_set_cursor(0, { files[1].line + 1, 0 })
  local client = session.client()
  t.eventually("the client in the buffer", function()
    return vim.lsp.buf_is_attached(0, client.id)
  end)
  t.clear()
  vim.ui.select = function(items, options, done) -- |vim.lsp.buf.code_action()| has labels of its own
    for _, item in ipairs(items) do
      if options.format_item(item):find("open the report", 1, true) then
        return done(item)
      end
    end
    error("no such action")
  end
  vim.lsp.buf.code_action()
  t.eventually("the report", function()
    return vim.api.nvim_buf_get_name(0) == "flowdrive://report/" .. complete
  end)
  t.script_prompts()
end)

t.test("the report opens in a scratch buffer", function()
  t.clear()
  flowdrive("report " .. complete)
  t.eventually("the report's buffer", function()
    return vim.api.nvim_buf_get_name(0) == "flowdrive://report/" .. complete
  end)
  t.same({ vim.bo.filetype, vim.bo.buftype, vim.bo.modifiable }, { "markdown", "nofile", false })
  t.contains(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n"), session.question)
end)

t.test("a preview starts nothing and shows the plan", function()
  t.clear()
  local before = vim.fn.readdir(session.workspace .. "/.cw/runs")
  flowdrive(('preview quick-survey question="%s"'):format(session.question))
  t.eventually("the preview's buffer", function()
    return vim.api.nvim_buf_get_name(0) == "flowdrive://preview/quick-survey"
  end)
  local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
  t.contains(text, "Next: **dispatch**")
  t.contains(text, "survey")
  t.same(t.prompts, {}, "nothing is asked for when all is given")
  t.same(vim.fn.readdir(session.workspace .. "/.cw/runs"), before)
end)

t.test("a preview of a finished run, and its resume, say complete", function()
  t.clear()
  flowdrive("preview " .. complete)
  t.eventually("the preview's buffer", function()
    return vim.api.nvim_buf_get_name(0) == "flowdrive://preview/" .. complete
  end)
  t.contains(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n"), "Next: **complete**")
  flowdrive("resume " .. complete)
  t.message("quick-survey complete, 5 of 5")
end)

t.test("every position completes from the running server", function()
  t.same(vim.tbl_contains(vim.fn.getcompletion("Flowdrive drive quick", "cmdline"), "quick-survey"), true)
  t.same(vim.fn.getcompletion("Flowdrive drive quick-survey que", "cmdline"), { "question=" })
  t.same(
    vim.tbl_contains(vim.fn.getcompletion("Flowdrive report " .. complete:sub(1, 12), "cmdline"), complete),
    true,
    "runs"
  )
  t.same(vim.fn.getcompletion("Flowdrive drive quick-survey question=x ", "cmdline"), {
    "--agent=",
    "--concurrency=",
    "--incremental",
    "--max-attempts=",
    "--once",
  })
  t.same(vim.fn.getcompletion("Flowdrive drive quick-survey --agent=b", "cmdline"), { "--agent=builtin:survey" })
  t.same(
    vim.tbl_contains(vim.fn.getcompletion("Flowdrive drive research-synthesis folder=s", "cmdline"), "folder=src/"),
    true
  )
  t.same(vim.fn.getcompletion("Flowdrive resume " .. complete, "cmdline"), {}, "a complete run cannot be resumed")
  t.same(vim.fn.getcompletion("Flowdrive findings " .. complete .. " verdict:", "cmdline"), { "verdict:synthesis" })
  t.same(vim.fn.getcompletion("Flowdrive findings " .. complete .. " verdict:synthesis ", "cmdline"), {})
end)

t.test("from the run's view: a task's result, its findings, and the report, beside the view", function()
  t.clear()
  flowdrive("runs " .. complete)
  t.eventually("the view", function()
    return vim.api.nvim_buf_get_name(0) == "flowdrive://run/" .. complete
  end)
  local view = vim.api.nvim_get_current_win()
  local line = assert(require("flowdrive.run_buffer").line_of(complete, "verdict:synthesis"))
  vim.api.nvim_win_set_cursor(0, { line, 0 })
  vim.api.nvim_feedkeys(vim.keycode("<CR>"), "xt", false)
  t.eventually("the result", function()
    return vim.api.nvim_buf_get_name(0) == "flowdrive://result/" .. complete .. "/verdict:synthesis"
  end)
  t.contains(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n"), "cw:result")
  t.same(vim.bo[vim.api.nvim_win_get_buf(view)].filetype, "flowdrive-run", "the view stays")
  vim.api.nvim_set_current_win(view)
  vim.api.nvim_feedkeys("f", "xt", false)
  t.eventually("the finding", function()
    return vim.startswith(vim.api.nvim_buf_get_name(0), session.workspace .. "/")
  end)
  t.same(vim.fn.getqflist({ title = 1 }).title, ("Flowdrive %s verdict:synthesis"):format(complete))
  t.same(vim.fn.line("."), vim.fn.getqflist()[1].lnum)
  vim.api.nvim_set_current_win(view)
  vim.api.nvim_feedkeys("o", "xt", false)
  t.eventually("the report", function()
    return vim.api.nvim_buf_get_name(0) == "flowdrive://report/" .. complete
  end)
  vim.fn.search([[src/[a-z]*\.py:\d]])
  vim.api.nvim_feedkeys(vim.keycode("<CR>"), "xt", false)
  t.same(vim.startswith(vim.api.nvim_buf_get_name(0), session.workspace .. "/src/"), true, "the place in the report")
  vim.cmd("vertical Flowdrive report " .. complete)
  local before = #vim.api.nvim_list_wins()
  t.eventually("the report in a window of its own", function()
    return #vim.api.nvim_list_wins() == before + 1 and vim.api.nvim_buf_get_name(0) == "flowdrive://report/" .. complete
  end)
  vim.cmd("only")
end)

t.test("a fault of the server is shown with its hint", function()
  t.clear()
  flowdrive("report no-such-run")
  local message = t.message("no-such-run")
  t.same(message.level, vim.log.levels.ERROR)
  t.same(select(2, message.text:gsub("\n", "")) >= 1, true, "a second line says what to do: " .. message.text)
  t.clear()
  flowdrive("drive quick-survey question")
  t.message("name=value")
  flowdrive("frobnicate")
  t.message("no subcommand")
end)

local parked
t.test("an agent that fails parks its tasks, and says how to go on", function()
  restart({ agents = { broken = { command = { "false" } } }, defaultAgent = "broken" })
  flowdrive(('drive quick-survey question="%s"'):format(session.question))
  local message = t.message("quick-survey parked, 0 of 5. :Flowdrive resolve")
  parked = announced[#announced].data.run_id
  t.same(message.level, vim.log.levels.WARN)
  t.contains(message.text, ":Flowdrive resolve")
  t.same(next(state_of(parked).feedback) ~= nil, true, "feedback is known")
end)

t.test("feedback is resolved by retry, with guidance: one chosen, one named, the rest alike", function()
  local run = state_of(parked)
  local open = vim.tbl_count(run.feedback)
  t.same(open >= 4, true, "records: " .. open)
  t.clear()
  local chosen = run.feedback[assert(next(run.feedback))].task
  t.answers = { chosen, "retry", "look in src" }
  flowdrive("resolve " .. parked)
  t.message(("%s: retry. %d records left."):format(chosen, open - 1))
  t.same({ t.prompts[1], t.prompts[3] }, { "Feedback", "Guidance for the next attempt: " })
  t.contains(t.prompts[2], "Resolution of " .. chosen)
  t.clear()
  local named = run.feedback[assert(next(run.feedback))].task
  t.same(vim.tbl_contains(vim.fn.getcompletion("Flowdrive resolve " .. parked .. " ", "cmdline"), named), true, named)
  t.same(vim.fn.getcompletion(("Flowdrive resolve %s %s re"):format(parked, named), "cmdline"), {
    "retry",
    "rejected",
    "resolved",
  })
  flowdrive(("resolve %s %s retry read src/retry.py"):format(parked, named))
  t.message(("%d records left"):format(open - 2))
  t.same(t.prompts, {}, "nothing is asked for when all is given")
  t.clear()
  t.answers = { "retry", "look in src" }
  vim.cmd("Flowdrive! resolve " .. parked)
  t.message(("%d records: retry. `:Flowdrive resume %s` tries again."):format(open - 2, parked))
  t.same(run.feedback, {})
  t.clear()
  flowdrive("resolve")
  t.message("no feedback waits for you here")
end)

t.test("a dismissed prompt does nothing and says nothing", function()
  t.clear()
  t.answers = { false }
  flowdrive("report")
  t.eventually("the prompt", function()
    return #t.prompts == 1
  end)
  vim.wait(50)
  t.same(t.messages, {})
end)

t.test("with an agent that works, the parked run is resumed to its end", function()
  restart({ defaultAgent = "builtin:survey" })
  flowdrive("resume " .. parked)
  t.message("quick-survey complete, 5 of 5")
  t.same(state_of(parked).status, "complete")
end)

-- Neovim's own `:checkhealth` uses what a pretended 0.10 lacks.
if not vim.env.FLOWDRIVE_PRETEND then
  t.test(":checkhealth shows the server's own checks", function()
    vim.cmd("checkhealth flowdrive")
    io.stdout:write("\n") -- what it says on the way ends in no line of its own
    local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
    t.contains(text, "server program: " .. session.server)
    t.contains(text, "flowdrive: server ")
    vim.cmd("bwipeout!")
  end)
end

t.test("a drive is stopped at once, its agents are gone, and the status line follows", function()
  local folder, run = session.sleeping_drive()
  t.contains(require("flowdrive").status(), "flowdrive 0/" .. run.planned)
  vim.cmd("Flowdrive! stop")
  t.message("quick-survey stopped, 0 of 5. :Flowdrive resume")
  for _, pid in ipairs(session.sleepers(folder)) do
    t.same(session.alive(pid), false, "agent " .. pid .. " lives")
  end
  t.same(require("flowdrive").status(), "")
end)

t.finish()
