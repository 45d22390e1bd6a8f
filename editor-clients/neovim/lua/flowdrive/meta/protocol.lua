---@meta
-- The wire types. Generated from schema/protocol.schema.json by scripts/types.lua; not edited by hand.
-- Protocol version 1.

--- How an agent is reached.
---@alias flowdrive.protocol.AgentKind
---| "command" # A program.
---| "endpoint" # An HTTP endpoint.

--- An agent as the user's configuration names it, or a built-in one such as `builtin:survey`.
---@alias flowdrive.protocol.AgentName string

--- An agent that tasks can be given to.
---@class flowdrive.protocol.AgentSummary
---@field default boolean Whether tasks that name no agent go to it.
---@field invocation string The command line or URL, secrets replaced. Placeholders are left as they are.
---@field kind flowdrive.protocol.AgentKind How it is reached.
---@field model? string The model it is asked to use.
---@field name flowdrive.protocol.AgentName Its name.
---@field preset? flowdrive.protocol.Preset The preset it was made from.
---@field reason? string What speaks against it.
---@field usable boolean Whether nothing speaks against using it: its program is there, what it needs is set.

--- Whether an earlier result would be used, and why or why not.
---@class flowdrive.protocol.CacheState
---@field dependsOn? string In a preview: the earlier task, or phase, whose result this hangs on. It cannot be known before, and a `miss` is then no more than what is known now.
---@field reason? string Why.
---@field state flowdrive.protocol.CacheVerdict The verdict.

--- Whether an earlier result would be used.
---@alias flowdrive.protocol.CacheVerdict
---| "hit" # It would.
---| "miss" # None fits.
---| "off" # Caching is not asked for.

--- How a check went.
---@alias flowdrive.protocol.CheckStatus
---| "ok" # Well.
---| "warn" # Worth knowing.
---| "fail" # Something will not work.

--- What the agent holds a finding to be.
---@alias flowdrive.protocol.Classification
---| "real" # A fact.
---| "conditional" # True under a condition.
---| "non-issue" # Looked at and found to be no issue.
---| "unknown" # Not said.

--- A commit of a run, such as `state-0001`.
---@alias flowdrive.protocol.CommitId string

--- One check of `doctor`.
---@class flowdrive.protocol.DoctorCheck
---@field hint? string What to do about it.
---@field message string What was found.
---@field name string What was looked at.
---@field status flowdrive.protocol.CheckStatus How it looks.

--- Parameters of `doctor`.
---@class flowdrive.protocol.DoctorParams
---@field workspace? string Absolute path of a folder to look at too.

--- The answer to `doctor`.
---@class flowdrive.protocol.DoctorResult
---@field checks flowdrive.protocol.DoctorCheck[] What was looked at.
---@field ok boolean Whether nothing failed.
---@field version string The server's version.

--- Parameters of `drive`. Either `workflow` with `inputs`, or `runId`.
---@class flowdrive.protocol.DriveParams
---@field agent? flowdrive.protocol.AgentName The agent for tasks that name none.
---@field allowUnattested? boolean Accept results whose usage carries no valid signature, though the agent must sign it. What is accepted so is recorded and stands in the report. For this drive only.
---@field concurrency? integer How many agents at once, in every phase. Wins over the workflow's limits.
---@field incremental? boolean Reuse results of earlier incremental drives wherever what a task is given, and what its result cites, is the same.
---@field inputs? table<string, any> Values for its inputs.
---@field maxAttempts? integer Attempts before a task parks. Default 3.
---@field once? boolean Fill one window, settle it, stop.
---@field runId? flowdrive.protocol.RunId The run to carry on; or, with `workflow`, the id for the new run.
---@field tokenBudget? integer Tokens the run may spend in all, in place of the workflow's limit. 0: no limit. Kept for later drives of the run.
---@field workDoneToken? flowdrive.protocol.ProgressToken Token for `$/progress`, as the Language Server Protocol has it.
---@field workflow? flowdrive.protocol.WorkflowRef What to run.
---@field workspace? string Absolute path of the folder the run is about. The first workspace folder when absent.

--- The answer to `preview`.
---@class flowdrive.protocol.DrivePreview
---@field agentConfigured boolean Whether every task that is left has an agent.
---@field blockers? string[] What stands in the way, in sentences.
---@field completedWorkers integer Tasks accepted.
---@field nextAction flowdrive.protocol.NextAction What `drive` would do first.
---@field nextPhase? flowdrive.protocol.PhaseId That task's phase.
---@field nextTaskId? flowdrive.protocol.TaskId The task it would do it to.
---@field parkedWorkers integer Tasks parked.
---@field pendingWorkers integer Tasks to do.
---@field plan flowdrive.protocol.PlannedPhase[] The phases, and what each task would be run with: of `taskLimit` tasks, counted over all phases.
---@field plannedWorkers integer Tasks in the run.
---@field runId? flowdrive.protocol.RunId The run, when one was named.
---@field schemaVersion integer Version of this shape.
---@field warnings? string[] What is allowed but likely a slip, such as a placeholder that names no input.
---@field workflowId flowdrive.protocol.WorkflowId The workflow.

--- The answer to `drive` and `resume`.
---@class flowdrive.protocol.DriveResult
---@field agentConfigured boolean Whether every task that is left has an agent.
---@field commitId? flowdrive.protocol.CommitId The terminal commit.
---@field completedWorkers integer Tasks accepted.
---@field parkedWorkers integer Tasks parked.
---@field plannedWorkers integer Tasks in the run when the drive began.
---@field reason? string Why the drive ended, where there is something to say.
---@field reportPath string Where the report is.
---@field runId flowdrive.protocol.RunId The run.
---@field schemaVersion integer Version of this shape.
---@field statePath string Where the snapshot of the state is.
---@field status flowdrive.protocol.RunStatus How the run stands.
---@field steps flowdrive.protocol.Step[] What this drive did, in task order.
---@field stopped? flowdrive.protocol.StopMode Set when the drive ended because a stop was asked for.
---@field workflowId flowdrive.protocol.WorkflowId Its workflow.

--- `data` of a domain error.
---@class flowdrive.protocol.ErrorData
---@field field? string The field at fault, such as `phases[1].tasks[0].id`.
---@field file? string The file at fault.
---@field hint string What to do next, in one sentence.
---@field host? string For `run-locked`: the machine that process is on.
---@field kind flowdrive.protocol.ErrorKind What went wrong.
---@field line? integer The line at fault, from 1.
---@field pid? integer For `run-locked`: the process that drives the run.
---@field since? flowdrive.protocol.Timestamp Since when that is so.

--- What went wrong, for programs to match on. Stable.
---@alias flowdrive.protocol.ErrorKind
---| "run-not-found" # No such run in this workspace.
---| "run-locked" # Another process, or this one, is driving the run.
---| "run-corrupt" # The run's record on disk does not add up.
---| "unsupported-state" # The run was written by a newer Flowdrive.
---| "workflow-invalid" # The workflow does not validate.
---| "config-invalid" # The configuration does not validate.
---| "agent-not-configured" # The agent named is not configured.
---| "workspace-invalid" # The workspace is missing, not a folder, or not writable.
---| "feedback-unknown" # No such feedback record in this run.
---| "resolution-refused" # The resolution asked for is not allowed.
---| "overloaded" # Too many requests are in flight.
---| "protocol-mismatch" # Client and server speak no common protocol version.
---| "shutting-down" # The server is ending, and starts nothing new.
---| "storage-failed" # The disk refused a read or write.
---| "internal" # A defect of Flowdrive itself.

--- A place that a claim is tied to.
---@class flowdrive.protocol.Evidence
---@field digest? string SHA-256 (`sha256:` and 64 hex digits) of the cited lines when the result was accepted, joined by `\n`.
---@field endLine? integer For a file: the last line cited, from 1.
---@field kind flowdrive.protocol.EvidenceKind What kind of place it is.
---@field line? integer For a file: the first line cited, from 1.
---@field locator string The locator as the agent wrote it, such as `src/main.rs:10-12`.
---@field path? string For a file: its path relative to the workspace, with `/` between parts.
---@field text? string The first cited line when the result was accepted, cut to 200 characters.

--- What kind of place evidence names.
---@alias flowdrive.protocol.EvidenceKind
---| "file" # A file of the workspace, with lines or without.
---| "url" # A URL. Not fetched.
---| "token" # A `namespace:value` token. Not resolved.
---| "ungrounded" # Free text, which supports nothing.

--- What kind of fault a feedback record is about.
---@alias flowdrive.protocol.FeedbackClass
---| "missing-artifact" # A file that should exist does not.
---| "missing-evidence" # A claim without evidence.
---| "verifier-failure" # The verifying stage refused.
---| "state-transition" # A state change that is not allowed.
---| "contract-violation" # A stage's contract was broken.
---| "sandbox-policy" # Outside the sandbox.
---| "parse-error" # A result that could not be read.
---| "pipeline-failure" # A stage failed.
---| "runtime-error" # A fault of the program.
---| "unknown" # None of these.

--- A feedback record.
---@alias flowdrive.protocol.FeedbackId string

--- A feedback record.
---@class flowdrive.protocol.FeedbackRecord
---@field artifacts? string[] Files brought forward for the resolution.
---@field classification flowdrive.protocol.FeedbackClass What kind of fault it is.
---@field code string The fault's code, such as `missing-required-evidence`.
---@field correctionTaskId? flowdrive.protocol.TaskId The correction task, where one was written down: a file of the run's folder, `<feedback id>.md`. No drive runs it.
---@field createdAt flowdrive.protocol.Timestamp When it was opened.
---@field evidence? flowdrive.protocol.Evidence[] What was brought forward for the resolution.
---@field guidance? string What the task is told when it is tried again, or whoever does the correction task.
---@field id flowdrive.protocol.FeedbackId The record's id, derived from its class, task and attempt.
---@field message string The fault in a sentence.
---@field nodeId? flowdrive.protocol.NodeId The node at fault.
---@field path? string The file at fault.
---@field resolution? flowdrive.protocol.Resolution How it was closed.
---@field resolutionNote? string What the person who closed it wrote.
---@field resolvedAt? flowdrive.protocol.Timestamp When it was closed.
---@field resolvedByNodeId? flowdrive.protocol.NodeId The verified node that closed it.
---@field retryable boolean Whether doing the same again could help.
---@field runId flowdrive.protocol.RunId The run it belongs to.
---@field schemaVersion integer Version of this shape.
---@field severity flowdrive.protocol.FeedbackSeverity How much it matters.
---@field source flowdrive.protocol.FeedbackSource Who found it.
---@field status flowdrive.protocol.FeedbackStatus Where it stands.
---@field taskId? flowdrive.protocol.TaskId The task at fault.
---@field updatedAt flowdrive.protocol.Timestamp When it last changed.
---@field workerId? flowdrive.protocol.WorkerId The attempt at fault.

--- How much a feedback record matters.
---@alias flowdrive.protocol.FeedbackSeverity
---| "low" # Look when there is time.
---| "medium" # Look.
---| "high" # Look now.

--- Who found the fault.
---@alias flowdrive.protocol.FeedbackSource
---| "state-node" # A failed node.
---| "pipeline-runner" # The drive.
---| "verifier" # The evidence gate.
---| "contract" # A stage's contract.
---| "cli" # A person at the command line.
---| "manual" # A person.

--- Where a feedback record stands.
---@alias flowdrive.protocol.FeedbackStatus
---| "open" # Waits for a person.
---| "tasked" # A correction task exists.
---| "resolved" # Closed, by a verified node or by trying again.
---| "rejected" # Closed without a correction.

--- One claim of a result.
---@class flowdrive.protocol.Finding
---@field classification flowdrive.protocol.Classification What the agent holds it to be.
---@field evidence flowdrive.protocol.Evidence[] What it stands on.
---@field id string As the agent named it, or `finding-<n>`.
---@field severity flowdrive.protocol.Severity How bad it is.
---@field summary? string The claim.

--- One input of a workflow.
---@class flowdrive.protocol.InputSpec
---@field default? any The value when none is given.
---@field description? string What it is for.
---@field repeated? boolean Whether it takes a list of values.
---@field required? boolean Whether a run can be planned without it.
---@field type flowdrive.protocol.InputType The type a value must have.

--- The type of an input.
---@alias flowdrive.protocol.InputType
---| "string" # Any text.
---| "path" # A file or folder inside the workspace.
---| "number" # A number.
---| "boolean" # `true` or `false`.
---| "json" # Any JSON value.

--- Parameters of `listAgents`: agents are the user's, the same in every workspace.
---@alias flowdrive.protocol.ListAgentsParams table<string, any>

--- The answer to `listAgents`.
---@class flowdrive.protocol.ListAgentsResult
---@field agents flowdrive.protocol.AgentSummary[] The agents, by name; those that are built in too.

--- Parameters of `listFeedback`.
---@class flowdrive.protocol.ListFeedbackParams
---@field runId flowdrive.protocol.RunId The run.
---@field status? flowdrive.protocol.FeedbackStatus Only those that stand like this.
---@field workspace? string Absolute path of the folder the run is about. The first workspace folder when absent.

--- The answer to `listFeedback`.
---@class flowdrive.protocol.ListFeedbackResult
---@field feedback flowdrive.protocol.FeedbackRecord[] The records, in task order.

--- Parameters of `listRuns`.
---@class flowdrive.protocol.ListRunsParams
---@field limit? integer How many at most. Default 100.
---@field offset? integer How many to pass over.
---@field workspace? string Absolute path of the folder. The first workspace folder when absent.

--- The answer to `listRuns`.
---@class flowdrive.protocol.ListRunsResult
---@field runs flowdrive.protocol.RunSummary[] The runs, newest first.
---@field total integer How many there are in all.
---@field unreadable? flowdrive.protocol.UnreadableRun[] Folders that hold no readable run.

--- Parameters of `listWorkflows`.
---@class flowdrive.protocol.ListWorkflowsParams
---@field workspace? string Absolute path of a folder whose `.cw/workflows/` is listed too.

--- The answer to `listWorkflows`.
---@class flowdrive.protocol.ListWorkflowsResult
---@field unusable? flowdrive.protocol.UnusableWorkflow[] Files of the workspace's workflow folder that cannot be driven as they are, and why.
---@field workflows flowdrive.protocol.WorkflowSummary[] The workflows, bundled ones first.

--- What `drive` would do first.
---@alias flowdrive.protocol.NextAction
---| "dispatch" # Start a task.
---| "fulfill" # Carry on a task that was started.
---| "commit" # Commit the run.
---| "blocked" # Nothing may be done.
---| "complete" # Nothing is left to do.

--- A node of a run's provenance graph, such as `<run>:verifier:<task>`.
---@alias flowdrive.protocol.NodeId string

--- A phase's id, unique in its workflow.
---@alias flowdrive.protocol.PhaseId string

--- How a phase's tasks are run.
---@alias flowdrive.protocol.PhaseMode
---| "sequential" # One after the other.
---| "parallel" # Up to the workflow's limit at once.

--- How a phase stands.
---@alias flowdrive.protocol.PhaseStatus
---| "pending" # No task of it started.
---| "running" # Some did.
---| "completed" # All are accepted.

--- A phase of a run.
---@class flowdrive.protocol.PhaseView
---@field completed integer Those accepted.
---@field id flowdrive.protocol.PhaseId The phase.
---@field mode flowdrive.protocol.PhaseMode How its tasks run.
---@field status flowdrive.protocol.PhaseStatus How it stands.
---@field tasks integer Its tasks.
---@field title string Its name for people.

--- The loop that a phase of a preview belongs to.
---@class flowdrive.protocol.PlannedLoop
---@field decided boolean Whether it was decided how this round ends.
---@field maxRounds integer Rounds at most.
---@field round integer Which round the phase is, from 1. Later rounds are planned when they are decided.
---@field until string What ends the loop before that, in words.

--- A phase of a preview.
---@class flowdrive.protocol.PlannedPhase
---@field id flowdrive.protocol.PhaseId The phase.
---@field loop? flowdrive.protocol.PlannedLoop For a phase that is gone through again: how often at most, and what ends that.
---@field mode flowdrive.protocol.PhaseMode How its tasks run.
---@field status flowdrive.protocol.PhaseStatus How it stands.
---@field tasks flowdrive.protocol.PlannedTask[] Those of its tasks that were asked for.
---@field title string Its name for people.
---@field totalTasks? integer How many tasks it has.
---@field width integer How many would run at once.

--- The workflow that is driven in a task's place, as a preview tells of it.
---@class flowdrive.protocol.PlannedSubWorkflow
---@field agents flowdrive.protocol.AgentName[] The agents they go to.
---@field id string What the task names.
---@field tasks integer Its tasks, those of the workflows inside it with them.
---@field title string The workflow's title.

--- A task of a preview.
---@class flowdrive.protocol.PlannedTask
---@field agent? flowdrive.protocol.AgentName The agent it goes to.
---@field blockers? string[] What stands in this task's way.
---@field cache flowdrive.protocol.CacheState Whether an earlier result would be used.
---@field id flowdrive.protocol.TaskId The task.
---@field invocation? string The command line or URL, secrets replaced. Placeholders that depend on the attempt are left as they are.
---@field status flowdrive.protocol.TaskStatus How it stands.
---@field subWorkflow? flowdrive.protocol.PlannedSubWorkflow For a task that is a workflow of its own: what that is.

--- Programs Flowdrive knows how to call.
---@alias flowdrive.protocol.Preset
---| "claude" # Claude Code.
---| "codex" # OpenAI Codex CLI.
---| "gemini" # Gemini CLI.
---| "opencode" # OpenCode.
---| "survey" # The embedded survey agent.

--- Parameters of `preview`: the same selection as `drive`.
---@class flowdrive.protocol.PreviewParams
---@field agent? flowdrive.protocol.AgentName The agent for tasks that name none.
---@field concurrency? integer How many agents at once, in every phase.
---@field incremental? boolean Whether results of earlier runs would be reused.
---@field inputs? table<string, any> Values for its inputs.
---@field runId? flowdrive.protocol.RunId The run that would be carried on.
---@field taskLimit? integer Tasks of the plan at most. Default 1,000.
---@field taskOffset? integer Tasks of the plan to pass over. The counts and what is next are always those of the whole run.
---@field tokenBudget? integer Tokens the run may spend in all, in place of the limit it has.
---@field workflow? flowdrive.protocol.WorkflowRef What would be run.
---@field workspace? string Absolute path of the folder the run is about. The first workspace folder when absent.

--- One event of a run.
---@alias flowdrive.protocol.ProgressEvent
---| flowdrive.protocol.ProgressEvent.runStarted
---| flowdrive.protocol.ProgressEvent.phaseStarted
---| flowdrive.protocol.ProgressEvent.taskDispatched
---| flowdrive.protocol.ProgressEvent.agentActivity
---| flowdrive.protocol.ProgressEvent.taskAccepted
---| flowdrive.protocol.ProgressEvent.taskRetrying
---| flowdrive.protocol.ProgressEvent.taskParked
---| flowdrive.protocol.ProgressEvent.feedbackOpened
---| flowdrive.protocol.ProgressEvent.feedbackClosed
---| flowdrive.protocol.ProgressEvent.checkpoint
---| flowdrive.protocol.ProgressEvent.phaseFinished
---| flowdrive.protocol.ProgressEvent.budgetWarning
---| flowdrive.protocol.ProgressEvent.stopRequested
---| flowdrive.protocol.ProgressEvent.runFinished

--- A drive of the run began.
---@class flowdrive.protocol.ProgressEvent.runStarted
---@field completedWorkers integer Tasks already accepted by earlier drives.
---@field plannedWorkers integer Tasks in the run.
---@field resumed boolean Whether an earlier drive is carried on.
---@field title string The workflow's title.
---@field type "runStarted"
---@field warnings? string[] What of the workflow is allowed but likely a slip, such as a placeholder that names no input.
---@field workflowId string The workflow's id.
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- The first task of a phase is about to start.
---@class flowdrive.protocol.ProgressEvent.phaseStarted
---@field phase flowdrive.protocol.PhaseId The phase.
---@field tasks integer Its tasks.
---@field title string Its name for people.
---@field type "phaseStarted"
---@field width integer How many run at once.
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A task was recorded as started; its agent starts next.
---@class flowdrive.protocol.ProgressEvent.taskDispatched
---@field agent flowdrive.protocol.AgentName The agent.
---@field attempt integer The attempt, from 1.
---@field cache? flowdrive.protocol.CacheState For a task whose result may be reused: whether it was, and why or why not.
---@field phase flowdrive.protocol.PhaseId Its phase.
---@field taskId flowdrive.protocol.TaskId The task.
---@field type "taskDispatched"
---@field workerId flowdrive.protocol.WorkerId The attempt's folder.
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A line of what an agent is doing.
---@class flowdrive.protocol.ProgressEvent.agentActivity
---@field coalesced? integer Earlier lines of this task that were left out because the client reads slowly.
---@field taskId flowdrive.protocol.TaskId The task.
---@field text string The line, cut to 500 characters, secrets replaced.
---@field type "agentActivity"
---@field workerId flowdrive.protocol.WorkerId The attempt's folder.
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A task's result passed.
---@class flowdrive.protocol.ProgressEvent.taskAccepted
---@field findings integer How many findings it holds.
---@field phase flowdrive.protocol.PhaseId Its phase.
---@field source flowdrive.protocol.ResultSource Where the result came from.
---@field summary string Its first line.
---@field taskId flowdrive.protocol.TaskId The task.
---@field type "taskAccepted"
---@field usage? flowdrive.protocol.Usage What the agent said it used.
---@field workerId flowdrive.protocol.WorkerId The attempt's folder.
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- An attempt failed and the task is tried again.
---@class flowdrive.protocol.ProgressEvent.taskRetrying
---@field attempt integer The attempt that failed, from 1.
---@field code string The fault's code.
---@field maxAttempts integer Attempts allowed.
---@field notBefore? flowdrive.protocol.Timestamp When the next attempt starts, if not at once.
---@field reason string Why it failed.
---@field taskId flowdrive.protocol.TaskId The task.
---@field type "taskRetrying"
---@field workerId flowdrive.protocol.WorkerId The attempt's folder.
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A task's attempts are used up.
---@class flowdrive.protocol.ProgressEvent.taskParked
---@field attempts integer Attempts made.
---@field code string The fault's code.
---@field phase flowdrive.protocol.PhaseId Its phase.
---@field reason string Why the last one failed.
---@field taskId flowdrive.protocol.TaskId The task.
---@field type "taskParked"
---@field workerId flowdrive.protocol.WorkerId The last attempt's folder.
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A feedback record waits for a person.
---@class flowdrive.protocol.ProgressEvent.feedbackOpened
---@field classification flowdrive.protocol.FeedbackClass What kind of fault it is.
---@field feedbackId flowdrive.protocol.FeedbackId The record.
---@field message string The fault in a sentence.
---@field severity flowdrive.protocol.FeedbackSeverity How much it matters.
---@field taskId? flowdrive.protocol.TaskId The task it is about.
---@field type "feedbackOpened"
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A feedback record was closed, or is being worked on (`tasked`).
---@class flowdrive.protocol.ProgressEvent.feedbackClosed
---@field feedbackId flowdrive.protocol.FeedbackId The record.
---@field status flowdrive.protocol.FeedbackStatus How it stands now.
---@field type "feedbackClosed"
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- The run was committed.
---@class flowdrive.protocol.ProgressEvent.checkpoint
---@field commitId flowdrive.protocol.CommitId The commit.
---@field reason string Why.
---@field type "checkpoint"
---@field verifierGated boolean Whether a verified verdict stands behind it.
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A phase's tasks are all accepted.
---@class flowdrive.protocol.ProgressEvent.phaseFinished
---@field completed integer Tasks accepted.
---@field phase flowdrive.protocol.PhaseId The phase.
---@field type "phaseFinished"
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- Agents reported to have spent four fifths of the token budget, or more.
---@class flowdrive.protocol.ProgressEvent.budgetWarning
---@field budget integer Tokens the run may spend.
---@field spent integer Tokens recorded.
---@field type "budgetWarning"
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A stop was asked for.
---@class flowdrive.protocol.ProgressEvent.stopRequested
---@field by string By whom, such as `client`, `SIGTERM`, `shutdown`.
---@field mode flowdrive.protocol.StopMode How.
---@field type "stopRequested"
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- The drive ended.
---@class flowdrive.protocol.ProgressEvent.runFinished
---@field completedWorkers integer Tasks accepted.
---@field parkedWorkers integer Tasks parked.
---@field reason? string Why, where there is something to say.
---@field reportPath string Where the report is.
---@field status flowdrive.protocol.RunStatus How the run stands.
---@field type "runFinished"
---@field at flowdrive.protocol.Timestamp When it happened.
---@field runId flowdrive.protocol.RunId The run.
---@field seq integer The event's number; for `agentActivity`, that of the lifecycle event before it.

--- A progress token: a string or an integer.
---@alias flowdrive.protocol.ProgressToken integer|string

--- Parameters of `pruneRuns`. At least one of `keep`, `olderThanMs` and `cacheOlderThanMs` says what may go; where both `keep` and `olderThanMs` are given, a run goes only when both allow it.
---@class flowdrive.protocol.PruneRunsParams
---@field cacheOlderThanMs? integer Results kept for later runs go when they were neither kept nor used for so long.
---@field dryRun? boolean Say what would go, and remove nothing.
---@field keep? integer So many of the newest runs stay, of those whose status may go.
---@field olderThanMs? integer Only runs that last changed so long ago go.
---@field statuses? flowdrive.protocol.RunStatus[] Only runs that stand like this go. Complete ones when absent.
---@field workspace? string Absolute path of the folder the runs are about. The first workspace folder when absent.

--- The answer to `pruneRuns`.
---@class flowdrive.protocol.PruneRunsResult
---@field bytes integer Bytes of all that went, or would go.
---@field cachedResults integer Kept results that went, or would go.
---@field dryRun boolean Whether nothing was removed.
---@field kept integer Runs that stay.
---@field leftovers integer Folders left by an earlier removal that was cut short, which went too.
---@field removed flowdrive.protocol.PrunedRun[] The runs that went, or would go, oldest first.
---@field skipped? flowdrive.protocol.UnreadableRun[] Runs that were to go and could not, and why.

--- A run that was removed.
---@class flowdrive.protocol.PrunedRun
---@field bytes integer Bytes of its files and theirs.
---@field children? flowdrive.protocol.RunId[] Runs of its sub-workflows, which went with it.
---@field runId flowdrive.protocol.RunId The run.
---@field status flowdrive.protocol.RunStatus How it stood.
---@field title string Its workflow's name for people.
---@field updatedAt flowdrive.protocol.Timestamp When it last changed.

--- How a feedback record is closed.
---@alias flowdrive.protocol.Resolution
---| "resolved" # By a verified node, which must be named.
---| "rejected" # Without a correction. The task stays parked.
---| "retry" # The task is opened again, with guidance; `resume` runs it.
---| "tasked" # Not yet: a correction task is written down, and the record waits until that is done and it is closed in one of the other ways.

--- Parameters of `resolveFeedback`.
---@class flowdrive.protocol.ResolveFeedbackParams
---@field artifacts? string[] Files that support the resolution.
---@field evidence? string[] Locators that support the resolution.
---@field feedbackId flowdrive.protocol.FeedbackId The record.
---@field feedbackIds? flowdrive.protocol.FeedbackId[] Further records to close in the same way. All are closed, or none.
---@field guidance? string For `retry`: what the task is told when it is tried again. For `tasked`: what the correction task says.
---@field message? string A note.
---@field nodeId? flowdrive.protocol.NodeId For `resolved`: the node that settles it. It must exist and be verified or committed.
---@field resolution flowdrive.protocol.Resolution How it is closed.
---@field runId flowdrive.protocol.RunId The run.
---@field workspace? string Absolute path of the folder the run is about. The first workspace folder when absent.

--- Where an accepted result came from.
---@alias flowdrive.protocol.ResultSource
---| "agent" # An agent made it.
---| "cache" # An earlier run's result, judged again.
---| "sub-workflow" # A child run.

--- Parameters of `resume`.
---@class flowdrive.protocol.ResumeParams
---@field agent? flowdrive.protocol.AgentName The agent for tasks that name none. When absent, the one that an earlier drive of the run named, if it is still configured; else the default one.
---@field allowUnattested? boolean Accept results whose usage carries no valid signature, though the agent must sign it. What is accepted so is recorded and stands in the report. For this drive only.
---@field concurrency? integer How many agents at once, in every phase.
---@field incremental? boolean Reuse results of earlier incremental drives wherever what a task is given, and what its result cites, is the same.
---@field maxAttempts? integer Attempts before a task parks.
---@field once? boolean Fill one window, settle it, stop.
---@field runId flowdrive.protocol.RunId The run.
---@field tokenBudget? integer Tokens the run may spend in all, in place of the limit it had. 0: no limit. Kept for later drives of the run.
---@field workDoneToken? flowdrive.protocol.ProgressToken Token for `$/progress`.
---@field workspace? string Absolute path of the folder the run is about. The first workspace folder when absent.

--- A run: one execution of a workflow, and the name of its folder under `.cw/runs/`.
---@alias flowdrive.protocol.RunId string

--- How a run stands.
---@alias flowdrive.protocol.RunStatus
---| "complete" # Every task accepted, and the run committed.
---| "parked" # At least one task used up its attempts.
---| "blocked" # Something other than a parked task stands in the way.
---| "in-progress" # There is more to do, and nothing in the way.

--- One line of a list of runs.
---@class flowdrive.protocol.RunSummary
---@field completedWorkers integer Tasks accepted.
---@field createdAt flowdrive.protocol.Timestamp When it was planned.
---@field driving boolean Whether a process drives it now.
---@field inputs? table<string, any> What it was asked: to tell it from other runs of its workflow. Long texts and lists are cut (texts end with `…`); `showRun` has them whole.
---@field next? string What to do next, where it is not driven and something is left to do.
---@field openFeedback integer Feedback that waits for a person.
---@field parkedWorkers integer Tasks parked.
---@field plannedWorkers integer Tasks in it.
---@field reason? string Why it stands so, where there is something to say.
---@field runId flowdrive.protocol.RunId The run.
---@field status flowdrive.protocol.RunStatus How it stands.
---@field title string The workflow's title.
---@field updatedAt flowdrive.protocol.Timestamp When it last changed.
---@field workflowId flowdrive.protocol.WorkflowId Its workflow.

--- The answer to `showRun`.
---@class flowdrive.protocol.RunView
---@field events? flowdrive.protocol.ProgressEvent[] With `sinceSeq`: the lifecycle events after it, oldest first.
---@field inputs table<string, any> What it was asked.
---@field lastSeq integer The number of its newest lifecycle event.
---@field moreEvents? boolean With `sinceSeq`: whether there are more than were sent.
---@field phases flowdrive.protocol.PhaseView[] Its phases, in order.
---@field reportPath string Where the report is.
---@field schemaVersion integer Version of this shape.
---@field statePath string Where the snapshot of the state is.
---@field summary flowdrive.protocol.RunSummary The run in one line.
---@field tasks flowdrive.protocol.TaskView[] Its tasks, in order, from `taskOffset` on; of those that were asked for.
---@field totalTasks integer How many tasks the run has in all.

--- The answer to `serverInfo`.
---@class flowdrive.protocol.ServerInfo
---@field configurationFault? string Why the user's configuration is of no use. Requests that need an agent are refused with it; those that only read are answered.
---@field methods string[] Every method it answers.
---@field minProtocolVersion integer The oldest protocol version it still understands.
---@field name string `flowdrive`.
---@field protocolVersion integer The protocol version it speaks.
---@field version string The server's version.

--- Parameters of `serverInfo`.
---@class flowdrive.protocol.ServerInfoParams
---@field protocolVersion? integer The protocol version the client was made for.

--- How bad a finding is. Ordered from worst to none.
---@alias flowdrive.protocol.Severity
---| "P0" # Stop everything.
---| "P1" # High.
---| "P2" # Medium.
---| "P3" # Low.
---| "none" # Not rated.

--- Parameters of `showRun`.
---@class flowdrive.protocol.ShowRunParams
---@field runId flowdrive.protocol.RunId The run.
---@field sinceSeq? integer Send the lifecycle events after this one.
---@field taskIds? flowdrive.protocol.TaskId[] Only these tasks, in the order of the run; one that the run does not have is left out. All when absent.
---@field taskLimit? integer Tasks at most. Default 1,000.
---@field taskOffset? integer Tasks to pass over.
---@field workspace? string Absolute path of the folder the run is about. The first workspace folder when absent.
---@field writeReport? boolean Write `report.md` and `report.html` anew from the run's record before answering; also while the run is driven. The same record always gives the same bytes.

--- One step of a drive.
---@class flowdrive.protocol.Step
---@field action flowdrive.protocol.StepAction What was done.
---@field attempts? integer The attempt, from 1.
---@field backendId? string `agent`, where an agent did it.
---@field handleKind? string `process`, `endpoint`, `result-cache` or `sub-workflow`.
---@field phase? flowdrive.protocol.PhaseId The phase.
---@field reason? string Why.
---@field reportedModel? string The model, as the agent reported it; `unreported` otherwise.
---@field runId flowdrive.protocol.RunId The run.
---@field schemaVersion integer Version of this shape.
---@field status flowdrive.protocol.StepStatus How it went.
---@field taskId? flowdrive.protocol.TaskId The task.
---@field workerId? flowdrive.protocol.WorkerId The attempt's folder.

--- What a step did.
---@alias flowdrive.protocol.StepAction
---| "dispatch" # Recorded a task as started.
---| "fulfill" # Ran an agent.
---| "accept" # Accepted a result.
---| "commit" # Committed the run.
---| "park" # Parked a task.
---| "blocked" # Found nothing that may be done.
---| "complete" # Found nothing left to do.

--- How a step went.
---@alias flowdrive.protocol.StepStatus
---| "ok" # Well.
---| "parked" # The task parked.
---| "blocked" # The drive is blocked.
---| "failed" # Badly; it is tried again.
---| "complete" # The run is complete.

--- How a drive is stopped.
---@alias flowdrive.protocol.StopMode
---| "graceful" # Nothing new starts; what is in flight is settled.
---| "now" # Agents are ended at once; their tasks go back to pending.

--- Parameters of `stop`.
---@class flowdrive.protocol.StopParams
---@field mode? flowdrive.protocol.StopMode How.
---@field runId flowdrive.protocol.RunId The run.
---@field workspace? string Absolute path of the folder the run is about. The first workspace folder when absent.

--- The answer to `stop`. How the drive ended is told by `runFinished` and by the answer to `drive`.
---@class flowdrive.protocol.StopResult
---@field driving boolean Whether anybody drives it.
---@field mode flowdrive.protocol.StopMode How it is being stopped.
---@field runId flowdrive.protocol.RunId The run.

--- A task's id, unique in its workflow. A looped task's later rounds carry `@r<n>`.
---@alias flowdrive.protocol.TaskId string

--- How a task stands.
---@alias flowdrive.protocol.TaskStatus
---| "pending" # Waits for its turn.
---| "running" # An agent works on it, or did when the run was last driven.
---| "completed" # Accepted.
---| "failed" # Parked.

--- A task of a run.
---@class flowdrive.protocol.TaskView
---@field agent? flowdrive.protocol.AgentName The newest attempt's agent.
---@field attempts integer Attempts begun.
---@field endedAt? flowdrive.protocol.Timestamp When its agent ended.
---@field failure? string Why the newest attempt failed.
---@field findings? flowdrive.protocol.Finding[] The accepted result's findings.
---@field id flowdrive.protocol.TaskId The task.
---@field notBefore? flowdrive.protocol.Timestamp For a task that waits after a passing fault: its next attempt does not start before this.
---@field phase flowdrive.protocol.PhaseId Its phase.
---@field reportedModel? string The model, as the agent reported it; `unreported` otherwise.
---@field resultPath? string The accepted result's file.
---@field source? flowdrive.protocol.ResultSource Where the accepted result came from.
---@field startedAt? flowdrive.protocol.Timestamp When the newest attempt began.
---@field status flowdrive.protocol.TaskStatus How it stands.
---@field summary? string The accepted result's first line.
---@field usage? flowdrive.protocol.Usage What the agent said it used.
---@field workerId? flowdrive.protocol.WorkerId The newest attempt's folder.

--- UTC with milliseconds.
---@alias flowdrive.protocol.Timestamp string

--- A run that could not be listed, and why.
---@class flowdrive.protocol.UnreadableRun
---@field kind flowdrive.protocol.ErrorKind What went wrong.
---@field message string The same in a sentence.
---@field name string The folder's name.

--- A workflow file that is not listed among the workflows.
---@class flowdrive.protocol.UnusableWorkflow
---@field hint? string What to do about it.
---@field message string What is wrong with it, a line for each fault.
---@field path string The file, relative to the workspace.

--- What an agent said it used. A bucket it did not report is absent, never 0.
---@class flowdrive.protocol.Usage
---@field cacheReadTokens? integer Tokens read from the provider's cache.
---@field cacheWriteTokens? integer Tokens written to the provider's cache.
---@field inputTokens? integer Tokens read.
---@field outputTokens? integer Tokens written.
---@field totalTokens? integer The agent's own total.

--- One thing that does not add up in a run's record.
---@class flowdrive.protocol.VerifyProblem
---@field code string What kind of problem it is, such as `hash-mismatch`.
---@field line? integer The line, from 1.
---@field message string The same in a sentence.
---@field path string The file.

--- Parameters of `verifyRun`.
---@class flowdrive.protocol.VerifyRunParams
---@field runId flowdrive.protocol.RunId The run.
---@field workspace? string Absolute path of the folder the run is about. The first workspace folder when absent.

--- The answer to `verifyRun`.
---@class flowdrive.protocol.VerifyRunResult
---@field events integer Journal lines checked.
---@field head string The hash of the newest one, which stands for the whole journal.
---@field ok boolean Whether everything adds up.
---@field problems flowdrive.protocol.VerifyProblem[] What does not add up.
---@field runId flowdrive.protocol.RunId The run.

--- One attempt at a task, and the name of its folder.
---@alias flowdrive.protocol.WorkerId string

--- A workflow's id.
---@alias flowdrive.protocol.WorkflowId string

--- Which workflow: `{ "id": ... }`, `{ "path": ... }` or `{ "inline": ... }`.
---@class flowdrive.protocol.WorkflowRef
---@field id? string
---@field inline? any
---@field path? string

--- A workflow that can be driven.
---@class flowdrive.protocol.WorkflowSummary
---@field id flowdrive.protocol.WorkflowId Its id.
---@field inputs table<string, flowdrive.protocol.InputSpec> What the user is asked for.
---@field source string `bundled`, or the file it was read from.
---@field summary string What it is for.
---@field tasks integer How many tasks it has.
---@field title string One line for people.
