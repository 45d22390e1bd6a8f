--- What is known of one run, brought up to date by the server's events. Pure: no editor calls, no requests.
local M = {}

---@class flowdrive.Task
---@field id string
---@field phase string
---@field status string pending, running, retrying, completed or failed
---@field attempt integer
---@field agent? string
---@field text? string the newest line worth showing
---@field findings? integer

---@class flowdrive.Phase
---@field id string
---@field title string
---@field width? integer
---@field total integer
---@field completed integer
---@field tasks string[] task ids, in the order they became known

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
---@field phase? string the phase that runs
---@field phases flowdrive.Phase[]
---@field tasks table<string, flowdrive.Task>
---@field feedback table<string, table> open feedback, by id
---@field last_seq integer
---@field reason? string
---@field report_path? string
---@field commit? string

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
    phases = {},
    tasks = {},
    feedback = {},
    last_seq = 0,
  }
end

--- One line, whatever an agent wrote.
---@param text any
---@return string
function M.one_line(text)
  return (tostring(text or ""):gsub("[%s%c]+", " "))
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

---@param run flowdrive.Run
---@param id string
---@param phase_id? string
---@return flowdrive.Task
local function task_of(run, id, phase_id)
  local task = run.tasks[id]
  if not task then
    task = { id = id, phase = phase_id or run.phase or "", status = "pending", attempt = 0 }
    run.tasks[id] = task
    local phase = phase_of(run, task.phase)
    phase.tasks[#phase.tasks + 1] = id
    phase.total = math.max(phase.total, #phase.tasks)
  end
  return task
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

function handlers.runStarted(run, event)
  run.status, run.driven_here, run.reason, run.commit = "running", true, nil, nil
  run.workflow, run.title = event.workflowId, event.title
  run.planned, run.completed, run.parked = event.plannedWorkers, event.completedWorkers, 0
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
  task.status, task.attempt, task.agent, task.text = "running", event.attempt, event.agent, nil
end

function handlers.agentActivity(run, event)
  local task = task_of(run, event.taskId)
  if task.status == "running" then
    task.text = M.one_line(event.text)
  end
end

function handlers.taskAccepted(run, event)
  local task = task_of(run, event.taskId, event.phase)
  if task.status ~= "completed" then
    run.completed = run.completed + 1
    local phase = phase_of(run, task.phase)
    phase.completed = phase.completed + 1
  end
  task.status, task.text, task.findings = "completed", M.one_line(event.summary), event.findings
end

function handlers.taskRetrying(run, event)
  local task = task_of(run, event.taskId)
  task.status = "retrying"
  task.text = ("attempt %d of %d: %s"):format(event.attempt, event.maxAttempts, M.one_line(event.reason))
end

function handlers.taskParked(run, event)
  local task = task_of(run, event.taskId, event.phase)
  if task.status ~= "failed" then
    run.parked = run.parked + 1
  end
  task.status, task.attempt, task.text = "failed", event.attempts, M.one_line(event.reason)
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

function handlers.runFinished(run, event)
  run.status, run.driven_here, run.reason = event.status, false, event.reason
  run.completed, run.parked = event.completedWorkers, event.parkedWorkers
  run.report_path, run.phase = event.reportPath, nil
end

--- Applies one event. Says `"applied"`; `"ignored"` for one already known; or `"gap"` when events before it are missing
--- (it is then not applied: ask `showRun` with `sinceSeq`).
---@param run flowdrive.Run
---@param event table
---@return "applied"|"ignored"|"gap"
function M.apply(run, event)
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
    handle(run, event)
  end
  return "applied"
end

--- Takes over what `showRun` says: order and names of phases and tasks, and how they stand where no newer event was seen.
---@param run flowdrive.Run
---@param view table
function M.seed(run, view)
  local newer = view.lastSeq >= run.last_seq
  run.report_path = view.reportPath
  run.workflow, run.title = view.summary.workflowId, view.summary.title
  local known = {}
  for _, phase in ipairs(run.phases) do
    known[phase.id] = phase
  end
  run.phases = {}
  for _, seen in ipairs(view.phases) do
    local phase = known[seen.id] or { id = seen.id, completed = seen.completed }
    phase.title, phase.total, phase.tasks = seen.title, seen.tasks, {}
    if newer then
      phase.completed = seen.completed
    end
    run.phases[#run.phases + 1] = phase
    known[seen.id] = nil
  end
  for _, id in ipairs(sorted(known)) do -- a loop's later round may be newer than the view
    known[id].tasks = {}
    run.phases[#run.phases + 1] = known[id]
  end
  local old = run.tasks
  run.tasks = {}
  for _, seen in ipairs(view.tasks) do
    local task = task_of(run, seen.id, seen.phase)
    local before = old[seen.id]
    if before and not newer then
      task.status, task.attempt, task.agent = before.status, before.attempt, before.agent
      task.text, task.findings = before.text, before.findings
    else
      task.status, task.attempt, task.agent = seen.status, seen.attempts, seen.agent
      task.text = seen.summary or seen.failure
      task.text = task.text and M.one_line(task.text) or (before and before.text)
      task.findings = seen.findings and #seen.findings or nil
    end
    old[seen.id] = nil
  end
  for _, id in ipairs(sorted(old)) do
    local task = old[id]
    local copy = task_of(run, id, task.phase)
    copy.status, copy.attempt, copy.agent, copy.text, copy.findings =
      task.status, task.attempt, task.agent, task.text, task.findings
  end
  if newer then
    run.planned, run.completed, run.parked =
      view.summary.plannedWorkers, view.summary.completedWorkers, view.summary.parkedWorkers
    if not run.driven_here then
      run.status = view.summary.driving and "running" or view.summary.status
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
