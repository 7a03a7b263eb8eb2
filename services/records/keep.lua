-- KEYS: what the names of entries begin with. ARGV: tokens of 16 bytes, one behind the other, each
-- of which ends the name of an entry; milliseconds they are kept; for each the number of its value
-- (from 1, between blanks); then the values, which many entries have in common.
local start, tokens, lasts = KEYS[1], ARGV[1], ARGV[2]
local at = 1
for number in string.gmatch(ARGV[3], '%d+') do
  local value = ARGV[3 + tonumber(number)]
  redis.call('SET', start .. string.sub(tokens, at, at + 15), value, 'PX', lasts)
  at = at + 16
end
