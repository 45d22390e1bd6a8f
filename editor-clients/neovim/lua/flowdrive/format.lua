--- Times and numbers as people read them. Pure. Must not: ask for the time.
local M = {}

--- Days from 1970-01-01 to a date of the Gregorian calendar.
---@param year integer
---@param month integer
---@param day integer
---@return integer
local function days(year, month, day)
  if month <= 2 then
    year, month = year - 1, month + 12
  end
  local era = math.floor(year / 400)
  local year_of_era = year - era * 400
  local day_of_year = math.floor((153 * (month - 3) + 2) / 5) + day - 1
  local day_of_era = year_of_era * 365 + math.floor(year_of_era / 4) - math.floor(year_of_era / 100) + day_of_year
  return era * 146097 + day_of_era - 719468
end

--- Milliseconds since 1970 of a time of the protocol, such as `2026-01-02T03:04:05.678Z`.
---@param text? string
---@return integer?
function M.milliseconds(text)
  if type(text) ~= "string" then
    return nil
  end
  local year, month, day, hour, minute, second = text:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):([%d.]+)Z$")
  if not year then
    return nil
  end
  local whole = days(tonumber(year), tonumber(month), tonumber(day)) * 86400
    + tonumber(hour) * 3600
    + tonumber(minute) * 60
    + tonumber(second)
  return math.floor(whole * 1000 + 0.5)
end

--- `0:07`, `12:34`, `1:02:03`.
---@param milliseconds integer
---@return string
function M.duration(milliseconds)
  local seconds = math.floor(math.max(milliseconds, 0) / 1000)
  local hours, minutes = math.floor(seconds / 3600), math.floor(seconds / 60) % 60
  if hours > 0 then
    return ("%d:%02d:%02d"):format(hours, minutes, seconds % 60)
  end
  return ("%d:%02d"):format(minutes, seconds % 60)
end

--- `950`, `12.3k`, `1.2M`.
---@param count integer
---@return string
function M.count(count)
  if count < 1000 then
    return ("%d"):format(count)
  elseif count < 999950 then
    return ("%.1fk"):format(count / 1000)
  end
  return ("%.1fM"):format(count / 1000000)
end

--- One line, whatever an agent wrote.
---@param text any
---@return string
function M.one_line(text)
  return vim.trim((tostring(text == vim.NIL and "" or text or ""):gsub("[%s%c]+", " ")))
end

--- At most this many characters of a text, with `…` for what was cut.
---@param text string
---@param most integer
---@return string
function M.shorten(text, most)
  if vim.fn.strchars(text) <= most then
    return text
  end
  return vim.fn.strcharpart(text, 0, most - 1) .. "…"
end

--- `1 task`, `2 tasks`.
---@param count integer
---@param what string
---@return string
function M.plural(count, what)
  return ("%d %s%s"):format(count, what, count == 1 and "" or "s")
end

return M
