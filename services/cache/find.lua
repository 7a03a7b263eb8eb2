-- KEYS: what the names of entries begin with. ARGV: tokens of 16 bytes, one behind the other; each
-- ends the name of an entry. Gives what each entry holds.
local start, tokens = KEYS[1], ARGV[1]
local rows, held = #tokens / 16, {}

-- Lua hands over only so many arguments at once.
local AT_ONCE = 250
for from = 1, rows, AT_ONCE do
  local names = {}
  for row = from, math.min(from + AT_ONCE - 1, rows) do
    names[#names + 1] = name_at(start, tokens, row)
  end
  for at, text in ipairs(redis.call('MGET', unpack(names))) do
    held[from + at - 1] = text
  end
end

return packed(rows, function(row)
  return held[row]
end)
