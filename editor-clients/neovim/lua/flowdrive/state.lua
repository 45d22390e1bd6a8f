--- What is known of one run, brought up to date by the server's events. Pure: no editor calls, no requests, no clock.
local format = require("flowdrive.format")

local M = {}

--- How many lines of what an agent is doing are kept for a task that runs.
local LOG_LINES = 30

---@class flowdrive.Task
---@field id string
---@field phase string
---@field status "pending"|"running"|"retrying"|"completed"|"failed"
---@field attempt integer
---@field agent? string
---@field text? string the newest line worth showing
---@field refused? string why the attempt before was refused
---@field log? string[] the newest lines of what its agent is doing
---@field findings? integer
---@field tokens? integer what its accepted result used, as the agent said
---@field model? string
---@field source? flowdrive.protocol.ResultSource
---@field started? integer milliseconds since 1970: when the newest attempt began
---@field ended? integer
---@field result_path? string
---@field version integer rises with every change

---@class flowdrive.Phase
---@field id string
---@field title string
---@field width? integer
---@field total integer
---@field completed integer
---@field tasks string[] task ids, in the order they became known

---@class flowdrive.Feedback
---@field id string
---@field task? string
---@field message string

---@class flowdrive.Run
---@field id string
---@field root string
---@field title string
---@field workflow string
---@field driven_here boolean whether this editor's server drives it now
---@field status string a RunStatus of the protocol, or `running`, `stopping`, `interrupted`
---@field planned integer
---@field completed integer
---@field parked integer
---@field tokens integer
---@field phase? string the phase that runs
---@field phases flowdrive.Phase[]
---@field tasks table<string, flowdrive.Task>
---@field feedback table<string, flowdrive.Feedback> open feedback, by id
---@field last_seq integer
---@field started? integer milliseconds since 1970: when this drive began
---@field ended? integer
---@field reason? string
---@field report_path? string
---@field commit? string

M.one_line = format.one_line

---@param id string
---@param root string
---@return flowdrive.Run
function M.new(id, root)
  return {
    id = id,
    root = root,
    title = id,
    workflow = "",
    status = "in-progress",
    driven_here = false,
    planned = 0,
    completed = 0,
    parked = 0,
    tokens = 0,
    phases = {},
    tasks = {},
    feedback = {},
    last_seq = 0,
  }
end

--- What was used: the total where the agent told one, else what was read and written.
---@param usage? flowdrive.protocol.Usage
---@return integer?
local function spent(usage)
  if type(usage) ~= "table" then
    return nil
  end
  local total = usage.totalTokens or ((usage.inputTokens or 0) + (usage.outputTokens or 0))
  return total > 0 and total or nil
end

---@param run flowdrive.Run
---@param id string
---@return flowdrive.Phase
local function phase_of(run, id)
  for _, phase in ipairs(run.phases) do
    if phase.id == id then
      return phase
    end
  end
  local phase = { id = id, title = id, total = 0, completed = 0, tasks = {} }
  run.phases[#run.phases + 1] = phase
  return phase
end

--- The task, made when it is not known yet; whoever asks is about to change it.
---@param run flowdrive.Run
---@param id string
---@param phase_id? string
---@return flowdrive.Task
local function task_of(run, id, phase_id)
  local task = run.tasks[id]
  if not task then
    task = { id = id, phase = phase_id or run.phase or "", status = "pending", attempt = 0, version = 0 }
    run.tasks[id] = task
    local phase = phase_of(run, task.phase)
    phase.tasks[#phase.tasks + 1] = id
    phase.total = math.max(phase.total, #phase.tasks)
  end
  task.version = task.version + 1
  return task
end

---@param run flowdrive.Run
---@param task flowdrive.Task
---@param tokens? integer
local function count_tokens(run, task, tokens)
  run.tokens = run.tokens - (task.tokens or 0) + (tokens or 0)
  task.tokens = tokens
end

---@param map table<string, any>
---@return string[]
local function sorted(map)
  local keys = {}
  for key in pairs(map) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

local handlers = {}

function handlers.runStarted(run, event, live)
  run.status, run.driven_here, run.reason, run.commit = "running", live, nil, nil
  run.workflow, run.title = event.workflowId, event.title
  run.planned, run.completed, run.parked = event.plannedWorkers, event.completedWorkers, 0
  run.started, run.ended = format.milliseconds(event.at), nil
end

function handlers.phaseStarted(run, event)
  local phase = phase_of(run, event.phase)
  phase.title, phase.total, phase.width = event.title, event.tasks, event.width
  run.phase = event.phase
end

function handlers.taskDispatched(run, event)
  local task = task_of(run, event.taskId, event.phase)
  if task.status == "failed" then
    run.parked = math.max(run.parked - 1, 0)
  end
  task.status, task.attempt, task.agent, task.log = "running", event.attempt, event.agent, nil
  -- Until its agent says something, what the attempt before was refused for is the most one can say.
  task.text = event.attempt > 1 and task.refused and ("after: " .. task.refused) or nil
  task.started, task.ended = format.milliseconds(event.at), nil
end

function handlers.agentActivity(run, event)
  local task = task_of(run, event.taskId)
  if task.status ~= "running" then
    return
  end
  task.text = M.one_line(event.text)
  task.log = task.log or {}
  if #task.log >= LOG_LINES then
    table.remove(task.log, 1)
  end
  task.log[#task.log + 1] = task.text
end

function handlers.taskAccepted(run, event)
  local task = task_of(run, event.taskId, event.phase)
  if task.status ~= "completed" then
    run.completed = run.completed + 1
    local phase = phase_of(run, task.phase)
    phase.completed = phase.completed + 1
  end
  task.status, task.text, task.findings = "completed", M.one_line(event.summary), event.findings
  task.source, task.log, task.ended = event.source, nil, format.milliseconds(event.at)
  count_tokens(run, task, spent(event.usage))
end

function handlers.taskRetrying(run, event)
  local task = task_of(run, event.taskId)
  task.status, task.ended, task.refused = "retrying", format.milliseconds(event.at), M.one_line(event.reason)
  task.text = ("attempt %d of %d: %s"):format(event.attempt, event.maxAttempts, task.refused)
end

function handlers.taskParked(run, event)
  local task = task_of(run, event.taskId, event.phase)
  if task.status ~= "failed" then
    run.parked = run.parked + 1
  end
  task.status, task.attempt, task.text = "failed", event.attempts, M.one_line(event.reason)
  task.ended = format.milliseconds(event.at)
end

function handlers.feedbackOpened(run, event)
  run.feedback[event.feedbackId] = { id = event.feedbackId, task = event.taskId, message = M.one_line(event.message) }
end

function handlers.feedbackClosed(run, event)
  run.feedback[event.feedbackId] = nil
end

function handlers.checkpoint(run, event)
  run.commit = event.commitId
end

function handlers.phaseFinished(run, event)
  local phase = phase_of(run, event.phase)
  phase.completed = event.completed
end

function handlers.stopRequested(run)
  run.status = "stopping"
end

--- What was in flight when a drive ended is to be done again.
---@param run flowdrive.Run
local function put_back(run)
  for id, task in pairs(run.tasks) do
    if task.status == "running" or task.status == "retrying" then
      task_of(run, id).status = "pending"
      task.started, task.ended, task.text = nil, nil, nil
    end
  end
end

function handlers.runFinished(run, event)
  run.status, run.driven_here, run.reason = event.status, false, event.reason
  run.completed, run.parked = event.completedWorkers, event.parkedWorkers
  run.report_path, run.phase, run.ended = event.reportPath, nil, format.milliseconds(event.at)
  put_back(run)
end

--- The server that drove the run is gone.
---@param run flowdrive.Run
---@param at integer milliseconds since 1970
function M.interrupt(run, at)
  run.status, run.driven_here, run.phase, run.ended = "interrupted", false, nil, at
  run.reason = "the server ended while it drove this run"
  put_back(run)
end

--- Applies one event. Says `"applied"`; `"ignored"` for one already known; or `"gap"` when events before it are missing
--- (it is then not applied: ask `showRun` with `sinceSeq`).
---@param run flowdrive.Run
---@param event flowdrive.protocol.ProgressEvent
---@param live? boolean whether this editor's server drives the run, as opposed to having read of it
---@return "applied"|"ignored"|"gap"
function M.apply(run, event, live)
  if event.type == "agentActivity" then
    handlers.agentActivity(run, event)
    return "applied"
  end
  if event.seq <= run.last_seq then
    return "ignored"
  end
  -- A drive's first event stands by itself: what came before it is in the view that `seed` takes.
  if event.seq > run.last_seq + 1 and event.type ~= "runStarted" then
    return "gap"
  end
  run.last_seq = event.seq
  local handle = handlers[event.type]
  if handle then -- a newer server may send types this plugin does not know
    handle(run, event, live or false)
  end
  return "applied"
end

--- Takes over what the view says of a task.
---@param task flowdrive.Task
---@param seen flowdrive.protocol.TaskView
---@param before? flowdrive.Task
local function take(task, seen, before)
  task.status, task.attempt, task.agent = seen.status, seen.attempts, seen.agent
  -- One that waits after a passing fault says until when; one that is tried again at once only its event tells.
  if seen.status == "pending" and (seen.notBefore or (before and before.status == "retrying")) then
    task.status = "retrying"
  end
  local text = seen.status == "completed" and seen.summary or seen.failure or seen.summary
  task.text = text and M.one_line(text) or (before and before.text)
  if seen.status == "running" and before then
    task.text, task.log = before.text, before.log
  end
  task.findings = seen.findings and #seen.findings or nil
  task.tokens, task.model, task.source = spent(seen.usage), seen.reportedModel, seen.source
  task.started, task.ended = format.milliseconds(seen.startedAt), format.milliseconds(seen.endedAt)
  task.result_path = seen.resultPath
end

--- Takes over what `showRun` says: order and names of phases and tasks, and how they stand where no newer event was seen.
--- The view must hold every task.
---@param run flowdrive.Run
---@param view flowdrive.protocol.RunView
function M.seed(run, view)
  local newer = view.lastSeq >= run.last_seq
  run.report_path = view.reportPath
  run.workflow, run.title = view.summary.workflowId, view.summary.title
  local known = {}
  for _, phase in ipairs(run.phases) do
    known[phase.id] = phase
  end
  run.phases = {}
  local by_id = {}
  for _, seen in ipairs(view.phases) do
    local phase = known[seen.id] or { id = seen.id, completed = seen.completed }
    phase.title, phase.total, phase.tasks = seen.title, seen.tasks, {}
    if newer then
      phase.completed = seen.completed
    end
    run.phases[#run.phases + 1] = phase
    by_id[seen.id] = phase
    known[seen.id] = nil
  end
  for _, id in ipairs(sorted(known)) do -- a loop's later round may be newer than the view
    known[id].tasks = {}
    run.phases[#run.phases + 1] = known[id]
    by_id[id] = known[id]
  end
  local old = run.tasks
  run.tasks, run.tokens = {}, 0
  local function adopt(task)
    run.tasks[task.id] = task
    run.tokens = run.tokens + (task.tokens or 0)
    local phase = by_id[task.phase] or phase_of(run, task.phase)
    by_id[task.phase] = phase
    phase.tasks[#phase.tasks + 1] = task.id
    phase.total = math.max(phase.total, #phase.tasks)
  end
  for _, seen in ipairs(view.tasks) do
    local before = old[seen.id]
    if before and not newer then
      before.result_path = before.result_path or seen.resultPath
      adopt(before)
    else
      local task = { id = seen.id, phase = seen.phase, version = before and before.version + 1 or 1 }
      take(task, seen, before)
      adopt(task)
    end
    old[seen.id] = nil
  end
  for _, id in ipairs(sorted(old)) do
    adopt(old[id])
  end
  if newer then
    run.planned, run.completed, run.parked =
      view.summary.plannedWorkers, view.summary.completedWorkers, view.summary.parkedWorkers
    if not run.driven_here then
      local known_better = run.status == "interrupted" and view.summary.status == "in-progress"
      if view.summary.driving then
        run.status, run.reason, run.ended = "running", nil, nil
      else
        put_back(run)
        if not known_better then
          run.status = view.summary.status
        end
      end
    end
    run.last_seq = view.lastSeq
  end
end

--- Whether a drive of the run is under way.
---@param run flowdrive.Run
---@return boolean
function M.is_active(run)
  return run.status == "running" or run.status == "stopping"
end

return M
