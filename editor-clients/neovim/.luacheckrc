-- For luacheck: the plugin and its tests.
std = "luajit"
globals = { "vim" }
max_line_length = 120 -- StyLua sees to code; comments have a little more room
max_comment_line_length = 130
max_string_line_length = false
unused_args = true
exclude_files = { "lua/flowdrive/meta" }
