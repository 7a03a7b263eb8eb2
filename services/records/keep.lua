-- KEYS: entries of a tenant's cache. ARGV: milliseconds they are kept, for each key the number of
-- its value (from 1, between blanks), then the values, which many keys have in common.
local at = 0
for number in string.gmatch(ARGV[2], '%d+') do
  at = at + 1
  redis.call('SET', KEYS[at], ARGV[2 + tonumber(number)], 'PX', ARGV[1])
end
