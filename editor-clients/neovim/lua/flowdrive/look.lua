--- How the view of a run looks: highlight groups, and the options of its windows. Must not: draw it.
local M = {}

local highlights = {
  FlowdriveTitle = "Title",
  FlowdrivePhase = "Function",
  FlowdriveAgent = "Identifier",
  FlowdriveTime = "Number",
  FlowdriveTokens = "Comment",
  FlowdriveFindings = "DiagnosticHint",
  FlowdriveNote = "Comment",
  FlowdriveReason = "DiagnosticWarn",
  FlowdriveBar = "NonText",
  FlowdrivePending = "Comment",
  FlowdriveRunning = "DiagnosticInfo",
  FlowdriveRetrying = "DiagnosticWarn",
  FlowdriveAccepted = "DiagnosticOk",
  FlowdriveParked = "DiagnosticError",
  FlowdriveKey = "Special",
}

--- Links each group to a standard one, where the colour scheme or the user has not said otherwise.
function M.define_highlights()
  for name, standard in pairs(highlights) do
    vim.api.nvim_set_hl(0, name, { link = standard, default = true })
  end
  vim.api.nvim_create_autocmd("ColorScheme", {
    group = vim.api.nvim_create_augroup("flowdrive.highlights", { clear = true }),
    desc = "flowdrive: a colour scheme clears the groups of plugins",
    callback = M.define_highlights,
  })
end

--- How a window that shows a run looks.
function M.dress_window()
  local window = vim.wo[0][0]
  window.number = false
  window.relativenumber = false
  window.wrap = false
  window.list = false
  window.spell = false
  window.signcolumn = "no"
  window.foldcolumn = "0"
  window.cursorline = true
  window.foldmethod = "expr"
  window.foldexpr = "v:lua.require'flowdrive.run_buffer'.foldexpr()"
  window.foldlevel = 99
  window.foldtext = ""
  window.fillchars = "fold: ,eob: "
end

return M
