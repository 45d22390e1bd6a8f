--- A server that dies mid-drive, and runs that another process drives: what the editor sees of them.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
package.path = here .. "/?.lua;" .. package.path
local t = require("check")
local session = require("session")
local flowdrive, restart = session.flowdrive, session.restart

t.capture_messages()
t.script_prompts()

local reattached = {}
vim.api.nvim_create_autocmd("User", {
  pattern = "FlowdriveReattached",
  callback = function(args)
    reattached[#reattached + 1] = args.data
  end,
})

--- Kills the only server, and says which it was.
local function kill_server()
  local servers = session.servers()
  t.same(#servers, 1, "servers: " .. vim.inspect(servers))
  vim.uv.kill(servers[1], "sigkill")
  return servers[1]
end

---@return string
local function view_of(run)
  return table.concat(vim.api.nvim_buf_get_lines(vim.fn.bufnr("flowdrive://run/" .. run.id), 0, -1, false), "\n")
end

local interrupted
t.test("a server killed mid-drive is started again, and the run is shown as it stands", function()
  local folder, run = session.sleeping_drive()
  interrupted = run.id
  local killed = kill_server()
  local said = t.message("the server ended (signal 9) while it drove " .. run.id)
  t.same(said.level, vim.log.levels.ERROR)
  t.contains(said.text, "Starting it again in 0.5 s")
  t.message(("the server runs again. %s stands at 0 of 5 tasks"):format(run.id))
  t.message((":Flowdrive resume %s` carries it on"):format(run.id))
  t.same(#t.messages, 2, vim.inspect(t.messages))
  t.same(reattached, { { workspace = session.workspace, runs = { run.id } } })
  local servers = session.servers()
  t.same({ #servers, servers[1] ~= killed }, { 1, true }, "one server, another one")
  t.same(run.status, "interrupted")
  t.same(require("flowdrive").status(), "")
  t.eventually("the view", function()
    local text = view_of(run)
    return text:find("✗ interrupted", 1, true) and not text:find("●", 1, true)
  end)
  for _, pid in ipairs(session.sleepers(folder)) do
    t.eventually("the end of agent " .. pid, function()
      return not session.alive(pid)
    end)
  end
end)

t.test("the interrupted run is resumed to its end by the next server", function()
  restart({ defaultAgent = "builtin:survey" })
  flowdrive("resume " .. interrupted)
  t.message("quick-survey complete, 5 of 5")
  t.same(require("flowdrive.runs").get(interrupted).status, "complete")
end)

t.test("what another process did meanwhile is caught up on, event by event", function()
  local _, run = session.sleeping_drive()
  reattached = {}
  local seen = run.last_seq
  local announced = {}
  local watch = vim.api.nvim_create_autocmd("User", {
    pattern = { "FlowdriveTaskAccepted", "FlowdriveRunFinished" },
    callback = function(args)
      announced[#announced + 1] = args.match
    end,
  })
  kill_server()
  -- The command line carries the run on while the editor waits to start its server.
  local out = vim
    .system(
      { session.server, "resume", run.id, "--workspace", session.workspace, "--agent", "builtin:survey", "--json" },
      { text = true }
    )
    :wait(t.PATIENCE_MS)
  t.same(out.code, 0, out.stderr)
  t.message(("%s stands at 5 of 5 tasks"):format(run.id))
  local message = t.message("caught up on, complete.")
  local missed = tonumber(message.text:match("(%d+) events? caught up on"))
  t.same(missed, run.last_seq - seen, "events")
  t.same(missed > 10, true, "events: " .. missed)
  -- The end of the drive that died, recorded by the one that came after it; five results; that one's own end.
  t.same(
    { #announced, announced[1], announced[#announced] },
    { 7, "FlowdriveRunFinished", "FlowdriveRunFinished" },
    vim.inspect(announced)
  )
  vim.api.nvim_del_autocmd(watch)
  t.same(run.status, "complete")
  t.eventually("the view", function()
    return view_of(run):find("✓ complete", 1, true) and view_of(run):find("5 of 5 tasks accepted", 1, true)
  end)
end)

t.test("with after_crash = resume the drive goes on by itself", function()
  local folder, run = session.sleeping_drive({ after_crash = "resume" })
  local before = #session.sleepers(folder)
  kill_server()
  t.message("the server runs again")
  t.eventually("agents of the next server", function()
    return #session.sleepers(folder) > before and run.driven_here
  end)
  vim.cmd("Flowdrive! stop " .. run.id)
  t.message("quick-survey stopped, 0 of 5")
end)

t.test("with after_crash = nothing it is only said", function()
  local _, run = session.sleeping_drive({ after_crash = "nothing" })
  kill_server()
  t.message((":Flowdrive resume %s` carries it on"):format(run.id))
  vim.wait(800)
  t.same(session.servers(), {}, "servers")
  t.same(#t.messages, 1, vim.inspect(t.messages))
end)

t.test("a server that is asked to end is not started again", function()
  local _, run = session.sleeping_drive()
  require("flowdrive.client").stop(session.client(), 5000)
  t.eventually("no server", function()
    return #session.servers() == 0
  end)
  vim.wait(800)
  t.same(session.servers(), {}, "servers")
  t.same(run.driven_here, false)
end)

t.test("a server that keeps dying is left alone", function()
  local reattach = require("flowdrive.reattach")
  local delays = {}
  for number = 1, 6 do
    delays[number] = reattach.note_death("/some/folder", number * 1000) or "none"
  end
  t.same(delays, { 500, 1000, 2000, 4000, 8000, "none" })
  t.same(reattach.note_death("/some/folder", 300000), 500, "later deaths start anew")
end)

t.test("a run that the command line drives is followed while its view is seen", function()
  restart()
  local gate = vim.fn.tempname()
  local config = vim.fn.tempname() .. ".toml"
  vim.fn.writefile({
    'defaultAgent = "waiter"',
    "[agents.waiter]",
    ('command = ["sh", "-c", "while [ ! -e \\"$0\\" ]; do sleep 0.1; done; exit 1", "%s"]'):format(gate),
  }, config)
  local ended
  vim.system({
    session.server,
    "drive",
    "quick-survey",
    "--workspace",
    session.workspace,
    "--input",
    "question=" .. session.question,
    "--config",
    config,
    "--json",
  }, { text = true }, function(out)
    ended = out
  end)
  local id = t.eventually("the run of the command line", function()
    for name in vim.fs.dir(session.workspace .. "/.cw/runs") do
      if not require("flowdrive.runs").get(name) then
        return name
      end
    end
  end)
  t.clear()
  flowdrive("runs " .. id)
  local run = t.eventually("the run as driven", function()
    local known = require("flowdrive.runs").get(id)
    return known and known.status == "running" and known
  end)
  t.same(run.driven_here, false)
  t.same(require("flowdrive").status(), "", "not this editor's drive")
  vim.fn.writefile({}, gate)
  t.eventually("the view of the parked run", function()
    return view_of(run):find("✗ parked", 1, true) and view_of(run):find("Waiting for you", 1, true)
  end)
  t.eventually("the command line's end", function()
    return ended
  end)
  t.same(ended.code, 3, ended.stderr)
end)

t.finish()
