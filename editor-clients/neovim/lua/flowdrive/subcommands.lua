--- The subcommands of `:Flowdrive`. Each is a task: it asks for what was not given, sends a request and shows the answer.
--- Must not: keep state; that is in `flowdrive.runs`.
local choose = require("flowdrive.choose")
local drives = require("flowdrive.drives")
local format = require("flowdrive.format")
local runs = require("flowdrive.runs")
local ui = require("flowdrive.ui")

---@class flowdrive.Subcommand
---@field about string
---@field bang? boolean whether it can be called with !
---@field complete? string[] what each argument names; the last kind holds for all that follow
---@field offline? boolean whether it runs without a server
---@field run fun(context: flowdrive.Context)

---@type table<string, flowdrive.Subcommand>
local M = { drive = drives.drive, preview = drives.preview, resume = drives.resume }

local no_run = "there is no run here; `:Flowdrive drive` starts one"

M.stop = {
  about = "stop a drive after what is in flight; ! at once",
  bang = true,
  complete = { "driving" },
  run = function(context)
    local id = choose.run(context, context.words[1], {
      prompt = "Stop which run?",
      fits = choose.fits.driving,
      none = "nothing is being driven here",
    })
    local mode = context.bang and "now" or "graceful"
    local answer = choose.request(context, "stop", { runId = id, mode = mode })
    if not answer.driving then
      ui.notify(id .. " is not being driven")
    elseif mode == "now" then
      ui.notify(("stopping %s at once"):format(id))
    else
      ui.notify(("stopping %s after what is in flight. `:Flowdrive! stop %s` stops it at once."):format(id, id))
    end
  end,
}

local resolutions = {
  { id = "retry", label = "retry - open the task again, with guidance" },
  { id = "rejected", label = "rejected - close without a correction; the task stays parked" },
  { id = "resolved", label = "resolved - settled by a verified node" },
}

--- The open records that are meant: the one named by its id or its task, all of them, the only one, or one that is chosen.
---@param context flowdrive.Context
---@param id string
---@param named? string
---@return flowdrive.protocol.FeedbackRecord[]
local function choose_records(context, id, named)
  local open = choose.request(context, "listFeedback", { runId = id, status = "open" }).feedback
  if named then
    for _, record in ipairs(open) do
      if record.id == named or record.taskId == named then
        return { record }
      end
    end
    error(("no open feedback of %s is called %s"):format(id, named), 0)
  end
  if #open == 0 then
    error(("no feedback of %s waits for you"):format(id), 0)
  elseif #open == 1 or context.bang then
    return open
  end
  return {
    ui.select(open, "Feedback", function(record)
      return ("[%s] %s: %s"):format(
        record.severity,
        record.taskId or record.id,
        format.shorten(format.one_line(record.message), 100)
      )
    end),
  }
end

M.resolve = {
  about = "decide on a task that was parked; ! on all alike",
  bang = true,
  complete = { "waiting", "feedback", "resolution" },
  run = function(context)
    local id = choose.run(context, context.words[1], {
      prompt = "Resolve feedback of which run?",
      fits = choose.fits.waiting,
      none = "no feedback waits for you here",
    })
    local records = choose_records(context, id, context.words[2])
    local resolution = context.words[3]
    if not resolution then
      local first = records[1]
      local about = #records > 1 and format.plural(#records, "record")
        or ("%s: %s"):format(first.taskId or first.id, format.shorten(format.one_line(first.message), 100))
      resolution = ui.select(resolutions, "Resolution of " .. about, function(choice)
        return choice.label
      end).id
    end
    local params = { runId = id, resolution = resolution }
    if resolution == "resolved" then
      params.nodeId = ui.input("Verified node that settles it: ")
    end
    local note = context.words[4] and table.concat(vim.list_slice(context.words, 4), " ")
      or ui.input(resolution == "retry" and "Guidance for the next attempt: " or "Note: ")
    if note ~= "" then
      params[resolution == "retry" and "guidance" or "message"] = note
    end
    for _, record in ipairs(records) do
      choose.request(context, "resolveFeedback", vim.tbl_extend("error", { feedbackId = record.id }, params))
    end
    local _, run = runs.fetch(context.client, context.root, id)
    local left = vim.tbl_count(run.feedback)
    local more = ""
    if left > 0 then
      more = (" %s left."):format(format.plural(left, "record"))
    elseif resolution == "retry" then
      more = (" `:Flowdrive resume %s` tries again."):format(id)
    end
    local what = #records > 1 and format.plural(#records, "record") or (records[1].taskId or records[1].id)
    ui.notify(("%s: %s.%s"):format(what, resolution, more))
  end,
}

M.runs = {
  about = "list the runs, and open one",
  complete = { "run" },
  run = function(context)
    local id = choose.run(context, context.words[1], { prompt = "Run", none = no_run })
    local _, run = runs.fetch(context.client, context.root, id)
    local command = require("flowdrive").options().run_buffer.command
    if context.mods ~= "" then
      command = context.mods .. " split"
    end
    require("flowdrive.run_buffer").open(run, command, true)
    require("flowdrive.follow").start(run)
  end,
}

M.report = {
  about = "open a run's report",
  complete = { "run" },
  run = function(context)
    local id = choose.run(context, context.words[1], { prompt = "Report of which run?", none = no_run })
    local view = runs.fetch(context.client, context.root, id)
    ui.open_report(id, view.reportPath, context.root, context)
  end,
}

---@param view flowdrive.protocol.RunView
---@param task_id string
---@return flowdrive.protocol.TaskView
local function task_of(view, task_id)
  for _, seen in ipairs(view.tasks) do
    if seen.id == task_id then
      return seen
    end
  end
  error(("%s has no task %s"):format(view.summary.runId, task_id), 0)
end

M.findings = {
  about = "put a run's or a task's findings into the quickfix list",
  complete = { "run", "task" },
  run = function(context)
    local id = choose.run(context, context.words[1], { prompt = "Findings of which run?", none = no_run })
    local view = runs.fetch(context.client, context.root, id)
    local of = context.words[2]
    local items = ui.quickfix_items(of and { task_of(view, of) } or view.tasks, context.root)
    local title = of and (id .. " " .. of) or id
    if #items == 0 then
      return ui.notify(title .. " has no findings")
    end
    ui.set_quickfix(title, items)
    if not of then
      vim.cmd("botright copen")
      return
    end
    ui.make_room(context)
    vim.cmd("silent cfirst")
    if #items > 1 then
      ui.notify(("finding 1 of %d of %s; `:cnext` goes on"):format(#items, of))
    end
  end,
}

M.result = {
  about = "open what a task's agent wrote",
  complete = { "run", "task" },
  run = function(context)
    local id = choose.run(context, context.words[1], { prompt = "Result of which run?", none = no_run })
    local view = runs.fetch(context.client, context.root, id)
    local seen
    if context.words[2] then
      seen = task_of(view, context.words[2])
    else
      local done = vim.tbl_filter(function(candidate)
        return candidate.resultPath ~= nil
      end, view.tasks)
      if #done == 0 then
        error(("no task of %s has a result yet"):format(id), 0)
      end
      seen = ui.select(done, "Result of which task?", function(candidate)
        return ("%s  %s"):format(candidate.id, format.one_line(candidate.summary))
      end)
    end
    if not seen.resultPath then
      local why = seen.failure and (": " .. format.one_line(seen.failure)) or ""
      return ui.notify(("%s has no accepted result (%s)%s"):format(seen.id, seen.status, why), vim.log.levels.WARN)
    end
    ui.open_file(("flowdrive://result/%s/%s"):format(id, seen.id), seen.resultPath, context.root, context)
  end,
}

M.doctor = {
  about = "check the installation; the same as :checkhealth flowdrive",
  offline = true,
  run = function()
    vim.cmd.checkhealth("flowdrive")
  end,
}

M.log = {
  about = "open the server's log",
  offline = true,
  run = function(context)
    ui.make_room(context)
    vim.cmd.view(vim.fn.fnameescape(vim.lsp.get_log_path()))
    vim.cmd.normal({ "G", bang = true })
  end,
}

return M
