-- Joined behind common.lua: see cache.ts.
-- KEYS: the prefix of entry names. ARGV: tokens of 16 bytes each, with which entry names end. Returns
-- the value of each entry.
local prefix, tokens = KEYS[1], ARGV[1]
local rows, held = #tokens / 16, {}

-- Lua limits the number of arguments of a call.
local AT_ONCE = 250
for from = 1, rows, AT_ONCE do
  local names = {}
  for row = from, math.min(from + AT_ONCE - 1, rows) do
    names[#names + 1] = name_at(prefix, tokens, row)
  end
  for at, text in ipairs(redis.call('MGET', unpack(names))) do
    held[from + at - 1] = text
  end
end

return packed(rows, function(row)
  return held[row]
end)
