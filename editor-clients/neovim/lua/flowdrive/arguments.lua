--- The words after `:Flowdrive`: splitting them, and reading options and typed inputs. Pure.
local M = {}

--- Splits `a b="c d" 'e f'` into words; quotes may stand anywhere in a word.
---@param text string
---@return string[]
function M.split(text)
  local words, word, quote = {}, nil, nil
  for char in text:gmatch(".") do
    if quote then
      if char == quote then
        quote = nil
      else
        word = word .. char
      end
    elseif char == '"' or char == "'" then
      quote, word = char, word or ""
    elseif char:find("%s") then
      words[#words + 1] = word
      word = nil
    else
      word = (word or "") .. char
    end
  end
  words[#words + 1] = word
  return words
end

---@class flowdrive.OptionSpec
---@field param string the protocol's name
---@field kind "flag"|"count"|"text"
---@field about string

--- The options of `drive`, `preview` and `resume`, by the name that is typed.
---@type table<string, flowdrive.OptionSpec>
M.options = {
  ["--agent"] = { param = "agent", kind = "text", about = "the agent for tasks that name none" },
  ["--concurrency"] = { param = "concurrency", kind = "count", about = "how many agents at once" },
  ["--max-attempts"] = { param = "maxAttempts", kind = "count", about = "attempts before a task parks" },
  ["--once"] = { param = "once", kind = "flag", about = "fill one window, settle it, stop" },
  ["--incremental"] = { param = "incremental", kind = "flag", about = "reuse results of earlier runs" },
}

--- What a preview does not take.
local not_of_preview = { ["--max-attempts"] = true, ["--once"] = true }

---@param method "drive"|"preview"|"resume"
---@return string[]
function M.option_names(method)
  local names = vim.tbl_filter(function(name)
    return method ~= "preview" or not not_of_preview[name]
  end, vim.tbl_keys(M.options))
  table.sort(names)
  return names
end

--- Takes the options out of the words. Raises a sentence when one is wrong.
---@param words string[]
---@param method "drive"|"preview"|"resume"
---@return string[] others
---@return table<string, any> params
function M.take_options(words, method)
  local others, params = {}, {}
  for _, word in ipairs(words) do
    if word:sub(1, 2) ~= "--" then
      others[#others + 1] = word
    else
      local name, value = word:match("^(%-%-[%a-]+)=(.*)$")
      name = name or word
      local option = M.options[name]
      if not option or (method == "preview" and not_of_preview[name]) then
        local known = table.concat(M.option_names(method), ", ")
        error(("%s has no option %s. There are: %s"):format(method, name, known), 0)
      end
      if option.kind == "flag" then
        if value then
          error(("option %s takes no value"):format(name), 0)
        end
        params[option.param] = true
      elseif not value or value == "" then
        error(("option %s needs a value: %s=%s"):format(name, name, option.kind == "count" and "3" or "claude"), 0)
      elseif option.kind == "count" then
        local count = value:match("^%d+$") and tonumber(value)
        if not count or count < 1 or count > 2 ^ 32 - 1 then
          error(("option %s: %q is not a whole number from 1"):format(name, value), 0)
        end
        params[option.param] = count
      else
        params[option.param] = value
      end
    end
  end
  return others, params
end

--- Turns what was typed into a value of an input's type.
---@param text string
---@param kind flowdrive.protocol.InputType
---@return any value nil when the text is not of that type
---@return string? problem
function M.parse_value(text, kind)
  if kind == "number" then
    local number = tonumber(text)
    -- Lua also reads hexadecimal, `inf` and `nan`, which JSON has not.
    if not number or number ~= number or number == math.huge or number == -math.huge or text:find("[xXpP]") then
      return nil, ("%q is not a number"):format(text)
    end
    return number
  elseif kind == "boolean" then
    local value = ({ ["true"] = true, ["false"] = false })[text]
    if value == nil then
      return nil, ("%q is neither true nor false"):format(text)
    end
    return value
  elseif kind == "json" then
    local ok, value = pcall(vim.json.decode, text)
    if not ok then
      return nil, "that is not JSON: " .. tostring(value)
    end
    return value
  end
  return text
end

--- Reads `name=value` words into values of their inputs' types. Raises a sentence when one is wrong.
---@param words string[]
---@param specs? table<string, flowdrive.protocol.InputSpec> nil when the workflow's inputs are not known
---@return table<string, any>
function M.inputs(words, specs)
  local inputs = {}
  for _, word in ipairs(words) do
    local name, text = word:match("^([%a][%w_-]*)=(.*)$")
    if not name then
      error(('%q is not name=value. Quote a value that has spaces: question="where is it?"'):format(word), 0)
    end
    local spec = specs and specs[name]
    if specs and not spec then
      local known = vim.tbl_keys(specs)
      table.sort(known)
      local there = #known > 0 and ("There are: " .. table.concat(known, ", ")) or "It has none."
      error(("the workflow has no input %q. %s"):format(name, there), 0)
    end
    local value, problem = M.parse_value(text, spec and spec.type or "string")
    if problem then
      error(("input %s: %s"):format(name, problem), 0)
    end
    if not (spec and spec.repeated) then
      inputs[name] = value
    else
      inputs[name] = inputs[name] or {}
      table.insert(inputs[name], value)
    end
  end
  return inputs
end

return M
