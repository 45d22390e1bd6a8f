-- Writes lua/flowdrive/meta/protocol.lua, the protocol's types for lua-language-server, from the committed schema.
-- `nvim -l scripts/types.lua [--check]`: with --check nothing is written, and a file that differs is an error.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
local schema_file = here .. "/../../../schema/protocol.schema.json"
local target = here .. "/../lua/flowdrive/meta/protocol.lua"
local PREFIX = "flowdrive.protocol."

---@param path string
---@return string
local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local schema = vim.json.decode(read(schema_file), { luanil = { object = true } })

---@param ref string
---@return string
local function name_of(ref)
  return PREFIX .. ref:match("^#/%$defs/(.+)$")
end

---@param text? string
---@return string
local function one_line(text)
  return (vim.trim(text or ""):gsub("%s+", " "))
end

local basic = { string = "string", integer = "integer", number = "number", boolean = "boolean", null = "nil" }

--- The type of a schema as lua-language-server writes it. The server leaves out what is absent and never sends null for it.
---@param node any
---@return string
local function type_of(node)
  if type(node) ~= "table" then
    return "any"
  elseif node["$ref"] then
    return name_of(node["$ref"])
  elseif node.const ~= nil then
    return ("%q"):format(node.const)
  elseif node.enum then
    return table.concat(
      vim.tbl_map(function(value)
        return ("%q"):format(value)
      end, node.enum),
      "|"
    )
  end
  local choices = node.anyOf or node.oneOf
  if choices then
    local found = {}
    for _, choice in ipairs(choices) do
      local one = type_of(choice)
      if one ~= "nil" and not vim.tbl_contains(found, one) then
        found[#found + 1] = one
      end
    end
    return table.concat(found, "|")
  end
  local kinds = type(node.type) == "table" and node.type or { node.type }
  local found = {}
  for _, kind in ipairs(kinds) do
    if kind == "array" then
      local item = type_of(node.items)
      found[#found + 1] = (item:find("|") and ("(%s)"):format(item) or item) .. "[]"
    elseif kind == "object" then
      local _, pattern = next(node.patternProperties or {})
      local value = type(node.additionalProperties) == "table" and node.additionalProperties or pattern
      found[#found + 1] = ("table<string, %s>"):format(value and type_of(value) or "any")
    elseif basic[kind] and kind ~= "null" then
      found[#found + 1] = basic[kind]
    end
  end
  if #found == 0 then
    return node.type == "null" and "nil" or "any"
  end
  return table.concat(found, "|")
end

---@param map table<string, any>
---@return string[]
local function sorted(map)
  local keys = vim.tbl_keys(map or {})
  table.sort(keys)
  return keys
end

local out = {}
local function line(text)
  out[#out + 1] = text
end

---@param node table
---@param shared table[] property sets that hold for the class as well
local function fields(node, shared)
  for _, source in ipairs(vim.list_extend({ node }, shared)) do
    local required = {}
    for _, name in ipairs(source.required or {}) do
      required[name] = true
    end
    for _, name in ipairs(sorted(source.properties)) do
      local property = source.properties[name]
      local about = type(property) == "table" and one_line(property.description) or ""
      local text = ("---@field %s%s %s %s"):format(name, required[name] and "" or "?", type_of(property), about)
      line((text:gsub("%s+$", "")))
    end
  end
end

---@param name string
---@param node table
local function definition(name, node)
  line("")
  if node.description then
    line("--- " .. one_line(node.description))
  end
  local variants = node.oneOf or node.anyOf
  local tagged = variants
    and vim.iter(variants):all(function(one)
      return one.type == "object"
        and one.properties ~= nil
        and one.properties.type ~= nil
        and one.properties.type.const ~= nil
    end)
  if tagged then
    local names = {}
    for _, one in ipairs(variants) do
      local tag = one.properties.type.const
      names[#names + 1] = PREFIX .. name .. "." .. tag
    end
    line(("---@alias %s%s"):format(PREFIX, name))
    for _, one in ipairs(names) do
      line("---| " .. one)
    end
    for index, one in ipairs(variants) do
      line("")
      line("--- " .. one_line(one.description))
      line("---@class " .. names[index])
      fields(one, { node })
    end
  elseif variants and vim.iter(variants):all(function(one)
    return one.const ~= nil
  end) then
    line(("---@alias %s%s"):format(PREFIX, name))
    for _, one in ipairs(variants) do
      local about = one_line(one.description)
      line(("---| %q%s"):format(one.const, about ~= "" and " # " .. about or ""))
    end
  elseif
    variants
    and vim.iter(variants):all(function(one)
      return one.type == "object" and one.properties ~= nil
    end)
  then
    -- Lua has no unions of shapes worth the name here: every field, none required.
    line("---@class " .. PREFIX .. name)
    local all = { properties = {}, required = {} }
    for _, one in ipairs(variants) do
      all.properties = vim.tbl_extend("keep", all.properties, one.properties)
    end
    fields(all, {})
  elseif node.properties then
    line("---@class " .. PREFIX .. name)
    fields(node, {})
  else
    line(("---@alias %s%s %s"):format(PREFIX, name, type_of(node)))
  end
end

line("---@meta")
line("-- The wire types. Generated from schema/protocol.schema.json by scripts/types.lua; not edited by hand.")
line(("-- Protocol version %d."):format(schema.protocolVersion))
for _, name in ipairs(sorted(schema["$defs"])) do
  definition(name, schema["$defs"][name])
end
local text = table.concat(out, "\n") .. "\n"

if vim.tbl_contains(arg or {}, "--check") then
  local ok, there = pcall(read, target)
  if not ok or there ~= text then
    io.stderr:write(
      vim.fs.normalize(target) .. " is not what the schema says. Run: nvim -l editor-clients/neovim/scripts/types.lua\n"
    )
    os.exit(1)
  end
else
  vim.fn.mkdir(vim.fs.dirname(target), "p")
  local file = assert(io.open(target, "wb"))
  file:write(text)
  file:close()
end
