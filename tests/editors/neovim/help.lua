--- The help file: its tags build, every link leads somewhere, every subcommand and option is described.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
package.path = here .. "/?.lua;" .. package.path
local plugin = vim.fs.normalize(here .. "/../../../editor-clients/neovim")
local t = require("check")

-- Tags are built in a copy: nothing is written into the repository.
local copy = vim.fn.tempname()
vim.fn.mkdir(copy .. "/doc", "p")
vim.uv.fs_copyfile(plugin .. "/doc/flowdrive.txt", copy .. "/doc/flowdrive.txt")
local lines = vim.fn.readfile(plugin .. "/doc/flowdrive.txt")
local text = table.concat(lines, "\n")
vim.opt.runtimepath:append(copy)
vim.opt.runtimepath:prepend(plugin)
vim.cmd.runtime("plugin/flowdrive.lua")

t.test("the tags build, and each is there once", function()
  vim.cmd.helptags(copy .. "/doc")
  t.same(#vim.fn.readfile(copy .. "/doc/tags") >= 20, true)
end)

t.test("every link leads to a tag", function()
  local broken = {}
  for tag in text:gmatch("|([%w:._%-()]+)|") do
    if not pcall(vim.cmd.help, tag) or vim.fn.expand("%:t") == "" then
      broken[#broken + 1] = tag
    end
  end
  vim.cmd("silent! helpclose")
  t.same(broken, {})
end)

t.test("every subcommand and every option is described", function()
  for _, name in ipairs(require("flowdrive.commands").names()) do
    t.contains(text, "*:Flowdrive-" .. name .. "*")
  end
  for _, name in ipairs(require("flowdrive.arguments").option_names("drive")) do
    t.contains(text, "\n                  " .. name)
  end
  for name in pairs(require("flowdrive").options()) do
    t.contains(text, "\n      " .. name .. " = ")
  end
end)

t.test("no line is wider than a window of 80 columns", function()
  local wide = {}
  for number, line in ipairs(lines) do
    if vim.api.nvim_strwidth(line) > 80 then
      wide[#wide + 1] = number
    end
  end
  t.same(wide, {})
end)

t.finish()
